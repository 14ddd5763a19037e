//! The values of a statement: sealed, and their terms.

use super::super::physical::{self, format_of};
use super::super::reading::{Statement, Stored};
use super::Requests;
use crate::codec::Zone;
use crate::error::SqlError;
use crate::fields::Bind;
use crate::moment::{Began, microseconds};
use crate::plan::{Form, PhysicalValue, Value};
use crate::room::UNCOUNTED_BYTES;
use crate::values::{Argument, Asker, ConnectionKeys, Inputs, Viewer, compute, stored_terms};

/// About what a text's name takes, as a value and as it is sent.
const NAME_BYTES: usize = 112;

impl Requests<'_> {
    /// The values of a statement, unless it is cancelled meanwhile: what is new in an order may take its time.
    pub(in crate::session) async fn computed(
        &mut self,
        values: &[Value],
        inputs: Inputs<'_>,
    ) -> Result<Vec<PhysicalValue>, SqlError> {
        let computing = compute(values, inputs, &*self.rewriting.columns);
        let computed = self.behind.entered.unless_cancelled(computing).await?;
        self.have_room_for_found(values, &computed)?;
        Ok(computed)
    }

    /// Has room for the names of texts that were found, until they are written: they are no part of what came.
    fn have_room_for_found(&mut self, values: &[Value], computed: &[PhysicalValue]) -> Result<(), SqlError> {
        let is_found = |value: &Value| matches!(value.form, Form::Found(..));
        let names = values.iter().zip(computed).filter(|(value, _)| is_found(value));
        let count = |(_, names): (&Value, &PhysicalValue)| match names {
            PhysicalValue::Array(names) => names.len(),
            _ => 0,
        };
        let bytes = names.map(count).sum::<usize>().saturating_mul(NAME_BYTES);
        // Nobody waits who holds what others may wait for.
        if bytes > UNCOUNTED_BYTES {
            self.out_room.push(self.rewriting.requests.try_share(bytes)?);
        }
        Ok(())
    }

    /// The keys, as the session uses them.
    pub(in crate::session) fn keys(&self) -> ConnectionKeys<'_> {
        ConnectionKeys::new(&*self.rewriting.columns, self.shared.state().viewer())
    }

    /// What of the session matters to its values.
    pub(in crate::session) fn orders(&self) -> Asker {
        let (viewer, began) = {
            let mut state = self.shared.state();
            let transaction = microseconds(state.began());
            let began = Began { transaction, statement: microseconds(state.came) };
            let known = state.viewer();
            // What it is when what was sent is done comes later.
            let in_doubt = self.zone_changes.are_sent || state.zone_doubted.is_some();
            let zone = if in_doubt { Zone::Unknown } else { known.zone };
            (Viewer { zone, ..known }, began)
        };
        Asker {
            viewer,
            process: Some(self.behind.entered.upstream.process),
            sees_the_past: self.sees_the_past,
            began,
        }
    }

    pub(super) async fn values(
        &mut self,
        statement: &Statement,
        asked: &Bind<'_>,
    ) -> Result<(Vec<PhysicalValue>, Stored), SqlError> {
        let wanted = statement.rewritten.parameters.len();
        if asked.values.len() != wanted {
            let name = String::from_utf8_lossy(asked.statement);
            let text = format!(
                "bind message supplies {} parameters, but prepared statement \"{name}\" requires {wanted}",
                asked.values.len()
            );
            return Err(SqlError::new("08P01", text));
        }
        let arguments: Vec<Argument<'_>> = asked
            .values
            .iter()
            .enumerate()
            .map(|(place, bytes)| Argument {
                oid: physical::argument_type(statement, place),
                binary: format_of(&asked.formats, place) == 1,
                bytes: *bytes,
            })
            .collect();
        let asker = self.asker_of(&statement.rewritten.values).await?;
        let text = statement.texts.client.as_str();
        let inputs = Inputs { text, arguments: &arguments, asker, ..Inputs::default() };
        let values = self.computed(&statement.rewritten.values, inputs).await?;
        let stored = Stored(stored_terms(&statement.rewritten.values, &values, inputs));
        Ok((values, stored))
    }
}
