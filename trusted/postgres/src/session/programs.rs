//! Statements for which the proxy runs several: `UPDATE` from old values, `COPY` in and out.
//!
//! They are run in the extended protocol without a `Sync`, whatever protocol the client speaks: so they are one with the
//! client's own messages before and behind them, commit with them, and an error of one is followed by nothing. A client of
//! the simple protocol is told that the database is ready by the `Sync` that ends them.

mod computed;

use super::late_rows::LateRows;
use super::physical::{self, close, close_portal, execute, execute_some, holding, parse};
use super::reading::{
    CopiedTable, CopyRow, CopyingOut, Exchange, Portal, Reading, Returning, Rows, Statement, Stored,
};
use super::rewritten::{Ended, Requests};
use crate::copy::{Line, Reader};
use crate::error::{SqlError, sqlstate};
use crate::fields::Bind;
use crate::named::cached_plan;
use crate::pipeline::Asked;
use crate::plan::{
    Computation, CopyIn, Expression, Form, ParameterType, PhysicalValue, Program, Recompute, Rewritten,
    Source, Value, Verb,
};
use crate::replies;
use crate::room::{Share, UNCOUNTED_BYTES};
use crate::values::{Argument, Inputs, enter, enter_rows, stored_terms};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Rows that a program reads before it writes what comes of them: at first, and at most.
const ROWS_FIRST: i32 = 4;
const ROWS_AT_A_TIME: i32 = 256;
/// Bytes of rows that a program is to read at a time, about.
const BYTES_AT_A_TIME: usize = 4 * 1024 * 1024;
/// The portal of what the proxy prepares to write rows is called; what is prepared, the same and a number.
const WRITES: &[u8] = b"arras writes";
/// A longer text is not kept for the next time, in bytes.
const KEPT_TEXT_BYTES: usize = 8 * 1024;
/// What it prepares in place of a query's statement is called.
pub(super) const STATEMENT: &[u8] = b"arras statement";

/// Rows that a client sends.
pub(super) struct CopyingIn {
    reader: Reader,
    table: Arc<CopiedTable>,
    statement: Arc<Statement>,
    rows: u64,
    /// What a row takes of which the end has not come.
    /// The client is told at the end that the database is ready.
    simple: bool,
}

/// What is prepared under the client's name for a program, and what is run before it is bound.
pub(super) fn prepared(program: &Program) -> (Rewritten, Vec<String>) {
    match program {
        Program::Recompute(recompute) => {
            let rewritten = Rewritten { parameters: parameters(recompute), ..recompute.read.clone() };
            (rewritten, holding(&recompute.write).into_iter().collect())
        }
        // It has no parameters, and is not looked at before it runs, as PostgreSQL has it.
        Program::CopyIn(copy) => (Rewritten::plain("SELECT"), holding(&copy.insert).into_iter().collect()),
        Program::CopyOut(copy) => (copy.read.clone(), Vec::new()),
        Program::Layout(_) => (Rewritten::default(), Vec::new()),
    }
}

/// What is known of the client's parameters by either statement, or by what is computed.
fn parameters(recompute: &Recompute) -> Vec<ParameterType> {
    let Recompute { verb: _, read, computed, write } = recompute;
    let mut merged = read.parameters.clone();
    let longest = merged.len().max(write.parameters.len());
    merged.resize(longest, ParameterType::Unused);
    let mut encrypted = |place: usize, oid: u32| {
        if merged.len() <= place {
            merged.resize(place + 1, ParameterType::Unused);
        }
        if let Some(known) = merged.get_mut(place) {
            *known = ParameterType::Encrypted(oid);
        }
    };
    for (place, known) in write.parameters.iter().enumerate() {
        if let ParameterType::Encrypted(oid) = known {
            encrypted(place, *oid);
        }
    }
    for Computation { expression, .. } in computed {
        in_expression(expression, &mut encrypted);
    }
    merged
}

fn in_expression(expression: &Expression, encrypted: &mut impl FnMut(usize, u32)) {
    match expression {
        Expression::Parameter(number, of, cast) => {
            encrypted(usize::from(*number).saturating_sub(1), cast.unwrap_or(of.kind).oid());
        }
        Expression::Read(..)
        | Expression::Plain(..)
        | Expression::Constant(..)
        | Expression::Number(..)
        | Expression::Moment(_) => {}
        Expression::Arithmetic(_, left, right) => {
            in_expression(left, encrypted);
            in_expression(right, encrypted);
        }
        Expression::Coalesce(parts) | Expression::Chosen(_, parts) => {
            parts.iter().for_each(|part| in_expression(part, encrypted))
        }
        Expression::Negated(inner)
        | Expression::OfTime(_, inner)
        | Expression::Cast(inner, _)
        | Expression::Assigned(inner, _) => in_expression(inner, encrypted),
        Expression::Upserted { new, kept, .. } => {
            in_expression(new, encrypted);
            in_expression(kept, encrypted);
        }
    }
}

/// The statement that writes rows, if a program has one.
pub(super) fn writes(program: &Program) -> Option<&Rewritten> {
    match program {
        Program::Recompute(recompute) => Some(&recompute.write),
        Program::CopyIn(copy) => Some(&copy.insert),
        Program::CopyOut(_) | Program::Layout(_) => None,
    }
}

impl Requests<'_> {
    /// Prepares what writes a program's rows, and learns what it takes and returns.
    pub(super) fn prepare_writes(&mut self, statement: &Arc<Statement>) {
        let Some(write) = statement.program.as_deref().and_then(writes) else { return };
        let is_same = |known: &Arc<Statement>| Arc::ptr_eq(known, statement);
        let (place, kept) = self.writes.of(is_same);
        if self.may_keep && kept.is_there(is_same) {
            return;
        }
        let reading = kept.begin(Arc::clone(statement));
        if statement.texts.client.len() > KEPT_TEXT_BYTES {
            self.writes.let_go(place);
        }
        let (name, types) = (writes_name(place), physical::types_of(write, &statement.known_types()));
        self.hidden_message(Asked::Close, |out| close(out, &name));
        parse(&mut self.out, &name, &write.extended_text(), &types);
        self.sent(Asked::Parse, reading, None);
        replies::message(&mut self.out, b'D', |out| {
            out.push(b'S');
            replies::string(out, &name);
        });
        self.sent(Asked::Describe, Reading::Shape(Arc::clone(statement)), None);
    }

    /// What is prepared for a program's rows is called.
    fn writes_of(&self, statement: &Arc<Statement>) -> Vec<u8> {
        writes_name(self.writes.number(|known| Arc::ptr_eq(known, statement)))
    }

    /// Runs a program that is a statement of a query.
    pub(super) async fn query_program(&mut self, statement: Arc<Statement>) -> Ended {
        let bound = Bind {
            portal: STATEMENT,
            statement: STATEMENT,
            formats: vec![],
            values: vec![],
            results: statement.program.as_deref().map(result_formats).unwrap_or_default(),
        };
        let inputs = Inputs { text: &statement.texts.client, asker: self.orders(), ..Inputs::default() };
        match self.computed(&statement.rewritten.values, inputs).await {
            Ok(values) => {
                self.prepare_writes(&statement);
                self.hidden(&statement.before);
                // A portal outlives its statement, to the transaction's end.
                self.hidden_message(Asked::Close, |out| close_portal(out, STATEMENT));
                self.hidden_message(Asked::Close, |out| close(out, STATEMENT));
                let types = physical::types_of(&statement.rewritten, &[]);
                parse(&mut self.out, STATEMENT, &statement.texts.sent, &types);
                self.sent(Asked::Parse, Reading::Hidden, None);
                self.hidden_message(Asked::Bind, |out| physical::bind(out, &bound, &values));
                let stored = Stored::default();
                let portal =
                    Portal { statement, formats: Vec::new(), bound: Vec::new(), stored, _share: None };
                self.execute_program(&portal, STATEMENT, true).await?;
            }
            Err(error) => self.refuse(b'P', error),
        }
        Ok(())
    }

    /// Tells the client of the simple protocol that the database is ready.
    pub(super) fn synchronise(&mut self) {
        self.rows = self.rows.before(b'S');
        self.passed_over.end();
        replies::message(&mut self.out, b'S', |_| ());
        self.sent(Asked::Sync, Reading::Plain, None);
    }

    /// Runs the program of a portal.
    pub(super) async fn execute_program(&mut self, portal: &Portal, name: &[u8], simple: bool) -> Ended {
        let statement = &portal.statement;
        if !simple {
            // Another program may have run since this one was prepared.
            self.prepare_writes(statement);
        }
        match statement.program.as_deref() {
            Some(Program::Recompute(recompute)) => self.recompute(recompute, portal, name, simple).await,
            Some(Program::CopyOut(copy)) => {
                let copying =
                    CopyingOut { outputs: copy.read.outputs.clone(), format: copy.format.clone(), rows: 0 };
                let copying = Arc::new(Mutex::new(copying));
                replies::message(&mut self.out, b'D', |out| {
                    out.push(b'P');
                    replies::string(out, name);
                });
                self.sent(Asked::Describe, Reading::CopyOut(Arc::clone(&copying)), None);
                execute(&mut self.out, name);
                self.sent(Asked::Execute, Reading::CopyOut(copying), None);
                Ok(())
            }
            Some(Program::CopyIn(copy)) => self.begin_rows(copy, Arc::clone(statement), simple).await,
            Some(Program::Layout(_)) | None => Ok(()),
        }
    }

    /// Reads rows under their locks, computes, and writes each.
    async fn recompute(
        &mut self,
        recompute: &Recompute,
        portal: &Portal,
        name: &[u8],
        simple: bool,
    ) -> Ended {
        let statement = &portal.statement;
        let (written, mut rows_read) = (Arc::new(AtomicU64::new(0)), 0);
        let (mut first, mut rows_wanted) = (simple, ROWS_FIRST);
        loop {
            // The portal keeps to its snapshot, whatever is written between two of its pieces.
            execute_some(&mut self.out, name, rows_wanted);
            let (exchange, answered) = Exchange::new(true);
            self.sent(Asked::Execute, Reading::Own(Box::new(exchange)), None);
            replies::message(&mut self.out, b'H', |_| ());
            self.write().await?;
            let answer = match answered.await {
                Ok(Ok(answer)) => answer,
                // It has been told by the database's own words.
                Ok(Err(_)) if self.failed_meanwhile().await => return Ok(()),
                Ok(Err(error)) => {
                    self.refuse(b'P', error);
                    return Ok(());
                }
                // What is to be run is passed over.
                Err(_) => return Ok(()),
            };
            if statement.returns_another() {
                self.refuse(
                    b'P',
                    cached_plan("What the statement returns has other types since it was prepared."),
                );
                return Ok(());
            }
            if std::mem::take(&mut first) {
                self.sent_close(MARK, Reading::EmitShape(Arc::clone(statement)));
            }
            if recompute.verb == Verb::Upsert && rows_read == 0 {
                // What a portal that waits has written is seen once another statement has been completed.
                self.hidden(&["SELECT".to_owned()]);
            }
            rows_read += answer.rows.len() as u64;
            let row_bytes = answer.bytes / answer.rows.len().max(1) + 1;
            let fitting = i32::try_from(BYTES_AT_A_TIME / row_bytes).unwrap_or(ROWS_AT_A_TIME);
            rows_wanted = fitting.clamp(1, ROWS_AT_A_TIME);
            if !self.write_rows(recompute, portal, answer.rows, &written).await? {
                return Ok(());
            }
            if !answer.has_more {
                break;
            }
        }
        if recompute.verb == Verb::Upsert && !self.has_written(&written, rows_read).await? {
            return Ok(());
        }
        self.sent_close(MARK, Reading::EmitWritten(recompute.verb, written));
        Ok(())
    }

    /// Waits until rows that the first statement wrote are written with what is computed of them: each is there, or nothing stays.
    async fn has_written(&mut self, written: &AtomicU64, rows_read: u64) -> Result<bool, super::End> {
        replies::message(&mut self.out, b'H', |_| ());
        self.write().await?;
        if self.failed_meanwhile().await {
            return Ok(false);
        }
        let is_all = written.load(Ordering::Relaxed) == rows_read;
        if !is_all {
            let message = "a row that was inserted or locked is not there to be written";
            self.refuse(b'P', SqlError::new(sqlstate::INTERNAL_ERROR, message));
        }
        Ok(is_all)
    }

    /// Writes what is computed of rows; false if nothing more is to be.
    async fn write_rows(
        &mut self,
        recompute: &Recompute,
        portal: &Portal,
        rows: Rows,
        written: &Arc<AtomicU64>,
    ) -> Result<bool, super::End> {
        let arguments = arguments(&portal.statement, &portal.bound);
        let name = self.writes_of(&portal.statement);
        let entered = match self.prepare_rows(recompute, &rows, &portal.statement, &arguments).await {
            Ok(entered) => entered,
            Err(error) => {
                self.refuse(b'P', error);
                return Ok(false);
            }
        };
        for row in rows {
            match self.new_values(recompute, &row, &portal.statement, (&arguments, &entered)).await {
                Ok((values, stored)) => {
                    let bound = Bind {
                        portal: WRITES,
                        statement: &name,
                        formats: portal.bound.iter().map(|(binary, _)| i16::from(*binary)).collect(),
                        values: portal.bound.iter().map(|(_, value)| value.as_deref()).collect(),
                        results: portal.formats.clone(),
                    };
                    self.hidden_message(Asked::Bind, |out| physical::bind(out, &bound, &values));
                    execute(&mut self.out, WRITES);
                    let (outputs, formats) = (recompute.write.outputs.clone(), portal.formats.clone());
                    let returning = Returning { outputs, formats, written: Arc::clone(written), stored };
                    self.sent(Asked::Execute, Reading::Returning(Box::new(returning)), None);
                    self.hidden_message(Asked::Close, |out| close_portal(out, WRITES));
                }
                Err(error) => {
                    self.refuse(b'P', error);
                    return Ok(false);
                }
            }
            self.bound().await?;
        }
        Ok(true)
    }

    /// Begins to take rows.
    async fn begin_rows(&mut self, copy: &CopyIn, statement: Arc<Statement>, simple: bool) -> Ended {
        let mut begun = Vec::new();
        replies::message(&mut begun, b'G', |out| copy_formats(out, copy.columns.len(), copy.format.binary));
        self.sent_close(MARK, Reading::Emit(begun.into()));
        // It is not kept back: the client waits for it. If something before it failed, no rows come.
        replies::message(&mut self.out, b'H', |_| ());
        self.write().await?;
        self.rows = if simple { LateRows::Drop } else { LateRows::DropUntilSync };
        if self.failed_meanwhile().await {
            return Ok(());
        }
        let reader = Reader::of(copy);
        let table = Arc::new(CopiedTable::new(copy));
        self.copying = Some(CopyingIn { reader, table, statement, rows: 0, simple });
        Ok(())
    }

    /// A message while rows are taken; false if it is none of those that come then.
    pub(super) async fn row_message(&mut self, kind: u8, body: &[u8]) -> Result<bool, super::End> {
        let Some(mut copying) = self.copying.take() else { return Ok(false) };
        let outcome = match kind {
            b'd' => match copying.reader.read(body) {
                Ok(rows) => match self.hold_row(copying.reader.held_bytes()) {
                    Ok(()) => self.store(&mut copying, rows).await.map(|()| false),
                    Err(error) => Err(error),
                },
                Err(error) => Err(error),
            },
            b'c' => match copying.reader.finish() {
                Ok(row) => self.store(&mut copying, row.into_iter().collect()).await.map(|()| true),
                Err(error) => Err(error),
            },
            b'f' => {
                let reason = crate::fields::query(body).map(String::from_utf8_lossy).unwrap_or_default();
                Err(SqlError::new(sqlstate::QUERY_CANCELED, format!("COPY from stdin failed: {reason}")))
            }
            // PostgreSQL ignores them, too, for drivers that send them ahead.
            b'S' | b'H' => Ok(false),
            _ => {
                self.copying = Some(copying);
                return Ok(false);
            }
        };
        match outcome {
            Ok(false) => {
                self.copying = Some(copying);
                self.bound().await?;
                return Ok(true);
            }
            Ok(true) => {
                self.row_room.clear();
                self.rows = LateRows::Drop;
                self.sent_close(MARK, Reading::Emit(tag(&format!("COPY {}", copying.rows)).into()));
                if copying.simple {
                    self.synchronise();
                }
            }
            Err(error) => self.end_rows(&copying, error),
        }
        Ok(true)
    }

    /// Has room for what came of a row whose end has not.
    fn hold_row(&mut self, bytes: usize) -> Result<(), SqlError> {
        if bytes <= UNCOUNTED_BYTES {
            self.row_room.clear();
            return Ok(());
        }
        // What the message had is the row's. Nobody waits who has some.
        self.row_room.extend(self.room.take());
        let mut counted: usize = self.row_room.iter().map(Share::bytes).sum();
        while let Some(last) = self.row_room.last().map(Share::bytes).filter(|last| counted - last >= bytes) {
            self.row_room.pop();
            counted -= last;
        }
        if bytes > counted + UNCOUNTED_BYTES {
            self.row_room.push(self.rewriting.requests.try_share(bytes - counted)?);
        }
        Ok(())
    }

    /// No more rows are taken: the statement has failed.
    pub(super) fn end_rows(&mut self, copying: &CopyingIn, error: SqlError) {
        self.row_room.clear();
        self.refuse(b'P', error);
        if copying.simple {
            self.rows = LateRows::Drop;
            self.synchronise();
        }
    }

    async fn store(&mut self, copying: &mut CopyingIn, lines: Vec<Line>) -> Result<(), SqlError> {
        let statement = Arc::clone(&copying.statement);
        let Some(Program::CopyIn(copy)) = statement.program.as_deref() else { return Ok(()) };
        let name = self.writes_of(&statement);
        let asker = self.orders();
        let all: Vec<Inputs<'_>> = lines
            .iter()
            .map(|line| Inputs { read: line.row.as_slice(), asker, ..Inputs::default() })
            .collect();
        enter(&copy.insert.values, &all, &*self.rewriting.columns).await?;
        let entered = enter_rows(&copy.insert.values, &all, &*self.rewriting.columns).await?;
        for (line, inputs) in lines.iter().zip(all) {
            let inputs = Inputs { entered: Some(&entered), ..inputs };
            let values = match self.computed(&copy.insert.values, inputs).await {
                Ok(values) => as_sent(&copy.insert.values, line, values),
                Err(error) => {
                    return Err(self.placed(error, copying, copy, std::slice::from_ref(line)).await);
                }
            };
            let bound =
                Bind { portal: WRITES, statement: &name, formats: vec![], values: vec![], results: vec![] };
            let stored = Stored(stored_terms(&copy.insert.values, &values, inputs));
            let row = Arc::new(CopyRow::new(&copying.table, copy, line, stored));
            physical::bind(&mut self.out, &bound, &values);
            self.sent(Asked::Bind, Reading::CopyRow(Arc::clone(&row)), None);
            execute(&mut self.out, WRITES);
            self.sent(Asked::Execute, Reading::CopyRow(row), None);
            self.hidden_message(Asked::Close, |out| close_portal(out, WRITES));
            copying.rows += 1;
            // An end of the session shows at the next message.
            let _ = self.bound().await;
        }
        Ok(())
    }

    /// An error of a row's value, with the place of the first value that has one.
    async fn placed(
        &mut self,
        error: SqlError,
        copying: &CopyingIn,
        copy: &CopyIn,
        lines: &[Line],
    ) -> SqlError {
        for line in lines {
            let inputs = Inputs { read: &line.row, asker: self.orders(), ..Inputs::default() };
            for value in &copy.insert.values {
                let Source::Read(column) = value.source else { continue };
                let one = std::slice::from_ref(value);
                if let Err(error) = self.computed(one, inputs).await {
                    let field = line.row.get(column).and_then(Option::as_deref);
                    return error.context(|| copying.table.place(line.number, column, field));
                }
            }
        }
        error
    }

    fn sent_close(&mut self, name: &[u8], reading: Reading) {
        close(&mut self.out, name);
        self.sent(Asked::Close, reading, None);
    }
}

/// The name of what is prepared to write rows, by its number.
fn writes_name(place: usize) -> Vec<u8> {
    format!("arras writes {place}").into_bytes()
}

/// A name that nothing has: its `Close` only marks a place among the replies.
const MARK: &[u8] = b"arras nothing";

/// The client's parameters, as they were bound.
fn arguments<'a>(statement: &Statement, bound: &'a [(bool, Option<Vec<u8>>)]) -> Vec<Argument<'a>> {
    let argument = |(place, (binary, value)): (usize, &'a (bool, Option<Vec<u8>>))| Argument {
        oid: physical::argument_type(statement, place),
        binary: *binary,
        bytes: value.as_deref(),
    };
    bound.iter().enumerate().map(argument).collect()
}

/// `CommandComplete`.
pub(super) fn tag(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    replies::message(&mut out, b'C', |out| replies::string(out, text.as_bytes()));
    out
}

/// The body of `CopyInResponse` and `CopyOutResponse`: so many columns, all as text or in binary.
pub(super) fn copy_formats(out: &mut Vec<u8>, columns: usize, binary: bool) {
    out.push(u8::from(binary));
    let count = u16::try_from(columns).unwrap_or(u16::MAX);
    out.extend_from_slice(&count.to_be_bytes());
    out.extend((0..count).flat_map(|_| u16::from(binary).to_be_bytes()));
}

/// The formats in which the database sends what a program reads: text, but for a copy in binary.
pub(super) fn result_formats(program: &Program) -> Vec<i16> {
    if matches!(program, Program::CopyOut(copy) if copy.format.binary) { vec![1] } else { Vec::new() }
}

/// Values of a row with those that came in binary and are not encrypted as they came.
fn as_sent(of: &[Value], line: &Line, mut values: Vec<PhysicalValue>) -> Vec<PhysicalValue> {
    for (value, physical) in of.iter().zip(&mut values) {
        let (Form::Plain, Source::Read(column)) = (&value.form, &value.source) else { continue };
        if let Some(Some(bytes)) = line.sent.get(*column) {
            *physical = PhysicalValue::Bytes(bytes.clone());
        }
    }
    values
}

/// What a copy's rows are, for whoever asks before it runs: nothing.
pub(super) fn shows_nothing(program: &Program) -> bool {
    matches!(program, Program::CopyIn(_) | Program::CopyOut(_))
}
