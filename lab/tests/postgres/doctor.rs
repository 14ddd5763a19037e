//! `arras doctor` in front of PostgreSQL: a database that is well is found to be, and whatever is damaged in one is named.

use crate::dev::Dev;
use crate::extended::connect;
use arras_lab::private_postgres::PrivatePostgres;

const SCHEMA: &str = r#"
[tables."public.people"]
name = { id = "91b6c0d2ee4f7a35", type = "text", operations = ["equality"] }
salary = { id = "5f0c9d3e21b7a846", type = "integer", operations = ["equality", "order"] }
born = { id = "0a4477c1d2e8f693", type = "date", operations = ["order"], order = "stope" }
city = { id = "2b9df01c55a3e780", type = "varchar(20)", operations = ["order"], max_bytes = 20 }
memo = { id = "3e1f5b6c7d809a2b", type = "text" }
"#;

const CREATE: &str =
    "CREATE TABLE people (id int PRIMARY KEY, name text, salary int, born date, city varchar(20), memo text)";

/// Salaries' numbers as the tables of orders have them.
const SALARY: &str = "6849022023502899270";

/// What is done behind the proxy's back, and what the doctor says of it.
const DAMAGES: [(&str, &[&str]); 20] = [
    (
        "UPDATE people SET \"salary$ord\" = \"salary$ord\" + 1 WHERE id = 7",
        &["), id = 7: the label", "is no value's", "1 rows of public.people have a label"],
    ),
    (
        "UPDATE people p SET \"salary$ord\" = q.\"salary$ord\" FROM people q WHERE p.id = 7 AND q.id = 8",
        &["public.people.salary", "id = 7", "is another value's than the sealed one"],
    ),
    (
        "UPDATE people p SET salary = q.salary FROM people q WHERE p.id = 7 AND q.id = 8",
        &["public.people.salary", "id = 7", "the equality term is not that of the sealed value"],
    ),
    (
        "UPDATE people p SET city = q.city FROM people q WHERE p.id = 7 AND q.id = 8",
        &["public.people.city", "id = 7", "is another value's than the sealed one"],
    ),
    (
        "UPDATE people SET memo = set_byte(memo, 30, get_byte(memo, 30) # 1) WHERE id = 7",
        &["public.people.memo", "id = 7", "does not open"],
    ),
    ("UPDATE people SET name = memo WHERE id = 7", &["public.people.name", "id = 7", "does not open"]),
    (
        "UPDATE people SET \"salary$ord\" = NULL WHERE id = 7",
        &["id = 7", "there is a sealed value and no label"],
    ),
    ("UPDATE people SET salary = NULL WHERE id = 7", &["id = 7", "a term is there and no sealed value"]),
    (
        "DELETE FROM arras.mope_entry WHERE label = (SELECT \"salary$ord\" FROM people WHERE id = 7) AND column_id = 6849022023502899270",
        &["order of people.salary: the tree has 100 values, the table 99", "id = 7", "is no value's"],
    ),
    (
        "INSERT INTO arras.mope_entry VALUES (6849022023502899270, '\\x00112233445566778899aabbccddeeff', 1)",
        &["order of people.salary", "the table 101", "is no value of this column under this key"],
    ),
    (
        "UPDATE arras.mope_entry e SET label = label + 1 WHERE column_id = 6849022023502899270 \
         AND label = (SELECT min(label) FROM arras.mope_entry WHERE column_id = e.column_id)",
        &["order of people.salary: the table has the label", "in the tree; restore"],
    ),
    (
        "UPDATE arras.mope_entry e SET label = CASE WHEN label = low THEN high ELSE low END FROM (SELECT min(label) AS low, \
         max(label) AS high FROM arras.mope_entry WHERE column_id = 6849022023502899270) s \
         WHERE column_id = 6849022023502899270 AND label IN (low, high)",
        &["order of people.salary: the label", "is above that of a value which is not less"],
    ),
    (
        "UPDATE arras.mope_node SET content = set_byte(content, 20, get_byte(content, 20) # 1) \
         WHERE column_id = 6849022023502899270",
        &["order of people.salary: the tree cannot be walked"],
    ),
    (
        "DELETE FROM arras.mope_node WHERE column_id = 6849022023502899270",
        &["order of people.salary: the root, node", "is missing"],
    ),
    (
        "DROP TRIGGER arras_order_a4477c1d2e8f693_delete ON people",
        &["the trigger arras_order_a4477c1d2e8f693_delete of public.people is not there"],
    ),
    (
        "ALTER TABLE people DISABLE TRIGGER arras_order_a4477c1d2e8f693_update",
        &["the trigger arras_order_a4477c1d2e8f693_update of public.people is not there or not enabled"],
    ),
    (
        "CREATE OR REPLACE FUNCTION arras.mope_lock(column_id bigint) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT \
         PARALLEL SAFE AS 'SELECT 1::bigint'",
        &["the function arras.mope_lock is not the one that this version installs"],
    ),
    (
        "DELETE FROM arras.mope_place WHERE column_id = 6849022023502899270",
        &["public.people.salary$ord is not known to store labels"],
    ),
    (
        "UPDATE arras.mope_column SET version = version - 1 WHERE id = 6849022023502899270",
        &["order of people.salary", "it was set back"],
    ),
    ("ALTER TABLE people DROP COLUMN \"name$eq\"", &["tables: ", "\"name$eq\" is not there"]),
];

#[tokio::test]
async fn what_is_well_is_found_well_and_what_is_damaged_is_named() {
    assert_eq!(i64::from_be_bytes([0x5f, 0x0c, 0x9d, 0x3e, 0x21, 0xb7, 0xa8, 0x46]).to_string(), SALARY);
    let server = PrivatePostgres::start().unwrap();
    let admin = connect(&server.uri("postgres")).await;
    admin.batch_execute("CREATE DATABASE shop").await.unwrap();
    let mut proxy = Dev::start(&server, "shop", SCHEMA);
    {
        let client = connect(&proxy.uri("shop")).await;
        client.batch_execute(CREATE).await.unwrap();
        for id in 1..=100 {
            let born = format!("{}-01-{:02}", 1950 + id % 50, 1 + id % 28);
            let row = format!(
                "INSERT INTO people VALUES ({id}, 'name {}', {}, '{born}', 'city {}', 'memo {id}')",
                id % 7,
                id * 37 % 101,
                id % 11
            );
            client.batch_execute(&row).await.unwrap();
        }
        client.batch_execute("INSERT INTO people (id) VALUES (200)").await.unwrap();
    }
    let (well, said) = proxy.doctor(&server, "shop", true);
    assert!(well, "beside the proxy: {said}");
    for line in [
        "ok    tables: 1 with encrypted columns fit the schema",
        "ok    order of people.salary: 100 values: tree and table agree",
        "ok    table public.people: 101 rows open and agree with their terms",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    proxy.kill();
    until_alone(&admin).await;
    let mut unfound = Vec::new();
    for (damage, words) in DAMAGES {
        let again = "DROP DATABASE IF EXISTS damaged WITH (FORCE)";
        admin.batch_execute(again).await.unwrap();
        admin.batch_execute("CREATE DATABASE damaged TEMPLATE shop").await.unwrap();
        let direct = connect(&server.uri("damaged")).await;
        direct.batch_execute(damage).await.unwrap_or_else(|error| panic!("{damage}: {error:?}"));
        let (well, said) = proxy.doctor(&server, "damaged", true);
        let failed: Vec<&str> = said.lines().filter(|line| line.starts_with("FAIL")).collect();
        let missed = words.iter().find(|words| !failed.iter().any(|line| line.contains(**words)));
        if let Some(words) = missed.filter(|_| !well).or(well.then_some(&"a failure")) {
            unfound.push(format!("{damage}: no {words:?} in {failed:#?}"));
        }
    }
    assert!(unfound.is_empty(), "{}", unfound.join("\n"));
    let (well, said) = proxy.doctor(&server, "shop", true);
    assert!(well, "nothing of it reached the template: {said}");
    let (well, said) = proxy.doctor(&server, "postgres", false);
    assert!(well && said.contains("not there yet"), "{said}");
}

const STAFF: &str = r#"
[tables."public.people"]
name = { id = "91b6c0d2ee4f7a35", type = "text", operations = ["equality"] }
[tables."public.pay"]
salary = { id = "5f0c9d3e21b7a846", type = "integer", operations = ["equality", "order"] }
grade = { id = "2b9df01c55a3e780", type = "integer", operations = ["order"] }
[tables."public.taxed"]
rate = { id = "3e1f5b6c7d809a2b", type = "integer", operations = ["order"] }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_an_owner_who_has_not_the_rights_is_told_once_and_the_others_are_read() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", STAFF);
    let client = connect(&proxy.uri("postgres")).await;
    let made = "CREATE TABLE people (id int, name text); CREATE TABLE pay (id int, salary int, grade int); \
                CREATE TABLE taxed (id int, rate int); INSERT INTO people VALUES (1, 'a'), (2, 'b'); \
                INSERT INTO pay VALUES (1, 2, 3); INSERT INTO taxed VALUES (1, 2), (2, 3), (3, 4)";
    client.batch_execute(made).await.unwrap();
    let direct = connect(&server.uri("postgres")).await;
    direct.batch_execute("CREATE ROLE mallory LOGIN; ALTER TABLE pay OWNER TO mallory").await.unwrap();
    let (well, said) = tokio::task::block_in_place(|| proxy.doctor(&server, "postgres", true));
    assert!(!well);
    assert_eq!(said.matches("public.pay stores labels and belongs to mallory").count(), 1, "{said}");
    for line in
        ["table public.people: 2 rows open", "table public.taxed: 3 rows open", "taxed.rate: 3 values: tree"]
    {
        assert!(said.contains(line), "{line}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_table_is_looked_at() {
    let server = PrivatePostgres::start().unwrap();
    let direct = connect(&server.uri("postgres")).await;
    direct.batch_execute("CREATE DATABASE other").await.unwrap();
    let kept = connect(&server.uri("other")).await;
    kept.batch_execute("CREATE TABLE people (id int, name bytea, \"name$eq\" bytea)").await.unwrap();
    let port = server.port();
    let far = format!(
        "CREATE EXTENSION postgres_fdw; \
         CREATE SERVER other FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{port}', dbname 'other'); \
         CREATE USER MAPPING FOR postgres SERVER other OPTIONS (user 'postgres'); \
         CREATE FOREIGN TABLE people (id int, name bytea, \"name$eq\" bytea) SERVER other"
    );
    direct.batch_execute(&far).await.unwrap();
    let schema = "[tables.\"public.people\"]\nname = { id = \"91b6c0d2ee4f7a35\", type = \"text\", operations = [\"equality\"] }\n";
    let proxy = Dev::start(&server, "postgres", schema);
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute("INSERT INTO people VALUES (1, 'a'), (2, 'b')").await.unwrap();
    let checks: i64 = direct.query_one("SELECT count(*) FROM arras.column_check", &[]).await.unwrap().get(0);
    assert_eq!(checks, 1, "it was looked at when the proxy started");
    let (well, said) = tokio::task::block_in_place(|| proxy.doctor(&server, "postgres", true));
    assert!(well && said.contains("2 rows open"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_of_a_declared_table_are_looked_at_with_the_whole_and_no_other_table_is_passed_over() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", STAFF);
    let client = connect(&proxy.uri("postgres")).await;
    client
        .batch_execute("CREATE TABLE pay (id int, salary int, grade int) PARTITION BY LIST (id)")
        .await
        .unwrap();
    let direct = connect(&server.uri("postgres")).await;
    let parts = "CREATE SCHEMA kept; CREATE TABLE pay_1 PARTITION OF pay FOR VALUES IN (1); \
                 CREATE TABLE pay_2 PARTITION OF pay FOR VALUES IN (2) PARTITION BY LIST (id); \
                 CREATE TABLE kept.pay_2 PARTITION OF pay_2 FOR VALUES IN (2)";
    direct.batch_execute(parts).await.unwrap();
    client.batch_execute("INSERT INTO pay VALUES (1, 10, 5), (2, 20, 6), (2, 30, 7)").await.unwrap();
    let doctor = || tokio::task::block_in_place(|| proxy.doctor(&server, "postgres", true));
    let (well, said) = doctor();
    assert!(well && said.contains("table public.pay: 3 rows open"), "{said}");
    let named = client.simple_query("SELECT salary FROM pay_1").await.unwrap_err();
    assert_eq!(named.code().unwrap().code(), "42P16", "{named}");
    // Nor is what the whole is a part of.
    let above = "CREATE TABLE above (LIKE pay) PARTITION BY LIST (id); ALTER TABLE above ATTACH PARTITION pay FOR VALUES IN (1, 2)";
    direct.batch_execute(above).await.unwrap();
    let (well, said) = doctor();
    assert!(well && said.contains("table public.pay: 3 rows open") && !said.contains("above"), "{said}");
    direct.batch_execute("ALTER TABLE above DETACH PARTITION pay; DROP TABLE above").await.unwrap();
    // A detached part is a table like others, which is not declared.
    direct.batch_execute("ALTER TABLE pay DETACH PARTITION pay_1").await.unwrap();
    let (well, said) = doctor();
    assert!(
        !well && said.contains("column public.pay_1.salary is encrypted") && !said.contains("pay_2"),
        "{said}"
    );
    direct.batch_execute("ALTER TABLE pay ATTACH PARTITION pay_1 FOR VALUES IN (1)").await.unwrap();
    let damaged = "UPDATE kept.pay_2 SET salary = (SELECT grade FROM pay_1) WHERE id = 2";
    direct.batch_execute(damaged).await.unwrap();
    let (well, said) = doctor();
    assert!(!well && said.contains("public.pay.salary") && said.contains("does not open"), "{said}");
}

/// Where no column is asked for by its values, nothing but the whole table says that a part's are encrypted.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_stored_in_plaintext_in_a_part_of_a_table_without_terms() {
    let server = PrivatePostgres::start().unwrap();
    let schema =
        "[tables.\"public.notes\"]\nnote = { id = \"91b6c0d2ee4f7a35\", type = \"text\", operations = [] }\n";
    let proxy = Dev::start(&server, "postgres", schema);
    let [client, direct] = [connect(&proxy.uri("postgres")).await, connect(&server.uri("postgres")).await];
    client.batch_execute("CREATE TABLE notes (id int, note text) PARTITION BY LIST (id)").await.unwrap();
    let part = |name: &str, of: &str, id: i32, more: &str| {
        let made = format!("CREATE TABLE {name} PARTITION OF {of} FOR VALUES IN ({id}) {more}");
        let direct = &direct;
        async move { direct.batch_execute(&made).await.unwrap() }
    };
    part("first", "notes", 1, "").await;
    part("second", "notes", 2, "PARTITION BY LIST (id)").await;
    part("deep", "second", 2, "").await;
    for (name, id) in [("first", 1), ("second", 2), ("deep", 2), ("public.deep", 2)] {
        let stored = client.simple_query(&format!("INSERT INTO {name} VALUES ({id}, 'plain')")).await;
        assert_eq!(stored.unwrap_err().code().unwrap().code(), "42P16", "{name}");
        let prepared = client.execute(&format!("INSERT INTO {name} VALUES ({id}, $1)"), &[&"plain"]).await;
        assert_eq!(prepared.unwrap_err().code().unwrap().code(), "42P16", "{name}");
    }
    // Made behind the proxy's look at the tables.
    part("later", "notes", 3, "").await;
    let error = client.simple_query("INSERT INTO later VALUES (3, 'plain')").await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "42P16", "{error}");
    client.batch_execute("INSERT INTO notes VALUES (1, 'whole'), (2, 'whole'), (3, 'whole')").await.unwrap();
    let plain: i64 =
        direct.query_one("SELECT count(*) FROM notes WHERE note = 'plain'::bytea", &[]).await.unwrap().get(0);
    assert_eq!(plain, 0);
    let (well, said) = tokio::task::block_in_place(|| proxy.doctor(&server, "postgres", true));
    assert!(well && said.contains("table public.notes: 3 rows open"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn views_of_encrypted_columns_are_not_looked_at() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute(&format!("{CREATE}; INSERT INTO people (id, salary) VALUES (1, 10)")).await.unwrap();
    let direct = connect(&server.uri("postgres")).await;
    let views = "CREATE VIEW shown AS SELECT * FROM people; CREATE VIEW of_shown AS SELECT salary, \"salary$ord\" FROM shown; \
                 CREATE MATERIALIZED VIEW kept AS SELECT salary, \"salary$eq\" FROM people";
    direct.batch_execute(views).await.unwrap();
    let doctor = || tokio::task::block_in_place(|| proxy.doctor(&server, "postgres", true));
    let (well, said) = doctor();
    assert!(well && said.contains("table public.people: 1 rows open"), "{said}");
    // What is made of a view is a table.
    direct.batch_execute("CREATE TABLE copied AS SELECT * FROM kept").await.unwrap();
    let (well, said) = doctor();
    assert!(!well && said.contains("column public.copied.salary is encrypted"), "{said}");
}

/// Waits until nobody else is connected: a database that is in use is no template.
async fn until_alone(admin: &tokio_postgres::Client) {
    let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'shop'";
    while admin.query_one(others, &[]).await.unwrap().get::<_, i64>(0) > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_while_the_doctor_looks_is_not_taken_for_a_set_back() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("postgres")).await;
    client.batch_execute(CREATE).await.unwrap();
    let written = std::sync::Arc::new(std::sync::atomic::AtomicI32::new(0));
    let told = std::sync::Arc::clone(&written);
    let writing = tokio::spawn(async move {
        for id in 0.. {
            let born = 1000 + id % 1000;
            let insert = format!("INSERT INTO people (id, salary, born) VALUES ({id}, {id}, '{born}-01-01')");
            client.batch_execute(&insert).await.unwrap();
            told.store(id, std::sync::atomic::Ordering::SeqCst);
        }
    });
    let now = || written.load(std::sync::atomic::Ordering::SeqCst);
    for _ in 0..8 {
        let before = now();
        while now() == before {
            assert!(!writing.is_finished(), "an insertion failed");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let (well, said) = tokio::task::block_in_place(|| proxy.doctor(&server, "postgres", true));
        assert!(well, "after {} rows: {said}", now());
    }
    writing.abort();
}
