//! A MongoDB client of a few lines: commands out, replies in. Any driver would do; the demonstration needs none
//! installed.

use arras_mongo::wire::{self, HEADER_BYTES, MessageBody};
use bson::{Bson, Document, doc};
use std::io::{Read, Write};
use std::net::TcpStream;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// The proxy cannot be talked to.
    #[error("talking to the proxy: {0}")]
    Io(#[from] std::io::Error),
    /// The reply is not of the protocol.
    #[error("the proxy's reply is not MongoDB's protocol: {0}")]
    Wire(String),
    /// The proxy declined.
    #[error("the proxy refused {command}: {message}")]
    Refused {
        /// The command's name.
        command: String,
        /// Its error.
        message: String,
    },
}

/// A connection.
pub(crate) struct Client {
    stream: TcpStream,
    request: i32,
}

impl Client {
    pub(crate) fn connect(address: &str) -> Result<Self, ClientError> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, request: 0 })
    }

    /// Runs a command; an error if the server says so, or a write failed.
    pub(crate) fn command(&mut self, command: &Document) -> Result<Document, ClientError> {
        self.request += 1;
        let bytes =
            wire::encode_command(self.request, command).map_err(|e| ClientError::Wire(e.to_string()))?;
        self.stream.write_all(&bytes)?;
        let mut header = [0; HEADER_BYTES];
        self.stream.read_exact(&mut header)?;
        let length = wire::parse_header(&header).map_err(|e| ClientError::Wire(e.to_string()))?.message_bytes;
        let mut message = header.to_vec();
        message.resize(length, 0);
        self.stream.read_exact(&mut message[HEADER_BYTES..])?;
        let message = wire::parse_message(&message).map_err(|e| ClientError::Wire(e.to_string()))?;
        let MessageBody::Command { command: reply, .. } = message.body else {
            return Err(ClientError::Wire("not a message".into()));
        };
        let name = command.keys().next().cloned().unwrap_or_default();
        let failed = reply.get("writeErrors").is_some();
        if failed || !matches!(reply.get("ok"), Some(Bson::Double(1.0))) {
            let message = reply.get_str("errmsg").map_or_else(|_| reply.to_string(), str::to_owned);
            return Err(ClientError::Refused { command: name, message });
        }
        Ok(reply)
    }

    /// Runs a command that answers with a cursor, to its end.
    pub(crate) fn query(&mut self, command: &Document) -> Result<Vec<Document>, ClientError> {
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
            let collection =
                cursor.get_str("ns").ok().and_then(|ns| ns.split_once('.')).map(|(_, name)| name);
            let collection = collection.unwrap_or_default().to_owned();
            let database = command.get_str("$db").unwrap_or_default();
            reply = self.command(&doc! { "getMore": id, "collection": collection, "$db": database })?;
        }
    }
}
