//! Logging in at the database.

use super::{Upstream, UpstreamError};
use crate::frames::{HEAD_BYTES, Head};
use crate::stream::Stream;
use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::Message;
use postgres_protocol::message::frontend;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// Longest message that a log-in is made of, in bytes.
const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// Bytes of the messages that begin a session, at most: a few dozen settings.
const BEGINNING_BYTES_MAX: usize = 1024 * 1024;

/// A session that has begun.
pub(crate) struct Begun {
    pub(crate) stream: Stream,
    /// `ParameterStatus` and notices, encoded, and `ReadyForQuery`.
    pub(crate) beginning: Vec<u8>,
    /// What its statements are cancelled by.
    pub(crate) process: i32,
    pub(crate) secret: i32,
}

/// What came of a log-in.
pub(crate) enum Login {
    Begun(Begun),
    /// The database's own `ErrorResponse`, encoded, and whether it is the proxy that it does not let in.
    Refused {
        error: Vec<u8>,
        of_proxy: bool,
    },
}

/// A message, and its bytes.
async fn read(stream: &mut Stream) -> Result<(Message, Vec<u8>), UpstreamError> {
    let mut bytes = vec![0; HEAD_BYTES];
    stream.read_exact(&mut bytes).await?;
    let total = Head::read(&bytes).map(|head| head.total).filter(|total| *total <= MESSAGE_BYTES_MAX);
    let total =
        total.ok_or_else(|| UpstreamError::Protocol("a message of no length that there is".into()))?;
    bytes.resize(total, 0);
    stream.read_exact(bytes.get_mut(HEAD_BYTES..).unwrap_or_default()).await?;
    let malformed = |error: io::Error| UpstreamError::Protocol(error.to_string());
    let message = Message::parse(&mut BytesMut::from(bytes.as_slice())).map_err(malformed)?;
    message
        .map(|message| (message, bytes))
        .ok_or_else(|| UpstreamError::Protocol("a message that is cut".into()))
}

impl Begun {
    /// Asks for one value before the session's client does; none if it is NULL. The SQLSTATE if the database refuses.
    pub(crate) async fn ask(
        &mut self,
        statement: &str,
    ) -> Result<Result<Option<String>, String>, UpstreamError> {
        timeout(super::CONNECT, self.exchange(statement)).await.map_err(|_| UpstreamError::Late)?
    }

    async fn exchange(&mut self, statement: &str) -> Result<Result<Option<String>, String>, UpstreamError> {
        let mut out = BytesMut::new();
        frontend::query(statement, &mut out)?;
        self.stream.write_all(&out).await?;
        self.stream.flush().await?;
        let mut answer = Ok(None);
        loop {
            let (message, bytes) = read(&mut self.stream).await?;
            match message {
                Message::DataRow(body) => {
                    let range = body.ranges().next()?.flatten();
                    let text = range.and_then(|range| body.buffer().get(range));
                    let text = text.map(|text| String::from_utf8_lossy(text).into_owned());
                    answer = answer.map(|_| text);
                }
                Message::ErrorResponse(_) => {
                    let code = code(&bytes).unwrap_or_default();
                    answer = Err(String::from_utf8_lossy(&code).into_owned());
                }
                Message::ReadyForQuery(_) => return Ok(answer),
                // Settings and notices are the session's.
                Message::ParameterStatus(_) | Message::NoticeResponse(_) => {
                    let before_ready = self.beginning.len().saturating_sub(6);
                    self.beginning.splice(before_ready..before_ready, bytes);
                }
                _ => {}
            }
        }
    }
}

impl Upstream {
    /// Begins a session with these start-up parameters, `user` and `database` among them.
    pub(crate) async fn login(&self, parameters: &[(String, String)]) -> Result<Login, UpstreamError> {
        let mut stream = self.connect().await?;
        let logged_in = timeout(super::CONNECT, self.begin(&mut stream, parameters)).await;
        match logged_in.map_err(|_| UpstreamError::Late)?? {
            Ok((beginning, (process, secret))) => {
                Ok(Login::Begun(Begun { stream, beginning, process, secret }))
            }
            Err(error) => {
                let of_proxy = code(&error).is_some_and(|code| code.starts_with(b"28"));
                Ok(Login::Refused { error, of_proxy })
            }
        }
    }

    async fn begin(
        &self,
        stream: &mut Stream,
        parameters: &[(String, String)],
    ) -> Result<Result<(Vec<u8>, (i32, i32)), Vec<u8>>, UpstreamError> {
        let mut out = BytesMut::new();
        let given = parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        frontend::startup_message(given, &mut out)?;
        stream.write_all(&out).await?;
        stream.flush().await?;
        if let Some(error) = self.authenticate(stream, parameters).await? {
            return Ok(Err(error));
        }
        let mut beginning = Vec::new();
        let mut key = None;
        loop {
            let (message, bytes) = read(stream).await?;
            match message {
                Message::BackendKeyData(body) => {
                    key = Some((body.process_id(), body.secret_key()));
                    continue;
                }
                Message::ErrorResponse(_) => return Ok(Err(bytes)),
                _ => beginning.extend_from_slice(&bytes),
            }
            if beginning.len() > BEGINNING_BYTES_MAX {
                return Err(UpstreamError::Protocol("it begins with too much".into()));
            }
            if matches!(message, Message::ReadyForQuery(_)) {
                return Ok(Ok((beginning, key.unwrap_or_default())));
            }
        }
    }

    /// Proves who the proxy is; the database's error if it is not let in.
    async fn authenticate(
        &self,
        stream: &mut Stream,
        parameters: &[(String, String)],
    ) -> Result<Option<Vec<u8>>, UpstreamError> {
        let mut scram: Option<ScramSha256> = None;
        loop {
            let (message, bytes) = read(stream).await?;
            let mut out = BytesMut::new();
            match message {
                Message::AuthenticationOk if scram.is_none() => return Ok(None),
                Message::ErrorResponse(_) => return Ok(Some(bytes)),
                Message::AuthenticationCleartextPassword => {
                    if matches!(stream, Stream::Plain(_)) && !super::address::is_loopback(&self.host) {
                        let text = "it asks for the password in plaintext on an unprotected wire";
                        return Err(UpstreamError::Method(text.into()));
                    }
                    frontend::password_message(self.secret()?.as_bytes(), &mut out)?;
                }
                Message::AuthenticationMd5Password(body) => {
                    let user =
                        parameters.iter().find(|(name, _)| name == "user").map_or("", |(_, user)| user);
                    let hash = md5_hash(user.as_bytes(), self.secret()?.as_bytes(), body.salt());
                    frontend::password_message(hash.as_bytes(), &mut out)?;
                }
                Message::AuthenticationSasl(body) => {
                    let offered = body.mechanisms().any(|name| Ok(name == SCRAM_SHA_256))?;
                    if !offered {
                        return Err(UpstreamError::Method("it offers no SCRAM-SHA-256".into()));
                    }
                    let begun = ScramSha256::new(self.secret()?.as_bytes(), ChannelBinding::unsupported());
                    frontend::sasl_initial_response(SCRAM_SHA_256, begun.message(), &mut out)?;
                    scram = Some(begun);
                }
                Message::AuthenticationSaslContinue(body) => {
                    let scram = scram.as_mut().ok_or_else(unexpected)?;
                    scram.update(body.data())?;
                    frontend::sasl_response(scram.message(), &mut out)?;
                }
                Message::AuthenticationSaslFinal(body) => {
                    // The database proves here that it knows the password, too.
                    scram.take().ok_or_else(unexpected)?.finish(body.data())?;
                }
                Message::AuthenticationGss
                | Message::AuthenticationGssContinue(_)
                | Message::AuthenticationKerberosV5
                | Message::AuthenticationScmCredential
                | Message::AuthenticationSspi => {
                    let text = "it asks for a log-in other than by SCRAM-SHA-256, MD5, password or trust";
                    return Err(UpstreamError::Method(text.into()));
                }
                _ => return Err(unexpected()),
            }
            stream.write_all(&out).await?;
            stream.flush().await?;
        }
    }

    fn secret(&self) -> Result<&str, UpstreamError> {
        let none =
            "it asks for a password; put one into the URL, or into the environment variable PGPASSWORD";
        self.password().ok_or_else(|| UpstreamError::Method(none.into()))
    }
}

fn unexpected() -> UpstreamError {
    UpstreamError::Protocol("a message that no log-in has there".into())
}

/// The SQLSTATE of an encoded `ErrorResponse`.
fn code(error: &[u8]) -> Option<Vec<u8>> {
    let Ok(Some(Message::ErrorResponse(body))) = Message::parse(&mut BytesMut::from(error)) else {
        return None;
    };
    let code = body.fields().find(|field| Ok(field.type_() == b'C')).ok()??;
    Some(code.value_bytes().to_vec())
}
