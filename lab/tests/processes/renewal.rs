//! Certificates of running processes: warned of, renewed by the command, read again without a restart.

use super::process::{self, PATIENCE};
use super::system::{Making, System, until_answered};
use arras_lab::wire_client::WireClient;
use arras_proxy::certificates::{self, CERTIFICATE_LIFETIME};
use bson::doc;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

/// Puts certificates in a system's place that were made so long ago that they end within ten days.
fn age(system: &System) {
    let (proxy, server) = (system.path("old/proxy"), system.path("old/server"));
    let made = now() - CERTIFICATE_LIFETIME.as_secs() + 10 * 24 * 60 * 60 - 3600;
    certificates::create(&proxy, &server, made).unwrap();
    for (from, to) in [(proxy, "config/certificates"), (server, "config/server")] {
        for entry in std::fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            std::fs::copy(&path, system.path(to).join(path.file_name().unwrap())).unwrap();
        }
    }
}

fn until_logged(log: &Path, words: &str) {
    let began = Instant::now();
    while !std::fs::read_to_string(log).unwrap_or_default().contains(words) {
        assert!(
            began.elapsed() < PATIENCE,
            "{words:?} is not logged:\n{}",
            std::fs::read_to_string(log).unwrap()
        );
        thread::sleep(Duration::from_millis(20));
    }
}

fn certificates_command(system: &System, arguments: &[&str]) -> process::Ended {
    let mut command = system.arras("certificates");
    command.args(arguments).arg("--config").arg(system.configuration());
    process::run(command)
}

fn count(client: &mut WireClient) -> usize {
    until_answered(|| client.query(&doc! { "find": "t", "filter": {}, "$db": "test" })).len()
}

#[test]
fn certificates_that_end_soon_are_warned_of_and_renewed_while_both_sides_run() {
    let mut system = System::make(Making::default());
    age(&system);
    system.start_server();
    system.start_proxy();
    let mut client = system.client();
    client.command(&doc! { "insert": "t", "documents": [{ "_id": 1 }], "$db": "test" }).unwrap();
    for log in [system.proxy_log(), system.server_log()] {
        until_logged(&log, "ends in 9 days");
        until_logged(&log, "arras certificates renew");
    }
    let mut doctor = system.arras("doctor");
    doctor.arg("--config").arg(system.configuration());
    let ended = process::run(doctor);
    assert_eq!(ended.code, Some(0), "{}", ended.stdout);
    assert!(
        ended.stdout.contains("warn  certificates") && ended.stdout.contains("ends in 9 days"),
        "{}",
        ended.stdout
    );

    // Half of a renewal, as a copy that is under way leaves it: said, and nothing changes.
    let file = system.path("config/server/server.pem");
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    system.server.as_ref().unwrap().signal("HUP");
    until_logged(&system.server_log(), "those from before stay in use");
    std::fs::write(&file, &whole).unwrap();

    let ended = certificates_command(&system, &["renew"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("server.key") && ended.stdout.contains("Carry"), "{}", ended.stdout);
    // The server at a signal, the proxy by itself.
    system.server.as_ref().unwrap().signal("HUP");
    for log in [system.server_log(), system.proxy_log()] {
        until_logged(&log, "certificates were read again");
    }
    assert_eq!(count(&mut client), 1, "the standing connection goes on");
    // New connections show and accept the new ones.
    let server = system.forwarder.address();
    assert!(!server.is_empty());
    system.kill_server();
    system.start_server();
    assert_eq!(count(&mut client), 1);
    let mut doctor = system.arras("doctor");
    doctor.arg("--config").arg(system.configuration());
    let ended = process::run(doctor);
    assert!(!ended.stdout.contains("warn") && ended.code == Some(0), "{}", ended.stdout);
    system.assert_no_panic();
}

#[test]
fn each_certificate_is_shown() {
    let system = System::make(Making::default());
    let shown = certificates_command(&system, &["show"]);
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    for words in
        ["ca.pem", "proxy.pem", "server.pem", "arras-proxy", "arras-server", "days left", "SHA-256", "serial"]
    {
        assert!(shown.stdout.contains(words), "no {words}: {}", shown.stdout);
    }
    let shown = certificates_command(&system, &["show", "--json"]);
    let listed: Vec<bson::Document> = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(listed.len(), 4);
    for one in &listed {
        assert_eq!(one.get_str("fingerprint").unwrap().len(), 64);
        let days =
            one.get("days_left").and_then(|days| days.as_i64().or(days.as_i32().map(i64::from))).unwrap();
        assert!(matches!(days, 729..=730 | 7299..=7300), "{one}");
        assert_eq!(one.get_str("issuer").unwrap(), "Arras deployment");
    }
}
