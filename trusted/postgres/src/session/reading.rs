//! How replies are read: what of them is shown to the client, and as what.

use super::{physical, programs};
use crate::copy::write_row;
use crate::error::SqlError;
use crate::fields::Fields;
use crate::plan::{CopyFormat, Output, Outputs, ParameterType, Program, Rewritten};
use crate::replies::{self, Severity};
use crate::rewriting::Share;
use arras_service::columns::Columns;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// A statement that fails in the database wherever one may fail, in the place of one that is refused: so what an error does
/// to a transaction, to a pipeline and to the statements behind it is the database's doing. Its error is replaced.
pub(super) const REFUSED: &str = "SELECT \"arras: this statement was refused by the proxy\"";
/// What its error names.
const MARK: &[u8] = b"arras: this statement was refused by the proxy";

/// Most bytes that an exchange of the proxy's own collects.
const EXCHANGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The client's text and what was sent in its place.
#[derive(Debug)]
pub(super) struct Texts {
    pub(super) client: String,
    pub(super) sent: String,
}

/// A prepared statement that was rewritten.
pub(super) struct Statement {
    pub(super) texts: Texts,
    pub(super) rewritten: Rewritten,
    /// Run without a word before it is bound, and after it is executed.
    pub(super) before: Vec<String>,
    pub(super) after: Vec<String>,
    /// What it takes more than one statement to run, if so.
    pub(super) program: Option<Box<Program>>,
    /// What is learned of the statement that writes its rows: types of parameters, and `RowDescription` or `NoData`.
    pub(super) shape: Mutex<(Vec<u32>, Vec<u8>)>,
    /// Types of parameters that the client declared.
    pub(super) types: Vec<u32>,
    /// What it takes of the memory, for as long as it is there.
    pub(super) _share: Share,
}

/// A portal of one, and the formats of its results.
pub(super) struct Portal {
    pub(super) statement: Arc<Statement>,
    pub(super) formats: Vec<i16>,
    /// What a program was bound with: whether in binary, and the value.
    pub(super) bound: Vec<(bool, Option<Vec<u8>>)>,
}

/// A statement of a query that was sent.
pub(super) enum Part {
    /// One whose results are the client's.
    Shown(Outputs),
    /// One of the proxy's own: it is only told of if it fails.
    Hidden,
}

/// The results of a query, in their order.
pub(super) struct Query {
    pub(super) texts: Texts,
    pub(super) parts: Vec<Part>,
    /// How many have come.
    pub(super) at: usize,
    /// In place of the last one.
    pub(super) refused: Option<SqlError>,
}

/// Rows that the proxy asks for itself.
pub(super) type Rows = Vec<Vec<Option<String>>>;

/// Something that the proxy asks itself.
pub(super) struct Exchange {
    pub(super) rows: Rows,
    pub(super) bytes: usize,
    pub(super) failed: Option<SqlError>,
    /// The client is told of a failure by the database's words.
    pub(super) tells: bool,
    pub(super) done: oneshot::Sender<Result<Rows, SqlError>>,
}

/// How the replies to a message are read.
#[derive(Default)]
pub(super) enum Reading {
    /// They are the client's as they come.
    #[default]
    Plain,
    /// Of a query.
    Query(Box<Query>),
    /// Of a message in the place of a refused one.
    Refused(Box<SqlError>),
    /// Of `Parse`, `Bind` and `Describe` of a rewritten statement.
    Statement(Arc<Statement>),
    /// Of `Describe` and `Execute` of a portal of one.
    Portal(Arc<Portal>),
    /// Of what the proxy runs beside a statement: the client is told if it fails.
    Hidden,
    /// Of the `Describe` of what writes a program's rows.
    Shape(Arc<Statement>),
    /// Of what marks the place where a program's client is told something.
    Emit(Vec<u8>),
    /// The same, of the columns that it returns.
    EmitShape(Arc<Statement>),
    /// Of `Execute` of what writes a row: what it returns is shown.
    Returning(Box<(Outputs, Vec<i16>)>),
    /// Of what reads the rows of a `COPY`.
    CopyOut(Arc<Mutex<CopyingOut>>),
    /// The proxy's own.
    Own(Box<Exchange>),
}

impl Reading {
    /// Reads a reply; appends what the client is told.
    ///
    /// # Errors
    /// What the database sent cannot be shown: the session cannot go on.
    pub(super) fn reply(
        &mut self,
        frame: &[u8],
        columns: &dyn Columns,
        out: &mut Vec<u8>,
    ) -> Result<(), SqlError> {
        let kind = frame.first().copied().unwrap_or_default();
        match self {
            Self::Plain => out.extend_from_slice(frame),
            Self::Query(query) => return query.reply(kind, frame, columns, out),
            Self::Refused(error) => match kind {
                b'E' if is_marked(frame) => replies::error(out, error, Severity::Error),
                _ => out.extend_from_slice(frame),
            },
            Self::Statement(statement) => match kind {
                b't' => statement.parameters(frame, out)?,
                b'T' | b'n' if statement.program.is_some() => statement.shown(&[], out)?,
                b'T' => description(frame, &statement.rewritten.outputs, out)?,
                b'E' => statement.texts.error(frame, out),
                _ => out.extend_from_slice(frame),
            },
            Self::Portal(portal) => {
                let outputs = &portal.statement.rewritten.outputs;
                match kind {
                    b'T' | b'n' if portal.statement.program.is_some() => {
                        portal.statement.shown(&portal.formats, out)?;
                    }
                    b'T' => description(frame, outputs, out)?,
                    b'D' => row(frame, outputs, &portal.formats, columns, out)?,
                    b'E' => portal.statement.texts.error(frame, out),
                    _ => out.extend_from_slice(frame),
                }
            }
            Self::Hidden => hidden(kind, frame, out),
            Self::Shape(statement) => statement.learn(kind, frame, out)?,
            Self::Emit(told) if kind == b'3' => out.extend_from_slice(told),
            Self::EmitShape(statement) if kind == b'3' => statement.returned(out),
            Self::Emit(_) | Self::EmitShape(_) => hidden(kind, frame, out),
            Self::Returning(shown) => match kind {
                b'D' => row(frame, &shown.0, &shown.1, columns, out)?,
                _ => hidden(kind, frame, out),
            },
            Self::CopyOut(copying) => {
                copying.lock().unwrap_or_else(PoisonError::into_inner).reply(kind, frame, columns, out)?;
            }
            Self::Own(exchange) => exchange.reply(kind, frame, out),
        }
        Ok(())
    }
}

impl Query {
    fn reply(
        &mut self,
        kind: u8,
        frame: &[u8],
        columns: &dyn Columns,
        out: &mut Vec<u8>,
    ) -> Result<(), SqlError> {
        let part = self.parts.get(self.at);
        if matches!(kind, b'C' | b'I') {
            self.at += 1;
        }
        match (kind, part) {
            (b'T', Some(Part::Shown(outputs))) => description(frame, outputs, out)?,
            (b'D', Some(Part::Shown(outputs))) => row(frame, outputs, &[], columns, out)?,
            (b'T' | b'D' | b'C' | b'I', Some(Part::Hidden)) => {}
            (b'E', _) => match &self.refused {
                Some(refused) if is_marked(frame) => replies::error(out, refused, Severity::Error),
                _ => self.texts.error(frame, out),
            },
            _ => out.extend_from_slice(frame),
        }
        Ok(())
    }
}

impl Statement {
    /// `ParameterDescription`, with the types that the client's parameters have.
    fn parameters(&self, frame: &[u8], out: &mut Vec<u8>) -> Result<(), SqlError> {
        let mut fields = Fields::new(frame.get(5..).unwrap_or_default());
        let physical = fields.list(Fields::int32).ok_or_else(malformed)?;
        let parameters = &self.rewritten.parameters;
        replies::message(out, b't', |out| {
            put_count(out, parameters.len());
            for (place, parameter) in parameters.iter().enumerate() {
                let declared = || self.types.get(place).copied().filter(|oid| *oid != 0);
                let oid = match parameter {
                    ParameterType::Encrypted(oid) => *oid,
                    ParameterType::Plain(index) => {
                        physical.get(*index).copied().unwrap_or_default().cast_unsigned()
                    }
                    // As PostgreSQL takes what nothing says more of.
                    ParameterType::Unused => {
                        let shape = self.shape.lock().unwrap_or_else(PoisonError::into_inner);
                        let written = self.program.as_deref().and_then(programs::writes);
                        let known = written.and_then(|write| match write.parameters.get(place) {
                            Some(ParameterType::Plain(index)) => shape.0.get(*index).copied(),
                            Some(ParameterType::Encrypted(_) | ParameterType::Unused) | None => None,
                        });
                        known.or_else(declared).unwrap_or(TEXT)
                    }
                };
                out.extend_from_slice(&oid.to_be_bytes());
            }
        });
        Ok(())
    }
}

impl Statement {
    /// Learns what writes a program's rows.
    fn learn(&self, kind: u8, frame: &[u8], out: &mut Vec<u8>) -> Result<(), SqlError> {
        let mut shape = self.shape.lock().unwrap_or_else(PoisonError::into_inner);
        match kind {
            b't' => {
                let mut fields = Fields::new(frame.get(5..).unwrap_or_default());
                let types = fields.list(Fields::int32).ok_or_else(malformed)?;
                shape.0 = types.into_iter().map(i32::cast_unsigned).collect();
            }
            b'T' => {
                shape.1.clear();
                let outputs = self.program.as_deref().and_then(programs::writes).map(|write| &write.outputs);
                description(frame, outputs.unwrap_or(&Outputs::AsSent), &mut shape.1)?;
            }
            b'n' => shape.1 = frame.to_vec(),
            _ => hidden(kind, frame, out),
        }
        Ok(())
    }

    /// What a program returns, for whoever asks before it runs: columns in these formats, or nothing.
    fn shown(&self, formats: &[i16], out: &mut Vec<u8>) -> Result<(), SqlError> {
        let shape = self.shape.lock().unwrap_or_else(PoisonError::into_inner);
        let copies = self.program.as_deref().is_some_and(programs::shows_nothing);
        if copies || shape.1.first() != Some(&b'T') {
            replies::message(out, b'n', |_| ());
            return Ok(());
        }
        let mut fields = Fields::new(shape.1.get(5..).unwrap_or_default());
        let count = fields.count().ok_or_else(malformed)?;
        let mut described = Vec::with_capacity(shape.1.len());
        for at in 0..count {
            let mut one = || Some((fields.string()?, fields.bytes(16)?, fields.bytes(2)?));
            let (name, rest, _) = one().ok_or_else(malformed)?;
            replies::string(&mut described, name);
            described.extend_from_slice(rest);
            described.extend_from_slice(&physical::format_of(formats, at).to_be_bytes());
        }
        replies::message(out, b'T', |out| {
            put_count(out, count);
            out.extend_from_slice(&described);
        });
        Ok(())
    }

    /// What a program returns, for a client of the simple protocol: nothing is said of no columns.
    fn returned(&self, out: &mut Vec<u8>) {
        let shape = self.shape.lock().unwrap_or_else(PoisonError::into_inner);
        if shape.1.first() == Some(&b'T') {
            out.extend_from_slice(&shape.1);
        }
    }
}

/// Rows on their way to the client's stream.
pub(super) struct CopyingOut {
    pub(super) outputs: Outputs,
    pub(super) format: CopyFormat,
    pub(super) rows: u64,
}

impl CopyingOut {
    fn reply(
        &mut self,
        kind: u8,
        frame: &[u8],
        columns: &dyn Columns,
        out: &mut Vec<u8>,
    ) -> Result<(), SqlError> {
        let data = |row: &[Option<&str>], format: &CopyFormat, out: &mut Vec<u8>| {
            replies::message(out, b'd', |out| out.extend_from_slice(&write_row(format, row)));
        };
        match kind {
            b'T' => {
                let mut fields = Fields::new(frame.get(5..).unwrap_or_default());
                let count = fields.count().ok_or_else(malformed)?;
                let mut names = Vec::with_capacity(count);
                for _ in 0..count {
                    let mut one = || Some((fields.string()?, fields.bytes(18)?));
                    let (name, _) = one().ok_or_else(malformed)?;
                    names.push(std::str::from_utf8(name).ok());
                }
                replies::message(out, b'H', |out| programs::copy_formats(out, count));
                if self.format.header {
                    data(&names, &self.format, out);
                }
            }
            b'D' => {
                let row = text_row(frame).ok_or_else(malformed)?;
                let opened = opened_texts(&row, &self.outputs, columns)?;
                let texts: Vec<Option<&str>> = opened.iter().map(Option::as_deref).collect();
                data(&texts, &self.format, out);
                self.rows += 1;
            }
            b'C' => {
                replies::message(out, b'c', |_| ());
                out.extend_from_slice(&programs::tag(&format!("COPY {}", self.rows)));
            }
            _ => hidden(kind, frame, out),
        }
        Ok(())
    }
}

/// A row that was read as text, with its sealed columns opened.
pub(super) fn opened_texts(
    row: &[Option<String>],
    outputs: &Outputs,
    columns: &dyn Columns,
) -> Result<Vec<Option<String>>, SqlError> {
    let count = row.len();
    let open = |(at, value): (usize, &Option<String>)| match output(outputs, at, count) {
        Output::Plain | Output::PlainRest => Ok(value.clone()),
        sealed => {
            let opened = sealed.open(value.as_deref().map(str::as_bytes), false, false, columns)?;
            opened.map(|text| String::from_utf8(text).map_err(|_| malformed())).transpose()
        }
    };
    row.iter().enumerate().map(open).collect()
}

/// Number of the type `text`.
const TEXT: u32 = 25;

impl Texts {
    /// An error of what was sent, for who sent the other text: its position is where the two agree, or is left out.
    fn error(&self, frame: &[u8], out: &mut Vec<u8>) {
        let Some(fields) = error_fields(frame) else {
            out.extend_from_slice(frame);
            return;
        };
        replies::message(out, b'E', |out| {
            for (kind, text) in fields {
                let moved = (kind == b'P').then(|| self.position(text));
                let text = match &moved {
                    None => text,
                    Some(None) => continue,
                    Some(Some(moved)) => moved.as_bytes(),
                };
                out.push(kind);
                replies::string(out, text);
            }
            out.push(0);
        });
    }

    fn position(&self, sent: &[u8]) -> Option<String> {
        let sent: usize = std::str::from_utf8(sent).ok()?.parse().ok()?;
        let same = self.client.chars().zip(self.sent.chars()).take_while(|(a, b)| a == b).count();
        let (client_count, sent_count) = (self.client.chars().count(), self.sent.chars().count());
        let behind =
            self.client.chars().rev().zip(self.sent.chars().rev()).take_while(|(a, b)| a == b).count();
        // Positions are counted from 1.
        let from_end = (sent_count + 1).checked_sub(sent)?;
        if sent <= same {
            Some(sent.to_string())
        } else if from_end <= behind {
            Some((client_count + 1 - from_end).to_string())
        } else {
            None
        }
    }
}

/// A reply to what the client did not ask.
fn hidden(kind: u8, frame: &[u8], out: &mut Vec<u8>) {
    match kind {
        // No place of what was sent is one of what the client sent.
        b'E' => Texts { client: String::new(), sent: String::new() }.error(frame, out),
        b'N' | b'A' | b'S' => out.extend_from_slice(frame),
        _ => {}
    }
}

/// The fields of an `ErrorResponse`.
fn error_fields(frame: &[u8]) -> Option<Vec<(u8, &[u8])>> {
    let mut fields = Fields::new(frame.get(5..)?);
    let mut list = Vec::new();
    loop {
        match fields.byte()? {
            0 => return Some(list),
            kind => list.push((kind, fields.string()?)),
        }
    }
}

fn is_marked(frame: &[u8]) -> bool {
    let marked = |text: &[u8]| text.windows(MARK.len()).any(|part| part == MARK);
    error_fields(frame).is_some_and(|fields| fields.iter().any(|(kind, text)| *kind == b'M' && marked(text)))
}

impl Exchange {
    fn reply(&mut self, kind: u8, frame: &[u8], out: &mut Vec<u8>) {
        match kind {
            b'D' => {
                self.bytes += frame.len();
                match text_row(frame) {
                    _ if self.bytes > EXCHANGE_BYTES_MAX => {
                        self.rows.clear();
                        self.failed
                            .get_or_insert_with(|| SqlError::new("54000", "too many rows for the proxy"));
                    }
                    Some(row) => self.rows.push(row),
                    None => self.failed = Some(malformed()),
                }
            }
            b'E' => {
                let text = |wanted: u8| {
                    let fields = error_fields(frame)?;
                    let (_, text) = fields.into_iter().find(|(kind, _)| *kind == wanted)?;
                    Some(String::from_utf8_lossy(text).into_owned())
                };
                let message = text(b'M').unwrap_or_default();
                let error = SqlError::new("XX000", format!("the proxy cannot ask the database: {message}"));
                self.failed.get_or_insert(error);
                if self.tells {
                    hidden(kind, frame, out);
                }
            }
            b'N' | b'A' | b'S' => out.extend_from_slice(frame),
            _ => {}
        }
    }

    /// The database waits for the next message.
    pub(super) fn end(self) {
        let answer = self.failed.map_or(Ok(self.rows), Err);
        // Whoever asked may be gone.
        let _ = self.done.send(answer);
    }
}

fn text_row(frame: &[u8]) -> Option<Vec<Option<String>>> {
    let mut fields = Fields::new(frame.get(5..)?);
    fields.list(|fields| {
        Some(match fields.value()? {
            None => None,
            Some(text) => Some(String::from_utf8(text.to_vec()).ok()?),
        })
    })
}

fn malformed() -> SqlError {
    SqlError::new("08P01", "the database sent a malformed message")
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&u16::try_from(count).unwrap_or(u16::MAX).to_be_bytes());
}

/// What column `at` of `count` is.
fn output(outputs: &Outputs, at: usize, count: usize) -> &Output {
    let Outputs::Columns(list) = outputs else { return &Output::Plain };
    let rest = list.iter().position(|output| *output == Output::PlainRest);
    let found = match rest {
        Some(rest) if at >= rest => {
            let behind = list.len() - rest - 1;
            if count - at > behind { None } else { list.get(list.len() - (count - at)) }
        }
        _ => list.get(at),
    };
    found.unwrap_or(&Output::Plain)
}

/// `RowDescription`, with the types that the client's columns have.
fn description(frame: &[u8], outputs: &Outputs, out: &mut Vec<u8>) -> Result<(), SqlError> {
    if *outputs == Outputs::AsSent {
        out.extend_from_slice(frame);
        return Ok(());
    }
    let mut fields = Fields::new(frame.get(5..).unwrap_or_default());
    let count = fields.count().ok_or_else(malformed)?;
    let mut described = Vec::with_capacity(frame.len());
    for at in 0..count {
        let mut one = || Some((fields.string()?, fields.bytes(18)?));
        let (name, rest) = one().ok_or_else(malformed)?;
        replies::string(&mut described, name);
        let (origin, shown) = rest.split_at(6);
        // Its type, length and modifier; behind them the format.
        let (shown, format) = shown.split_at(10);
        match output(outputs, at, count).shown() {
            None => described.extend_from_slice(&[origin, shown].concat()),
            Some(shown) => {
                described.extend_from_slice(origin);
                described.extend_from_slice(&shown.oid.to_be_bytes());
                described.extend_from_slice(&shown.length.to_be_bytes());
                described.extend_from_slice(&shown.modifier.to_be_bytes());
            }
        }
        described.extend_from_slice(format);
    }
    replies::message(out, b'T', |out| {
        put_count(out, count);
        out.extend_from_slice(&described);
    });
    Ok(())
}

/// `DataRow`, with its sealed columns opened.
fn row(
    frame: &[u8],
    outputs: &Outputs,
    formats: &[i16],
    columns: &dyn Columns,
    out: &mut Vec<u8>,
) -> Result<(), SqlError> {
    if *outputs == Outputs::AsSent {
        out.extend_from_slice(frame);
        return Ok(());
    }
    let mut fields = Fields::new(frame.get(5..).unwrap_or_default());
    let count = fields.count().ok_or_else(malformed)?;
    let begun = out.len();
    let mut failed = None;
    replies::message(out, b'D', |out| {
        put_count(out, count);
        for at in 0..count {
            let Some(value) = fields.value() else {
                failed = Some(malformed());
                return;
            };
            let binary = match formats {
                [] => false,
                [all] => *all == 1,
                each => each.get(at).is_some_and(|format| *format == 1),
            };
            match output(outputs, at, count) {
                Output::Plain | Output::PlainRest => put_value(out, value),
                sealed => match sealed.open(value, binary, binary, columns) {
                    Ok(opened) => put_value(out, opened.as_deref()),
                    Err(error) => {
                        failed = Some(error);
                        return;
                    }
                },
            }
        }
    });
    match failed {
        None => Ok(()),
        Some(error) => {
            out.truncate(begun);
            Err(error)
        }
    }
}

/// A value behind its length.
pub(super) fn put_value(out: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        None => out.extend_from_slice(&(-1_i32).to_be_bytes()),
        Some(value) => {
            out.extend_from_slice(&i32::try_from(value.len()).unwrap_or(i32::MAX).to_be_bytes());
            out.extend_from_slice(value);
        }
    }
}
