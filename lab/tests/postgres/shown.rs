//! `psql` and the catalogue: what an application sees of a table is what it created.

use crate::dev::Dev;
use crate::extended::connect;
use arras_lab::private_postgres::PrivatePostgres;
use std::process::Command;

const SCHEMA: &str = r#"
[tables."public.people"]
name = { id = "91b6c0d2ee4f7a35", type = "varchar(40)", operations = ["unique"] }
salary = { id = "5f0c9d3e21b7a846", type = "numeric(12,2)", operations = ["sum"] }
"#;

fn described(uri: &str, command: &str) -> String {
    let output = Command::new("psql").args(["-X", "-d", uri, "-c", command]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn psql_describes_the_table_that_was_created() {
    let server = PrivatePostgres::start().unwrap();
    let direct = connect(&server.uri("postgres")).await;
    let proxy = Dev::start(&server, "postgres", SCHEMA);
    let client = connect(&proxy.uri("postgres")).await;
    let create =
        "CREATE TABLE people (id int PRIMARY KEY, name varchar(40) NOT NULL UNIQUE, salary numeric(12,2))";
    client.batch_execute(create).await.unwrap();
    let through = described(&proxy.uri("postgres"), "\\d people");
    let past = described(&server.uri("postgres"), "\\d people");
    let columns = "SELECT column_name, data_type, character_maximum_length, numeric_precision, numeric_scale, is_nullable \
                   FROM information_schema.columns WHERE table_name = 'people' ORDER BY ordinal_position";
    let listed = described(&proxy.uri("postgres"), columns);
    // The same as of a table in plaintext.
    direct.batch_execute("DROP TABLE people").await.unwrap();
    direct.batch_execute(create).await.unwrap();
    let plain = described(&server.uri("postgres"), "\\d people");
    assert_eq!(through, plain, "past the proxy:\n{past}");
    assert!(past.contains("name$eq"), "{past}");
    assert_eq!(listed, described(&server.uri("postgres"), columns));
}
