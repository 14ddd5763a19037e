//! `delete`.

use super::count::number;
use super::reads;
use super::writes::{self, WriteErrors};
use crate::arguments::Arguments;
use crate::dispatch::Context;
use crate::error::{CommandError, CommandResult};
use arras_documents::filter::Filter;
use arras_service::interrupt::Interrupt;
use arras_service::store::{DeleteStatement, Store};
use bson::{Bson, DateTime, Document, doc};

/// Removes documents, statement by statement.
pub(crate) async fn run<S: Store>(context: &Context<'_, S>, mut arguments: Arguments) -> CommandResult {
    arguments.refuse(&["let"])?;
    let namespace = context.namespace(&mut arguments)?;
    let ordered = writes::ordered(&mut arguments)?;
    let sent = writes::statements(&mut arguments, "deletes")?;
    arguments.finish()?;
    // All are read before the first is done, as those of `update`.
    let sent = sent.into_iter().map(Sent::read).collect::<Result<Vec<_>, _>>()?;

    let total = sent.len();
    let mut errors = WriteErrors::default();
    let mut removed = 0_u64;
    for (position, sent) in sent.into_iter().enumerate() {
        if let Err(interrupted) = context.check() {
            errors.end(position, (ordered, total), interrupted)?;
            break;
        }
        let outcome = match sent.statement(context.now) {
            Ok(statement) => {
                let statement = DeleteStatement { interrupt: context.operation.interrupt(), ..statement };
                context.store().delete(&namespace, statement).await.map_err(CommandError::from)
            }
            Err(error) => Err(error),
        };
        match outcome {
            Ok(count) => removed = removed.saturating_add(count),
            Err(error) => errors.add(position, error),
        }
        if ordered && !errors.is_empty() {
            break;
        }
    }
    let mut reply = doc! { "n": number(removed) };
    errors.attach(&mut reply);
    Ok(reply)
}

/// One element of `deletes`: which fields it has, and of what types. What its filter says is not looked at.
struct Sent {
    filter: Document,
    hint: Option<Bson>,
    multi: bool,
}

impl Sent {
    fn read(fields: Document) -> Result<Self, CommandError> {
        let mut arguments = Arguments::of_statement("delete.deletes", fields);
        arguments.refuse(&["collation"])?;
        let hint = reads::hint(&mut arguments)?;
        let filter = arguments.document("q")?.ok_or_else(|| arguments.missing("q"))?;
        let multi = match arguments.integer("limit")? {
            Some(0) => true,
            Some(1) => false,
            Some(other) => {
                let text = format!("The limit field in delete objects must be 0 or 1. Got {other}");
                return Err(CommandError::failed_to_parse(text));
            }
            None => return Err(arguments.missing("limit")),
        };
        arguments.finish()?;
        Ok(Self { filter, hint, multi })
    }

    /// What it says; `now` is the command's.
    fn statement(self, now: DateTime) -> Result<DeleteStatement, CommandError> {
        let Self { filter, hint, multi } = self;
        let filter = Filter::parse_at(&filter, now)?;
        Ok(DeleteStatement { filter, hint, multi, interrupt: Interrupt::default() })
    }
}

/// Reads one element of `deletes`; `now` is the command's.
pub(super) fn statement(fields: Document, now: DateTime) -> Result<DeleteStatement, CommandError> {
    Sent::read(fields)?.statement(now)
}
