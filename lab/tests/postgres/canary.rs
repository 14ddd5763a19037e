//! Values that are easy to recognise go through the proxy into encrypted columns; then every byte that the database, its logs,
//! its backups, its replica and the proxy's log have is searched for them.

use crate::canaries::{Canaries, Kind};
use crate::dev::Dev;
use crate::extended::connect;
use crate::proxy::outputs;
use arras_lab::private_postgres::{Options, PrivatePostgres};
use bytes::Bytes;
use futures_util::SinkExt;
use std::path::Path;
use tokio_postgres::Client;

const SCHEMA: &str = r#"
[tables."public.people"]
name = { id = "91b6c0d2ee4f7a35", type = "text", operations = ["unique"] }
salary = { id = "5f0c9d3e21b7a846", type = "bigint", operations = ["equality", "order", "sum"] }
balance = { id = "5f0c9d3e21b7a847", type = "numeric(24,2)", operations = ["order", "sum"] }
rate = { id = "5f0c9d3e21b7a848", type = "double precision", operations = ["order"] }
seen = { id = "0a4477c1d2e8f693", type = "timestamp", operations = ["order"], order = "stope" }
city = { id = "2b9df01c55a3e780", type = "varchar(40)", operations = ["order"], max_bytes = 40 }
badge = { id = "2b9df01c55a3e781", type = "uuid", operations = ["equality"] }
photo = { id = "2b9df01c55a3e782", type = "bytea" }
notes = { id = "2b9df01c55a3e783", type = "jsonb" }
"#;

const CREATE: &str = "CREATE TABLE people (id int PRIMARY KEY, name text UNIQUE NOT NULL, salary bigint, balance numeric(24,2), \
                      rate double precision, seen timestamp, city varchar(40), badge uuid, photo bytea, notes jsonb, plain text)";

/// What is looked for, and where it must not be; `PLAIN` must be, or the search finds nothing at all.
const PLAIN: &str = "PlainHeronQuetzal";
const TEXTS: [&str; 7] = [
    "NameCanaryXylophone",
    "CityCanaryZeppelin",
    "JsonCanaryObelisk",
    "PreparedCanaryOcelot",
    "CopiedCanaryFlamingo",
    "ComparedCanaryIguana",
    "CommentCanaryPelican",
];
const SALARY: i64 = 5_836_104_729_163_845;
const BALANCE: &str = "7294816350274918.37";
const RATE: f64 = 6_172_839.506_172_84;
const SEEN: &str = "2987-11-23 21:43:57.135791";
const BADGE: &str = "c0ffee42-7a1e-4bad-9cab-1e5ca1ab1e77";
const PHOTO: &str = "ca7a21a5feedfacecafed00dba5eba11";

fn canaries() -> Canaries {
    let mut canaries = Canaries::default();
    for text in TEXTS {
        canaries.add(text, Kind::Secret, text.as_bytes());
    }
    // All salaries begin with these digits.
    canaries.add_digits("salary in digits", Kind::Secret, &SALARY.to_string()[..14]);
    canaries.add_digits("balance in digits", Kind::Secret, BALANCE.trim_end_matches(".37"));
    canaries.add_digits("rate in digits", Kind::Secret, "6172839.5061728");
    canaries.add_digits("time in digits", Kind::Secret, "21:43:57.13579");
    canaries.add_digits("badge in digits", Kind::Secret, BADGE);
    canaries.add("salary", Kind::Secret, &SALARY.to_be_bytes());
    canaries.add("salary's order key", Kind::Secret, &(SALARY.cast_unsigned() ^ (1 << 63)).to_be_bytes());
    canaries.add("rate", Kind::Secret, &RATE.to_be_bytes());
    let byte = |text: &str, at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    for (name, text) in [("badge", BADGE.replace('-', "")), ("photo", PHOTO.to_owned())] {
        let bytes: Vec<u8> = (0..text.len()).step_by(2).map(|at| byte(&text, at)).collect();
        canaries.add(name, Kind::Secret, &bytes);
    }
    canaries
}

/// Has it what is in plaintext?
fn has_plain(bytes: &[u8]) -> bool {
    let mut plain = Canaries::default();
    plain.add("plain", Kind::Name, PLAIN.as_bytes());
    plain.missing(bytes).is_empty()
}

/// Long runs of zeros, of which most files of a database are made, shortened: no canary has one.
fn without_gaps(bytes: Vec<u8>) -> Vec<u8> {
    let mut zeros = 0;
    let short = |byte: &u8| {
        zeros = if *byte == 0 { zeros + 1 } else { 0 };
        zeros <= 16
    };
    let mut bytes = bytes;
    bytes.retain(short);
    bytes
}

/// Every file below a folder.
fn files(folder: &Path, each: &mut dyn FnMut(&Path, Vec<u8>)) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.ends_with("base/1") || path.ends_with("base/4") {
            // The templates, in which nobody was.
        } else if path.is_dir() {
            files(&path, each);
        } else if let Ok(bytes) = std::fs::read(&path) {
            // A file that the database removed meanwhile is gone.
            each(&path, without_gaps(bytes));
        }
    }
}

/// What is told of a failure, but for what a client is told of the key that it gave itself.
fn told(error: &tokio_postgres::Error) -> String {
    format!("{error:?}").replace("Key (name)=(NameCanaryXylophone) already exists.", "")
}

/// Everything that statements can do with a value.
async fn use_everything(client: &mut Client) -> String {
    let all = format!(
        "(1, 'NameCanaryXylophone', {SALARY}, {BALANCE}, {RATE}, '{SEEN}', 'CityCanaryZeppelin', '{BADGE}', '\\x{PHOTO}', \
         '{{\"a\": \"JsonCanaryObelisk\"}}', '{PLAIN}')"
    );
    client.batch_execute(&format!("INSERT INTO people VALUES {all}")).await.unwrap();
    let insert =
        client.prepare("INSERT INTO people (id, name, salary, rate) VALUES ($1, $2, $3, $4)").await.unwrap();
    client.execute(&insert, &[&2, &"PreparedCanaryOcelot", &(SALARY - 5), &RATE]).await.unwrap();
    let sink = client.copy_in::<_, Bytes>("COPY people (id, name, salary, city) FROM STDIN").await.unwrap();
    let mut sink = std::pin::pin!(sink);
    sink.send(Bytes::from(format!("3\tCopiedCanaryFlamingo\t{}\tCityCanaryZeppelin\n", SALARY - 9)))
        .await
        .unwrap();
    sink.finish().await.unwrap();
    client
        .batch_execute("UPDATE people SET salary = salary + 1, city = 'CityCanaryZeppelin' WHERE id = 1")
        .await
        .unwrap();
    for condition in [
        format!("salary BETWEEN {} AND {SALARY}", SALARY - 1),
        format!("salary IN ({SALARY}, 2, 3)"),
        "name = 'ComparedCanaryIguana'".to_owned(),
        format!("seen > '{SEEN}'"),
        format!("balance >= {BALANCE} OR badge = '{BADGE}'"),
        "city < 'CityCanaryZeppelin'".to_owned(),
    ] {
        client
            .simple_query(&format!("SELECT * FROM people WHERE {condition} ORDER BY salary"))
            .await
            .unwrap();
    }
    for commented in [
        "SELECT * FROM people WHERE name = 'Ann' /* was CommentCanaryPelican /* CommentCanaryPelican */ */",
        "SELECT id FROM people -- WHERE name = 'CommentCanaryPelican'",
        "/* CommentCanaryPelican */ UPDATE people SET name = 'Ann' WHERE id = 7; -- CommentCanaryPelican",
    ] {
        client.simple_query(commented).await.unwrap();
    }
    client
        .query("SELECT id FROM people /* CommentCanaryPelican */ WHERE name = $1", &[&"Ann"])
        .await
        .unwrap();
    let select = client.prepare("SELECT * FROM people WHERE name = $1 AND salary < $2").await.unwrap();
    client.query(&select, &[&"ComparedCanaryIguana", &SALARY]).await.unwrap();
    let computed = format!(
        "SELECT salary / {SALARY}, coalesce(name, 'NameCanaryXylophone') || city, balance + $1 FROM people"
    );
    let computed = client.prepare(&computed.replace("$1", &format!("$1::bigint - {BALANCE}"))).await.unwrap();
    client.query(&computed, &[&SALARY]).await.unwrap();
    // What fails is told with its rows by the database.
    let mut errors = String::new();
    for wrong in [
        format!("INSERT INTO people VALUES {}", all.replacen("(1,", "(9,", 1)),
        format!("INSERT INTO people (id, salary, city) VALUES (10, {SALARY}, 'CityCanaryZeppelin')"),
        "UPDATE people SET name = 'NameCanaryXylophone' WHERE id = 2".to_owned(),
        format!("SELECT salary ^ {SALARY} FROM people"),
        format!("SELECT salary * {SALARY} * {SALARY} FROM people"),
    ] {
        errors += &told(&client.simple_query(&wrong).await.unwrap_err());
    }
    let again: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
        [&11, &"NameCanaryXylophone", &SALARY, &RATE];
    errors += &told(&client.execute(&insert, &again).await.unwrap_err());
    client.batch_execute("DELETE FROM people WHERE id = 3").await.unwrap();
    errors
}

fn settings() -> Options {
    let settings = [
        ("fsync", "off"),
        ("wal_level", "logical"),
        ("log_statement", "all"),
        ("log_min_duration_statement", "0"),
        ("log_parameter_max_length", "-1"),
        ("log_parameter_max_length_on_error", "-1"),
        ("log_error_verbosity", "verbose"),
        ("log_min_messages", "debug1"),
        ("track_activity_query_size", "100kB"),
        ("shared_preload_libraries", "pg_stat_statements"),
    ];
    Options {
        settings: settings.map(|(name, value)| (name.into(), value.into())).into(),
        ..Options::default()
    }
}

#[tokio::test]
async fn nothing_that_the_database_has_or_says_shows_what_is_encrypted() {
    let server = PrivatePostgres::start_with(&settings()).unwrap();
    let direct = connect(&server.uri("postgres")).await;
    direct.batch_execute("CREATE EXTENSION pg_stat_statements").await.unwrap();
    let proxy = Dev::start_logging(&server, "postgres", SCHEMA, "trace");
    let mut client = connect(&proxy.uri("postgres")).await;
    client.batch_execute(CREATE).await.unwrap();
    let replica = replicate(&server, &direct).await;
    let errors = use_everything(&mut client).await;
    let canaries = canaries();
    let mut places: Vec<(String, Vec<u8>)> = vec![("errors".into(), errors.into_bytes())];
    for view in ["pg_stat_statements", "pg_stat_activity"] {
        let rows = direct.query(&format!("SELECT v::text FROM {view} v"), &[]).await.unwrap();
        let rows: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        assert!(rows.iter().any(|row| row.contains("people")), "{view}: {rows:?}");
        places.push((view.into(), rows.join("\n").into_bytes()));
    }
    let dumped = outputs(dump(&server, "-Fp")).1;
    assert!(dumped.contains(PLAIN));
    places.push(("pg_dump".into(), dumped.into_bytes()));
    let mut custom = dump(&server, "-Fc");
    custom.args(["-Z0"]);
    places.push(("pg_dump -Fc".into(), custom.output().unwrap().stdout));
    caught_up(&direct, &replica).await;
    places.push(("the replica".into(), outputs(dump(&replica, "-Fp")).1.into_bytes()));
    let backup = server.socket_folder().join("backup");
    let mut basebackup = server.command("pg_basebackup");
    basebackup.args([
        "-h",
        "127.0.0.1",
        "-U",
        "postgres",
        "-X",
        "stream",
        "-c",
        "fast",
        "-p",
        &server.port().to_string(),
    ]);
    let (made, _, said) = outputs({
        basebackup.arg("-D").arg(&backup);
        basebackup
    });
    assert!(made, "{said}");
    direct.batch_execute("CHECKPOINT").await.unwrap();
    for (name, folder) in
        [("backup", backup), ("data folder", server.data()), ("replica's data folder", replica.data())]
    {
        let mut together = Vec::new();
        files(&folder, &mut |path, bytes| together.push((format!("{name}: {}", path.display()), bytes)));
        assert!(together.iter().any(|(_, bytes)| has_plain(bytes)), "{name} has not what is in plaintext");
        let in_log = together.iter().any(|(path, bytes)| path.contains("/pg_wal/") && has_plain(bytes));
        assert!(in_log || name == "backup", "{name} has no log of changes");
        places.extend(together);
    }
    let log = std::fs::read(server.log()).unwrap();
    assert!(has_plain(&log), "the log has statements");
    places.push(("the log".into(), log));
    places.push(("the proxy's log".into(), std::fs::read(proxy.directory().join("log.txt")).unwrap()));
    let mut found = Vec::new();
    for (place, bytes) in &places {
        found.extend(canaries.find(bytes, &[Kind::Secret]).keys().map(|what| format!("{what} in {place}")));
    }
    assert_eq!(found, Vec::<String>::new());
}

fn dump(server: &PrivatePostgres, format: &str) -> std::process::Command {
    let mut dump = server.command("pg_dump");
    dump.args([format, "--no-sync", &server.uri("postgres")]);
    dump
}

/// A second PostgreSQL that has all tables' rows from the first.
async fn replicate(server: &PrivatePostgres, direct: &Client) -> PrivatePostgres {
    let settings =
        [("fsync", "off"), ("wal_level", "logical")].map(|(name, value)| (name.into(), value.into()));
    let replica =
        PrivatePostgres::start_with(&Options { settings: settings.into(), ..Options::default() }).unwrap();
    let mut schema = server.command("pg_dump");
    schema.args(["--schema-only", "--no-sync", &server.uri("postgres")]);
    let (made, text, said) = outputs(schema);
    assert!(made, "{said}");
    let path = server.socket_folder().join("schema.sql");
    std::fs::write(&path, text).unwrap();
    let mut load = replica.command("psql");
    load.args(["-Xq", "-v", "ON_ERROR_STOP=1", "-f"]).arg(&path).arg(replica.uri("postgres"));
    let (loaded, _, said) = outputs(load);
    assert!(loaded, "{said}");
    direct.batch_execute("CREATE PUBLICATION everything FOR ALL TABLES").await.unwrap();
    let other = connect(&replica.uri("postgres")).await;
    let subscribe = format!(
        "CREATE SUBSCRIPTION all_of_it CONNECTION 'host=127.0.0.1 port={} user=postgres dbname=postgres' PUBLICATION everything",
        server.port()
    );
    other.batch_execute(&subscribe).await.unwrap();
    replica
}

/// Waits until the replica has what the first has now.
async fn caught_up(direct: &Client, replica: &PrivatePostgres) {
    let other = connect(&replica.uri("postgres")).await;
    let count = "SELECT (SELECT count(*) FROM people) * 1000000 + (SELECT count(*) FROM arras.mope_entry) * 1000 \
                 + (SELECT sum(version) FROM arras.mope_column)::bigint";
    let wanted: i64 = direct.query_one(count, &[]).await.unwrap().get(0);
    while other.query_one(count, &[]).await.unwrap().get::<_, i64>(0) != wanted {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}
