#![allow(clippy::unwrap_used)]

use super::Schema;
use crate::catalog::Order;
use crate::column_type::ColumnType;

const GOOD: &str = r#"
[tables."public.accounts"]
balance = { id = "5f0c9d3e21b7a846", type = "numeric(12,2)", operations = ["equality", "order", "sum"] }
owner = { id = "91b6c0d2ee4f7a35", type = "text", operations = ["unique"] }
opened = { id = "0a4477c1d2e8f693", type = "date", operations = ["order"], order = "stope" }

[tables.payments]
payer = { id = "c7d8102b9e5fa364", type = "text", join = "accounts.owner" }
memo = { id = "3e1f5b6c7d809a2b", type = "text" }
"#;

#[test]
fn a_schema_says_how_each_column_is_encrypted() {
    let schema = Schema::parse(GOOD, "schema.toml").unwrap();
    let balance = schema.column("public", "accounts", "balance").unwrap();
    assert_eq!(balance.kind, ColumnType::Numeric(Some((12, 2))));
    assert_eq!((balance.equality, balance.order, balance.sum), (Some(balance.id), Some(Order::Mope), true));
    let owner = schema.column("public", "accounts", "owner").unwrap();
    let payer = schema.column("public", "payments", "payer").unwrap();
    assert_eq!(payer.equality, Some(owner.id), "joined columns share a key");
    assert_eq!(schema.column("public", "accounts", "opened").unwrap().order, Some(Order::Stope));
    let memo = schema.column("public", "payments", "memo").unwrap();
    assert_eq!((memo.equality, memo.order, memo.label.as_str()), (None, None, "payments.memo"));
    assert_eq!(schema.columns().count(), 5);
    let short = GOOD.replace("\"equality\"", "\"eq\"");
    let short = Schema::parse(&short, "schema.toml").unwrap();
    let balance = short.column("public", "accounts", "balance").unwrap();
    assert_eq!(balance.equality, Some(balance.id), "the word of collections' schemas");
}

#[test]
fn a_mistake_is_told_with_its_place_and_what_is_allowed() {
    let column = |entry: &str| format!("[tables.t]\nc = {{ id = \"0000000000000001\", {entry} }}\n");
    for (text, place, part) in [
        (column("type = \"point\""), "2:39", "numeric(p,s)"),
        (column("type = \"int\", operations = [\"same\"]"), "2:60", "`equality`, `unique`, `order`, `sum`"),
        (column("type = \"text\", operations = [\"order\"]"), "2:61", "max_bytes"),
        (column("type = \"numeric\", operations = [\"order\"]"), "2:64", "numeric(precision,scale)"),
        (column("type = \"text\", operations = [\"sum\"]"), "2:61", "text is no number"),
        (column("type = \"jsonb\", operations = [\"equality\"]"), "2:62", "stored only"),
        (column("type = \"int\", order = \"mope\""), "2:54", "without \"order\""),
        (column("type = \"int\", order = \"best\""), "2:54", "\"mope\", \"stope\", \"fh_ope\", \"bclo\""),
        (column("type = \"int\", join = \"t.d\""), "2:53", "there are public.t.c"),
        (column("type = \"int\", joins = \"t.d\""), "2:46", "unknown field"),
        ("[tables.t]\nc = { id = \"12\", type = \"int\" }".into(), "2:12", "16 hexadecimal digits"),
        ("[tables.\"a.b.c\"]\n".into(), "1:9", "names no table"),
        ("[tables.t]\n\"c$eq\" = { id = \"0000000000000001\", type = \"int\" }".into(), "2:1", "are the terms'"),
        (
            "[tables.t]\na = { id = \"0000000000000001\", type = \"int\" }\nb = { id = \"0000000000000001\", type = \"int\" }"
                .into(),
            "3:12",
            "public.t.a's",
        ),
    ] {
        let error = Schema::parse(&text, "s.toml").unwrap_err().to_string();
        assert!(error.starts_with(&format!("s.toml:{place}:")), "{text}: {error}");
        assert!(error.contains(part), "{text}: {error}");
    }
}

/// What a schema of one column says: the mistake, or the bytes of the column's order keys.
fn ordered(kind: &str, order: &str) -> Result<usize, String> {
    let (kind, longest) = kind
        .split_once(" of ")
        .map_or((kind, String::new()), |(kind, bytes)| (kind, format!("max_bytes = {bytes}, ")));
    let entry = format!("{longest}type = \"{kind}\", operations = [\"order\"], order = \"{order}\"");
    let text = format!("[tables.t]\nc = {{ id = \"0000000000000001\", {entry} }}\n");
    let schema = Schema::parse(&text, "s.toml").map_err(|error| error.to_string())?;
    Ok(schema.column("public", "t", "c").unwrap().order_key_bytes())
}

#[test]
#[cfg(feature = "bclo")]
fn a_ciphertext_orders_what_fits_eight_bytes_and_says_why_it_does_not_order_more() {
    for (kind, bytes) in [
        ("smallint", 8),
        ("integer", 8),
        ("bigint", 8),
        ("real", 4),
        ("double precision", 8),
        ("numeric(18,2)", 8),
        ("date", 4),
        ("timestamp", 8),
        ("timestamptz", 8),
        ("boolean", 1),
        ("text of 6", 8),
        ("bytea of 2", 4),
    ] {
        assert_eq!(ordered(kind, "bclo"), Ok(bytes), "{kind}");
    }
    for (kind, fix) in [
        ("numeric(19,2)", "18 digits"),
        ("varchar(10) of 7", "max_bytes = 6"),
        ("uuid", "and those of uuid take 16 here"),
    ] {
        let error = ordered(kind, "bclo").unwrap_err();
        assert!(error.starts_with("s.toml:2:") && error.contains("by 8 bytes at most"), "{error}");
        assert!(error.contains(fix) && error.contains("order = \"mope\""), "{error}");
        assert!(ordered(kind, "mope").is_ok(), "{kind}");
    }
}

#[test]
#[cfg(not(feature = "bclo"))]
fn a_scheme_that_was_left_out_is_named() {
    let error = ordered("integer", "bclo").unwrap_err();
    assert!(error.contains("without \"bclo\"") && error.contains("--features bclo"), "{error}");
}
