//! The values of a statement: sealed, and their terms.

use super::super::physical::{self, format_of};
use super::super::reading::{Statement, Stored};
use super::Requests;
use crate::error::SqlError;
use crate::fields::Bind;
use crate::plan::{PhysicalValue, Value};
use crate::values::{Argument, Asker, ConnectionKeys, Inputs, compute, stored_terms};

impl Requests<'_> {
    /// The values of a statement, unless it is cancelled meanwhile: what is new in an order may take its time.
    pub(in crate::session) async fn computed(
        &self,
        values: &[Value],
        inputs: Inputs<'_>,
    ) -> Result<Vec<PhysicalValue>, SqlError> {
        self.behind.entered.unless_cancelled(compute(values, inputs, &*self.rewriting.columns)).await
    }

    /// The keys, as the session uses them.
    pub(in crate::session) fn keys(&self) -> ConnectionKeys<'_> {
        ConnectionKeys::new(&*self.rewriting.columns, self.shared.state().session)
    }

    /// What of the session matters to its values.
    pub(in crate::session) fn orders(&self) -> Asker {
        let (in_utc, session) = {
            let state = self.shared.state();
            (state.settings.is_utc(), state.session)
        };
        Asker {
            session,
            process: Some(self.behind.entered.upstream.process),
            sees_the_past: self.sees_the_past,
            in_utc,
        }
    }

    pub(super) async fn values(
        &self,
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
        let (text, asker) = (statement.texts.client.as_str(), self.orders());
        let inputs = Inputs { text, arguments: &arguments, asker, ..Inputs::default() };
        let values = self.computed(&statement.rewritten.values, inputs).await?;
        let stored = Stored(stored_terms(&statement.rewritten.values, &values, inputs));
        Ok((values, stored))
    }
}
