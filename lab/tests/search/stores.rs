//! `arras search` on storage services: Redis, a cluster of Redis that loses a server in mid-load, Cassandra that loses a node, PostgreSQL
//! that is started again.

use crate::command::{index, names, search, write};
use crate::deployment::Deployment;
use crate::in_postgres::{PASSWORD, asked, by_password, uri_with};
use crate::process::{Ended, PATIENCE, Process, run};
use arras_lab::private_cassandra::PrivateCassandra;
use arras_lab::private_postgres::PrivatePostgres;
use arras_lab::private_redis::PrivateRedis;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;
use tempfile::TempDir;

/// Files of a load that something happens to.
const FILES: usize = 400;
/// Words of each.
const WORDS: usize = 300;

fn well(ended: &Ended) {
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

fn size(redis: &PrivateRedis, place: usize) -> usize {
    redis.said(place, &["dbsize"]).trim().parse().unwrap()
}

/// A storage service, as the command names it.
struct Service<'s> {
    option: &'s str,
    /// Where it is, and where it is not.
    at: &'s str,
    nowhere: &'s str,
    name: &'s str,
    /// How many entries it holds.
    entries: &'s dyn Fn() -> usize,
}

/// What the first run of a store says of where its entries are holds for later ones; a folder with such a store.
fn entries_are_where_the_first_run_says_and_stay_there(service: &Service<'_>) -> TempDir {
    let Service { option, at, nowhere, name, entries } = service;
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    for (folder, word) in folders.iter().zip(["whale", "ship"]) {
        write(folder.path(), "a.txt", &format!("the {word}"));
        write(folder.path(), "b.txt", "the captain");
        well(&index(folder.path(), &[option, at]));
    }
    // Two stores on one server: each has its own entries, state and counter.
    for (folder, (word, other)) in folders.iter().zip([("whale", "ship"), ("ship", "whale")]) {
        let folder = folder.path();
        assert_eq!(names(folder, word), ["a.txt"]);
        assert_eq!(names(folder, other), [""; 0]);
        write(folder, "b.txt", &format!("the {word} and the {other}"));
        // It need not be said again.
        well(&index(folder, &[]));
        assert_eq!(names(folder, other), ["b.txt"]);
        assert_eq!(names(folder, "captain"), [""; 0]);
    }
    let [folder, _] = folders;
    assert!(entries() > 10);
    let kept: Vec<_> = std::fs::read_dir(folder.path().join("store/server")).unwrap().collect();
    assert!(kept.len() <= 2, "the counter and no entries: {kept:?}");
    // A first run that comes to nothing decides nothing.
    let embedded = tempfile::tempdir().unwrap();
    write(embedded.path(), "a.txt", "the whale");
    assert_eq!(index(embedded.path(), &[option, nowhere]).code, Some(5));
    well(&index(embedded.path(), &[]));
    assert_eq!(names(embedded.path(), "whale"), ["a.txt"]);
    let moves = [
        (folder.path(), ["--cassandra", "127.0.0.1:1"], format!("are in {name}, not in Cassandra")),
        (embedded.path(), [option, at], format!("are in its folder, not in {name}")),
    ];
    for (folder, to, words) in moves {
        let moved = index(folder, &to);
        assert_eq!(moved.code, Some(4), "{}", moved.stderr);
        assert!(moved.stderr.contains(&words), "{}", moved.stderr);
        // What the environment says is a host's that somebody runs, not a store's of files.
        let mut elsewhere = search(folder, "query", &["whale"]);
        elsewhere.envs(VARIABLES.map(|variable| (variable, nowhere)));
        well(&run(elsewhere));
    }
    folder
}

/// What says where a host's store is.
const VARIABLES: [&str; 2] = ["ARRAS_REDIS", "ARRAS_POSTGRES"];

/// A service that does not answer, or refuses, is said in words of its own.
fn says(ended: &Ended, words: [&str; 2]) {
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    assert!(words.iter().all(|words| ended.stderr.contains(words)), "{}", ended.stderr);
}

#[test]
fn entries_are_in_redis_where_the_first_run_says_so_and_stay_there() {
    let redis = PrivateRedis::start().unwrap();
    let folder = entries_are_where_the_first_run_says_and_stay_there(&Service {
        option: "--redis",
        at: &redis.urls().join(","),
        nowhere: "redis://127.0.0.1:1",
        name: "Redis",
        entries: &|| size(&redis, 0),
    });
    drop(redis);
    says(&run(search(folder.path(), "query", &["whale"])), ["storage: Redis", "refused"]);
}

#[test]
fn a_host_that_begins_before_its_redis_waits_for_it() {
    let mut redis = PrivateRedis::start().unwrap();
    redis.kill(0).unwrap();
    let deployment = Deployment::new();
    let mut host = deployment.host(&[]);
    host.args(["--redis", &redis.urls().join(",")]);
    let log = deployment.folder.path().join("log");
    let (_host, address) = std::thread::scope(|scope| {
        let started = scope.spawn(|| deployment.begin(host));
        while !std::fs::read_to_string(&log).is_ok_and(|log| log.contains("is asked again")) {
            assert!(!started.is_finished(), "the host did not wait");
            sleep(Duration::from_millis(20));
        }
        redis.start_again(0).unwrap();
        started.join().unwrap()
    });
    let mut client = deployment.connect(&address, "ada");
    let books = client.create("books");
    client.add(&books, &[(7, &["whale"])]);
    assert_eq!(client.search(&books, &["whale"]), [7]);
    assert!(size(&redis, 0) > 0);
}

/// Texts whose words say which file they are in.
fn write_many(folder: &Path) {
    for file in 0..FILES {
        let words: Vec<String> = (0..WORDS).map(|word| format!("w{}x{word}", file % 7)).collect();
        write(folder, &format!("{file:04}.txt"), &format!("common f{file} {}", words.join(" ")));
    }
}

/// Every file is found by its own word, all by one that all have, and by the words of some the right ones.
fn complete(folder: &Path) {
    assert_eq!(names(folder, "common").len(), FILES);
    for file in [0, FILES / 2, FILES - 1] {
        assert_eq!(names(folder, &format!("f{file}")), [format!("{file:04}.txt")]);
    }
    let of_three = (0..FILES).filter(|file| file % 7 == 3).count();
    assert_eq!(names(folder, "w3x17 AND common").len(), of_three);
    assert_eq!(names(folder, "w3x17 AND w4x17"), [""; 0]);
}

/// Begins a load, and has something happen once a service holds so many entries.
fn load(folder: &Path, arguments: &[&str], is_under_way: impl Fn() -> bool, happens: impl FnOnce()) -> Ended {
    let texts = folder.join("texts");
    let mut command = search(folder, "index", &[&[texts.to_str().unwrap()], arguments].concat());
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
    while !is_under_way() {
        if child.try_wait().unwrap().is_some() {
            let said = child.wait_with_output().unwrap().stderr;
            panic!("it ended before anything could happen: {}", String::from_utf8_lossy(&said));
        }
        sleep(Duration::from_millis(5));
    }
    happens();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Has a server write its log with each change: else what was acknowledged may be gone with the process.
fn keep_what_is_acknowledged(redis: &PrivateRedis, place: usize) {
    assert_eq!(redis.said(place, &["config", "set", "appendfsync", "always"]).trim(), "OK");
}

#[test]
fn a_load_that_loses_a_server_of_redis_fails_and_goes_on_when_it_is_back() {
    let mut redis = PrivateRedis::start_cluster().unwrap();
    (0..3).for_each(|place| keep_what_is_acknowledged(&redis, place));
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_many(folder);
    let url = redis.urls().join(",");
    let lost = std::cell::RefCell::new(&mut redis);
    let under_way = || size(&lost.borrow(), 0) > 2000;
    let ended = load(folder, &["--redis", &url], under_way, || lost.borrow_mut().kill(1).unwrap());
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    assert!(ended.stderr.contains("Redis"), "{}", ended.stderr);
    redis.start_again(1).unwrap();
    let again = index(folder, &[]);
    well(&again);
    complete(folder);
}

/// One that is back in time is waited for.
#[test]
fn a_load_beside_which_redis_is_started_again_goes_through() {
    let mut redis = PrivateRedis::start().unwrap();
    keep_what_is_acknowledged(&redis, 0);
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_many(folder);
    let url = redis.urls().join(",");
    let lost = std::cell::RefCell::new(&mut redis);
    let under_way = || size(&lost.borrow(), 0) > 2000;
    let ended = load(folder, &["--redis", &url], under_way, || {
        lost.borrow_mut().kill(0).unwrap();
        sleep(Duration::from_secs(2));
        lost.borrow_mut().start_again(0).unwrap();
    });
    well(&ended);
    complete(folder);
}

#[test]
fn a_load_that_loses_a_node_of_cassandra_goes_through() {
    let mut cassandra = PrivateCassandra::start(3).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_many(folder);
    let nodes = cassandra.nodes().join(",");
    // The record of what was acknowledged grows with each part of the load.
    let journal = folder.join("store/client/journal");
    let length = || journal.metadata().map_or(0, |file| file.len());
    let mut before = 0;
    let kill = || {
        cassandra.kill(2).unwrap();
        before = length();
    };
    let ended = load(folder, &["--cassandra", &nodes], || length() > 1000, kill);
    assert!(length() > before, "parts were acknowledged behind it, {before} bytes before");
    well(&ended);
    complete(folder);
}

/// How many entries all schemas of a PostgreSQL hold, whatever they are called; none while it is not there.
fn entries(postgres: &PrivatePostgres) -> usize {
    let schemas = "SELECT string_agg(format('SELECT count(*) FROM %I.iee_entries', schemaname), ' UNION ALL ') \
                   FROM pg_tables WHERE tablename = 'iee_entries'";
    let count = asked(postgres, schemas);
    if count.is_empty() {
        0
    } else {
        asked(postgres, &count).lines().filter_map(|n| n.parse::<usize>().ok()).sum()
    }
}

#[test]
fn entries_are_in_postgres_where_the_first_run_says_so_and_stay_there() {
    let postgres = by_password();
    let uri = uri_with(&postgres, PASSWORD);
    let folder = entries_are_where_the_first_run_says_and_stay_there(&Service {
        option: "--postgres",
        at: &uri,
        nowhere: "postgres://127.0.0.1:1/none",
        name: "PostgreSQL",
        entries: &|| entries(&postgres),
    });
    let refused = index(folder.path(), &["--postgres", &uri_with(&postgres, "not-it-hunter3")]);
    drop(postgres);
    let gone = index(folder.path(), &["--postgres", &uri]);
    for (ended, words) in [(refused, "password authentication failed"), (gone, "onnection refused")] {
        says(&ended, ["storage: PostgreSQL", words]);
        assert!(!ended.stderr.contains("hunter"), "{}", ended.stderr);
    }
}

#[test]
fn a_load_beside_which_postgres_is_killed_and_started_again_goes_through() {
    let mut postgres = PrivatePostgres::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_many(folder);
    let uri = postgres.uri("postgres");
    let lost = std::cell::RefCell::new(&mut postgres);
    let under_way = || entries(&lost.borrow()) > 2000;
    let ended = load(folder, &["--postgres", &uri], under_way, || {
        let mut lost = lost.borrow_mut();
        lost.kill().unwrap();
        sleep(Duration::from_secs(1));
        lost.restart().unwrap();
    });
    well(&ended);
    complete(folder);
}

/// Host and enclave begin again on what they have written, however they and PostgreSQL ended; what was acknowledged is there.
#[test]
fn a_host_on_postgres_finds_what_it_has_acknowledged() {
    let mut postgres = PrivatePostgres::start().unwrap();
    let deployment = Deployment::new();
    for round in 0..3 {
        let mut host = deployment.host(&[]);
        host.env("ARRAS_POSTGRES", postgres.uri("postgres"));
        let (host, address) = deployment.begin(host);
        let mut client = deployment.connect(&address, "ada");
        let books = client.create("books");
        let known: Vec<u64> = (0..round * 20).collect();
        assert_eq!(client.search(&books, &["whale"]), known, "round {round}");
        for document in round * 20..(round + 1) * 20 {
            client.add(&books, &[(document, &["whale"])]);
            if document % 20 == 10 {
                postgres.kill().unwrap();
                postgres.restart().unwrap();
            }
        }
        host.kill();
        postgres.kill().unwrap();
        postgres.restart().unwrap();
    }
}

/// Where two stores are named by the environment, and none by an option, none of them is taken.
#[test]
fn two_stores_by_the_environment_are_refused() {
    let postgres = PrivatePostgres::start().unwrap();
    let deployment = Deployment::new();
    let host = || {
        let mut host = deployment.host(&[]);
        host.envs([
            ("ARRAS_REDIS", "redis://127.0.0.1:1"),
            ("ARRAS_POSTGRES", "postgres://127.0.0.1:1/none"),
        ]);
        host
    };
    let log = deployment.folder.path().join("log");
    assert!(Process::try_start(host(), &log).is_none());
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(said.contains("ARRAS_REDIS and ARRAS_POSTGRES are both set"), "{said}");
    let mut named = host();
    named.args(["--postgres", &postgres.uri("postgres")]);
    drop(deployment.begin(named));
    assert_eq!(asked(&postgres, "SELECT to_regclass('arras_search.iee_state') IS NOT NULL"), "t");
}

/// A second host in one schema waits for the first, and its enclave refuses what it finds when that has ended.
#[test]
fn another_hosts_schema_is_refused() {
    let postgres = PrivatePostgres::start().unwrap();
    let [deployment, other] = [Deployment::new(), Deployment::new()];
    let on_postgres = |deployment: &Deployment, schema: &str| {
        let mut host = deployment.host(&[]);
        host.args(["--postgres", &postgres.uri("postgres"), "--schema", schema]);
        host
    };
    let (host, address) = deployment.begin(on_postgres(&deployment, "one"));
    let mut client = deployment.connect(&address, "ada");
    let books = client.create("books");
    client.add(&books, &[(7, &["whale"])]);
    // In a schema of its own it is welcome.
    drop(other.begin(on_postgres(&other, "two")));
    let third = Deployment::new();
    let log = third.folder.path().join("log");
    let said = |what: &str| std::fs::read_to_string(&log).is_ok_and(|log| log.contains(what));
    let (mut second, _address) = Process::begin(on_postgres(&third, "one"), &log);
    while !said("another host is connected to this schema") {
        assert!(second.ended(Duration::ZERO).is_none(), "it did not wait");
        sleep(Duration::from_millis(20));
    }
    client.add(&books, &[(8, &["whale"])]);
    host.kill();
    let status = second.ended(PATIENCE).expect("its enclave ends");
    assert!(!status.success() && said("is not this enclave's"), "{:?}", std::fs::read_to_string(&log));
    let (_host, address) = deployment.begin(on_postgres(&deployment, "one"));
    let mut client = deployment.connect(&address, "ada");
    let books = client.create("books");
    assert_eq!(client.search(&books, &["whale"]), [7, 8]);
}
