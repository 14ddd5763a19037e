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
    /// Notes that the statement at `index` failed.
    pub(super) fn add(&mut self, index: usize, error: CommandError) {
        self.errors.push((index, error));
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
        self.errors.sort_by_key(|(index, _)| *index);
        let errors: Vec<Bson> =
            self.errors.iter().map(|(index, error)| error.to_write_error(*index)).collect();
        reply.insert("writeErrors", errors);
    }
}
