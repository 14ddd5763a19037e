//! `arras doctor`: beside a running proxy, and what it finds when something is amiss; each finding names the next step.

use super::process::{self, Ended};
use super::system::{Making, System};
use bson::doc;
use std::path::Path;

fn doctor(system: &System) -> Ended {
    let mut command = system.arras("doctor");
    command.arg("--config").arg(system.configuration());
    process::run(command)
}

/// The one finding of a doctor that must find one, which says `words`.
fn finds(system: &System, words: &[&str]) {
    let ended = doctor(system);
    assert_eq!(ended.code, Some(1), "{}{}", ended.stdout, ended.stderr);
    let found: Vec<&str> = ended.stdout.lines().filter(|line| line.starts_with("FAIL")).collect();
    assert_eq!(found.len(), 1, "{}", ended.stdout);
    for words in words {
        assert!(found[0].contains(words), "no {words:?} in {}", found[0]);
    }
}

fn is_well(system: &System, words: &str) {
    let ended = doctor(system);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains(words), "no {words:?} in {}", ended.stdout);
}

fn insert(system: &System) {
    let document = doc! { "_id": 1 };
    system.client().command(&doc! { "insert": "t", "documents": [document], "$db": "test" }).unwrap();
}

fn swap(one: &Path, other: &Path) {
    let aside = one.with_extension("aside");
    std::fs::rename(one, &aside).unwrap();
    std::fs::rename(other, one).unwrap();
    std::fs::rename(&aside, other).unwrap();
}

#[test]
fn it_works_beside_a_running_proxy_and_after_one_that_was_killed() {
    let mut system = System::make(Making::default());
    system.start_server();
    is_well(&system, "not there yet");
    assert!(!system.path("proxy").exists(), "the doctor makes nothing");
    system.start_proxy();
    insert(&system);
    let running = format!("open in a running proxy (process {})", system.proxy.as_ref().unwrap().id());
    is_well(&system, &running);
    insert_more(&system);
    let mut deep = system.arras("doctor");
    deep.arg("--deep").arg("--config").arg(system.configuration());
    let ended = process::run(deep);
    assert!(ended.code == Some(1) && ended.stdout.contains("stop the proxy"), "{}", ended.stdout);
    system.kill_proxy();
    is_well(&system, "belongs to the server's database");
    system.start_proxy();
    system.proxy.as_ref().unwrap().signal("TERM");
    let status = system.proxy.as_mut().unwrap().ended(process::PATIENCE).unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(!system.path("proxy/running.json").exists());
    is_well(&system, "belongs to the server's database");
}

fn insert_more(system: &System) {
    let document = doc! { "_id": 2 };
    system.client().command(&doc! { "insert": "t", "documents": [document], "$db": "test" }).unwrap();
}

#[test]
fn a_server_with_another_database_is_found_with_and_without_a_running_proxy() {
    let mut system = System::start(Making::default());
    insert(&system);
    // The configuration leads to another server than the one that the running proxy is connected to.
    let (_other, address) = process::Process::start(
        system.server_command_at("127.0.0.1:0", "elsewhere"),
        &system.path("other.log"),
    );
    let path = system.configuration();
    let before = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, before.replace(&system.forwarder.address(), &address)).unwrap();
    finds(&system, &["data directory", "another database", "point the proxy at the right server"]);
    system.kill_proxy();
    finds(&system, &["data directory", "another database", "point the proxy at the right server"]);
    std::fs::write(&path, before).unwrap();
    is_well(&system, "belongs to the server's database");
}

#[test]
fn a_lost_data_directory_and_one_that_was_set_back_are_found() {
    let mut system = System::start(Making::default());
    insert(&system);
    system.kill_proxy();
    let (data, copy) = (system.path("proxy"), system.path("copy"));
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(&data).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
    }
    std::fs::rename(&data, system.path("away")).unwrap();
    finds(&system, &["data directory", "there is no proxy's data here", "arras restore"]);
    std::fs::create_dir(&data).unwrap();
    finds(&system, &["there is no proxy's data here"]);
    std::fs::remove_dir(&data).unwrap();
    std::fs::rename(system.path("away"), &data).unwrap();
    system.start_proxy();
    insert_more(&system);
    system.kill_proxy();
    swap(&data, &copy);
    finds(&system, &["data directory", "newer than the proxy's data directory", "arras restore"]);
}

#[test]
fn a_keyring_without_a_way_in_is_found() {
    let mut system = System::start(Making::default());
    insert(&system);
    let (keyring, key_file) = (system.path("config/keyring.json"), system.path("keyring.key"));
    let away = system.path("away");
    std::fs::rename(&key_file, &away).unwrap();
    finds(&system, &["keyring", "key file that unlocks the keyring is not there", "arras key backup"]);
    arras_keys::create_key_file(&key_file).unwrap();
    finds(&system, &["keyring", "does not open", "put the key file in its place"]);
    std::fs::remove_file(&key_file).unwrap();
    std::fs::rename(&away, &key_file).unwrap();
    std::fs::rename(&keyring, &away).unwrap();
    finds(&system, &["keyring", "is not there", "put a backup in its place"]);
    std::fs::rename(&away, &keyring).unwrap();
    // Another one that opens is not what the running proxy goes by.
    let other = System::make(Making::default());
    swap(&keyring, &other.path("config/keyring.json"));
    swap(&key_file, &other.path("keyring.key"));
    finds(&system, &["another keyring than the configuration names"]);
    system.kill_proxy();
    finds(&system, &["not the one the proxy's data directory was made with"]);
    // Neither a key file nor a passphrase nor anybody to ask.
    let path = system.configuration();
    let text = std::fs::read_to_string(&path).unwrap();
    let without: Vec<&str> = text.lines().filter(|line| !line.starts_with("key_file")).collect();
    std::fs::write(&path, without.join("\n")).unwrap();
    finds(&system, &["keyring", "ARRAS_PASSPHRASE"]);
}

#[test]
fn a_proxy_that_has_halted_says_so() {
    let mut system = System::start(Making::default());
    insert(&system);
    system.kill_server();
    let (data, copy) = (system.path("server"), system.path("copy"));
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(&data).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
    }
    system.start_server();
    super::system::until_answered(|| {
        system.client().command(&doc! { "insert": "t", "documents": [{ "_id": 3 }], "$db": "test" })
    });
    system.kill_server();
    swap(&data, &copy);
    system.start_server();
    // The next call connects, and finds that acknowledged writes are gone.
    let began = std::time::Instant::now();
    while std::fs::read_to_string(system.path("proxy/running.json")).is_ok_and(|said| !said.contains("older"))
    {
        let _ = system.client().command(&doc! { "count": "t", "$db": "test" });
        let _ = system.client().command(&doc! { "insert": "t", "documents": [{ "_id": 4 }], "$db": "test" });
        assert!(began.elapsed() < process::PATIENCE);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    finds(&system, &["has halted", "older than what it acknowledged"]);
}
