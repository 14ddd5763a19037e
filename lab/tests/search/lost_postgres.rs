//! `PostgreSQL` as a storage service: connections that are lost without a word, standbys, the second server of an address.

use crate::in_postgres::{IMPATIENCE, PATIENCE, asked, entries, labels};
use arras_host::store::postgres::PostgresStore;
use arras_host::store::{Store, StoreError};
use arras_lab::private_postgres::{PrivatePostgres, SUPERUSER};
use arras_protocol::iee::SEALED_BYTES;
use std::future::pending;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// What a relay does with a connection.
#[derive(Clone, Copy, PartialEq)]
enum Relaying {
    Forward,
    /// Nothing, and neither side hears that.
    Nothing,
    /// The server has heard that the client is gone, and the client nothing.
    Ended,
}

/// What stands between a store and its server.
struct Relay {
    port: u16,
    connections: Arc<Mutex<Vec<watch::Sender<Relaying>>>>,
}

impl Relay {
    async fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections: Arc<Mutex<Vec<_>>> = Arc::default();
        tokio::spawn({
            let connections = Arc::clone(&connections);
            async move {
                loop {
                    let (client, _) = listener.accept().await.unwrap();
                    let (told, relaying) = watch::channel(Relaying::Forward);
                    connections.lock().unwrap().push(told);
                    tokio::spawn(relay(client, server, relaying));
                }
            }
        });
        Self { port, connections }
    }

    /// Of the connections that there are; later ones are forwarded.
    fn tell(&self, relaying: Relaying) {
        for connection in &*self.connections.lock().unwrap() {
            connection.send_if_modified(|now| {
                let is_lost = relaying == Relaying::Nothing || *now == Relaying::Nothing;
                if is_lost {
                    *now = relaying;
                }
                is_lost
            });
        }
    }
}

async fn relay(mut client: TcpStream, server: u16, mut relaying: watch::Receiver<Relaying>) {
    let mut server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
    tokio::select! {
        biased;
        told = relaying.wait_for(|relaying| *relaying != Relaying::Forward) => drop(told.unwrap()),
        _ = copy_bidirectional(&mut client, &mut server) => return,
    }
    drop(relaying.wait_for(|relaying| *relaying == Relaying::Ended).await.unwrap());
    drop(server);
    pending().await
}

/// How long a store waits where half of it has to pass.
const SHORT: Duration = Duration::from_secs(16);

/// A peer that is gone without a word is noticed by its silence, and what it was asked is asked another, once the server knows, too.
#[tokio::test]
async fn what_a_lost_connection_does_not_answer_is_asked_again() {
    let postgres = PrivatePostgres::start().unwrap();
    let relay = Relay::to(postgres.port()).await;
    let uri = format!("postgres://{SUPERUSER}@127.0.0.1:{}/postgres", relay.port);
    let store = Arc::new(PostgresStore::connect(&uri, "search", SHORT).await.unwrap());
    store.put(entries(9, 1)).await.unwrap();
    relay.tell(Relaying::Nothing);
    let put = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.put(entries(9, 2)).await }
    });
    let waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    while asked(&postgres, waits) != "1" {
        assert!(!put.is_finished(), "{:?}", put.await);
        sleep(Duration::from_millis(20)).await;
    }
    assert!(!put.is_finished(), "the server still waits for the lost one");
    relay.tell(Relaying::Ended);
    put.await.unwrap().unwrap();
    assert!(store.get(labels(9)).await.unwrap() == [2; SEALED_BYTES].repeat(9));
}

/// A server that says nothing, and what has it so.
struct Silent {
    port: u16,
    _listener: TcpListener,
    waiting: Vec<TcpStream>,
}

impl Silent {
    /// Connections come about, and nobody takes them: one that hangs.
    fn hangs() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        Self { port: listener.local_addr().unwrap().port(), _listener: listener, waiting: Vec::new() }
    }

    /// Connections do not come about: one without power, or behind a wall.
    async fn is_away() -> Self {
        let mut silent = Self::hangs();
        let port = silent.port;
        let connect = || timeout(Duration::from_millis(500), TcpStream::connect(("127.0.0.1", port)));
        // Until there is no more place for those that wait.
        while let Ok(stream) = connect().await {
            silent.waiting.push(stream.unwrap());
        }
        silent
    }
}

#[tokio::test]
async fn the_second_of_an_address_is_tried_though_the_first_says_nothing() {
    let postgres = PrivatePostgres::start().unwrap();
    for silent in [Silent::is_away().await, Silent::hangs()] {
        let servers = [silent.port, postgres.port()].map(|port| format!("127.0.0.1:{port}")).join(",");
        let uri = format!("postgres://{SUPERUSER}@{servers}/postgres");
        let store = PostgresStore::connect(&uri, "search", SHORT).await.unwrap();
        store.put(entries(9, 1)).await.unwrap();
        assert!(store.get(labels(9)).await.unwrap() == [1; SEALED_BYTES].repeat(9));
    }
}

/// A copy of a server that follows it, in the folder and on the port of one that has stopped.
struct Standby(PrivatePostgres);

impl Standby {
    fn of(primary: &PrivatePostgres) -> Self {
        let mut postgres = PrivatePostgres::start().unwrap();
        postgres.stop().unwrap();
        std::fs::remove_dir_all(postgres.data()).unwrap();
        let standby = Self(postgres);
        let mut copy = standby.0.command("pg_basebackup");
        copy.args(["-h", "127.0.0.1", "-p", &primary.port().to_string(), "-U", SUPERUSER]);
        succeeds(copy.args(["--checkpoint=fast", "--write-recovery-conf", "-D"]).arg(standby.0.data()));
        let folder = standby.0.socket_folder().display();
        let options = format!("-h 127.0.0.1 -p {} -k {folder} -c log_connections=on", standby.0.port());
        standby.controlled(&["-l", standby.log().to_str().unwrap(), "-o", &options, "start"]);
        standby
    }

    fn log(&self) -> PathBuf {
        self.0.socket_folder().join("standby")
    }

    fn controlled(&self, arguments: &[&str]) {
        let mut control = self.0.command("pg_ctl");
        succeeds(control.arg("-D").arg(self.0.data()).arg("-w").args(arguments));
    }

    /// Waits until it has what its primary has.
    async fn follow(&self, primary: &PrivatePostgres) {
        let written = asked(primary, "SELECT pg_current_wal_lsn()");
        let has = format!("SELECT pg_last_wal_replay_lsn() >= '{written}'");
        while asked(&self.0, &has) != "t" {
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// How often somebody has connected.
    fn connections(&self) -> usize {
        std::fs::read_to_string(self.log()).unwrap().matches("connection authorized").count()
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        let mut control = self.0.command("pg_ctl");
        let _ = control.arg("-D").arg(self.0.data()).args(["-m", "immediate", "stop"]).output();
    }
}

fn succeeds(command: &mut Command) {
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ended.stderr));
}

/// Nothing is read of one that may be behind, and nothing fails because it takes nothing: it is waited for until it is the primary.
#[tokio::test]
async fn a_standby_is_waited_for() {
    let mut primary = PrivatePostgres::start().unwrap();
    let standby = Standby::of(&primary);
    let servers = [&primary, &standby.0].map(|server| format!("127.0.0.1:{}", server.port())).join(",");
    let uri = format!("postgres://{SUPERUSER}@{servers}/postgres");
    let store = Arc::new(PostgresStore::connect(&uri, "search", PATIENCE).await.unwrap());
    store.put(entries(100, 1)).await.unwrap();
    standby.follow(&primary).await;
    let alone = PostgresStore::connect(&standby.0.uri("postgres"), "search", IMPATIENCE).await.err().unwrap();
    assert!(matches!(&alone, StoreError::Away(what) if what.contains("does not allow writes")), "{alone}");
    let before = standby.connections();
    primary.kill().unwrap();
    let asked = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            let got = store.get(labels(100)).await?;
            store.put(entries(200, 2)).await.map(|()| got)
        }
    });
    while standby.connections() < before + 3 {
        assert!(!asked.is_finished(), "{:?}", asked.await);
        sleep(Duration::from_millis(20)).await;
    }
    assert!(!asked.is_finished(), "{:?}", asked.await);
    standby.controlled(&["promote"]);
    assert!(asked.await.unwrap().unwrap() == [1; SEALED_BYTES].repeat(100));
    assert!(store.get(labels(200)).await.unwrap() == [2; SEALED_BYTES].repeat(200));
}
