//! The messages that the proxy itself sends to a client; all others are the database's own.

use crate::error::SqlError;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    /// The statement failed; the session goes on.
    Error,
    /// The session ends.
    Fatal,
}

/// `ErrorResponse`.
pub(crate) fn error(out: &mut Vec<u8>, error: &SqlError, severity: Severity) {
    let severity = match severity {
        Severity::Error => "ERROR",
        Severity::Fatal => "FATAL",
    };
    let position = error.position.map(|position| position.to_string());
    message(out, b'E', |out| {
        let fields = [
            (b'S', Some(severity)),
            (b'V', Some(severity)),
            (b'C', Some(error.sqlstate)),
            (b'M', Some(error.message.as_str())),
            (b'D', error.detail.as_deref()),
            (b'H', error.hint.as_deref()),
            (b'P', position.as_deref()),
            (b'W', error.context.as_deref()),
        ];
        for (field, text) in fields {
            if let Some(text) = text {
                out.push(field);
                string(out, text.as_bytes());
            }
        }
        out.push(0);
    });
}

/// Appends a message: its type, its length, and the body that `body` appends.
pub(crate) fn message(out: &mut Vec<u8>, kind: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    let begun = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    // A message is refused before it gets so long.
    let length = i32::try_from(out.len() - begun).unwrap_or(i32::MAX);
    if let Some(place) = out.get_mut(begun..begun + 4) {
        place.copy_from_slice(&length.to_be_bytes());
    }
}

/// Appends a string that a zero byte ends; a zero byte within it would end it there.
pub(crate) fn string(out: &mut Vec<u8>, text: &[u8]) {
    out.extend(text.iter().copied().take_while(|byte| *byte != 0));
    out.push(0);
}

/// What `Authentication` asks or says.
pub(crate) enum Authentication<'a> {
    Ok,
    Mechanisms(&'a [&'a str]),
    Continue(&'a [u8]),
    Final(&'a [u8]),
}

impl Authentication<'_> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        message(out, b'R', |out| match self {
            Self::Ok => out.extend_from_slice(&0_i32.to_be_bytes()),
            Self::Mechanisms(names) => {
                out.extend_from_slice(&10_i32.to_be_bytes());
                for name in *names {
                    string(out, name.as_bytes());
                }
                out.push(0);
            }
            Self::Continue(data) => {
                out.extend_from_slice(&11_i32.to_be_bytes());
                out.extend_from_slice(data);
            }
            Self::Final(data) => {
                out.extend_from_slice(&12_i32.to_be_bytes());
                out.extend_from_slice(data);
            }
        });
    }
}

/// `NegotiateProtocolVersion`: 3.0 is spoken, and none of these options.
pub(crate) fn negotiate(out: &mut Vec<u8>, unknown: &[&[u8]]) {
    message(out, b'v', |out| {
        // The newest minor version of the major one that was asked for.
        out.extend_from_slice(&0_i32.to_be_bytes());
        out.extend_from_slice(&i32::try_from(unknown.len()).unwrap_or(i32::MAX).to_be_bytes());
        for option in unknown {
            string(out, option);
        }
    });
}

/// `BackendKeyData`.
pub(crate) fn key(out: &mut Vec<u8>, process: i32, secret: i32) {
    message(out, b'K', |out| {
        out.extend_from_slice(&process.to_be_bytes());
        out.extend_from_slice(&secret.to_be_bytes());
    });
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use fallible_iterator::FallibleIterator;
    use postgres_protocol::message::backend::Message;

    #[test]
    fn a_driver_reads_a_refusal_field_by_field() {
        let mut out = Vec::new();
        let mut refused = SqlError::new("0A000", "no\0pe").hint("do this");
        refused.position = Some(12);
        error(&mut out, &refused, Severity::Error);
        let mut bytes = BytesMut::from(out.as_slice());
        let Some(Message::ErrorResponse(body)) = Message::parse(&mut bytes).unwrap() else {
            panic!("no error")
        };
        let fields: Vec<_> =
            body.fields().map(|field| Ok((field.type_(), field.value_bytes().to_vec()))).collect().unwrap();
        let text = |text: &str| text.as_bytes().to_vec();
        assert_eq!(
            fields,
            [
                (b'S', text("ERROR")),
                (b'V', text("ERROR")),
                (b'C', text("0A000")),
                (b'M', text("no")),
                (b'H', text("do this")),
                (b'P', text("12"))
            ]
        );
        assert!(bytes.is_empty());
    }
}
