//! A schema that comes later: `arras doctor` names what the catalog lacks, `arras plan --apply` makes it.

use super::process::{self, Ended};
use super::system::{Making, System};
use bson::{Document, doc};

const SEARCHED: &str =
    "[collections.\"clinic.patients\".fields]\na = { operations = [\"eq\"] }\nu = { unique = true }\n";

fn run(system: &System, subcommand: &str, arguments: &[&str]) -> Ended {
    let mut command = system.arras(subcommand);
    command.args(arguments).arg("--config").arg(system.configuration());
    process::run(command)
}

/// The lines of the doctor that are about indexes.
fn indexes(system: &System) -> (Option<i32>, Vec<String>) {
    let ended = run(system, "doctor", &[]);
    let lines = ended.stdout.lines().filter(|line| line.contains(" indexes: "));
    (ended.code, lines.map(str::to_owned).collect())
}

fn declare(system: &System, schema: &str) {
    std::fs::write(system.path("config/schema.toml"), schema).unwrap();
}

fn explained(system: &System) -> Document {
    let find = doc! { "find": "patients", "filter": { "a": 1 } };
    system.client().command(&doc! { "explain": find, "$db": "clinic" }).unwrap()
}

#[test]
fn what_a_later_schema_calls_for_is_named_and_made() {
    let mut system = System::start(Making::default());
    let documents: Vec<Document> =
        (0..50).map(|id| doc! { "_id": id, "a": id % 5, "u": id, "b": id % 2 }).collect();
    let insert = doc! { "insert": "patients", "documents": documents, "$db": "clinic" };
    system.client().command(&insert).unwrap();
    declare(&system, SEARCHED);
    // Keys of the file's first part come before its tables.
    let configured = std::fs::read_to_string(system.configuration()).unwrap();
    std::fs::write(system.configuration(), format!("schema = \"schema.toml\"\n{configured}")).unwrap();
    let process = system.proxy.as_ref().unwrap().id().to_string();
    let beside = run(&system, "plan", &["--apply"]);
    assert_eq!(beside.code, Some(4), "{}{}", beside.stdout, beside.stderr);
    assert!(beside.stderr.contains(&process) && beside.stderr.contains("restart it"), "{}", beside.stderr);
    system.kill_proxy();

    let (code, lines) = indexes(&system);
    assert_eq!(code, Some(1), "a unique index is not there");
    for (start, words) in
        [("warn", "ArxEq(a) of clinic.patients"), ("FAIL", "EQunique(u) of clinic.patients")]
    {
        let found = lines.iter().any(|line| line.starts_with(start) && line.contains(words));
        assert!(found && lines.len() == 2, "{lines:#?}");
    }
    assert!(lines.iter().all(|line| line.contains("arras plan --apply --config")), "{lines:#?}");

    let applied = run(&system, "plan", &["--apply"]);
    assert_eq!(applied.code, Some(0), "{}{}", applied.stdout, applied.stderr);
    for line in ["clinic.patients: ArxEq(a): made", "clinic.patients: EQunique(u): made"] {
        assert!(applied.stdout.lines().any(|said| said == line), "{}", applied.stdout);
    }
    let again = run(&system, "plan", &["--apply"]);
    assert!(again.code == Some(0) && again.stdout.contains("is there"), "{}{}", again.stdout, again.stderr);
    let (code, lines) = indexes(&system);
    assert!(code == Some(0) && lines.len() == 1 && lines[0].starts_with("ok"), "{lines:#?}");

    // `b` is twice and more: it is said, and the rest is as it was.
    declare(&system, &format!("{SEARCHED}b = {{ unique = true }}\n"));
    let refused = run(&system, "plan", &["--apply"]);
    let said = "EQunique(b): cannot be made: E11000";
    assert!(refused.code == Some(1) && refused.stdout.contains(said), "{}{}", refused.stdout, refused.stderr);
    declare(&system, "[collections.\"clinic.patients\".fields]\nu = { unique = true }\n");
    let (code, lines) = indexes(&system);
    assert!(code == Some(0) && lines.len() == 1, "{lines:#?}");
    assert!(lines[0].starts_with("warn") && lines[0].contains("dropIndex(\"arras_eq_a_1\")"), "{lines:#?}");

    declare(&system, SEARCHED);
    system.start_proxy();
    assert!(explained(&system).to_string().contains("ArxEq(a)"));
    let twice = doc! { "insert": "patients", "documents": [{ "_id": 100, "u": 7 }], "$db": "clinic" };
    assert_eq!(system.client().command(&twice).unwrap_err().code(), Some(11000));
    system.assert_no_panic();
}
