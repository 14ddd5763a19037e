//! A server that goes away or stops answering in the middle of things, a disk that is full, and being told to stop.

use super::process::{self, PATIENCE, Process};
use super::system::{Making, System, is_unreachable, until_answered};
use arras_lab::wire_client::{ClientError, WireClient};
use bson::{Document, doc};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;
use std::time::Duration;

/// How long a stop may take: none of these has anything long under way.
const STOP: Duration = Duration::from_secs(25);

const DATABASE: &str = "outages";

fn insert(documents: impl IntoIterator<Item = Document>) -> Document {
    doc! { "insert": "things", "documents": documents.into_iter().collect::<Vec<_>>(), "$db": DATABASE }
}

fn thing(id: i32) -> Document {
    doc! { "_id": id, "a": id % 10, "text": "x".repeat(1000) }
}

fn find(filter: Document) -> Document {
    doc! { "find": "things", "filter": filter, "batchSize": 100, "$db": DATABASE }
}

fn ids(client: &mut WireClient) -> Result<Vec<i32>, ClientError> {
    let found = client.query(&find(doc! {}))?;
    Ok(found.iter().map(|document| document.get_i32("_id").unwrap()).collect())
}

fn create_index(client: &mut WireClient) {
    let index = doc! { "key": { "a": 1 }, "name": "a" };
    client.command(&doc! { "createIndexes": "things", "indexes": [index], "$db": DATABASE }).unwrap();
}

/// An answer or an error that says that the server cannot be reached; anything else fails, silence too.
fn answered(result: Result<Vec<Document>, ClientError>, expected: usize) {
    match result {
        Ok(documents) => assert_eq!(documents.len(), expected),
        Err(error) => assert!(is_unreachable(&error), "{error}"),
    }
}

/// Waits until a log says something.
fn said(log: &Path, words: &str) {
    let began = std::time::Instant::now();
    while !std::fs::read_to_string(log).unwrap_or_default().contains(words) {
        assert!(began.elapsed() < PATIENCE, "{words:?} is not said");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_proxy_waits_for_its_server_and_stops_when_told_to() {
    let mut system = System::make(Making::default());
    // Nothing listens at all.
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = system.proxy_command();
    command.args(["--server", &nowhere.to_string()]);
    let log = system.path("waiting.log");
    let (mut alone, _) = Process::begin(command, &log);
    said(&log, "is arras-server running there?");
    alone.signal("TERM");
    assert_eq!(alone.ended(STOP).and_then(|status| status.code()), Some(0));
    // Something listens and hangs up; then the server is there.
    let listening = system.begin_proxy();
    said(&system.proxy_log(), "waiting for the server");
    system.start_server();
    let address = listening.recv_timeout(PATIENCE).expect("the proxy listens");
    WireClient::connect(&address, PATIENCE).unwrap().command(&insert([thing(1)])).unwrap();
    system.assert_no_panic();
}

#[test]
fn queries_end_when_the_server_is_killed_under_them() {
    let mut system = System::start(Making::default());
    let mut client = system.client();
    create_index(&mut client);
    client.command(&insert((0..3000).map(thing))).unwrap();
    for round in 0..10 {
        let queries = [doc! {}, doc! { "a": 3 }, doc! { "a": { "$gte": 2, "$lt": 7 } }];
        let expected = [3000, 300, 1500];
        thread::scope(|scope| {
            for (filter, expected) in queries.into_iter().zip(expected) {
                let mut client = system.client();
                scope.spawn(move || answered(client.query(&find(filter)), expected));
            }
            thread::sleep(Duration::from_millis(round * 15));
            let server = system.server.as_ref().unwrap();
            server.signal("KILL");
        });
        system.kill_server();
        // While it is gone: an error, not silence.
        let error = client.query(&find(doc! {})).unwrap_err();
        assert!(is_unreachable(&error), "{error}");
        system.start_server();
        assert_eq!(until_answered(|| ids(&mut client)).len(), 3000);
        for (filter, expected) in [(doc! { "a": 3 }, 300), (doc! { "a": { "$gte": 2, "$lt": 7 } }, 1500)] {
            assert_eq!(client.query(&find(filter)).unwrap().len(), expected);
        }
    }
    system.assert_no_panic();
}

/// Inserts until it is refused; how many were acknowledged.
fn insert_until_refused(mut client: WireClient, collection: &str) -> i32 {
    for id in 0.. {
        let insert = doc! { "insert": collection, "documents": [thing(id)], "$db": DATABASE };
        if let Err(error) = client.command(&insert) {
            assert!(is_unreachable(&error), "{error}");
            return id;
        }
    }
    unreachable!("the server stops answering")
}

#[test]
fn a_server_that_stops_answering_is_an_error_in_time() {
    let mut system = System::make(Making::default());
    let path = system.configuration();
    let configuration = std::fs::read_to_string(&path).unwrap();
    assert!(configuration.contains("deadline_seconds = 30"));
    std::fs::write(path, configuration.replace("deadline_seconds = 30", "deadline_seconds = 2")).unwrap();
    system.start_server();
    system.start_proxy();
    let mut client = system.client();
    let collections = ["one", "two", "three", "four", "five", "six"];
    let by_a = || doc! { "key": { "a": 1 }, "name": "a" };
    let by_text = || doc! { "key": { "text": 1 }, "name": "text" };
    let make = |collection: &str, index: Document| {
        doc! { "createIndexes": collection, "indexes": [index], "$db": DATABASE }
    };
    for collection in collections {
        client.command(&make(collection, by_a())).unwrap();
    }
    let server = system.server.as_ref().unwrap();
    let acknowledged = thread::scope(|scope| {
        let start = |collection| {
            let client = system.client();
            scope.spawn(move || insert_until_refused(client, collection))
        };
        let writers = collections.map(start);
        thread::sleep(Duration::from_millis(400));
        server.signal("STOP");
        // Reads, writes and definitions meanwhile, several of each: errors all of them, and no queue of waits.
        for collection in collections {
            let [mut reader, mut writer, mut definer] = [system.client(), system.client(), system.client()];
            let find = doc! { "find": collection, "$db": DATABASE };
            scope.spawn(move || assert!(is_unreachable(&reader.query(&find).unwrap_err())));
            scope.spawn(move || {
                assert!(is_unreachable(&definer.command(&make(collection, by_text())).unwrap_err()))
            });
            let remove = doc! { "delete": collection, "deletes": [{ "q": { "_id": 0 }, "limit": 0 }], "$db": DATABASE };
            scope.spawn(move || assert!(is_unreachable(&writer.command(&remove).unwrap_err())));
        }
        writers.map(|writer| writer.join().unwrap())
    });
    let log = std::fs::read_to_string(system.proxy_log()).unwrap();
    server.signal("CONT");
    for (collection, acknowledged) in collections.into_iter().zip(acknowledged) {
        let mut ask =
            |filter: Document| client.query(&doc! { "find": collection, "filter": filter, "$db": DATABASE });
        let found = until_answered(|| ask(doc! {})).len();
        // The one that was refused is there, or it is not.
        let acknowledged = usize::try_from(acknowledged).unwrap();
        assert!(
            (acknowledged..=acknowledged + 1).contains(&found),
            "{found} of {acknowledged} in {collection}: {log}"
        );
        let by_value: usize = (0..10).map(|a| ask(doc! { "a": a }).unwrap().len()).sum();
        let by_range = ask(doc! { "a": { "$gte": 0, "$lt": 10 } }).unwrap().len();
        assert_eq!([by_value, by_range], [found; 2], "every index says the same of {collection}");
        client.command(&make(collection, by_text())).unwrap();
        let by_text = doc! { "find": collection, "filter": { "text": "x".repeat(1000) }, "$db": DATABASE };
        assert_eq!(client.query(&by_text).unwrap().len(), found);
    }
    system.assert_no_panic();
}

/// The same command with files that cannot grow beyond so many blocks of 512 bytes: a full disk.
fn on_a_full_disk(command: &Command, blocks: u32) -> Command {
    let mut shell = Command::new("sh");
    // Ignored, the signal becomes an error of the write, as on a full disk.
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    shell.arg("-c").arg(script).arg(command.get_program()).args(command.get_args());
    shell.env_remove("CARGO").env("RUST_LOG", "info").stdin(std::process::Stdio::null());
    shell
}

fn fill(client: &mut WireClient) -> (Vec<i32>, Option<ClientError>) {
    let mut stored = Vec::new();
    for id in 0..100_000 {
        let large = doc! { "_id": id, "a": id % 10, "text": "x".repeat(20_000) };
        if let Err(error) = client.command(&insert([large])) {
            return (stored, Some(error));
        }
        stored.push(id);
    }
    (stored, None)
}

#[test]
fn a_full_disk_of_the_server_is_an_error_and_loses_nothing() {
    let mut system = System::make(Making::default());
    let limited = on_a_full_disk(&system.server_command(), 20_000);
    let (server, address) = Process::start(limited, &system.server_log());
    system.forwarder.lead_to(Some(address));
    system.server = Some(server);
    system.start_proxy();
    let mut client = system.client();
    create_index(&mut client);
    let (stored, error) = fill(&mut client);
    let error = error.expect("the disk is full at some time");
    assert!(error.code().is_some(), "a reply: {error}");
    let still = system.server.as_mut().unwrap().ended(Duration::ZERO).is_none();
    assert!(still, "the server is still there");
    system.kill_server();
    system.start_server();
    let found = until_answered(|| ids(&mut client));
    let kept: Vec<i32> = found.iter().copied().filter(|id| stored.contains(id)).collect();
    assert_eq!(kept, stored, "everything acknowledged");
    client.command(&insert([thing(200_000)])).unwrap();
    system.assert_no_panic();
}

#[test]
fn a_full_disk_of_the_proxy_is_an_error_and_loses_nothing() {
    let mut system = System::make(Making::default());
    system.start_server();
    let limited = on_a_full_disk(&system.proxy_command(), 6_000);
    let (proxy, address) = Process::start(limited, &system.proxy_log());
    system.proxy = Some(proxy);
    let mut client = WireClient::connect(&address, PATIENCE).unwrap();
    create_index(&mut client);
    let mut stored = Vec::new();
    let mut refused = None;
    for id in 0..200 {
        // Intents of growing size.
        let text = "x".repeat(usize::try_from(id).unwrap() * 50_000);
        match client.command(&insert([doc! { "_id": id, "a": 1, "text": text }])) {
            Ok(_) => stored.push(id),
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    let refused = refused.expect("the disk is full at some time");
    assert!(refused.code().is_some(), "a reply: {refused}");
    system.kill_proxy();
    system.start_proxy();
    let mut client = system.client();
    let found = ids(&mut client).unwrap();
    assert_eq!(found.iter().copied().filter(|id| stored.contains(id)).collect::<Vec<_>>(), stored);
    client.command(&insert([thing(200_000)])).unwrap();
    system.assert_no_panic();
}

fn assert_stops(process: &mut Process, signal: &str) {
    process.signal(signal);
    let status = process.ended(STOP).expect("it stops when told to");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn both_stop_when_told_to_with_connections_cursors_and_writers() {
    for signal in ["TERM", "INT"] {
        let mut system = System::start(Making::default());
        let mut client = system.client();
        create_index(&mut client);
        client.command(&insert((0..1000).map(thing))).unwrap();
        let cursor = client.command(&find(doc! {})).unwrap();
        assert_ne!(cursor.get_document("cursor").unwrap().get_i64("id").unwrap(), 0, "a cursor is open");
        let _idle = [system.client(), system.client()];
        let acknowledged = AtomicI32::new(1000);
        let stopping = AtomicBool::new(false);
        thread::scope(|scope| {
            let mut writer = system.client();
            let (acknowledged, stopping) = (&acknowledged, &stopping);
            scope.spawn(move || {
                for id in 1000.. {
                    match writer.command(&insert([thing(id)])) {
                        Ok(_) => acknowledged.store(id + 1, Ordering::SeqCst),
                        Err(error) => {
                            assert!(stopping.load(Ordering::SeqCst), "{error}");
                            return;
                        }
                    }
                }
            });
            thread::sleep(Duration::from_millis(200));
            stopping.store(true, Ordering::SeqCst);
            assert_stops(system.proxy.as_mut().unwrap(), signal);
        });
        system.proxy = None;
        // The server, with the proxy connected to it.
        system.start_proxy();
        assert_stops(system.server.as_mut().unwrap(), signal);
        system.kill_server();
        system.start_server();
        let mut client = system.client();
        let found = until_answered(|| ids(&mut client));
        let acknowledged = acknowledged.load(Ordering::SeqCst);
        assert!((0..acknowledged).all(|id| found.contains(&id)), "everything acknowledged");
        // One insert may have been under way.
        assert!(found.len() <= usize::try_from(acknowledged).unwrap() + 1);
        system.assert_no_panic();
    }
}

/// `arras dev`, with what it says about its server.
struct Development {
    directory: tempfile::TempDir,
    proxy: Process,
    address: String,
}

impl Development {
    fn command(directory: &Path) -> Command {
        let mut command = process::command("arras", "info");
        command.args(["dev", "--listen", "127.0.0.1:0", "--data-dir"]).arg(directory.join("data"));
        command
    }

    fn start(directory: tempfile::TempDir) -> Self {
        let command = Self::command(directory.path());
        let (proxy, address) = Process::start(command, &directory.path().join("log"));
        Self { directory, proxy, address }
    }

    fn client(&self) -> WireClient {
        WireClient::connect(&self.address, PATIENCE).unwrap()
    }

    /// The server's process id.
    fn server(&self) -> u32 {
        let own = self.proxy.id();
        let tasks = std::fs::read_dir(format!("/proc/{own}/task")).unwrap().flatten();
        let children = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
        let children: String = children.collect();
        children.split_whitespace().next().expect("the server is a child").parse().unwrap()
    }
}

/// Waits until a process is no more.
fn assert_ends(id: u32) {
    let gone = || match std::fs::read_to_string(format!("/proc/{id}/stat")) {
        // Ended, and not yet waited for by whoever has it now.
        Ok(state) => state.contains(") Z "),
        Err(_) => true,
    };
    for _ in 0..STOP.as_millis() / 10 {
        if gone() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("process {id} does not end");
}

#[test]
fn a_development_system_survives_kills_and_stops_as_one() {
    let mut dev = Development::start(tempfile::tempdir().unwrap());
    let mut client = dev.client();
    create_index(&mut client);
    client.command(&insert((0..100).map(thing))).unwrap();

    // The server is killed, and started again.
    let server = dev.server();
    process::signal(server, "KILL");
    assert_ends(server);
    assert_eq!(until_answered(|| ids(&mut client)).len(), 100);
    client.command(&insert([thing(100)])).unwrap();

    // The proxy is killed: its server does not outlive it, and the next start finds everything.
    let server = dev.server();
    assert_eq!(server, dev.server());
    let Development { directory, proxy, .. } = dev;
    proxy.kill();
    dev = Development::start(directory);
    assert_ends(server);
    let mut client = dev.client();
    assert_eq!(ids(&mut client).unwrap().len(), 101);

    for signal in ["TERM", "INT"] {
        let server = dev.server();
        assert_stops(&mut dev.proxy, signal);
        assert_ends(server);
        dev = Development::start(dev.directory);
        assert_eq!(ids(&mut dev.client()).unwrap().len(), 101);
    }
    let log = std::fs::read_to_string(dev.directory.path().join("log")).unwrap();
    assert!(!log.contains("panicked"), "{log}");
}
