//! What a program writes of the rows that it has read.

use super::super::reading::{self, Statement, Stored};
use super::super::rewritten::Requests;
use crate::error::SqlError;
use crate::plan::{Form, PhysicalValue, Recompute, Value};
use crate::values::{Argument, Entered, Inputs, enter, enter_rows, stored_terms};

impl Requests<'_> {
    /// Where rows have places of their own in an order, or words, enters those of several rows together.
    pub(super) async fn prepare_rows(
        &self,
        recompute: &Recompute,
        rows: &[Vec<Option<String>>],
        statement: &Statement,
        arguments: &[Argument<'_>],
    ) -> Result<Entered, SqlError> {
        let values = &recompute.write.values;
        let is_own = |value: &Value| match &value.form {
            Form::Order(of) => of.hides_frequency(),
            form => matches!(form, Form::Text(_)),
        };
        if rows.len() < 2 || !values.iter().any(is_own) {
            return Ok(Entered::default());
        }
        let keys = self.keys();
        let text = statement.texts.client.as_str();
        let mut all = Vec::with_capacity(rows.len());
        for row in rows {
            let read = reading::opened_texts(row, &recompute.read.outputs, keys)?;
            let asker = self.orders();
            let inputs = Inputs { text, arguments, read: &read, asker, ..Inputs::default() };
            let computed: Result<Vec<_>, SqlError> =
                recompute.computed.iter().map(|computation| computation.evaluate(inputs)).collect();
            // The row's own turn says what is wrong with it.
            let Ok(computed) = computed else { break };
            all.push((read, computed));
        }
        let inputs: Vec<Inputs<'_>> = all
            .iter()
            .map(|(read, computed)| {
                let asker = self.orders();
                Inputs { text, arguments, read, computed, asker, ..Inputs::default() }
            })
            .collect();
        enter(values, &inputs, &*self.rewriting.columns).await?;
        enter_rows(values, &inputs, &*self.rewriting.columns).await
    }

    /// What is written of a row that was read.
    pub(super) async fn new_values(
        &mut self,
        recompute: &Recompute,
        row: &[Option<String>],
        statement: &Statement,
        (arguments, entered): (&[Argument<'_>], &Entered),
    ) -> Result<(Vec<PhysicalValue>, Stored), SqlError> {
        let read = reading::opened_texts(row, &recompute.read.outputs, self.keys())?;
        let text = statement.texts.client.as_str();
        let (asker, entered) = (self.orders(), Some(entered));
        let inputs = Inputs { text, arguments, read: &read, asker, entered, ..Inputs::default() };
        let computed: Result<Vec<_>, SqlError> =
            recompute.computed.iter().map(|computation| computation.evaluate(inputs)).collect();
        let computed = computed?;
        let inputs = Inputs { computed: &computed, ..inputs };
        let values = self.computed(&recompute.write.values, inputs).await?;
        let stored = Stored(stored_terms(&recompute.write.values, &values, inputs));
        Ok((values, stored))
    }
}
