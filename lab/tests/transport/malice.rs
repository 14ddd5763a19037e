//! Peers that break the protocol, on either side.

use crate::world::*;
use arras_protocol::frame::{FrameKind, HEADER_BYTES};
use arras_protocol::hello::Hello;
use arras_protocol::limits::FRAME_BYTES_MAX;
use arras_protocol::{Channel, ChannelError, Protocol, ProtocolId, Refusal, codec};
use arras_proxy::connection::{ConnectError, Connection};
use arras_server::listener::Limits;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

/// A header whose body is over the limit.
fn oversize_header(kind: u8) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    bytes[..4].copy_from_slice(&u32::try_from(FRAME_BYTES_MAX + 1).unwrap().to_le_bytes());
    bytes[4] = 1;
    bytes[12] = kind;
    bytes
}

/// What a client may send after its hello that no request starts with.
fn bad_bytes() -> Vec<(&'static str, Vec<u8>)> {
    let request = script_frame(1, &ask(1));
    let mut unknown_kind = request.clone();
    unknown_kind[12] = 77;
    vec![
        ("oversize", oversize_header(1)),
        ("garbage", vec![0xff; 1000]),
        ("unknown kind", unknown_kind),
        ("a reply", frame(1, FrameKind::Response, Script::ID, b"")),
        ("a refusal", frame(1, FrameKind::Refusal, Script::ID, b"")),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_breaks_the_protocol_is_closed_and_others_are_served() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let served = world.serve(&handler, Limits::default()).await;
    let connection = world.connect(&served).await;
    for (name, bytes) in bad_bytes() {
        let mut stream = world.raw(served.address).await;
        stream.write_all(&hello_frame()).await.unwrap();
        read_frame(&mut stream).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        stream.flush().await.unwrap();
        assert_eq!(read_to_close(&mut stream).await, b"", "{name}");
    }
    Channel::<Script>::call(&connection, ask(1)).await.unwrap();
    assert_eq!(handler.handled.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_cut_anywhere_is_not_handled() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let served = world.serve(&handler, Limits::default()).await;
    let request = script_frame(1, &Ask { payload: vec![1; 20].into(), ..ask(1) });
    for len in 0..request.len() {
        let mut stream = world.raw(served.address).await;
        stream.write_all(&hello_frame()).await.unwrap();
        read_frame(&mut stream).await.unwrap();
        stream.write_all(&request[..len]).await.unwrap();
        stream.shutdown().await.unwrap();
        assert_eq!(read_to_close(&mut stream).await, b"", "{len} bytes");
    }
    assert_eq!(handler.handled.load(Ordering::SeqCst), 0);
    let connection = world.connect(&served).await;
    Channel::<Script>::call(&connection, ask(1)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_frames_with_bad_bodies_are_refused_one_by_one() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let served = world.serve(&handler, Limits::default()).await;
    let mut stream = world.raw(served.address).await;
    stream.write_all(&hello_frame()).await.unwrap();
    read_frame(&mut stream).await.unwrap();
    for call in 1..20u8 {
        let body = vec![0xff; usize::from(call)];
        stream.write_all(&frame(call.into(), FrameKind::Request, Script::ID, &body)).await.unwrap();
        let (header, body) = read_frame(&mut stream).await.unwrap();
        assert_eq!((header.call, header.kind), (call.into(), FrameKind::Refusal));
        assert!(matches!(codec::decode(&body), Ok(Refusal::Malformed(_))));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_call_must_be_hello() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let served = world.serve(&handler, Limits::default()).await;
    let mut stream = world.raw(served.address).await;
    stream.write_all(&script_frame(5, &ask(1))).await.unwrap();
    stream.flush().await.unwrap();
    let (header, body) = read_frame(&mut stream).await.unwrap();
    assert_eq!((header.call, header.kind), (5, FrameKind::Refusal));
    assert!(matches!(codec::decode(&body), Ok(Refusal::Malformed(_))));
    assert_eq!(read_to_close(&mut stream).await, b"");
    assert_eq!(handler.handled.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn handshakes_that_are_not_finished_are_closed() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let limits = Limits { handshake: Duration::from_millis(200), handshakes_max: 4, ..Limits::default() };
    let served = world.serve(&handler, limits).await;
    // Silent from the start, silent within the TLS handshake, silent after it, silent within hello.
    let mut silent = TcpStream::connect(served.address).await.unwrap();
    let mut begun = TcpStream::connect(served.address).await.unwrap();
    begun.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
    let mut shaken = world.raw(served.address).await;
    let mut within_hello = world.raw(served.address).await;
    within_hello.write_all(&hello_frame()[..10]).await.unwrap();
    within_hello.flush().await.unwrap();
    let peer = silent.local_addr().unwrap();
    tokio::join!(
        read_to_close(&mut silent),
        read_to_close(&mut begun),
        read_to_close(&mut shaken),
        read_to_close(&mut within_hello),
    );
    logged_about(peer, "took too long").await;
    // Their places are free again.
    while Connection::open(world.settings(served.address)).await.is_err() {}
}

#[tokio::test(flavor = "multi_thread")]
async fn half_open_handshakes_do_not_keep_a_proxy_from_its_server() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let limits = Limits { handshake: AMPLE, handshakes_max: 8, ..Limits::default() };
    let served = world.serve(&handler, limits).await;
    let mut half_open = Vec::new();
    for _ in 0..50 {
        let mut silent = TcpStream::connect(served.address).await.unwrap();
        silent.write_all(&[22, 3, 1, 2, 0, 1]).await.unwrap();
        half_open.push(silent);
    }
    world.connect(&served).await;
    // The oldest gave way, the youngest is still there.
    assert_eq!(read_to_close(&mut half_open[0]).await, b"");
    let youngest = half_open.last().unwrap();
    assert!(youngest.try_read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plaintext_client_is_turned_away() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let served = world.serve(&handler, Limits::default()).await;
    for bytes in [b"GET / HTTP/1.1\r\n\r\n".to_vec(), hello_frame()] {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        let peer = stream.local_addr().unwrap();
        stream.write_all(&bytes).await.unwrap();
        let answered = read_to_close(&mut stream).await;
        // At most a TLS alert.
        assert!(answered.is_empty() || answered[0] == 21, "{answered:?}");
        logged_about(peer, "does not speak TLS").await;
    }
    assert_eq!(handler.greetings.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plaintext_server_is_told_apart() {
    let world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let settings = world.settings(listener.local_addr().unwrap());
    let answering = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        read_to_close(&mut stream).await;
    });
    let error = Connection::open(settings).await.unwrap_err();
    assert!(error.to_string().contains("does not speak TLS"), "{error}");
    answering.await.unwrap();
}

/// What became of a call that a misbehaving server answered with these bytes, and whether the server then
/// saw another connection for the next call.
async fn answered_with(bytes: &[u8]) -> ChannelError {
    let world = World::new();
    let server = RawServer::new(&world).await;
    let (connection, mut stream) =
        tokio::join!(Connection::open(world.settings(server.address)), server.greeted());
    let connection = connection.unwrap();
    let calling = Channel::<Script>::call(&connection, ask(1));
    let answering = async {
        read_frame(&mut stream).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        read_to_close(&mut stream).await;
    };
    let (ended, ()) = tokio::join!(calling, answering);

    // The next call connects again and is answered.
    let calling = Channel::<Script>::call(&connection, ask(2));
    let answering = async {
        let mut stream = server.greeted().await;
        let (header, _) = read_frame(&mut stream).await.unwrap();
        let body = codec::encode(&Answer { tag: 2, received_bytes: 0, filler: Vec::new().into() });
        stream.write_all(&frame(header.call, FrameKind::Response, Script::ID, &body)).await.unwrap();
        stream.flush().await.unwrap();
        stream
    };
    let (again, _stream) = tokio::join!(calling, answering);
    assert_eq!(again.unwrap().tag, 2);
    ended.unwrap_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_breaks_the_protocol_fails_the_call_and_nothing_else() {
    let answer = codec::encode(&Answer { tag: 1, received_bytes: 0, filler: Vec::new().into() });
    let whole = frame(1, FrameKind::Response, Script::ID, &answer);
    let lost: [(&str, Vec<u8>); 7] = [
        ("nothing", vec![]),
        ("garbage", vec![0xff; 100]),
        ("oversize", oversize_header(2)),
        ("truncated", whole[..whole.len() - 1].to_vec()),
        ("another call's", frame(2, FrameKind::Response, Script::ID, &answer)),
        ("a request", frame(1, FrameKind::Request, Script::ID, &answer)),
        ("hello's", frame(0, FrameKind::Response, Script::ID, &answer)),
    ];
    for (name, bytes) in lost {
        let error = answered_with(&bytes).await;
        assert!(matches!(error, ChannelError::Lost(_)), "{name}: {error}");
    }
    let malformed: [(&str, Vec<u8>); 3] = [
        ("another protocol's", frame(1, FrameKind::Response, ProtocolId(3), &answer)),
        ("no answer", frame(1, FrameKind::Response, Script::ID, &[0xff])),
        ("no refusal", frame(1, FrameKind::Refusal, Script::ID, &[0xff])),
    ];
    for (name, bytes) in malformed {
        let error = answered_with(&bytes).await;
        assert!(matches!(error, ChannelError::Malformed(_)) && error.outcome_unknown(), "{name}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_greets_wrongly_is_refused() {
    let world = World::new();
    let bad: [(&str, Vec<u8>); 5] = [
        ("not hello", frame(0, FrameKind::Response, Script::ID, b"")),
        ("another call", frame(9, FrameKind::Response, Hello::ID, b"")),
        ("no greeting", frame(0, FrameKind::Response, Hello::ID, &[0xff; 3])),
        ("a request", hello_frame()),
        ("garbage", vec![0xff; 100]),
    ];
    for (name, bytes) in bad {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let settings = world.settings(listener.local_addr().unwrap());
        let acceptor = tokio_rustls::TlsAcceptor::from(world.server_tls());
        let answering = async {
            let (tcp, _) = listener.accept().await.unwrap();
            let mut stream = acceptor.accept(tcp).await.unwrap();
            read_frame(&mut stream).await.unwrap();
            stream.write_all(&bytes).await.unwrap();
            stream.flush().await.unwrap();
            stream
        };
        let (connected, _stream) = tokio::join!(Connection::open(settings), answering);
        let error = connected.unwrap_err();
        assert!(matches!(error, ConnectError::Malformed { .. }), "{name}: {error}");
    }
}
