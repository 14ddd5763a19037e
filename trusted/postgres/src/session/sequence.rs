//! Queries of which a statement is run in several: their statements run one after the other as the extended protocol has it,
//! and one `Sync` ends them, so that they are one transaction as the statements of a text are.

use super::physical::{self, before_others, close, close_portal, execute, holding, parse};
use super::programs::STATEMENT;
use super::reading::{Part, REFUSED, Reading, Step, Stored, Texts};
use super::rewritten::{Ended, Requests};
use crate::error::{SqlError, sqlstate};
use crate::fields::Bind;
use crate::pipeline::Asked;
use crate::plan::{Action, Layout, Piece, Planned, Program, Rewritten};
use crate::replies;
use crate::values::Inputs;
use std::sync::Arc;

/// Is a statement run as several that read and write rows?
pub(super) fn is_in_steps(action: &Action) -> bool {
    match action {
        Action::Program(program) => match **program {
            Program::Recompute(_) | Program::CopyIn(_) | Program::CopyOut(_) => true,
            Program::Layout(_) => false,
        },
        Action::Unchanged | Action::Rewritten(_) | Action::Refused(_) => false,
    }
}

/// A query has no parameters: 42P02 if a statement of one that is rewritten has, which nobody binds.
pub(super) fn require_no_parameters(text: &str, one: &Planned) -> Result<(), SqlError> {
    let own = text.get(one.span.clone()).unwrap_or_default();
    let is_prepared = own.get(..7).is_some_and(|word| word.eq_ignore_ascii_case("prepare"));
    if matches!(one.action, Action::Unchanged | Action::Refused(_)) || is_prepared || !own.contains('$') {
        return Ok(());
    }
    let Some((byte, name)) = crate::text::parameter(own) else { return Ok(()) };
    let error = SqlError::new(sqlstate::UNDEFINED_PARAMETER, format!("there is no parameter {name}"));
    Err(error.at(text, one.span.start + byte))
}

impl Requests<'_> {
    /// Runs a query's statements one after the other.
    pub(super) async fn sequence(&mut self, text: &str, planned: Vec<Planned>) -> Ended {
        let last = planned.len().saturating_sub(1);
        for (place, one) in planned.into_iter().enumerate() {
            if !self.one_of_several(text, one, place == last).await? {
                break;
            }
            self.bound().await?;
        }
        if self.copying.is_none() {
            self.synchronise();
        }
        Ok(())
    }

    /// Runs one of a query's statements; false if those behind it are not to be run.
    async fn one_of_several(&mut self, text: &str, one: Planned, is_last: bool) -> Result<bool, super::End> {
        let span = one.span.clone();
        let copies = text
            .get(span.clone())
            .is_some_and(|own| own.get(..4).is_some_and(|word| word.eq_ignore_ascii_case("copy")));
        if let Err(error) = require_no_parameters(text, &one) {
            self.refuse(b'P', error);
            return Ok(false);
        }
        let is_program = is_in_steps(&one.action);
        let reads_rows = match &one.action {
            Action::Program(program) => matches!(**program, Program::CopyIn(_)),
            Action::Unchanged | Action::Rewritten(_) | Action::Refused(_) => copies,
        };
        if reads_rows && !(is_last && is_program) {
            self.refuse(b'P', before_others(text, span.start));
            return Ok(false);
        }
        if is_program {
            match self.prepared(b"", text, vec![one], Vec::new()).await {
                Ok(Some(statement)) => self.query_program(statement).await?,
                Ok(None) => {}
                Err(error) => {
                    self.refuse(b'P', error);
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let mut stored = Vec::new();
        match self.rewrite(text, one, &mut stored).await {
            Ok(parts) => {
                for (sent, part) in parts {
                    match part {
                        Part::Hidden => self.hidden(&[sent]),
                        Part::Shown(outputs, naming) => {
                            let texts = Texts { client: text.to_owned(), span: span.clone(), sent };
                            let stored = Stored(std::mem::take(&mut stored));
                            self.shown_step(Arc::new(Step { texts, stored, outputs, naming }));
                        }
                    }
                }
                Ok(true)
            }
            Err(error) => {
                self.refuse(b'P', error);
                Ok(false)
            }
        }
    }

    /// Runs a statement whose results the client of the simple protocol is shown.
    fn shown_step(&mut self, step: Arc<Step>) {
        let reading = || Reading::Step(Arc::clone(&step));
        self.hidden_message(Asked::Close, |out| close_portal(out, STATEMENT));
        self.hidden_message(Asked::Close, |out| close(out, STATEMENT));
        parse(&mut self.out, STATEMENT, &step.texts.sent, &[]);
        self.sent(Asked::Parse, reading(), None);
        let bound = Bind {
            portal: STATEMENT,
            statement: STATEMENT,
            formats: vec![],
            values: vec![],
            results: vec![],
        };
        physical::bind(&mut self.out, &bound, &[]);
        self.sent(Asked::Bind, reading(), None);
        replies::message(&mut self.out, b'D', |out| {
            out.push(b'P');
            replies::string(out, STATEMENT);
        });
        self.sent(Asked::Describe, reading(), None);
        execute(&mut self.out, STATEMENT);
        self.sent(Asked::Execute, reading(), None);
    }

    /// Makes a transaction fail that the client was told has failed: what the proxy could not show was no error there.
    pub(super) fn fail_transaction(&mut self) {
        let fails = {
            let mut state = self.shared.state();
            let fails = std::mem::take(&mut state.failed_here);
            if let (true, Some(keeping)) = (fails, &mut state.keeping_back) {
                keeping.followed = true;
            }
            fails
        };
        if fails {
            self.sent(Asked::Query, Reading::Silent, None);
            replies::message(&mut self.out, b'Q', |out| replies::string(out, REFUSED.as_bytes()));
        }
    }

    /// Writes values into the texts of statements that PostgreSQL takes no parameters in. `kept`: the statement may be run many
    /// times, long after.
    pub(super) async fn settle(&mut self, text: &str, one: &mut Planned, kept: bool) {
        let Action::Program(program) = &one.action else { return };
        let Program::Layout(layout) = &**program else { return };
        if kept && layout.steps.iter().flat_map(|step| &step.values).any(|value| value.form.is_of_one_time())
        {
            let message = "EXECUTE of a statement that goes by an order cannot be prepared in its turn: values have their places \
                           in the order when it runs";
            let hint = "Prepare the statement itself by the protocol, or send EXECUTE as a simple query.";
            one.action = Action::Refused(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message).hint(hint));
            return;
        }
        if layout.steps.iter().all(|step| step.values.is_empty()) {
            return;
        }
        one.action = match self.settled(text, layout).await {
            Ok(layout) => Action::Program(Box::new(Program::Layout(layout))),
            Err(error) => Action::Refused(error),
        };
    }

    async fn settled(&mut self, text: &str, layout: &Layout) -> Result<Layout, SqlError> {
        let (mut steps, mut answer) = (Vec::new(), layout.answer);
        for (place, step) in layout.steps.iter().enumerate() {
            if let Some(hold) = holding(step) {
                steps.push(Rewritten::plain(hold));
                answer += usize::from(place <= layout.answer);
            }
            let asker = self.asker_of(&step.values).await?;
            let inputs = Inputs { text, asker, ..Inputs::default() };
            let values = self.computed(&step.values, inputs).await?;
            let pieces = vec![Piece::Text(step.simple_text(&values)?)];
            let (outputs, layouts) = (step.outputs.clone(), step.layouts.clone());
            steps.push(Rewritten { pieces, outputs, layouts, ..Rewritten::default() });
        }
        Ok(Layout { steps, answer })
    }
}
