//! What the proxy asks the database itself.

use super::{error_fields, hidden, malformed, text_row};
use crate::error::{SqlError, sqlstate};
use crate::rewriting::Rewriting;
use crate::room::Share;
use crate::session::answers::is_fatal;
use tokio::sync::oneshot;

/// Bytes of rows whose room is taken at a time.
const COUNTED_BYTES: usize = 64 * 1024;

/// Most bytes that an exchange of the proxy's own collects.
const EXCHANGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Rows that the proxy asks for itself.
pub(in crate::session) type Rows = Vec<Vec<Option<String>>>;

/// What came of something that the proxy asked itself.
pub(in crate::session) struct Answer {
    pub(in crate::session) rows: Rows,
    /// The portal has more.
    pub(in crate::session) has_more: bool,
    /// A statement was executed.
    pub(in crate::session) is_complete: bool,
    /// Bytes of the rows, as they came.
    pub(in crate::session) bytes: usize,
    /// What they take of the memory.
    pub(in crate::session) _shares: Vec<Share>,
}

/// Something that the proxy asks itself.
pub(in crate::session) struct Exchange {
    rows: Rows,
    bytes: usize,
    counted: usize,
    shares: Vec<Share>,
    has_more: bool,
    is_complete: bool,
    failed: Option<SqlError>,
    /// The client is told of a failure by the database's words.
    tells: bool,
    done: oneshot::Sender<Result<Answer, SqlError>>,
}

/// What comes upon a session from outside, or of its transaction: a statement of the client's in the place of the proxy's own would
/// have failed by the same.
const OF_THE_SESSION: [&str; 10] = [
    sqlstate::QUERY_CANCELED,
    sqlstate::LOCK_NOT_AVAILABLE,
    sqlstate::IN_FAILED_TRANSACTION,
    sqlstate::SERIALIZATION_FAILURE,
    sqlstate::DEADLOCK_DETECTED,
    sqlstate::INSUFFICIENT_RESOURCES,
    "53100",
    "53200",
    "53300",
    "53400",
];

/// What a client is told of an error of what the proxy asked.
fn failure(frame: &[u8]) -> SqlError {
    let fields = error_fields(frame).unwrap_or_default();
    let text = |wanted: u8| {
        let (_, text) = fields.iter().find(|(kind, _)| *kind == wanted)?;
        Some(String::from_utf8_lossy(text).into_owned())
    };
    let (code, message) = (text(b'C').unwrap_or_default(), text(b'M').unwrap_or_default());
    let error = match OF_THE_SESSION.into_iter().find(|known| *known == code) {
        Some(known) => {
            SqlError { detail: text(b'D').map(String::into_boxed_str), ..SqlError::new(known, message) }
        }
        None => {
            SqlError::new(sqlstate::INTERNAL_ERROR, format!("the proxy cannot ask the database: {message}"))
        }
    };
    SqlError { has_failed: true, ..error }
}

impl Exchange {
    /// One whose answer is waited for; `tells` if the client is told of a failure by the database's words.
    pub(in crate::session) fn new(tells: bool) -> (Self, oneshot::Receiver<Result<Answer, SqlError>>) {
        let (done, answered) = oneshot::channel();
        let (rows, shares) = (Rows::new(), Vec::new());
        let exchange = Self {
            rows,
            bytes: 0,
            counted: 0,
            shares,
            has_more: false,
            is_complete: false,
            failed: None,
            tells,
            done,
        };
        (exchange, answered)
    }

    /// Takes room for a row before it is read; where there is none, the exchange fails.
    pub(in crate::session) fn take_room(&mut self, rewriting: &Rewriting, bytes: usize) {
        let total = self.bytes + bytes;
        if self.failed.is_some() || total <= self.counted + COUNTED_BYTES {
            return;
        }
        match rewriting.replies.try_share(total - self.counted) {
            Ok(share) => self.shares.push(share),
            Err(error) => self.fail(error.into()),
        }
        self.counted = total;
    }

    fn fail(&mut self, error: SqlError) {
        self.rows = Rows::new();
        self.shares = Vec::new();
        self.failed.get_or_insert(error);
    }

    pub(super) fn reply(&mut self, kind: u8, frame: &[u8], out: &mut Vec<u8>) {
        match kind {
            b'D' => {
                self.bytes += frame.len();
                match text_row(frame) {
                    _ if self.failed.is_some() => {}
                    _ if self.bytes > EXCHANGE_BYTES_MAX => {
                        self.fail(SqlError::new("54000", "too many rows for the proxy"));
                    }
                    Some(row) => self.rows.push(row),
                    None => self.fail(malformed()),
                }
            }
            b'E' => {
                self.failed.get_or_insert(failure(frame));
                // One that ends the session is not told by another.
                if self.tells || is_fatal(frame) {
                    hidden(kind, frame, out);
                }
            }
            b's' => self.has_more = true,
            b'C' => self.is_complete = true,
            b'N' | b'A' | b'S' => out.extend_from_slice(frame),
            _ => {}
        }
    }

    /// The database waits for the next message.
    pub(in crate::session) fn end(self) {
        let Self { rows, has_more, is_complete, bytes, shares, .. } = self;
        let answer = Answer { rows, has_more, is_complete, bytes, _shares: shares };
        let answer = self.failed.map_or(Ok(answer), Err);
        // Whoever asked may be gone.
        let _ = self.done.send(answer);
    }
}
