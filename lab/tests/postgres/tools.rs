//! PostgreSQL's own programs on encrypted columns: psql, pgbench, pg_dump and pg_restore.

use crate::dev::Dev;
use crate::programs::typed;
use crate::proxy::outputs;
use arras_lab::private_postgres::PrivatePostgres;
use std::io::Write;
use std::process::{Command, Stdio};

const SCHEMA: &str = r#"
[tables."public.people"]
name = { id = "9d4f3e5c6b7a8d03", type = "text", operations = ["unique", "order"], max_bytes = 40 }
salary = { id = "9d4f3e5c6b7a8d04", type = "numeric(12,2)", operations = ["equality", "order", "sum"], order = "stope" }
memo = { id = "9d4f3e5c6b7a8d05", type = "text" }

[tables."public.visits"]
visitor = { id = "9d4f3e5c6b7a8d06", type = "text", join = "people.name" }

[tables."public.pgbench_accounts"]
abalance = { id = "9d4f3e5c6b7a8d01", type = "integer", operations = ["equality", "sum"] }

[tables."public.pgbench_tellers"]
tbalance = { id = "9d4f3e5c6b7a8d02", type = "integer", operations = ["sum"] }
"#;

const CREATE: &str = "CREATE TABLE people (id serial PRIMARY KEY, name text NOT NULL UNIQUE, salary numeric(12,2), memo text); \
    CREATE TABLE visits (id int, visitor text REFERENCES people (name) ON DELETE CASCADE)";

/// Runs statements through psql, each by itself, in one session.
fn run(server: &PrivatePostgres, uri: &str, statements: &[&str]) -> String {
    let mut psql = server.command("psql");
    psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", uri]);
    statements.iter().for_each(|statement| {
        psql.args(["-c", statement]);
    });
    let (ended, said, errors) = outputs(psql);
    assert!(ended, "{statements:?}: {errors}");
    said
}

/// What a person types at encrypted columns as at any others.
const SESSION: &str = r"
\set VERBOSITY verbose
CREATE TABLE people (id int PRIMARY KEY, name text NOT NULL UNIQUE, salary numeric(12,2), memo text);
CREATE TABLE visits (id int, visitor text REFERENCES people (name) ON DELETE CASCADE);
CREATE INDEX salaries ON people (salary);
\d
\dt
\dt+ nothing
\d people
\d visits
\di
\di public.*
\di people*
\dti *people*
INSERT INTO people VALUES (1, 'Ann', 10.5, 'm'), (2, 'Bob', NULL, NULL) RETURNING *;
INSERT INTO people VALUES (1, 'Eve', 1, NULL);
SELECT nam FROM people;
SELECT name FROM people WHERE salery IS NULL;
SELECT name FROM peeple;
SELECT * FROM people ORDER BY salary DESC NULLS LAST \gx
SELECT name AS n, salary s FROM people WHERE salary > 5 \gset
\echo :n :s
\copy people (id, name, salary) FROM PROGRAM 'printf ''3\tCid\t\\N\n4\tDan\t7.25\n'''
\copy (SELECT name, salary FROM people ORDER BY name) TO STDOUT CSV HEADER
COPY people (id, name) TO STDOUT;
BEGIN;
UPDATE people SET salary = salary * 2 WHERE name = 'Dan';
SAVEPOINT s;
SELECT broken FROM people;
SELECT name FROM people;
ROLLBACK TO s;
COMMIT;
SELECT name, salary FROM people WHERE name >= 'B' ORDER BY name;
DO $$ BEGIN RAISE NOTICE 'noticed %', 7 USING HINT = 'a hint'; END $$;
CREATE TABLE IF NOT EXISTS people (id int);
SELECT name FROM people \gdesc
SELECT 'SELECT salary FROM people WHERE name = ''' || 'Ann' || '''' \gexec
\echo :SQLSTATE :ROW_COUNT
SELECT attname FROM pg_catalog.pg_attribute a, pg_catalog.pg_class c WHERE c.oid = a.attrelid AND a.attnum > 0 AND NOT a.attisdropped AND c.relname = 'people' AND attname LIKE '%' AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY attname;
SELECT c.relname FROM pg_catalog.pg_class c WHERE c.relkind IN ('i', 'I') AND c.relname LIKE '%' AND pg_catalog.pg_table_is_visible(c.oid) AND c.relnamespace <> (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = 'pg_catalog') ORDER BY 1;
SELECT c.relname FROM pg_catalog.pg_class c WHERE c.relkind IN ('r', 'S', 'v', 'm', 'f', 'p') AND (c.relname) LIKE 'peo%' AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 1;
SELECT c.oid::regclass, c.xmin IS NULL, c.tableoid::regclass FROM pg_catalog.pg_class c WHERE c.relname = 'people';
DELETE FROM people WHERE name = 'Ann';
DROP TABLE people, visits;
";

#[test]
fn psql_prints_of_encrypted_columns_what_it_prints_of_plain_ones() {
    let server = PrivatePostgres::start().unwrap();
    run(&server, &server.uri("postgres"), &["CREATE DATABASE plain"]);
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let direct = typed(&server, &server.uri("plain"), SESSION);
    for part in ["42703", "LINE 1: SELECT nam FROM people;", "people_pkey", "noticed 7"] {
        assert!(direct.2.contains(part), "{part}: {}", direct.2);
    }
    assert_eq!(typed(&server, &proxy.uri("postgres"), SESSION), direct);
}

/// On a terminal, each name typed in part and completed by a tab.
#[test]
fn psql_completes_the_names_of_encrypted_tables_columns_and_indexes() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let uri = proxy.uri("postgres");
    let index = "CREATE INDEX salaries ON people (salary)";
    run(&server, &uri, &[CREATE, index, "INSERT INTO people (name) VALUES ('Ann')"]);
    let psql = server.command("psql").get_program().to_str().unwrap().to_owned();
    let mut typed = Command::new("script")
        .args(["-qec", &format!("{psql} -X '{uri}'"), "/dev/null"])
        .env("TERM", "dumb")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let keys = "UPDATE peo\t SET mem\t = 'typed' WHERE id = 1;\nDROP INDEX sala\t;\n\\q\n";
    typed.stdin.take().unwrap().write_all(keys.as_bytes()).unwrap();
    let shown = typed.wait_with_output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout);
    let found = run(&server, &uri, &["SELECT memo FROM people", "\\di *alar*"]);
    assert_eq!(found.trim(), "typed", "{shown}");
}

/// The script that is pgbench's own, on fewer accounts.
const SCRIPT: &str = r"
\set aid random(1, 300)
\set bid 1
\set tid random(1, 10)
\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
";

#[test]
fn pgbench_keeps_encrypted_balances() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let uri = proxy.uri("postgres");
    let mut make = server.command("pgbench");
    make.args(["-i", "-q", "-I", "dtp", &uri]);
    let (made, _, errors) = outputs(make);
    assert!(made, "{errors}");
    let rows = |table: &str, head: &str, count: u32| {
        let rows: Vec<String> = (1..=count).map(|number| format!("({number}, {head}0)")).collect();
        format!("INSERT INTO {table} VALUES {}", rows.join(", "))
    };
    let fill = [
        rows("pgbench_branches", "", 1),
        rows("pgbench_tellers", "1, ", 10),
        rows("pgbench_accounts", "1, ", 300),
    ];
    run(&server, &uri, &fill.each_ref().map(String::as_str));
    let script = server.socket_folder().join("script.sql");
    std::fs::write(&script, SCRIPT).unwrap();
    for protocol in ["simple", "extended", "prepared"] {
        let mut bench = server.command("pgbench");
        bench
            .args(["-n", "-c", "3", "-t", "20", "--max-tries=1000", "-M", protocol, "-f"])
            .arg(&script)
            .arg(&uri);
        let (ended, said, errors) = outputs(bench);
        assert!(ended, "{protocol}: {errors}");
        assert!(said.contains("number of transactions actually processed: 60/60"), "{said}");
    }
    let sums = ["SELECT sum(delta) FROM pgbench_history", "SELECT sum(bbalance) FROM pgbench_branches"]
        .map(|statement| run(&server, &server.uri("postgres"), &[statement]));
    let opened = ["SELECT sum(abalance) FROM pgbench_accounts", "SELECT sum(tbalance) FROM pgbench_tellers"]
        .map(|statement| run(&server, &uri, &[statement]));
    assert_eq!(sums, opened);
    assert_ne!(sums[0].trim(), "");
}

#[test]
fn a_dump_is_restored_and_served_by_the_same_keys() {
    let server = PrivatePostgres::start().unwrap();
    run(&server, &server.uri("postgres"), &["CREATE DATABASE before", "CREATE DATABASE after"]);
    let mut proxy = Dev::start(&server, "before", SCHEMA);
    let insert = "INSERT INTO people (name, salary, memo) VALUES ('Ann Canary', 100.5, 'Canary'), ('Bob', -3, NULL), \
        ('Canary', NULL, 'x'), ('Dan', 7, NULL)";
    run(&server, &proxy.uri("before"), &[CREATE, insert, "INSERT INTO visits VALUES (1, 'Bob')"]);
    let all =
        ["SELECT * FROM people ORDER BY salary, name", "SELECT * FROM people JOIN visits ON visitor = name"];
    let before = run(&server, &proxy.uri("before"), &all);
    let file = server.socket_folder().join("dump");
    let dump = |arguments: &[&str], uri: &str| {
        let mut dump = server.command("pg_dump");
        dump.args(arguments).arg(uri);
        outputs(dump)
    };
    // It raises its mark in the database now and then: a dump of before would be older than what it has seen.
    proxy.kill();
    let (dumped, text, errors) = dump(&[], &server.uri("before"));
    assert!(dumped, "{errors}");
    assert!(text.contains("COPY public.people") && !text.contains("Canary"), "{text}");
    let name = file.to_str().unwrap();
    let (dumped, _, errors) = dump(&["-Fc", "-f", name], &server.uri("before"));
    assert!(dumped, "{errors}");
    let mut restore = server.command("pg_restore");
    restore.args(["--exit-on-error", "-d", &server.uri("after"), name]);
    let (restored, _, errors) = outputs(restore);
    assert!(restored, "{errors}");
    proxy.killed_and_restarted(&server, "after");
    let uri = proxy.uri("after");
    assert_eq!(run(&server, &uri, &all), before);
    // Trees, labels and triggers work on.
    let more = "INSERT INTO people (name, salary) VALUES ('Cid', 50), ('Abe', -100)";
    let deleted = "DELETE FROM people WHERE name = 'Bob'";
    let ordered = "SELECT name FROM people WHERE salary < 100 ORDER BY salary";
    assert_eq!(run(&server, &uri, &[more, deleted, ordered]), "Abe\nDan\nCid\n");
    let names = "SELECT name FROM people WHERE name >= 'B' ORDER BY name DESC";
    assert_eq!(run(&server, &uri, &[names, "SELECT count(*) FROM visits"]), "Dan\nCid\nCanary\n0\n");
    // Through the proxy it is said where to dump.
    let (dumped, _, errors) = dump(&[], &uri);
    assert!(!dumped && errors.contains("pg_dump does not go through the proxy"), "{errors}");
}
