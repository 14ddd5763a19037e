//! A MongoDB client of a few lines, for the demonstration and for tests that drive the proxy as a process: commands out,
//! replies in. Any driver would do; this needs none installed. Reports errors as they are, keeps what went over the wire if
//! asked to, and lets raw bytes through.

use arras_mongo::wire::{self, HEADER_BYTES, MessageBody};
use bson::{Bson, Document, doc};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The connection failed, or the reply did not come in time.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// What came back is not MongoDB's protocol.
    #[error("not MongoDB's protocol: {0}")]
    Wire(String),
    /// The server replied with an error; as a whole or to a write of the command.
    #[error("{0}")]
    Refused(Document),
}

impl ClientError {
    /// MongoDB's error code, if the server replied.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        let Self::Refused(reply) = self else { return None };
        let first = |name| reply.get_array(name).ok()?.first()?.as_document();
        let error = first("writeErrors").or_else(|| reply.get_document("writeConcernError").ok());
        error.unwrap_or(reply).get_i32("code").ok()
    }
}

/// Everything a client sent and received, in order.
#[derive(Clone, Debug, Default)]
pub struct Traffic(pub Vec<u8>);

/// A connection.
#[derive(Debug)]
pub struct WireClient {
    stream: TcpStream,
    requests: i32,
    traffic: Option<Traffic>,
}

impl WireClient {
    /// Connects; every reply must come within `patience`, if it is bounded.
    ///
    /// # Errors
    /// [`ClientError::Io`].
    pub fn connect(address: &str, patience: impl Into<Option<Duration>>) -> Result<Self, ClientError> {
        let stream = TcpStream::connect(address)?;
        let patience = patience.into();
        stream.set_nodelay(true)?;
        stream.set_read_timeout(patience)?;
        stream.set_write_timeout(patience)?;
        Ok(Self { stream, requests: 0, traffic: None })
    }

    /// Keeps the traffic from now on.
    pub fn record(&mut self) {
        self.traffic.get_or_insert_default();
    }

    /// The traffic kept so far.
    pub fn traffic(&self) -> &[u8] {
        self.traffic.as_ref().map_or(&[], |traffic| &traffic.0)
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// [`ClientError::Io`].
    pub fn send_raw(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        Ok(self.stream.write_all(bytes)?)
    }

    /// Sends a command without waiting for its reply.
    ///
    /// # Errors
    /// [`ClientError`] if it cannot be encoded or sent.
    pub fn send(&mut self, command: &Document) -> Result<(), ClientError> {
        self.requests = self.requests.wrapping_add(1);
        let bytes =
            wire::encode_command(self.requests, command).map_err(|e| ClientError::Wire(e.to_string()))?;
        if let Some(traffic) = &mut self.traffic {
            traffic.0.extend_from_slice(&bytes);
        }
        self.send_raw(&bytes)
    }

    /// Receives the reply to a command, whatever it says.
    ///
    /// # Errors
    /// [`ClientError`] if there is none.
    pub fn receive(&mut self) -> Result<Document, ClientError> {
        let malformed = |error: wire::WireError| ClientError::Wire(error.to_string());
        let mut header = [0; HEADER_BYTES];
        self.stream.read_exact(&mut header)?;
        let length = wire::parse_header(&header).map_err(malformed)?.message_bytes;
        let mut message = header.to_vec();
        message.resize(length, 0);
        self.stream.read_exact(&mut message[HEADER_BYTES..])?;
        if let Some(traffic) = &mut self.traffic {
            traffic.0.extend_from_slice(&message);
        }
        match wire::parse_message(&message).map_err(malformed)?.body {
            MessageBody::Command { command, .. } => Ok(command),
            MessageBody::LegacyCommand { .. } => Err(ClientError::Wire("a reply in the old form".into())),
        }
    }

    /// Runs a command; its reply if it succeeded in every part.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn command(&mut self, command: &Document) -> Result<Document, ClientError> {
        self.send(command)?;
        let reply = self.receive()?;
        let failed = ["writeErrors", "writeConcernError"].iter().any(|field| reply.contains_key(field));
        if failed || !matches!(reply.get("ok"), Some(Bson::Double(1.0))) {
            return Err(ClientError::Refused(reply));
        }
        Ok(reply)
    }

    /// Runs a command that answers with a cursor, to its end.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn query(&mut self, command: &Document) -> Result<Vec<Document>, ClientError> {
        let missing = || ClientError::Wire("no cursor".into());
        let mut reply = self.command(command)?;
        let mut documents = Vec::new();
        loop {
            let cursor = reply.get_document("cursor").map_err(|_| missing())?;
            let batch = cursor.get_array("firstBatch").or_else(|_| cursor.get_array("nextBatch"));
            documents.extend(batch.map_err(|_| missing())?.iter().filter_map(|d| d.as_document().cloned()));
            let id = cursor.get_i64("id").map_err(|_| missing())?;
            if id == 0 {
                return Ok(documents);
            }
            let (_, collection) =
                cursor.get_str("ns").ok().and_then(|ns| ns.split_once('.')).ok_or_else(missing)?;
            let database = command.get_str("$db").unwrap_or_default();
            reply = self.command(&doc! { "getMore": id, "collection": collection, "$db": database })?;
        }
    }
}
