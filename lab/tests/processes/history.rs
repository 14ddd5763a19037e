//! One history on both sides: servers set back under a running proxy, two proxies from one copied state, take-overs,
//! and what writers are told while the server hangs.

use super::process::{self, PATIENCE, Process};
use super::system::{Making, System, files, is_unreachable, until_answered};
use super::transcript;
use arras_lab::wire_client::{ClientError, WireClient};
use arras_protocol::write::{self, Step};
use arras_protocol::{Protocol, arx_eq, codec};
use bson::{Document, doc};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

pub(crate) const DATABASE: &str = "history";
/// MongoDB's code for a write that is not confirmed.
const IN_DOUBT: i32 = 64;
/// For a server that cannot be reached, or does not answer: nothing was done.
const NOT_DONE: [i32; 2] = [6, 89];

pub(crate) fn insert(ids: impl IntoIterator<Item = i32>) -> Document {
    let documents: Vec<Document> = ids.into_iter().map(|id| doc! { "_id": id, "a": id % 3 }).collect();
    doc! { "insert": "things", "documents": documents, "$db": DATABASE }
}

pub(crate) fn delete(id: i32) -> Document {
    doc! { "delete": "things", "deletes": [{ "q": { "_id": id }, "limit": 0 }], "$db": DATABASE }
}

pub(crate) fn ids(client: &mut WireClient) -> Result<BTreeSet<i32>, ClientError> {
    let found = client.query(&doc! { "find": "things", "$db": DATABASE })?;
    Ok(found.iter().map(|document| document.get_i32("_id").unwrap()).collect())
}

pub(crate) fn create_index(client: &mut WireClient) {
    let index = doc! { "key": { "a": 1 }, "name": "a" };
    client.command(&doc! { "createIndexes": "things", "indexes": [index], "$db": DATABASE }).unwrap();
}

/// Copies a directory as a backup does.
pub(crate) fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(file, target).unwrap();
    }
}

/// Puts a copy in a directory's place.
pub(crate) fn replace(place: &Path, by: &Path) {
    std::fs::remove_dir_all(place).unwrap();
    copy(by, place);
}

/// Asks until there is another error than that the server cannot be reached; never an answer.
fn until_refused<T>(mut ask: impl FnMut() -> Result<T, ClientError>) -> ClientError {
    for _ in 0..PATIENCE.as_millis() / 20 {
        match ask() {
            Ok(_) => panic!("answered"),
            Err(error) if is_unreachable(&error) => thread::sleep(Duration::from_millis(20)),
            Err(error) => return error,
        }
    }
    panic!("no word of what happened");
}

/// A system whose server was killed, restored from an older copy, and started again under the running proxy. The
/// newer data is kept under `newer`.
fn set_back() -> System {
    let mut system = System::start(Making { log_level: "off", ..Making::default() });
    let mut client = system.client();
    create_index(&mut client);
    client.command(&insert(0..20)).unwrap();
    system.kill_server();
    copy(&system.path("server"), &system.path("older"));
    system.start_server();
    until_answered(|| ids(&mut client));
    client.command(&insert(20..30)).unwrap();
    client.command(&delete(3)).unwrap();
    system.kill_server();
    copy(&system.path("server"), &system.path("newer"));
    replace(&system.path("server"), &system.path("older"));
    system.start_server();
    system
}

#[test]
fn a_server_set_back_under_the_proxy_is_an_error_for_good() {
    let mut system = set_back();
    let mut client = system.client();
    let says = "older than what it acknowledged";
    let error = until_refused(|| ids(&mut client));
    assert!(error.to_string().contains(says), "{error}");
    assert!(error.to_string().contains("arras restore"), "what to do: {error}");
    for round in 0..3 {
        // Whatever is asked, and however often: no answer, and no write that would hide it.
        let count = doc! { "count": "things", "query": {}, "$db": DATABASE };
        let list = doc! { "listIndexes": "things", "$db": DATABASE };
        let nowhere = doc! { "find": "nowhere", "$db": DATABASE };
        for command in [insert([100 + round]), delete(5), count, list, nowhere] {
            let error = system.client().command(&command).unwrap_err();
            assert!(error.to_string().contains(says), "{command}: {error}");
        }
        let found = client.query(&doc! { "find": "things", "filter": { "a": 1 }, "$db": DATABASE });
        assert!(found.is_err_and(|error| error.to_string().contains(says)));
    }
    // Nor does a new start of either side.
    for restart_server in [false, true] {
        system.kill_proxy();
        if restart_server {
            system.kill_server();
            system.start_server();
        }
        let ended = process::run(system.proxy_command());
        assert_eq!(ended.code, Some(4), "{}", ended.stderr);
        assert!(ended.stderr.contains(says), "{}", ended.stderr);
    }
    // What was acknowledged is there again with the newer data, and nothing else.
    system.kill_server();
    replace(&system.path("server"), &system.path("newer"));
    system.start_server();
    system.start_proxy();
    let mut client = system.client();
    let expected: BTreeSet<i32> = (0..30).filter(|id| *id != 3).collect();
    assert_eq!(ids(&mut client).unwrap(), expected);
    client.command(&insert([200])).unwrap();
    assert_eq!(ids(&mut client).unwrap().len(), expected.len() + 1);
    system.assert_no_panic();
}

#[test]
fn a_write_is_not_the_first_to_reach_a_server_that_was_set_back() {
    let system = set_back();
    let mut client = system.client();
    // As under load: a write is what makes the connection again.
    let error = until_refused(|| client.command(&insert([100])));
    assert!(error.to_string().contains("older than what it acknowledged"), "{error}");
    let error = ids(&mut client).unwrap_err();
    assert!(error.to_string().contains("older than what it acknowledged"), "{error}");
}

/// A second proxy, whose data directory is a copy of the first one's; as on another machine, which has seen nothing of
/// the first.
fn second_proxy(system: &System) -> Command {
    copy(&system.path("proxy"), &system.path("second"));
    let configuration = std::fs::read_to_string(system.configuration()).unwrap();
    let path = system.path("config/second.toml");
    let second = configuration.replace("\"../proxy\"", "\"../second\"").replace(".witness\"", ".second\"");
    std::fs::write(&path, second).unwrap();
    let mut command = system.arras("proxy");
    command.arg("--config").arg(path);
    command
}

#[test]
fn a_second_proxy_of_a_copied_state_is_refused_while_the_first_is_connected() {
    let mut system = System::start(Making { log_level: "off", ..Making::default() });
    system.client().command(&insert(0..5)).unwrap();
    system.kill_proxy();
    let second = second_proxy(&system);
    system.start_proxy();
    let ended = process::run(second);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    assert!(ended.stderr.contains("--take-over"), "{}", ended.stderr);
    // The first never noticed.
    let mut client = system.client();
    client.command(&insert(5..10)).unwrap();
    assert_eq!(ids(&mut client).unwrap(), (0..10).collect());
    // What only looks takes nothing from it.
    let mut doctor = system.arras("doctor");
    doctor.arg("--config").arg(system.configuration());
    process::run(doctor);
    client.command(&insert(10..12)).unwrap();
    // A server that restarts gives the lease to the one that had it.
    system.kill_server();
    system.start_server();
    until_answered(|| ids(&mut client));
    client.command(&insert(12..14)).unwrap();
    assert_eq!(ids(&mut client).unwrap(), (0..14).collect());
    system.assert_no_panic();
}

#[test]
fn a_take_over_fences_the_first_proxy_which_then_stops() {
    let mut system = System::start(Making { log_level: "error", ..Making::default() });
    let mut client = system.client();
    create_index(&mut client);
    client.command(&insert(0..5)).unwrap();
    system.kill_proxy();
    let mut second = second_proxy(&system);
    system.start_proxy();
    let mut fenced = [system.client(), system.client()];
    assert_eq!(ids(&mut fenced[0]).unwrap().len(), 5);
    second.arg("--take-over");
    let log = system.path("second.log");
    let (_second, address) = Process::start(second, &log);
    let mut client = WireClient::connect(&address, PATIENCE).unwrap();
    client.command(&insert(5..10)).unwrap();

    let error = fenced[0].command(&insert(50..55)).unwrap_err();
    assert!(error.to_string().contains("another proxy has taken this database over"), "{error}");
    // A read of the first is no answer either; it may have hung up by now.
    assert!(ids(&mut fenced[1]).is_err());
    let status = system.proxy.as_mut().unwrap().ended(PATIENCE).expect("it stops");
    assert_eq!(status.code(), Some(4));
    let log = std::fs::read_to_string(system.proxy_log()).unwrap();
    let last = log.trim_end().lines().last().unwrap_or_default();
    assert!(last.starts_with("arras: ") && last.contains("taken this database over"), "{log}");
    assert_eq!(ids(&mut client).unwrap(), (0..10).collect(), "nothing of the fenced one was applied");
    let by_a = doc! { "find": "things", "filter": { "a": 1 }, "$db": DATABASE };
    assert_eq!(client.query(&by_a).unwrap().len(), 3);
    // The fenced one's state is behind now: it does not come back beside, or after, the other.
    drop(_second);
    let ended = process::run(system.proxy_command());
    assert_eq!(ended.code, Some(4), "{}", ended.stderr);
    system.assert_no_panic();
}

/// A writer of a collection of its own: inserts until the server was waited for in vain so often, and what it was told of
/// each of its documents.
fn insert_in_vain(mut client: WireClient, collection: &str) -> Vec<(i32, Option<ClientError>)> {
    let mut told: Vec<(i32, Option<ClientError>)> = Vec::new();
    for id in 0.. {
        let insert = doc! { "insert": collection, "documents": [{ "_id": id, "a": 1 }], "$db": DATABASE };
        told.push((id, client.command(&insert).err()));
        if told.iter().filter(|(_, error)| error.is_some()).count() == 4 {
            break;
        }
    }
    told
}

/// Stops the server under writers; what they were told is compared with what is there afterwards. How many were told that
/// their write is recorded, and how many that it is not.
fn hang(system: &System, collections: &[String]) -> (usize, usize) {
    let server = system.server.as_ref().unwrap();
    let told: Vec<_> = thread::scope(|scope| {
        let start = |collection| {
            let client = system.client();
            scope.spawn(move || insert_in_vain(client, collection))
        };
        let writers: Vec<_> = collections.iter().map(|collection| start(collection.as_str())).collect();
        thread::sleep(Duration::from_millis(300));
        server.signal("STOP");
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    server.signal("CONT");
    let mut client = system.client();
    let (mut recorded, mut not_done) = (0, 0);
    for (collection, told) in collections.iter().zip(told) {
        let mut expected = BTreeSet::new();
        for (id, error) in told {
            let Some(error) = error else {
                expected.insert(id);
                continue;
            };
            let text = error.to_string();
            if error.code() == Some(IN_DOUBT) {
                assert!(text.contains("will be completed"), "{text}");
                expected.insert(id);
                recorded += 1;
            } else {
                assert!(NOT_DONE.contains(&error.code().unwrap_or_default()), "{text}");
                assert!(text.contains("recorded, and") && text.contains("will"), "{text}");
                assert!(!text.contains("will be completed"), "{text}");
                not_done += 1;
            }
        }
        let find = doc! { "find": collection, "$db": DATABASE };
        let found = until_answered(|| client.query(&find));
        let found: BTreeSet<i32> = found.iter().map(|document| document.get_i32("_id").unwrap()).collect();
        assert_eq!(found, expected, "what {collection} was told is there, and nothing else");
    }
    (recorded, not_done)
}

#[test]
fn each_writer_is_told_the_truth_of_its_own_write_while_the_server_hangs() {
    let mut system = System::make(Making::default());
    let path = system.configuration();
    let configuration = std::fs::read_to_string(&path).unwrap();
    std::fs::write(path, configuration.replace("deadline_seconds = 30", "deadline_seconds = 2")).unwrap();
    system.start_server();
    system.start_proxy();
    let (mut recorded, mut not_done) = (0, 0);
    // Where the stop meets a writer is chance: until it met both kinds.
    for round in 0..20 {
        let collections: Vec<String> = (0..6).map(|number| format!("round_{round}_{number}")).collect();
        let told = hang(&system, &collections);
        (recorded, not_done) = (recorded + told.0, not_done + told.1);
        if recorded > 0 && not_done > 0 {
            system.assert_no_panic();
            return;
        }
    }
    panic!("{recorded} writers were told that theirs is recorded, {not_done} that it is not");
}

/// Labels of equality entries that the server was sent, from the call numbered `from` on.
pub(crate) fn labels(system: &System, from: usize) -> BTreeSet<[u8; 16]> {
    let writes = transcript::read(&system.transcript()).into_iter().skip(from);
    let writes = writes.filter(|call| call.protocol == write::Write::ID.0);
    let steps = writes.flat_map(|call| codec::decode::<write::Request>(&call.request).unwrap().steps);
    steps
        .filter_map(|step| match step {
            Step::ArxEq(arx_eq::Change::Insert { label, .. }) => Some(label.0),
            _ => None,
        })
        .collect()
}

#[test]
fn after_a_declared_restore_of_both_sides_no_label_comes_again() {
    let mut system = System::start(Making { transcript: true, ..Making::default() });
    let mut client = system.client();
    create_index(&mut client);
    let nested = doc! { "key": { "b.c": 1, "a": 1 }, "name": "two" };
    client.command(&doc! { "createIndexes": "things", "indexes": [nested], "$db": DATABASE }).unwrap();
    client.command(&insert(0..30)).unwrap();
    system.kill_proxy();
    system.kill_server();
    for side in ["proxy", "server"] {
        copy(&system.path(side), &system.path(&format!("{side}-backup")));
    }
    // What happens after the backup, and is forgotten: the server has seen it.
    system.start_server();
    system.start_proxy();
    let before = transcript::read(&system.transcript()).len();
    system.client().command(&insert(30..60)).unwrap();
    let forgotten = labels(&system, before);
    assert!(forgotten.len() >= 30, "{}", forgotten.len());
    system.kill_proxy();
    system.kill_server();
    for side in ["proxy", "server"] {
        replace(&system.path(side), &system.path(&format!("{side}-backup")));
    }
    // Nobody has said so: the two agree with each other, but not with what the machine has seen.
    system.start_server();
    let refused = process::run(system.proxy_command());
    assert_eq!(refused.code, Some(4), "{}", refused.stderr);
    assert!(refused.stderr.contains("Run `arras restore`"), "{}", refused.stderr);
    system.kill_server();
    let mut restore = system.arras("restore");
    restore.arg("--config").arg(system.configuration());
    let ended = process::run(restore);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let before = transcript::read(&system.transcript()).len();
    system.start_server();
    system.start_proxy();
    let mut client = system.client();
    // The same values again, and some that take their place.
    client.command(&insert(30..60)).unwrap();
    client.command(&delete(31)).unwrap();
    client.command(&insert(60..90)).unwrap();
    let again = labels(&system, before);
    assert!(again.len() >= 90, "every entry is made anew: {}", again.len());
    assert!(again.is_disjoint(&forgotten), "the server links equal values of both times");
    // Answers are right, by the new index, and stay so over a start.
    for round in 0..2 {
        assert_eq!(ids(&mut client).unwrap().len(), 89);
        for (a, expected) in [(0, 30), (1, 29), (2, 30)] {
            let found =
                client.query(&doc! { "find": "things", "filter": { "a": a }, "$db": DATABASE }).unwrap();
            assert_eq!(found.len(), expected, "a = {a}, round {round}");
        }
        system.kill_proxy();
        let seen = labels(&system, before);
        system.start_proxy();
        // A write may be sent again as it was; nothing is made anew a second time.
        assert_eq!(labels(&system, before), seen, "once for a restore");
        client = system.client();
    }
    let log = std::fs::read_to_string(system.proxy_log()).unwrap();
    assert!(log.contains("a restore was declared"), "{log}");
    system.assert_no_panic();
}

#[test]
fn a_proxy_that_is_killed_while_it_makes_indexes_anew_begins_again() {
    let mut system = System::start(Making::default());
    let mut client = system.client();
    create_index(&mut client);
    client.command(&insert(0..2000)).unwrap();
    system.kill_proxy();
    let mut restore = system.arras("restore");
    restore.arg("--config").arg(system.configuration());
    assert_eq!(process::run(restore).code, Some(0));
    for milliseconds in [0, 50, 100, 200, 400] {
        let _address = system.begin_proxy();
        thread::sleep(Duration::from_millis(milliseconds));
        system.kill_proxy();
    }
    system.start_proxy();
    let mut client = system.client();
    assert_eq!(ids(&mut client).unwrap().len(), 2000);
    for (a, expected) in [(0, 667), (1, 667), (2, 666)] {
        let filter = doc! { "find": "things", "filter": { "a": a }, "$db": DATABASE };
        assert_eq!(client.query(&filter).unwrap().len(), expected);
    }
    system.assert_no_panic();
}
