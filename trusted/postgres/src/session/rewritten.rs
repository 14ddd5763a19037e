//! The way from the client to the database where statements are rewritten: each that touches an encrypted column goes on as
//! another, or is refused; what cannot be analysed is refused, too.

mod asked_parts;
mod beside;
mod coming;
mod comments;
mod computing;
mod current;
mod moments;
mod passing;
mod planning;
mod questions;
mod refused;
mod tables;
mod targets;
mod zones;

use super::kept::{Kept, Several};
use super::late_rows::LateRows;
use super::names::Undo;
use super::physical::{self, format_of, holding, laid_out, parse, steps, types_of};
use super::programs::{self, CopyingIn};
use super::reading::{Part, Portal, Query, REFUSED, Reading, Statement, Stored, Texts};
use super::sequence::{is_in_steps, require_no_parameters};
use super::{Behind, BothWays, End, FromSide, Note, ToSide, UNANSWERED_MAX};
use crate::error::{SqlError, sqlstate};
use crate::fields::{self, Bind, Parse, Target};
use crate::frames::{HEAD_BYTES, Inbox};
use crate::pipeline::Asked;
use crate::plan::{Action, Outputs, Planned, Program};
use crate::replies;
use crate::rewriting::{MESSAGE_BYTES_MAX, Rewriting};
use crate::room::{ConnectionPart, Share};
use crate::values::{Inputs, stored_terms};
use std::sync::{Arc, Mutex};
use tokio::task::coop::consume_budget;

/// Bytes of what is written that are kept for the next time.
const KEPT_BYTES: usize = 256 * 1024;

/// About what a portal takes.
const PORTAL_BYTES: usize = 512;
/// About what a value takes that is kept, besides its bytes.
const VALUE_BYTES: usize = 64;

/// Why the way ends.
pub(super) type Ended = Result<(), End>;

/// The way, and what it knows.
pub(super) struct Requests<'a> {
    pub(super) shared: &'a BothWays,
    pub(super) rewriting: &'a Rewriting,
    behind: Behind<'a>,
    /// Its transactions may see the database as it was when they began: it has named an isolation level, or has such a default.
    sees_the_past: bool,
    to: &'a mut ToSide,
    /// Not written yet.
    pub(super) out: Vec<u8>,
    /// Room of a large message that comes.
    pub(super) room: Option<Share>,
    /// Room of a row that comes in several messages.
    pub(super) row_room: Vec<Share>,
    /// Room that one had, until what is made of it is written.
    out_room: Vec<Share>,
    /// Rows are taken from the client.
    pub(super) copying: Option<CopyingIn>,
    /// What becomes of rows that come while none are taken.
    pub(super) rows: LateRows,
    /// The tables as they were read last.
    catalog: Option<tables::Known>,
    pub(super) kept: &'a ConnectionPart,
    /// False once a statement came that may close all that is prepared.
    pub(super) may_keep: bool,
    /// What writes programs' rows, prepared for the last ones.
    pub(super) writes: Several<Arc<Statement>>,
    /// What is run beside statements, prepared as it was last.
    beside: Kept<String>,
    /// Number of the next message.
    number: u64,
    /// Something was named in SQL.
    names_in_sql: bool,
    /// What it has sent that changes tables.
    changes: tables::Changes,
    /// What it has sent that may give the session another time zone.
    zone_changes: moments::ZoneChanges,
    /// What its statements mean that may be parts of declared tables.
    meant: asked_parts::Meant,
    questions: questions::Questions,
    pub(super) passed_over: refused::PassedOver,
}

/// Passes on what the client sends until there is no more.
pub(super) async fn pass(
    shared: &BothWays,
    (rewriting, behind, kept): (&Rewriting, Behind<'_>, &ConnectionPart),
    from: FromSide,
    to: &mut ToSide,
) -> End {
    let _changing = tables::Changing(shared, rewriting);
    let mut requests = Requests {
        shared,
        rewriting,
        behind,
        sees_the_past: false,
        to,
        out: Vec::new(),
        room: None,
        row_room: Vec::new(),
        out_room: Vec::new(),
        copying: None,
        rows: LateRows::Pass,
        catalog: None,
        kept,
        may_keep: true,
        writes: Several::default(),
        beside: Kept::default(),
        number: 0,
        names_in_sql: false,
        changes: tables::Changes::default(),
        zone_changes: moments::ZoneChanges::default(),
        meant: asked_parts::Meant::default(),
        questions: questions::Questions::default(),
        passed_over: refused::PassedOver::default(),
    };
    match requests.run(from).await {
        Ok(()) => std::future::pending().await,
        Err(end) => end,
    }
}

impl Requests<'_> {
    async fn run(&mut self, mut from: FromSide) -> Ended {
        let mut inbox = Inbox::new();
        loop {
            while let Some(head) = self.next(&mut inbox)? {
                let there = inbox.there();
                if let Some(message) = there.get(..head.total) {
                    self.message(head.kind, message).await?;
                    consume_budget().await;
                    inbox.passed(head.total);
                    if let Some(room) = self.room.take() {
                        self.out_room.push(room);
                        self.write().await?;
                    }
                    self.bound().await?;
                } else if self.copying.is_none()
                    && Asked::by(head.kind).is_none_or(|asked| asked == Asked::CopyEnd)
                {
                    let passes = !self.rows.drops(head.kind);
                    if passes {
                        self.out.extend_from_slice(there);
                    }
                    let came = there.len();
                    inbox.passed(came);
                    self.rest(&mut inbox, &mut from, head.total - came, passes).await?;
                } else if head.total > MESSAGE_BYTES_MAX {
                    let text = format!(
                        "a message of {} bytes is more than the proxy takes ({MESSAGE_BYTES_MAX})",
                        head.total
                    );
                    self.refuse(head.kind, SqlError::new("54000", text));
                    let came = there.len();
                    inbox.passed(came);
                    self.rest(&mut inbox, &mut from, head.total - came, false).await?;
                } else if self.room.is_none() {
                    if let Err(error) = self.room_for(head.total, &mut inbox, &mut from).await? {
                        match self.copying.take() {
                            Some(copying) => self.end_rows(&copying, error),
                            None => self.refuse(head.kind, error),
                        }
                        let came = inbox.there().len().min(head.total);
                        inbox.passed(came);
                        self.rest(&mut inbox, &mut from, head.total - came, false).await?;
                    }
                } else {
                    break;
                }
            }
            self.write().await?;
            if self.shared.state().terminated {
                return Ok(());
            }
            if self.room.is_none() {
                inbox.shrink();
            }
            self.fill(&mut inbox, &mut from).await?;
        }
    }

    pub(super) async fn write(&mut self) -> Ended {
        if self.out.is_empty() {
            self.out_room.clear();
            return Ok(());
        }
        let mut written = self.to.write_at_once(&self.out);
        if let Ok(bytes) = written
            && let Some(rest @ [_, ..]) = self.out.get(bytes..)
        {
            let had = self.out_room.first().or(self.row_room.first()).or(self.room.as_ref());
            let rest = self.rewriting.requests.giving_up(had, self.to.write_whole(rest)).await;
            written = rest?.map(|()| bytes);
        }
        if written.is_err() {
            // What the database said last, or that it is gone, comes the other way.
            std::future::pending::<()>().await;
        }
        self.out.clear();
        self.out.shrink_to(KEPT_BYTES);
        self.out_room.clear();
        Ok(())
    }

    /// Waits while too many messages are unanswered.
    pub(super) async fn bound(&mut self) -> Ended {
        if self.shared.state().pipeline.len() >= UNANSWERED_MAX {
            // The database keeps replies back until it is asked for them, or has many.
            replies::message(&mut self.out, b'H', |_| ());
            self.write().await?;
            self.shared.at_most(UNANSWERED_MAX / 2).await;
        }
        Ok(())
    }

    /// Notes a message that goes to the database.
    pub(super) fn sent(&mut self, asked: Asked, reading: Reading, undo: Option<Undo>) {
        self.number += 1;
        let note = Note { number: self.number, reading, undo: undo.map(Box::new) };
        self.shared.state().sent(asked, note);
    }

    fn plain(&mut self, asked: Asked, message: &[u8]) {
        self.sent(asked, Reading::Plain, None);
        self.out.extend_from_slice(message);
    }

    async fn message(&mut self, kind: u8, message: &[u8]) -> Ended {
        let body = message.get(HEAD_BYTES..).unwrap_or_default();
        let malformed = || End::Violation(SqlError::new("08P01", "invalid message format"));
        if self.copying.is_some() && self.row_message(kind, body).await? {
            return Ok(());
        }
        self.rows = self.rows.before(kind);
        self.came(kind);
        if self.rows.drops(kind) || self.passed_over.has(kind) {
            return Ok(());
        }
        self.fail_transaction();
        self.meant_before(kind, body);
        let blank = self.without_comments(kind, message).await;
        let message = blank.as_deref().unwrap_or(message);
        let body = message.get(HEAD_BYTES..).unwrap_or_default();
        match kind {
            b'Q' => self.query(message, fields::query(body).ok_or_else(malformed)?).await,
            b'P' => self.parse(message, Parse::read(body).ok_or_else(malformed)?).await,
            b'B' => self.bind(message, Bind::read(body).ok_or_else(malformed)?).await,
            b'D' => {
                let target = Target::read(body).ok_or_else(malformed)?;
                let reading = self.target(&target).await?;
                self.sent(Asked::Describe, reading, None);
                self.out.extend_from_slice(message);
                Ok(())
            }
            b'E' => {
                let target = Target { kind: b'P', name: fields::portal(body).ok_or_else(malformed)? };
                let reading = self.target(&target).await?;
                let portal =
                    if let Reading::Portal(portal) = &reading { Some(Arc::clone(portal)) } else { None };
                if let Some(portal) = portal.as_ref().filter(|portal| portal.statement.program.is_some()) {
                    return self.execute_program(portal, target.name, false).await;
                }
                self.sent(Asked::Execute, reading, None);
                self.out.extend_from_slice(message);
                if let Some(portal) = portal {
                    self.hidden(&portal.statement.after);
                }
                Ok(())
            }
            b'C' => {
                self.close(message, &Target::read(body).ok_or_else(malformed)?);
                Ok(())
            }
            b'F' => {
                let error = SqlError::new("0A000", "function calls by number do not go through the proxy");
                self.refuse(b'F', error.hint("Call the function in a SELECT."));
                Ok(())
            }
            b'X' => {
                self.shared.state().terminated = true;
                self.out.extend_from_slice(message);
                Ok(())
            }
            _ => {
                if let Some(asked) = Asked::by(kind) {
                    self.sent(asked, Reading::Plain, None);
                }
                self.out.extend_from_slice(message);
                Ok(())
            }
        }
    }

    async fn query(&mut self, message: &[u8], text: &[u8]) -> Ended {
        let (text, planned) = match self.plan(text, false).await {
            Ok(None) => {
                self.note_turns(text);
                self.plain(Asked::Query, message);
                return Ok(());
            }
            Ok(Some(planned)) => planned,
            Err(error) => {
                self.refuse(b'Q', error);
                return Ok(());
            }
        };
        self.write().await?;
        if planned.iter().any(|one| is_in_steps(&one.action)) {
            return self.sequence(text, planned).await;
        }
        let (mut parts, mut stored) = (Vec::new(), Vec::new());
        let mut refused = None;
        let mut sent = String::new();
        let mut behind = 0;
        for one in planned {
            let end = one.span.end;
            // What is between two statements stays, for the places of what follows.
            sent.push_str(text.get(behind..one.span.start).unwrap_or_default());
            match self.rewrite(text, one, &mut stored).await {
                Ok(list) => {
                    for (place, (text, part)) in list.into_iter().enumerate() {
                        if place > 0 {
                            sent.push_str("; ");
                        }
                        sent.push_str(&text);
                        parts.push(part);
                    }
                }
                Err(error) => {
                    if parts.is_empty() {
                        self.rows = LateRows::Drop;
                    }
                    sent.push_str(REFUSED);
                    refused = Some(error);
                    break;
                }
            }
            behind = end;
        }
        let length = sent.len();
        let texts = Texts { client: text.to_owned(), span: 0..text.len(), sent };
        let out = &mut self.out;
        out.reserve(length + HEAD_BYTES + 1);
        replies::message(out, b'Q', |out| replies::string(out, texts.sent.as_bytes()));
        self.sent(
            Asked::Query,
            Reading::Query(Box::new(Query { texts, stored: Stored(stored), parts, at: 0, refused })),
            None,
        );
        Ok(())
    }

    /// What is sent for a statement of a query.
    pub(super) async fn rewrite(
        &mut self,
        text: &str,
        one: Planned,
        stored: &mut Vec<(Vec<u8>, String)>,
    ) -> Result<Vec<(String, Part)>, SqlError> {
        require_no_parameters(text, &one)?;
        self.note_turns(text.get(one.span.clone()).unwrap_or_default().as_bytes());
        let rewritten = match one.action {
            Action::Unchanged => {
                let same = text.get(one.span).unwrap_or_default().to_owned();
                return Ok(vec![(same, Part::Shown(Outputs::AsSent, one.naming))]);
            }
            Action::Rewritten(rewritten) => rewritten,
            Action::Program(program) => return steps(*program, one.naming),
            Action::Refused(error) => return Err(error),
        };
        let asker = self.asker_of(&rewritten.values).await?;
        let inputs = Inputs { text, asker, ..Inputs::default() };
        let values = self.computed(&rewritten.values, inputs).await?;
        stored.extend(stored_terms(&rewritten.values, &values, inputs));
        let mut list: Vec<_> = holding(&rewritten).map(|text| (text, Part::Hidden)).into_iter().collect();
        list.push((rewritten.simple_text(&values)?, Part::Shown(rewritten.outputs, one.naming)));
        Ok(list)
    }

    fn close(&mut self, message: &[u8], target: &Target<'_>) {
        let is_statement = target.kind == b'S';
        let undo = {
            let names = &mut self.shared.state().names;
            if is_statement { names.close(target.name) } else { names.bind(target.name, None) }
        };
        let meant = if is_statement { self.meant.close(target.name) } else { None };
        self.sent(Asked::Close, meant.unwrap_or(Reading::Plain), undo);
        self.out.extend_from_slice(message);
    }

    async fn parse(&mut self, message: &[u8], asked: Parse<'_>) -> Ended {
        self.note_prepared_turns(asked.text, !asked.name.is_empty());
        let planned = self.plan(asked.text, !asked.name.is_empty()).await;
        let kept = self.keep_meant(asked.name);
        let planned = kept.and(planned);
        self.keep_changes(asked.name);
        let prepared = match planned {
            Ok(None) => Ok(None),
            Ok(Some((text, planned))) => self.prepared(asked.name, text, planned, asked.types).await,
            Err(error) => Err(error),
        };
        match prepared {
            Ok(statement) => {
                let number = self.number + 1;
                let undo = self
                    .shared
                    .state()
                    .names
                    .prepare(asked.name, statement.clone().map(|statement| (number, statement)));
                match statement {
                    None => {
                        self.sent(Asked::Parse, Reading::Plain, undo);
                        self.out.extend_from_slice(message);
                    }
                    Some(statement) => {
                        self.prepare_writes(&statement);
                        let types = types_of(&statement.rewritten, &statement.types);
                        parse(&mut self.out, asked.name, &statement.texts.sent, &types);
                        self.sent(Asked::Parse, Reading::Statement(statement), undo);
                    }
                }
            }
            Err(error) => self.refuse_name(asked.name, error),
        }
        Ok(())
    }

    /// What is prepared in place of a statement; `None` if that goes on as it is.
    pub(super) async fn prepared(
        &self,
        name: &[u8],
        text: &str,
        planned: Vec<Planned>,
        types: Vec<u32>,
    ) -> Result<Option<Arc<Statement>>, SqlError> {
        let mut planned = planned.into_iter();
        let Some(one) = planned.next() else { return Ok(None) };
        if planned.next().is_some() {
            // In the database's own words, without showing it the constants.
            let message = "cannot insert multiple commands into a prepared statement";
            return Err(SqlError::new(sqlstate::SYNTAX_ERROR, message));
        }
        let (mut after, mut program) = (Vec::new(), None);
        let (span, naming) = (one.span, one.naming);
        let (rewritten, before) = match one.action {
            Action::Unchanged => return Ok(None),
            Action::Rewritten(rewritten) => {
                let before = holding(&rewritten).into_iter().collect();
                (rewritten, before)
            }
            Action::Program(several) => match *several {
                Program::Layout(layout) => {
                    let (step, before, behind) = laid_out(layout)?;
                    after = behind;
                    (step, before)
                }
                several @ (Program::Recompute(_) | Program::CopyIn(_) | Program::CopyOut(_)) => {
                    let prepared = programs::prepared(&several);
                    program = Some(Box::new(several));
                    prepared
                }
            },
            Action::Refused(error) => return Err(error),
        };
        physical::check_count(&rewritten)?;
        let sent = rewritten.extended_text();
        // About what the texts, their pieces and a plan's parts take.
        let share =
            self.rewriting.kept.statement(self.kept, name, 4096 + 2 * (text.len() + sent.len())).await?;
        let texts = Texts { client: text.to_owned(), span, sent };
        let kept = Statement {
            texts,
            rewritten,
            before,
            after,
            program,
            naming,
            shape: Mutex::default(),
            told: Mutex::default(),
            types,
            _share: Some(share),
        };
        Ok(Some(Arc::new(kept)))
    }

    async fn bind(&mut self, message: &[u8], asked: Bind<'_>) -> Ended {
        if let Err(error) = self.require_no_part(asked.statement).await {
            self.refuse(b'B', error);
            return Ok(());
        }
        self.note_prepared(asked.statement);
        let current = match self.statement(asked.statement).await? {
            Some(statement) => self.current(asked.statement, statement).await,
            None => Ok(None),
        };
        let statement = match current {
            Ok(Some(statement)) => statement,
            Ok(None) => {
                let undo = self.shared.state().names.bind(asked.portal, None);
                self.sent(Asked::Bind, Reading::Plain, undo);
                self.bind_plain(message, asked);
                return Ok(());
            }
            Err(error) => {
                self.refuse(b'B', error);
                return Ok(());
            }
        };
        self.write().await?;
        // A program's portal keeps what it was bound with, each the terms of what is stored.
        let bound =
            if statement.program.is_some() { message.len() + VALUE_BYTES * asked.values.len() } else { 0 };
        let kept = PORTAL_BYTES + bound + 2 * asked.results.len();
        let computed = self.values(&statement, &asked).await;
        let computed = match computed {
            Ok((values, stored)) => {
                let share = self.rewriting.kept.passing(self.kept, kept + stored.bytes()).await;
                share.map(|share| (values, stored, share))
            }
            Err(error) => Err(error),
        };
        match computed {
            Ok((values, stored, share)) => {
                self.hidden(&statement.before);
                let kept = |(place, value): (usize, &Option<&[u8]>)| {
                    (format_of(&asked.formats, place) == 1, value.map(<[u8]>::to_vec))
                };
                // Only a program looks at them again.
                let bound = asked.values.iter().enumerate().filter(|_| statement.program.is_some());
                let bound = bound.map(kept).collect();
                let portal = Portal {
                    statement: Arc::clone(&statement),
                    formats: asked.results.clone(),
                    bound,
                    stored,
                    _share: Some(share),
                };
                let number = self.number + 1;
                let undo = self.shared.state().names.bind(asked.portal, Some((number, Arc::new(portal))));
                // What a program reads, the proxy reads; it shows the client what comes of it.
                let results = statement.program.as_deref().map(programs::result_formats);
                let results = results.unwrap_or(asked.results);
                physical::bind(&mut self.out, &Bind { results, ..asked }, &values);
                self.sent(Asked::Bind, Reading::Statement(statement), undo);
            }
            Err(error) => self.refuse(b'B', error),
        }
        Ok(())
    }
}
