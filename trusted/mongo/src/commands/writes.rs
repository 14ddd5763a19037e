//! What the writing commands share: the list of statements, and the reply with its errors.

use crate::arguments::Arguments;
use crate::error::CommandError;
use crate::wire::WRITE_BATCH_MAX;
use bson::{Bson, Document};

/// Takes the statements of a write command.
pub(super) fn statements(arguments: &mut Arguments, name: &str) -> Result<Vec<Document>, CommandError> {
    let statements = arguments.documents(name)?.ok_or_else(|| arguments.missing(name))?;
    if statements.is_empty() || statements.len() > WRITE_BATCH_MAX {
        let text = format!(
            "Write batch sizes must be between 1 and {WRITE_BATCH_MAX}. Got {} operations.",
            statements.len()
        );
        return Err(CommandError::new(16, "InvalidLength", text));
    }
    Ok(statements)
}

/// Takes the fields every write command has; returns whether to stop at the first failure.
pub(super) fn ordered(arguments: &mut Arguments) -> Result<bool, CommandError> {
    // What a schema declares is the operator's, and nothing that a client bypasses; retried writes are refused before.
    arguments.ignore(&["bypassDocumentValidation", "stmtId", "stmtIds", "bypassEmptyTsReplacement"]);
    Ok(arguments.boolean("ordered")?.unwrap_or(true))
}

/// Failures of single statements, as they come back to the client.
#[derive(Debug, Default)]
pub(super) struct WriteErrors {
    errors: Vec<(usize, CommandError)>,
}

impl WriteErrors {
    /// Notes that the statement at `position` failed.
    pub(super) fn add(&mut self, position: usize, error: CommandError) {
        self.errors.push((position, error));
    }

    /// Notes that statements were ended from `position` on, of `total`; fails if nothing came before. Where there is no order what is not
    /// named is taken for done: all are.
    pub(super) fn end(
        &mut self,
        position: usize,
        (ordered, total): (bool, usize),
        interrupted: CommandError,
    ) -> Result<(), CommandError> {
        if position == 0 {
            return Err(interrupted);
        }
        let undone = if ordered { position..position + 1 } else { position..total };
        undone.for_each(|position| self.add(position, interrupted.clone()));
        Ok(())
    }

    /// True if no statement failed.
    pub(super) fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    /// Adds `writeErrors` to a reply, in the order of the statements.
    pub(super) fn attach(mut self, reply: &mut Document) {
        if self.errors.is_empty() {
            return;
        }
        self.errors.sort_by_key(|(position, _)| *position);
        let errors: Vec<Bson> =
            self.errors.iter().map(|(position, error)| error.to_write_error(*position)).collect();
        reply.insert("writeErrors", errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_that_ends_early_names_what_is_not_done() {
        let ended = |position, ordered| {
            let mut errors = WriteErrors::default();
            let interrupted = CommandError::new(11601, "Interrupted", "operation was interrupted");
            errors
                .end(position, (ordered, 5), interrupted)
                .map(|()| errors.errors.iter().map(|(position, _)| *position).collect::<Vec<_>>())
        };
        assert_eq!(ended(2, true), Ok(vec![2]));
        assert_eq!(ended(2, false), Ok(vec![2, 3, 4]));
        // Nothing is done: the command failed.
        assert!(ended(0, false).is_err());
    }
}
