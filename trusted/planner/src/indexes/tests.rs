#![allow(clippy::unwrap_used)]

use super::*;
use crate::physical::KeyWidth;
use crate::schema::{OrderKey, Schema};

/// A pattern from the paper's notation: `a= y>`; `o^` is "order by o, with a limit".
fn pattern(clause: &str) -> QueryPattern {
    let mut pattern = QueryPattern { name: clause.to_owned(), ..QueryPattern::default() };
    for filter in clause.split_whitespace() {
        let (field, operator) = filter.split_at(filter.len() - 1);
        match operator {
            "=" => pattern.eq.push(field.to_owned()),
            ">" => pattern.range.push(field.to_owned()),
            _ => {
                pattern.order.push(OrderKey { path: field.to_owned(), descending: false });
                pattern.limit = true;
            }
        }
    }
    pattern
}

fn regular(indexes: &[&str]) -> Vec<Vec<String>> {
    indexes.iter().map(|index| index.split(' ').map(str::to_owned).collect()).collect()
}

fn stage_1(clause: &str, indexes: &[&str], sensitive: Sensitive<'_>) -> Vec<String> {
    per_query(&pattern(clause), &regular(indexes), sensitive).iter().map(ToString::to_string).collect()
}

/// Stage 2 on members in the paper's notation.
fn stage_2(members: &[&str], sensitive: Sensitive<'_>) -> Vec<String> {
    let sets = members.iter().map(|member| {
        let pattern = pattern(member);
        FilterSet { equal: pattern.eq, range: pattern.range.into_iter().next() }
    });
    global(sets, sensitive).iter().map(ToString::to_string).collect()
}

fn both_stages(clauses: &[&str], indexes: &[&str], sensitive: Sensitive<'_>) -> Vec<String> {
    let sets = clauses.iter().flat_map(|clause| per_query(&pattern(clause), &regular(indexes), sensitive));
    global(sets, sensitive).iter().map(ToString::to_string).collect()
}

const ALL: Sensitive<'static> = &|_| true;
const NONE: Sensitive<'static> = &|_| false;

/// §7.1's running example: W1 is "a = and b =", W2 is "x = and y > and z ="; regular indexes on x and (a, b);
/// b and y are sensitive, the others "can be either way".
#[test]
fn the_papers_running_example() {
    for open in [&[][..], &["a"], &["x"], &["z"], &["a", "x", "z"]] {
        let sensitive = |field: &str| !open.contains(&field);
        let indexes = ["x", "a b"];
        assert_eq!(stage_1("a= b=", &indexes, &sensitive), ["(a=, b=)"]);
        assert_eq!(stage_1("x= y> z=", &indexes, &sensitive), ["(x=, y>)"]);
        let plan = both_stages(&["a= b=", "x= y> z="], &indexes, &sensitive);
        assert_eq!(plan, ["ArxEq(a, b)", "ArxRange(x, y)"], "nonsensitive: {open:?}");
    }
}

/// Before the sensitive range is appended, S2 is {(x=)}.
#[test]
fn stage_1_takes_what_a_regular_database_would() {
    assert_eq!(stage_1("x= y> z=", &["x", "a b"], NONE), ["(x=)"]);
}

/// "If a and b are nonsensitive, and S contains both (a=, b=) and (a=, b>), then (a=, b=) is removed."
#[test]
fn the_papers_nonsensitive_removal() {
    assert_eq!(stage_2(&["a= b=", "a= b>"], NONE), ["Plain(a, b)"]);
    assert_eq!(stage_2(&["a= b=", "a= b>"], ALL), ["ArxEq(a, b)", "ArxRange(a, b)"]);
}

/// "If all of a, b and c are sensitive and S contains both (a=, b=, c>) and (a=, b>), then (a=, b>) is removed."
#[test]
fn the_papers_sensitive_removal() {
    assert_eq!(stage_2(&["a= b= c>", "a= b>"], ALL), ["ArxRange(a, b, c)"]);
}

#[test]
fn a_complete_match_implies_only_itself() {
    assert_eq!(stage_2(&["a=", "a= b="], ALL), ["ArxEq(a)", "ArxEq(a, b)"]);
    assert_eq!(stage_2(&["b= a=", "a= b="], ALL).len(), 1);
    assert_eq!(stage_2(&["a=", "a= b>"], ALL), ["ArxEq(a)", "ArxRange(a, b)"], "no equality from ArxRange");
    assert_eq!(stage_2(&["a=", "a= b="], NONE), ["Plain(a, b)"], "a plain index serves its prefixes");
    assert_eq!(stage_2(&["c>", "a= b= c>"], ALL), ["ArxRange(c)", "ArxRange(a, b, c)"], "c does not lead");
    assert_eq!(stage_2(&["b= c>", "a= b= c>"], ALL).len(), 2);
}

#[test]
fn mixed_members_are_encrypted_and_do_not_replace_plain_ones() {
    let sensitive = |field: &str| field == "s";
    assert_eq!(stage_2(&["n= s>", "n="], &sensitive), ["Plain(n)", "ArxRange(n, s)"]);
    assert_eq!(stage_2(&["s= n>"], &sensitive), ["ArxRange(s, n)"]);
}

#[test]
fn ranges_and_orders_get_an_index_of_their_own_if_none_leads_to_them() {
    assert_eq!(stage_1("y>", &["x"], ALL), ["(y>)"]);
    assert_eq!(stage_1("y^", &[], ALL), ["(y>)"]);
    assert_eq!(stage_1("y^", &[], NONE), [""; 0], "a nonsensitive one is planned from regular indexes alone");
    assert_eq!(stage_1("a= b^", &["a b"], ALL), ["(a=, b>)"]);
    assert_eq!(stage_1("a= b> c^", &["a c"], ALL), ["(a=, c>)"], "the one a regular index reaches");
    assert_eq!(stage_1("a= n> s>", &["a n"], &|field| field != "n"), ["(a=, s>)"]);
    let mut unlimited = pattern("a= b^");
    unlimited.limit = false;
    let sets = per_query(&unlimited, &regular(&["a b"]), ALL);
    assert_eq!(sets.iter().map(ToString::to_string).collect::<Vec<_>>(), ["(a=)"]);
}

const SHOP: &str = r#"
[collections."shop.orders"]
indexes = [["customer", "placed"], ["number"], ["status"]]

[collections."shop.orders".fields]
number = { unique = true }
placed = { type = "date" }
region = { sensitive = false, operations = ["eq"] }
total = { type = "double" }
quantity = { type = "int32", operations = ["range"] }

[[collections."shop.orders".patterns]]
eq = ["customer"]
order = ["-placed"]
limit = true
[[collections."shop.orders".patterns]]
eq = ["customer"]
[[collections."shop.orders".patterns]]
eq = ["number"]
[[collections."shop.orders".patterns]]
eq = ["status"]
range = ["placed"]
count = true
average = ["total"]
"#;

#[test]
fn a_schema_becomes_few_physical_indexes() {
    let schema = Schema::parse(SHOP, "shop.toml").unwrap();
    let orders = schema.collection("shop", "orders").unwrap();
    let planned: Vec<String> = plan_indexes(orders).iter().map(ToString::to_string).collect();
    assert_eq!(
        planned,
        [
            "Plain(region)",
            "ArxEq(customer)",
            "ArxEq(number)",
            "ArxRange(quantity)",
            "ArxRange(customer, placed)",
            "ArxRange(status, placed)"
        ]
    );
    let built: Vec<String> = physical_indexes(orders).iter().map(|index| format!("{index:#}")).collect();
    assert_eq!(
        built,
        [
            "EQunique(number)",
            "ArxEq(customer)",
            "ArxEq(region)",
            "ArxRange(quantity)",
            "ArxRange(customer, placed)",
            "ArxRange(status, placed) with counts and sums of total"
        ]
    );
    let quantity = physical_indexes(orders).into_iter().find(|index| index.fields() == ["quantity"]).unwrap();
    assert_eq!(quantity.key_bytes(), Some(usize::from(KeyWidth::Bits64.component_bytes())));
}
