//! Nonsense on both listeners, and starts that cannot succeed.

use super::dice::Dice;
use super::process::{self, Ended, PATIENCE};
use super::system::{Making, System, seed};
use arras_mongo::wire;
use arras_protocol::frame::{FrameHeader, FrameKind};
use arras_protocol::hello::{self, Hello, SERVER_NAME};
use arras_protocol::limits::{FRAME_BYTES_MAX, PROTOCOL_VERSION};
use arras_protocol::{Protocol, ProtocolId, codec};
use arras_proxy::connection::tls::{CertificatePaths, client_config};
use bson::{Document, doc};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

fn insert(collection: &str, documents: Vec<Document>) -> Document {
    doc! { "insert": collection, "documents": documents, "$db": "faults" }
}

fn find(collection: &str) -> Document {
    doc! { "find": collection, "$db": "faults" }
}

/// Bytes that are no message of MongoDB's protocol, or none that may be sent.
fn broken_messages(dice: &mut Dice) -> Vec<(String, Vec<u8>)> {
    let ping = wire::encode_command(7, &doc! { "ping": 1, "$db": "faults", "text": "some text" }).unwrap();
    let with = |at: usize, value: i32| {
        let mut message = ping.clone();
        message[at..at + 4].copy_from_slice(&value.to_le_bytes());
        message
    };
    let mut broken = vec![
        ("nothing".to_owned(), Vec::new()),
        ("a part of a header".to_owned(), ping[..9].to_vec()),
        ("a part of a message".to_owned(), ping[..ping.len() - 3].to_vec()),
        ("a huge length".to_owned(), with(0, i32::MAX)),
        ("a length of nothing".to_owned(), with(0, 0)),
        ("a negative length".to_owned(), with(0, -5)),
        ("an opcode of the past".to_owned(), with(12, 2002)),
        ("compression".to_owned(), with(12, 2012)),
        ("an opcode of nobody".to_owned(), with(12, 9999)),
        ("unknown flags".to_owned(), with(16, 0x7fff)),
        ("a document longer than its message".to_owned(), with(21, 1000)),
        ("a document of a negative length".to_owned(), with(21, -1)),
        ("nested a thousand deep".to_owned(), deep(1000)),
        ("nested a hundred thousand deep".to_owned(), deep(100_000)),
    ];
    for number in 0..20 {
        let length = usize::try_from(dice.below(2000)).unwrap();
        broken.push((format!("noise {number}"), dice.bytes(length)));
    }
    for number in 0..200 {
        let mut message = ping.clone();
        for _ in 0..=dice.below(3) {
            let at = usize::try_from(dice.below(message.len() as u64)).unwrap();
            message[at] = dice.bytes(1)[0];
        }
        broken.push((format!("mutation {number}: {message:?}"), message));
    }
    broken
}

/// A command with a document nested so deeply, made by hand.
fn deep(levels: usize) -> Vec<u8> {
    let mut document = vec![5, 0, 0, 0, 0];
    for _ in 0..levels {
        let length = i32::try_from(document.len() + 8).unwrap();
        document = [length.to_le_bytes().as_slice(), b"\x03a\0", &document, &[0]].concat();
    }
    let length = i32::try_from(document.len() + 21).unwrap();
    [&length.to_le_bytes(), [9, 0, 0, 0, 0, 0, 0, 0].as_slice(), &2013_i32.to_le_bytes(), &[0; 5], &document]
        .concat()
}

#[test]
fn nonsense_to_the_proxy_hurts_nobody_else() {
    let mut dice = Dice::new(seed());
    let mut system = System::start(Making::default());
    let mut good = system.client();
    good.command(&insert("good", vec![doc! { "_id": 1 }])).unwrap();
    for (what, bytes) in broken_messages(&mut dice) {
        let mut stream = TcpStream::connect(system.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // The proxy may have hung up before it was sent all.
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut reply = Vec::new();
        let read = stream.read_to_end(&mut reply);
        let hung = read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        assert!(!hung, "neither answered nor closed: {what}");
        assert_eq!(good.query(&find("good")).unwrap(), [doc! { "_id": 1 }], "after {what}");
    }
    for (length, code) in [(17, 10334), (40, 10334)] {
        let mut client = system.client();
        let large = "x".repeat(length * 1024 * 1024);
        let refused = client.command(&insert("good", vec![doc! { "_id": 2, "large": large }])).unwrap_err();
        assert_eq!(refused.code(), Some(code), "{length} MiB: {refused}");
    }
    assert_eq!(good.query(&find("good")).unwrap(), [doc! { "_id": 1 }]);
    assert!(system.proxy.as_mut().unwrap().ended(Duration::ZERO).is_none(), "the proxy is still there");
    system.assert_no_panic();
}

type Tls = StreamOwned<ClientConnection, TcpStream>;

/// A connection that the server accepts as the proxy's.
fn tls(system: &System) -> Tls {
    let paths = CertificatePaths::in_directory(&system.path("config/certificates"));
    let name = ServerName::try_from(SERVER_NAME).unwrap();
    let connection = ClientConnection::new(client_config(&paths).unwrap(), name).unwrap();
    let stream = TcpStream::connect(system.forwarder.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    StreamOwned::new(connection, stream)
}

fn frame(call: u64, protocol: u8, body: &[u8]) -> Vec<u8> {
    let header = FrameHeader {
        call,
        kind: FrameKind::Request,
        protocol: ProtocolId(protocol),
        deadline_ms: 0,
        body_bytes: u32::try_from(body.len()).unwrap(),
    };
    [header.to_bytes().as_slice(), body].concat()
}

fn greeting() -> Vec<u8> {
    frame(
        0,
        Hello::ID.0,
        &codec::encode(&hello::Request {
            protocol_version: PROTOCOL_VERSION,
            purpose: hello::Purpose::Observe,
        }),
    )
}

#[test]
fn nonsense_to_the_server_hurts_nobody_else() {
    let mut dice = Dice::new(seed());
    let mut system = System::start(Making::default());
    let mut good = system.client();
    good.command(&insert("good", vec![doc! { "_id": 1 }])).unwrap();
    for length in [0, 1, 17, 300, 5000] {
        let mut stream = TcpStream::connect(system.forwarder.address()).unwrap();
        let _ = stream.write_all(&dice.bytes(length));
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    let mut huge = frame(1, 2, b"");
    huge[..4].copy_from_slice(&u32::try_from(FRAME_BYTES_MAX + 1).unwrap().to_le_bytes());
    let mut unknown_kind = frame(1, 2, b"");
    unknown_kind[12] = 77;
    let mut broken = vec![huge, unknown_kind, frame(1, 2, &[0; 100])[..60].to_vec(), dice.bytes(500)];
    for protocol in 0..10 {
        for length in [0, 1, 2, 20, 400, 5000] {
            // Small numbers are lengths and variants: noise that goes further than noise.
            let body: Vec<u8> = dice.bytes(length).iter().map(|byte| byte % 9).collect();
            broken.push(frame(1, protocol, &body));
            broken.push(frame(1, protocol, &dice.bytes(length)));
        }
    }
    for bytes in broken {
        let mut stream = tls(&system);
        stream.write_all(&[greeting(), bytes].concat()).unwrap();
        stream.conn.send_close_notify();
        let _ = stream.flush();
        let _ = stream.sock.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    // A first call that is no greeting, and one in another version.
    let version = codec::encode(&hello::Request {
        protocol_version: PROTOCOL_VERSION + 1,
        purpose: hello::Purpose::Observe,
    });
    for bytes in [frame(0, 2, b"x"), frame(0, Hello::ID.0, &version)] {
        let mut stream = tls(&system);
        stream.write_all(&bytes).unwrap();
        let mut reply = Vec::new();
        let _ = stream.read_to_end(&mut reply);
        assert_eq!(reply.get(12), Some(&3), "a refusal");
    }
    assert_eq!(good.query(&find("good")).unwrap(), [doc! { "_id": 1 }]);
    assert!(system.server.as_mut().unwrap().ended(Duration::ZERO).is_none(), "the server is still there");
    system.assert_no_panic();
}

/// Fails unless a command ended with a code and one line that says what to do.
fn assert_refused(ended: &Ended, code: i32, says: &str) {
    let stderr = &ended.stderr;
    assert_eq!(ended.code, Some(code), "{stderr}");
    let lines: Vec<&str> = stderr.trim_end().lines().collect();
    assert_eq!(lines.len(), 1, "one line: {stderr}");
    assert!(lines[0].starts_with("arras: ") || lines[0].starts_with("arras-server: "), "{stderr}");
    assert!(lines[0].contains(says), "{says:?} is not in {stderr}");
}

/// A system that is set up and says nothing but why it fails.
fn quiet() -> System {
    System::make(Making { log_level: "off", ..Making::default() })
}

fn passphrase(mut command: Command, passphrase: &str) -> Command {
    command.env("ARRAS_PASSPHRASE", passphrase);
    command
}

#[test]
fn a_keyring_that_does_not_open_is_one_line() {
    let system = quiet();
    let mut init = passphrase(system.arras("init"), "a horse with a battery");
    init.arg(system.path("other")).args(["--data-dir", "../other-data"]);
    assert_eq!(process::run(init).code, Some(0));
    let proxy = || {
        let mut command = system.arras("proxy");
        command.arg("--config").arg(system.path("other/arras.toml"));
        command
    };
    assert_refused(&process::run(passphrase(proxy(), "a horse without")), 3, "does not open");
    assert_refused(&process::run(proxy()), 3, "ARRAS_PASSPHRASE");

    let right = std::fs::read(system.path("keyring.key")).unwrap();
    let mut other = right.clone();
    other[5] = if other[5] == b'0' { b'1' } else { b'0' };
    std::fs::write(system.path("keyring.key"), &other).unwrap();
    assert_refused(&process::run(system.proxy_command()), 3, "does not open");
    std::fs::write(system.path("keyring.key"), b"not a key").unwrap();
    assert_refused(&process::run(system.proxy_command()), 3, "64 hexadecimal digits");
    std::fs::remove_file(system.path("keyring.key")).unwrap();
    assert_refused(&process::run(system.proxy_command()), 3, "keyring.key");
    std::fs::write(system.path("keyring.key"), &right).unwrap();
    assert_refused(&process::run(system.proxy_command()), 3, "chmod 600");
    std::fs::write(system.path("config/keyring.json"), b"{}").unwrap();
    assert_refused(&process::run(system.proxy_command()), 3, "damaged");
}

#[test]
fn a_configuration_that_is_wrong_is_one_line() {
    let system = quiet();
    let good = std::fs::read_to_string(system.configuration()).unwrap();
    for (bad, says) in [
        ("listen = ", "arras.toml"),
        ("listen = 5\n", "line 1: invalid type"),
        (good.replace("listen =", "lisen =").as_str(), "lisen"),
        (good.replace("data_dir =", "# data_dir =").as_str(), "data_dir"),
        (good.replace("deadline_seconds = 30", "deadline_seconds = 0").as_str(), "deadline_seconds"),
        (&format!("{good}\n[range_indexes]\nbucket_factor = 0\n"), "bucket_factor"),
    ] {
        std::fs::write(system.configuration(), bad).unwrap();
        assert_refused(&process::run(system.proxy_command()), 2, says);
    }
    std::fs::remove_file(system.configuration()).unwrap();
    assert_refused(&process::run(system.proxy_command()), 2, "arras.toml");
    std::fs::write(system.path("schema.toml"), "[collections.x]\nnonsense = 1\n").unwrap();
    let mut plan = system.arras("plan");
    plan.arg("--schema").arg(system.path("schema.toml"));
    assert_refused(&process::run(plan), 2, "schema.toml");
    let mut init = system.arras("init");
    init.arg(system.path("config")).arg("--key-file").arg(system.path("keyring.key"));
    assert_refused(&process::run(init), 2, "not empty");
}

#[test]
fn a_server_that_is_not_the_right_one_is_one_line() {
    let mut system = quiet();
    system.start_server();
    system.start_proxy();
    system.kill_proxy();
    system.kill_server();
    let certificates = system.path("config/server");
    let aside = system.path("aside");
    // The same data under certificates of another deployment.
    let other = quiet();
    std::fs::rename(&certificates, &aside).unwrap();
    std::fs::rename(other.path("config/server"), &certificates).unwrap();
    system.start_server();
    assert_refused(&process::run(system.proxy_command()), 5, "another certificate authority");
    system.kill_server();
    std::fs::remove_dir_all(&certificates).unwrap();
    std::fs::rename(&aside, &certificates).unwrap();
    // Another database under the right certificates.
    std::fs::rename(system.path("server"), system.path("server-before")).unwrap();
    system.start_server();
    assert_refused(&process::run(system.proxy_command()), 4, "another database");
    system.kill_server();
    std::fs::remove_dir_all(system.path("server")).unwrap();
    std::fs::rename(system.path("server-before"), system.path("server")).unwrap();
    // What is right again works again.
    system.start_server();
    system.start_proxy();
    system.client().command(&insert("good", vec![doc! { "_id": 1 }])).unwrap();
    system.assert_no_panic();
}

#[test]
fn a_directory_or_address_that_cannot_be_used_is_one_line() {
    let mut system = quiet();
    system.start_server();
    system.start_proxy();
    assert_refused(&process::run(system.proxy_command()), 4, "another arras proxy uses this data directory");
    assert_refused(
        &process::run(system.server_command()),
        4,
        "another arras-server uses this data directory",
    );
    let taken = system.address().to_owned();
    system.kill_proxy();
    let _held = TcpListener::bind(&taken).unwrap();
    let mut proxy = system.proxy_command();
    proxy.args(["--listen", &taken]);
    assert_refused(&process::run(proxy), 5, "choose another --listen address");
    let server = system.server_command_at(&taken, "server-2");
    assert_refused(&process::run(server), 5, "choose another --listen address");

    // Another deployment's keyring on this one's data.
    let other = quiet();
    for file in ["config/keyring.json", "keyring.key"] {
        std::fs::rename(system.path(file), system.path("mine")).unwrap();
        std::fs::copy(other.path(file), system.path(file)).unwrap();
        std::fs::rename(system.path("mine"), other.path(file)).unwrap();
    }
    assert_refused(
        &process::run(system.proxy_command()),
        3,
        "not the one the proxy's data directory was made with",
    );
    for file in ["config/keyring.json", "keyring.key"] {
        std::fs::copy(other.path(file), system.path(file)).unwrap();
    }
    // A file where the directory should be, then damage.
    std::fs::rename(system.path("proxy"), system.path("proxy-before")).unwrap();
    std::fs::write(system.path("proxy"), b"").unwrap();
    assert_refused(&process::run(system.proxy_command()), 4, "proxy");
    std::fs::remove_file(system.path("proxy")).unwrap();
    std::fs::rename(system.path("proxy-before"), system.path("proxy")).unwrap();
    overwrite(&system, "proxy");
    assert_refused(&process::run(system.proxy_command()), 4, "damaged");
    system.kill_server();
    overwrite(&system, "server");
    assert_refused(&process::run(system.server_command()), 4, "damaged");
}

/// One side's data as it was at another time.
fn swap(system: &System, directory: &str) {
    let [live, kept, aside] =
        ["", "-kept", "-aside"].map(|suffix| system.path(&format!("{directory}{suffix}")));
    std::fs::rename(&live, &aside).unwrap();
    std::fs::rename(&kept, &live).unwrap();
    std::fs::rename(&aside, &kept).unwrap();
}

fn copy(system: &System, directory: &str) {
    let kept = system.path(&format!("{directory}-kept"));
    std::fs::create_dir(&kept).unwrap();
    for file in super::system::files(&system.path(directory)) {
        std::fs::copy(&file, kept.join(file.file_name().unwrap())).unwrap();
    }
}

#[test]
fn a_side_that_was_set_back_alone_is_refused() {
    let mut system = quiet();
    system.start_server();
    system.start_proxy();
    system.client().command(&insert("good", vec![doc! { "_id": 1 }])).unwrap();
    system.kill_proxy();
    system.kill_server();
    for directory in ["proxy", "server"] {
        copy(&system, directory);
    }
    system.start_server();
    system.start_proxy();
    // Of two writes, the first one's acknowledgement is durable with the second one's intent.
    for id in [2, 3] {
        system.client().command(&insert("good", vec![doc! { "_id": id }])).unwrap();
    }
    system.kill_proxy();
    swap(&system, "proxy");
    assert_refused(&process::run(system.proxy_command()), 4, "newer than the proxy's data directory");
    swap(&system, "proxy");
    system.kill_server();
    swap(&system, "server");
    system.start_server();
    assert_refused(&process::run(system.proxy_command()), 4, "older than what it acknowledged");
    // Neither refusal is held against the newer state of both: nothing of it is missing.
    system.kill_server();
    swap(&system, "server");
    system.start_server();
    system.start_proxy();
    let mut in_order = find("good");
    in_order.insert("sort", doc! { "_id": 1 });
    let all = [1, 2, 3].map(|id| doc! { "_id": id });
    assert_eq!(system.client().query(&in_order).unwrap(), all);
    system.kill_proxy();
    system.kill_server();
    // Both set back to the same time agree with each other. The machine has seen more of them, and somebody must say
    // that they were restored; then they are as they were.
    for directory in ["proxy", "server"] {
        swap(&system, directory);
    }
    system.start_server();
    assert_refused(&process::run(system.proxy_command()), 4, "older than what this machine has seen");
    let mut restore = system.arras("restore");
    restore.arg("--config").arg(system.configuration());
    assert_eq!(process::run(restore).code, Some(0));
    system.start_proxy();
    assert_eq!(system.client().query(&find("good")).unwrap(), [doc! { "_id": 1 }]);
}

/// Overwrites every file of a directory.
fn overwrite(system: &System, directory: &str) {
    for file in super::system::files(&system.path(directory)) {
        let length = std::fs::metadata(&file).unwrap().len();
        std::fs::write(&file, vec![0xab; usize::try_from(length).unwrap()]).unwrap();
    }
}
