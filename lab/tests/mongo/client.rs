//! A server on a free port, and a client that speaks bytes.

use arras_lab::plain_store::PlainStore;
use arras_mongo::wire::{self, HEADER_BYTES, MessageBody};
use arras_mongo::{Options, Server};
use arras_service::store::Store;
use bson::{Document, doc};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A running server. Dropped, it stops.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    stop: oneshot::Sender<()>,
    pub(crate) ended: JoinHandle<()>,
}

impl Running {
    pub(crate) async fn plain(options: Options) -> Self {
        Self::start(PlainStore::new(), options).await
    }

    pub(crate) async fn start<S: Store>(store: S, options: Options) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let server = Server::new(Arc::new(store), options);
        let ended = tokio::spawn(async move {
            server
                .serve(listener, async {
                    stopped.await.ok();
                })
                .await;
        });
        Self { address, stop, ended }
    }

    pub(crate) async fn connect(&self) -> Client {
        Client { stream: TcpStream::connect(self.address).await.unwrap(), requests: 0 }
    }

    /// Asks the server to stop; returns what completes when it has.
    pub(crate) fn stop(self) -> JoinHandle<()> {
        self.stop.send(()).unwrap();
        self.ended
    }
}

/// One connection.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    requests: i32,
}

impl Client {
    /// Sends a command on database `d` and returns its reply.
    pub(crate) async fn run(&mut self, command: Document) -> Document {
        let request = self.send(command).await;
        let (answered, reply) = self.receive().await.expect("a reply");
        assert_eq!(answered, request);
        reply
    }

    /// Runs a command that must succeed.
    pub(crate) async fn ok(&mut self, command: Document) -> Document {
        let reply = self.run(command).await;
        assert_eq!(reply.get_f64("ok").unwrap(), 1.0, "{reply}");
        reply
    }

    /// Runs a command that must fail and returns its code.
    pub(crate) async fn code(&mut self, command: Document) -> i32 {
        let reply = self.run(command).await;
        assert_eq!(reply.get_f64("ok").unwrap(), 0.0, "{reply}");
        reply.get_i32("code").unwrap()
    }

    /// Sends a command; returns the number its reply will name.
    pub(crate) async fn send(&mut self, command: Document) -> i32 {
        self.requests += 1;
        let bytes = encoded(self.requests, command);
        self.stream.write_all(&bytes).await.unwrap();
        self.requests
    }

    /// The next reply, and the number of its request; `None` if the server closed the connection.
    pub(crate) async fn receive(&mut self) -> Option<(i32, Document)> {
        let mut head = [0; HEADER_BYTES];
        self.stream.read_exact(&mut head).await.ok()?;
        let header = wire::parse_header(&head).unwrap();
        let mut bytes = head.to_vec();
        bytes.resize(header.message_bytes, 0);
        self.stream.read_exact(&mut bytes[HEADER_BYTES..]).await.ok()?;
        match wire::parse_message(&bytes).unwrap().body {
            MessageBody::Command { command, .. } => Some((header.response_to, command)),
            other => panic!("not a reply: {other:?}"),
        }
    }
}

/// A command as bytes, for database `d`.
pub(crate) fn encoded(request: i32, mut command: Document) -> Vec<u8> {
    if !command.contains_key("$db") {
        command.insert("$db", "d");
    }
    wire::encode_command(request, &command).unwrap()
}

/// `insert` of documents with ids from 0.
pub(crate) fn insert_numbers(count: i32) -> Document {
    let documents: Vec<Document> = (0..count).map(|id| doc! { "_id": id }).collect();
    doc! { "insert": "c", "documents": documents }
}
