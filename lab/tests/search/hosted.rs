//! Host and enclave as processes, on the embedded store.

use crate::client::all_of;
use crate::deployment::{Deployment, frame, open_by_hand};
use crate::process::{PATIENCE, Process, command};
use arras_protocol::iee::CLIENT_BYTES_MAX;
use arras_schemes::bisen::channel::ClientChannel;
use arras_schemes::bisen::message::{Ask, Reply};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Instant;

fn log(folder: &Path) -> String {
    fs::read_to_string(folder.join("log")).unwrap()
}

/// What is acknowledged is there after both processes were killed, again and again.
#[test]
fn what_was_acknowledged_is_found_after_both_are_killed() {
    let deployment = Deployment::new();
    for round in 0..4 {
        let (host, address) = deployment.start();
        let mut client = deployment.connect(&address, "ada");
        let books = client.create("books");
        let known: Vec<u64> = (0..round * 100).collect();
        assert_eq!(client.search(&books, &["whale"]), known, "round {round}");
        for document in round * 100..(round + 1) * 100 {
            let words: &[&str] = if document % 2 == 0 { &["whale", "ship"] } else { &["whale"] };
            client.add(&books, &[(document, words)]);
        }
        let even: Vec<u64> = (0..(round + 1) * 100).step_by(2).collect();
        assert_eq!(client.search(&books, &["whale", "ship"]), even);
        host.kill();
    }
}

#[test]
fn another_program_than_the_measured_one_is_not_started() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = command("arras-host", "info");
    host.args(["--listen", "127.0.0.1:0", "--memory", "--enclave", "/bin/true", "--measurement"]);
    host.arg("ab".repeat(32));
    assert!(Process::try_start(host, &folder.path().join("log")).is_none());
    assert!(log(folder.path()).contains("measurement"), "{}", log(folder.path()));
}

/// The store of yesterday under the counter of today.
#[test]
fn a_store_that_was_set_back_is_noticed() {
    let deployment = Deployment::new();
    let folder = deployment.folder.path();
    let (data, old) = (folder.join("data"), folder.join("old"));
    for document in 0..2 {
        let (host, address) = deployment.start();
        let mut client = deployment.connect(&address, "ada");
        let books = client.create("books");
        client.add(&books, &[(document, &["whale"])]);
        host.kill();
        if document == 0 {
            let copied = std::process::Command::new("cp").arg("-r").args([&data, &old]).status().unwrap();
            assert!(copied.success());
        }
    }
    let counter = fs::read(data.join("counter")).unwrap();
    fs::remove_dir_all(&data).unwrap();
    fs::rename(&old, &data).unwrap();
    fs::write(data.join("counter"), counter).unwrap();
    // The host may listen before the enclave has seen its state: then a client gets no answer.
    let (_host, address) = deployment.start();
    let mut stream = TcpStream::connect(&address).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
    let end = Instant::now() + PATIENCE;
    while !log(folder).contains("set back") {
        assert!(Instant::now() < end, "{}", log(folder));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// The most memory that a process has had.
fn resident_kib(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The enclave of a host: its only child.
fn enclave_of(host: &Process) -> u32 {
    let tasks = fs::read_dir(format!("/proc/{}/task", host.id())).unwrap();
    let children = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("children")).unwrap());
    children.collect::<String>().trim().parse().unwrap()
}

/// A thousand who begin a message of the greatest length and say no more, or ask and never read: others are served, and what
/// the host and the enclave take is bounded.
#[test]
fn clients_that_dawdle_hold_nobody_up() {
    let deployment = Deployment::new();
    let (host, address) = deployment.start_in(64);
    let enclave = enclave_of(&host);
    let mut client = deployment.connect(&address, "ada");
    let books = client.create("books");
    let documents: Vec<(u64, &[&str])> = (0..2000).map(|number| (number, &["whale"][..])).collect();
    client.add(&books, &documents);
    let all: Vec<u64> = (0..2000).collect();
    let before = [host.id(), enclave].map(resident_kib);
    let beginning: Vec<TcpStream> = (0..500)
        .map(|_| {
            let mut stream = TcpStream::connect(&address).unwrap();
            let length = u32::try_from(CLIENT_BYTES_MAX).unwrap();
            stream.write_all(&length.to_le_bytes()).unwrap();
            stream.write_all(&[0; 1000]).unwrap();
            stream
        })
        .collect();
    let ada = deployment.certified("ada");
    let unread: Vec<TcpStream> = (0..500)
        .map(|_| {
            let (mut stream, mut channel) = open_by_hand(&address, &ada);
            for number in 0..8 {
                let ask = Ask { number, request: all_of(&books, &["whale"]) };
                frame(&mut stream, &channel.wrap(&ask.encode()).unwrap());
            }
            stream
        })
        .collect();
    for _ in 0..5 {
        assert_eq!(client.search(&books, &["whale"]), all);
    }
    let [grown, grown_within] = [0, 1].map(|at| resident_kib([host.id(), enclave][at]) - before[at]);
    assert!(grown < 192 << 10, "{grown} KiB more for clients that dawdle");
    assert!(grown_within < 64 << 10, "{grown_within} KiB more in the enclave for clients that dawdle");
    drop((beginning, unread));
    assert_eq!(client.search(&books, &["whale"]), all);
}

/// Handshakes that are begun with as much as TLS holds of one take a part of the enclave's memory and no more: the earlier make
/// place.
#[test]
fn handshakes_that_do_not_end_take_little_memory() {
    let deployment = Deployment::new();
    let (_host, address) = deployment.start_in(16);
    // A message of 60,000 bytes, of which three records of 16,384 have come.
    let mut begun = Vec::new();
    for record in 0..3 {
        begun.extend_from_slice(&[0x16, 3, 1, 0x40, 0]);
        let head: &[u8] = if record == 0 { &[1, 0, 0xea, 0x60] } else { &[] };
        begun.extend_from_slice(head);
        begun.extend(std::iter::repeat_n(7, 0x4000 - head.len()));
    }
    let mut beginning: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut stream = TcpStream::connect(&address).unwrap();
            frame(&mut stream, &begun);
            stream
        })
        .collect();
    // The last of them has been heard when who comes behind it is served.
    let mut client = deployment.connect(&address, "ada");
    let books = client.create("books");
    client.add(&books, &[(7, &["whale"])]);
    assert_eq!(client.search(&books, &["whale"]), [7]);
    let is_open = |stream: &mut TcpStream| {
        stream.set_read_timeout(Some(std::time::Duration::from_millis(5))).unwrap();
        let read = stream.read(&mut [0; 64]);
        read.is_err_and(|error| {
            matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
        })
    };
    let open = beginning.iter_mut().filter_map(|stream| is_open(stream).then_some(())).count();
    // An eighth of the memory, for 64 KiB each.
    assert!(open <= 32, "{open} of 200 are held");
}

/// What no client says is the end of its connection, and of nothing else.
#[test]
fn nonsense_ends_its_own_connection() {
    let deployment = Deployment::new();
    let (_host, address) = deployment.start();
    let mut client = deployment.connect(&address, "ada");
    let books = client.create("books");
    client.add(&books, &[(7, &["whale"])]);
    for nonsense in [&[255; 9][..], &[3, 0, 0, 0, 1, 2, 3], &[0, 0, 0, 0]] {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(nonsense).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // At most an alert comes before the end.
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert!(rest.len() < 16, "{nonsense:?}: {rest:?}");
    }
    let mut other = deployment.connect(&address, "eve");
    let refused = other.call(all_of(&books, &["whale"]));
    assert!(matches!(refused, Reply::Refused(_)), "{refused:?}");
    assert_eq!(client.search(&books, &["whale"]), [7]);
}
