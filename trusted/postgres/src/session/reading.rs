//! How replies are read: what of them is shown to the client, and as what.

mod copies;
mod exchange;
mod keys;
mod rows;
mod shape;
mod texts;

pub(super) use copies::{CopiedTable, CopyRow, CopyingOut};
pub(super) use exchange::{Answer, Exchange, Rows};
pub(super) use keys::{Stored, shown_error, stored_by};
use rows::row;
pub(super) use rows::{Opening, opened_texts, put_value, too_long};
pub(super) use shape::Shape;
pub(super) use texts::Texts;

use super::programs;
use crate::error::SqlError;
use crate::fields::Fields;
use crate::named::Naming;
use crate::plan::{Output, Outputs, ParameterType, Program, Rewritten, Verb};
use crate::replies::{self, Severity};
use crate::room::KeptShare;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A statement that fails in the database wherever one may fail, in the place of one that is refused: so what an error does
/// to a transaction, to a pipeline and to the statements behind it is the database's doing. Its error is replaced.
pub(super) const REFUSED: &str = "SELECT \"arras: this statement was refused by the proxy\"";
/// What its error names.
const MARK: &[u8] = b"arras: this statement was refused by the proxy";

/// A prepared statement that was rewritten.
pub(super) struct Statement {
    pub(super) texts: Texts,
    pub(super) rewritten: Rewritten,
    /// Run without a word before it is bound, and after it is executed.
    pub(super) before: Vec<String>,
    pub(super) after: Vec<String>,
    /// What it takes more than one statement to run, if so.
    pub(super) program: Option<Box<Program>>,
    /// What it does to names once it is complete.
    pub(super) naming: Option<Naming>,
    /// What is learned of the statement that writes its rows.
    pub(super) shape: Mutex<Shape>,
    /// Types of parameters that the client was told.
    pub(super) told: Mutex<Vec<u32>>,
    /// Types of parameters that the client declared.
    pub(super) types: Vec<u32>,
    /// What it takes of the memory, for as long as it is there.
    pub(super) _share: Option<KeptShare>,
}

/// A portal of one, and the formats of its results.
pub(super) struct Portal {
    pub(super) statement: Arc<Statement>,
    pub(super) formats: Vec<i16>,
    /// What a program was bound with: whether in binary, and the value.
    pub(super) bound: Vec<(bool, Option<Vec<u8>>)>,
    pub(super) stored: Stored,
    /// What it takes of the memory, for as long as it is there.
    pub(super) _share: Option<KeptShare>,
}

/// A statement of a query that was sent.
pub(super) enum Part {
    /// One whose results are the client's, and what it does to names once it is complete.
    Shown(Outputs, Option<Naming>),
    /// One of the proxy's own: it is only told of if it fails.
    Hidden,
}

/// How what writes a row is read.
pub(super) struct Returning {
    pub(super) outputs: Outputs,
    pub(super) formats: Vec<i16>,
    /// Rows that were written so far.
    pub(super) written: Arc<AtomicU64>,
    pub(super) stored: Stored,
}

/// One of several statements of a query.
pub(super) struct Step {
    pub(super) texts: Texts,
    pub(super) stored: Stored,
    pub(super) outputs: Outputs,
    pub(super) naming: Option<Naming>,
}

/// The results of a query, in their order.
pub(super) struct Query {
    pub(super) texts: Texts,
    pub(super) stored: Stored,
    pub(super) parts: Vec<Part>,
    /// How many have come.
    pub(super) at: usize,
    /// In place of the last one.
    pub(super) refused: Option<SqlError>,
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
    /// Of `Describe` and `Execute` of a cursor that a statement declared. Its rows are text.
    Cursor(Arc<Outputs>),
    /// Of what the proxy runs beside a statement: the client is told if it fails.
    Hidden,
    /// The same, of the `Execute` of this statement, which holds labels.
    Holding(String),
    /// The same, of the `Parse` of what stays prepared: that it was made, under which number.
    Kept(Arc<AtomicU64>, u64),
    /// Of a client's `Close`: turns true when it is done.
    Closed(Arc<AtomicBool>),
    /// Of what only makes a transaction fail, which the client was told has.
    Silent,
    /// Of the `Describe` of what writes a program's rows.
    Shape(Arc<Statement>),
    /// Of what marks the place where a program's client is told something.
    Emit(Box<[u8]>),
    /// The same, of the columns that it returns.
    EmitShape(Arc<Statement>),
    /// Of `Execute` of what writes a row: what it returns is shown.
    Returning(Box<Returning>),
    /// Of what marks the place where a program's client is told how many rows it wrote.
    EmitWritten(Verb, Arc<AtomicU64>),
    /// Of one of several statements of a query, which runs as the extended protocol has it.
    Step(Arc<Step>),
    /// Of what writes a row of a `COPY`.
    CopyRow(Arc<CopyRow>),
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
        opening: &mut Opening<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), SqlError> {
        let kind = frame.first().copied().unwrap_or_default();
        match self {
            Self::Plain => out.extend_from_slice(frame),
            Self::Query(query) => return query.reply(kind, frame, opening, out),
            Self::Refused(error) => match kind {
                // In a transaction that has failed by it the database says of what comes behind that it has.
                b'E' if error.has_failed || is_marked(frame) => replies::error(out, error, Severity::Error),
                _ => out.extend_from_slice(frame),
            },
            Self::Statement(statement) => match kind {
                b't' => statement.parameters(frame, out)?,
                b'T' | b'n' if statement.program.is_some() => statement.shown(&[], out)?,
                b'T' => description(frame, &statement.rewritten.outputs, out)?,
                b'E' => statement.texts.error(frame, out),
                _ => out.extend_from_slice(frame),
            },
            Self::Portal(portal) => portal.reply(frame, opening, out)?,
            Self::Cursor(outputs) => match kind {
                b'T' => description(frame, outputs, out)?,
                b'D' => row(frame, outputs, &[], opening, out)?,
                _ => out.extend_from_slice(frame),
            },
            Self::Hidden | Self::Holding(_) => hidden(kind, frame, out),
            Self::Kept(made, number) => match kind {
                b'1' => made.store(*number, Ordering::Release),
                _ => hidden(kind, frame, out),
            },
            Self::Closed(closed) => note_closed(closed, frame, out),
            Self::Silent => {}
            Self::Shape(statement) => statement.learn(kind, frame, out)?,
            Self::Emit(told) if kind == b'3' => out.extend_from_slice(told),
            Self::EmitShape(statement) if kind == b'3' => statement.returned(out),
            Self::EmitWritten(verb, written) if kind == b'3' => {
                let written = written.load(Ordering::Relaxed);
                out.extend_from_slice(&programs::tag(&format!("{} {written}", verb.tag())));
            }
            Self::Emit(_) | Self::EmitShape(_) | Self::EmitWritten(..) => hidden(kind, frame, out),
            Self::Returning(shown) => match kind {
                b'D' => row(frame, &shown.outputs, &shown.formats, opening, out)?,
                b'C' => {
                    shown.written.fetch_add(rows_of_tag(frame), Ordering::Relaxed);
                }
                _ => hidden(kind, frame, out),
            },
            Self::Step(step) => match kind {
                b'T' => description(frame, &step.outputs, out)?,
                b'D' => row(frame, &step.outputs, &[], opening, out)?,
                b'C' | b'I' => out.extend_from_slice(frame),
                b'E' => step.texts.error(frame, out),
                _ => hidden(kind, frame, out),
            },
            Self::CopyRow(row) => match kind {
                b'E' => row.error(frame, out),
                _ => hidden(kind, frame, out),
            },
            Self::CopyOut(copying) => {
                copying.lock().unwrap_or_else(PoisonError::into_inner).reply(kind, frame, opening, out)?;
            }
            Self::Own(exchange) => exchange.reply(kind, frame, out),
        }
        Ok(())
    }
}

impl Reading {
    /// What the statement that is complete now does to names.
    pub(super) fn naming(&self) -> Option<&Naming> {
        match self {
            Self::Query(query) => match query.parts.get(query.at)? {
                Part::Shown(_, naming) => naming.as_ref(),
                Part::Hidden => None,
            },
            Self::Portal(portal) => portal.statement.naming.as_ref(),
            Self::Step(step) => step.naming.as_ref(),
            Self::Plain
            | Self::Refused(_)
            | Self::Statement(_)
            | Self::Cursor(_)
            | Self::Hidden
            | Self::Holding(_)
            | Self::Kept(..)
            | Self::Closed(_)
            | Self::Silent
            | Self::Shape(_)
            | Self::Emit(_)
            | Self::EmitShape(_)
            | Self::Returning(_)
            | Self::EmitWritten(..)
            | Self::CopyRow(_)
            | Self::CopyOut(_)
            | Self::Own(_) => None,
        }
    }
}

impl Reading {
    /// Does what is on its way name something in SQL?
    pub(super) fn will_name(&self) -> bool {
        match self {
            Self::Query(query) => {
                let rest = query.parts.get(query.at..).unwrap_or_default();
                rest.iter().any(|part| matches!(part, Part::Shown(_, Some(_))))
            }
            _ => self.naming().is_some(),
        }
    }
}

impl Portal {
    fn reply(&self, frame: &[u8], opening: &mut Opening<'_>, out: &mut Vec<u8>) -> Result<(), SqlError> {
        let outputs = &self.statement.rewritten.outputs;
        match frame.first() {
            Some(b'T' | b'n') if self.statement.program.is_some() => {
                self.statement.shown(&self.formats, out)?
            }
            Some(b'T') => description(frame, outputs, out)?,
            Some(b'D') => row(frame, outputs, &self.formats, opening, out)?,
            Some(b'E') => self.statement.texts.error(frame, out),
            Some(_) | None => out.extend_from_slice(frame),
        }
        Ok(())
    }
}

impl Query {
    fn reply(
        &mut self,
        kind: u8,
        frame: &[u8],
        opening: &mut Opening<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), SqlError> {
        let part = self.parts.get(self.at);
        if matches!(kind, b'C' | b'I') {
            self.at += 1;
        }
        match (kind, part) {
            (b'T', Some(Part::Shown(outputs, _))) => description(frame, outputs, out)?,
            (b'D', Some(Part::Shown(outputs, _))) => row(frame, outputs, &[], opening, out)?,
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
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.clear();
        replies::message(out, b't', |out| {
            put_count(out, parameters.len());
            for (place, parameter) in parameters.iter().enumerate() {
                let declared = || self.types.get(place).copied().filter(|oid| *oid != 0);
                let oid = match parameter {
                    ParameterType::Encrypted(oid) => declared().unwrap_or(*oid),
                    ParameterType::Plain(position) => {
                        physical.get(*position).copied().unwrap_or_default().cast_unsigned()
                    }
                    // As PostgreSQL takes what nothing says more of.
                    ParameterType::Unused => {
                        let shape = self.shape.lock().unwrap_or_else(PoisonError::into_inner);
                        let written = self.program.as_deref().and_then(programs::writes);
                        let known = written.and_then(|write| match write.parameters.get(place) {
                            Some(ParameterType::Plain(position)) => shape.parameters.get(*position).copied(),
                            Some(ParameterType::Encrypted(_) | ParameterType::Unused) | None => None,
                        });
                        known.or_else(declared).unwrap_or(TEXT)
                    }
                };
                out.extend_from_slice(&oid.to_be_bytes());
                told.push(oid);
            }
        });
        Ok(())
    }
}

/// Number of the type `text`.
const TEXT: u32 = 25;

/// The client's `Close` is answered.
fn note_closed(closed: &AtomicBool, frame: &[u8], out: &mut Vec<u8>) {
    if frame.first() == Some(&b'3') {
        closed.store(true, Ordering::Release);
    }
    out.extend_from_slice(frame);
}

/// A reply to what the client did not ask.
fn hidden(kind: u8, frame: &[u8], out: &mut Vec<u8>) {
    match kind {
        // No place of what was sent is one of what the client sent.
        b'E' => Texts::default().error(frame, out),
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

/// The number of rows that `CommandComplete` tells.
fn rows_of_tag(frame: &[u8]) -> u64 {
    let tag = frame.get(5..).and_then(|rest| rest.split_last()).map_or(&[][..], |(_, tag)| tag);
    let number = tag.rsplit(|byte| *byte == b' ').next().and_then(|digits| std::str::from_utf8(digits).ok());
    number.and_then(|digits| digits.parse().ok()).unwrap_or_default()
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

pub(super) fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&u16::try_from(count).unwrap_or(u16::MAX).to_be_bytes());
}

/// What column `at` of `count` is.
pub(super) fn output(outputs: &Outputs, at: usize, count: usize) -> &Output {
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
