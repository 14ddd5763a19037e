//! Exit codes of every command, as `arras --help` and `arras-server --help` list them: 0 done, 1 a check failed or a query is
//! refused, 2 usage or configuration, 3 keyring or certificates, 4 data directory, 5 network or server.

use super::process::{self, Process};
use super::system::{Making, System};
use std::process::Command;

/// Every command is refused a word it does not know, and explains itself.
#[test]
fn usage() {
    let commands: [(&str, &[&str]); 13] = [
        ("arras", &[]),
        ("arras", &["certificates"]),
        ("arras", &["certificates", "renew"]),
        ("arras", &["certificates", "show"]),
        ("arras", &["dev"]),
        ("arras", &["doctor"]),
        ("arras", &["init"]),
        ("arras", &["key"]),
        ("arras", &["key", "backup"]),
        ("arras", &["plan"]),
        ("arras", &["proxy"]),
        ("arras", &["restore"]),
        ("arras-server", &["verify"]),
    ];
    let code = |executable: &str, arguments: &[&str], more: &str| {
        let mut command = process::command(executable, "off");
        command.args(arguments).arg(more);
        process::run(command).code
    };
    for (executable, arguments) in commands {
        assert_eq!(code(executable, arguments, "--help"), Some(0), "{arguments:?}");
        assert_eq!(code(executable, arguments, "--no-such-thing"), Some(2), "{arguments:?}");
    }
    assert_eq!(code("arras", &[], "nonsense"), Some(2));
    assert_eq!(code("arras", &[], "--version"), Some(0));
    assert_eq!(code("arras-server", &[], "--version"), Some(0));
    let nothing = process::command("arras", "off");
    assert_eq!(process::run(nothing).code, Some(2));
    for listed in ["0 done", "1 failed", "2 usage", "3 keyring", "4 data", "5 network", "130"] {
        let mut help = process::command("arras", "off");
        help.arg("--help");
        assert!(process::run(help).stdout.contains(listed), "{listed}");
    }
}

/// A command of a system that gets the configuration.
fn configured(system: &System, arguments: &[&str]) -> Command {
    let (first, rest) = arguments.split_first().unwrap();
    let mut command = system.arras(first);
    command.args(rest).arg("--config").arg(system.configuration());
    command
}

/// Every command that reads the configuration, with what else it needs.
fn all(system: &System) -> Vec<Command> {
    let file = system.path("some-backup");
    let file = file.to_str().unwrap();
    let commands: [&[&str]; 7] = [
        &["certificates", "renew"],
        &["certificates", "show"],
        &["key", "backup", "--code", "--to", file],
        &["key", "passphrase"],
        &["key", "verify", "--backup", file],
        &["proxy"],
        &["restore"],
    ];
    commands.iter().map(|arguments| configured(system, arguments)).collect()
}

fn codes(commands: Vec<Command>) -> Vec<Option<i32>> {
    commands.into_iter().map(|command| process::run(command).code).collect()
}

#[test]
fn a_configuration_that_is_none() {
    let system = System::make(Making::default());
    std::fs::write(system.configuration(), "listen = 1").unwrap();
    assert_eq!(codes(all(&system)), [Some(2); 7]);
    // The doctor has a line for it.
    assert_eq!(process::run(configured(&system, &["doctor"])).code, Some(1));
    std::fs::remove_file(system.configuration()).unwrap();
    assert_eq!(codes(all(&system)), [Some(2); 7]);
    let mut again = system.arras("init");
    again.arg(system.path("config")).arg("--key-file").arg(system.path("keyring.key"));
    assert_eq!(process::run(again).code, Some(2), "a directory that is not empty");
    let mut dev = system.arras("dev");
    std::fs::write(system.path("schema.toml"), "nonsense").unwrap();
    dev.arg("--data-dir").arg(system.path("dev")).arg("--schema").arg(system.path("schema.toml"));
    assert_eq!(process::run(dev).code, Some(2));
}

#[test]
fn a_keyring_or_certificates_that_are_none() {
    let system = System::make(Making::default());
    let mut init = system.arras("init");
    init.arg(system.path("new")).env("ARRAS_PASSPHRASE", "");
    assert_eq!(process::run(init).code, Some(3));
    let mut init = system.arras("init");
    std::fs::write(system.path("no.key"), "").unwrap();
    init.arg(system.path("new")).arg("--key-file").arg(system.path("no.key"));
    assert_eq!(process::run(init).code, Some(3));
    let of_keys = |system: &System| {
        let mut all = all(system);
        all.drain(2..).collect::<Vec<_>>()
    };
    std::fs::rename(system.path("keyring.key"), system.path("away.key")).unwrap();
    assert_eq!(codes(of_keys(&system)), [Some(3); 5]);
    std::fs::rename(system.path("away.key"), system.path("keyring.key")).unwrap();
    std::fs::remove_file(system.path("config/certificates/ca.key")).unwrap();
    assert_eq!(process::run(configured(&system, &["certificates", "renew"])).code, Some(3));
    assert_eq!(process::run(configured(&system, &["certificates", "show"])).code, Some(0));
    std::fs::remove_file(system.path("config/certificates/proxy.pem")).unwrap();
    assert_eq!(process::run(configured(&system, &["certificates", "show"])).code, Some(3));
    assert_eq!(process::run(configured(&system, &["proxy"])).code, Some(3));
    assert_eq!(process::run(configured(&system, &["doctor"])).code, Some(1));
}

#[test]
fn a_data_directory_or_an_address_that_cannot_be_used_and_done() {
    let mut system = System::make(Making::default());
    assert_eq!(process::run(configured(&system, &["restore"])).code, Some(4), "nothing was restored");
    system.start_server();
    system.start_proxy();
    assert_eq!(process::run(configured(&system, &["doctor"])).code, Some(0));
    assert_eq!(process::run(configured(&system, &["proxy"])).code, Some(4), "in use");
    assert_eq!(process::run(configured(&system, &["restore"])).code, Some(4), "in use");
    let taken = system.address().to_owned();
    let mut dev = system.arras("dev");
    dev.arg("--data-dir").arg(system.path("dev")).args(["--listen", &taken]);
    assert_eq!(process::run(dev).code, Some(5));
    let server = system.server_command_at(&taken, "second");
    assert_eq!(process::run(server).code, Some(5));
    let mut verify = process::command("arras-server", "off");
    verify.args(["verify", "--data-dir"]).arg(system.path("nothing"));
    assert_eq!(process::run(verify).code, Some(4));
    for side in [system.proxy.take(), system.server.take()] {
        let mut process: Process = side.unwrap();
        process.signal("TERM");
        assert_eq!(process.ended(process::PATIENCE).unwrap().code(), Some(0));
    }
    assert_eq!(process::run(configured(&system, &["restore"])).code, Some(0));
    let backup = system.path("b");
    let backup = backup.to_str().unwrap();
    assert_eq!(process::run(configured(&system, &["key", "backup", "--code", "--to", backup])).code, Some(0));
    assert_eq!(process::run(configured(&system, &["certificates", "renew"])).code, Some(0));
}

#[test]
fn a_plan() {
    let place = tempfile::tempdir().unwrap();
    let plan = |text: &str| {
        let path = place.path().join("schema.toml");
        std::fs::write(&path, text).unwrap();
        let mut command = process::command("arras", "off");
        command.args(["plan", "--schema"]).arg(path);
        process::run(command).code
    };
    let served = "[collections.\"a.b\"]\n[collections.\"a.b\".fields]\nx = { operations = [\"eq\"] }\n";
    assert_eq!(plan(served), Some(0));
    let refused = format!("{served}[[collections.\"a.b\".patterns]]\nname = \"q\"\neq = [\"y\"]\n");
    let refused =
        refused.replacen("[collections.\"a.b\"]\n", "[collections.\"a.b\"]\nscan = \"refuse\"\n", 1);
    assert_eq!(plan(&refused), Some(1), "{refused}");
    assert_eq!(plan("nonsense"), Some(2));
    for wrong in ["x = { order = \"by_hand\" }", "x = { order = \"path_oram\" }"] {
        assert_eq!(plan(&format!("[collections.\"a.b\".fields]\n{wrong}\n")), Some(2), "{wrong}");
    }
    assert_eq!(plan("adversary = \"nobody\"\n"), Some(2));
    let mut missing = process::command("arras", "off");
    missing.args(["plan", "--schema", "/nonexistent"]);
    assert_eq!(process::run(missing).code, Some(2));
}

#[test]
fn a_comparison_is_text_or_a_line_of_json_for_each_field() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("schema.toml");
    let fields = "x = { operations = [\"range\"] }\ny = { operations = [\"order\"], type = \"int32\" }\n";
    std::fs::write(&path, format!("[collections.\"a.b\".fields]\n{fields}")).unwrap();
    let compared = |more: &[&str]| {
        let mut command = process::command("arras", "off");
        command.args(["plan", "--compare", "--schema"]).arg(&path).args(more);
        process::run(command)
    };
    let text = compared(&[]);
    assert_eq!(text.code, Some(0));
    assert!(
        text.stdout.contains("arx_range (taken)") && text.stdout.contains("bplus_lewi_wu"),
        "{}",
        text.stdout
    );
    let lines = compared(&["--json"]).stdout;
    let fields: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["field"].clone())
        .collect();
    assert_eq!(fields, ["x", "y"]);
    let of = |more: &[&str]| -> serde_json::Value {
        let compared = compared(&[&["--json"], more].concat());
        serde_json::from_str(compared.stdout.lines().next().unwrap()).unwrap()
    };
    let (few, many) = (of(&[]), of(&["--documents", "10000000", "--distinct", "x=1000"]));
    assert_eq!((&few["documents"], &many["documents"]), (&100_000.into(), &10_000_000.into()));
    // What a query finds is its share of so many.
    let found = |compared: &serde_json::Value| -> Vec<f64> {
        let of = |candidate: &serde_json::Value| candidate["searches"][0]["documents"].as_f64().unwrap();
        compared["candidates"].as_array().unwrap().iter().map(of).collect()
    };
    for (few, many) in found(&few).into_iter().zip(found(&many)) {
        assert!(many > 50.0 * few, "{few} of 100,000 documents, {many} of 10,000,000");
    }
    let hundred = of(&["--documents", "100"]);
    assert!(found(&hundred).iter().all(|documents| *documents <= 100.0), "{hundred}");
    assert_eq!(compared(&["--distinct", "x"]).code, Some(2));
}

/// The laboratory's code is the command's own.
#[test]
fn the_lab() {
    let code = |arguments: &[&str]| {
        let mut command = process::command("arras", "off");
        command.arg("lab").args(arguments);
        process::run(command).code
    };
    assert_eq!(code(&["--help"]), Some(0));
    assert_eq!(code(&["no-such-thing"]), Some(2));
}
