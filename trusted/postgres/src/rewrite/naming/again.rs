//! `EXECUTE` of what was prepared when a table's columns were in other places: it is prepared again.

use super::{NamedAction, execute as execute_as_it_is, prepare, word_at};
use crate::catalog::Catalog;
use crate::error::SqlError;
use crate::named::{Named, Naming, Prepared, cached_plan};
use crate::plan::{Action, Layout, Program, Rewritten};
use crate::text::{Lexemes, quoted, statements};

/// Are the columns that a statement takes by their places where they were, without a doubt, and the defaults that it stores the same?
pub(super) fn stands(prepared: &Prepared, catalog: &Catalog) -> bool {
    let (taken, mut defaults) = (&prepared.rewritten.layouts, prepared.rewritten.defaults.iter());
    let stand = defaults.all(|(column, default)| catalog.default_of(*column) == default.as_ref());
    stand
        && taken.iter().all(|taken| {
            taken.stands_in(catalog) && (taken.is_shown || !catalog.is_doubted(&taken.table.name))
        })
}

/// Prepares a statement again, and executes it.
///
/// # Errors
/// Why it cannot be planned again: PostgreSQL's error where its result would be another.
pub(super) fn execute(
    text: &str,
    lexemes: &Lexemes,
    catalog: &Catalog,
    (named, name): (&Named, String),
) -> Result<Option<NamedAction>, SqlError> {
    let changed = || cached_plan("Columns of the statement's table were changed since it was prepared.");
    let prepared = named.prepared.get(&name).ok_or_else(changed)?;
    let moved = prepared.rewritten.layouts.iter().filter(|taken| !taken.stands_in(catalog));
    if moved.into_iter().any(|taken| taken.is_shown) {
        return Err(changed());
    }
    let is_it = |one: &Lexemes| one.is_word(0, "prepare") && word_at(one, 1).as_ref() == Some(&name);
    let written = statements(&prepared.text)?.into_iter().rfind(is_it).ok_or_else(changed)?;
    let again = prepare(&prepared.text, &written, catalog, (named, name.clone()))?;
    let Some((Action::Rewritten(preparing), Some(naming))) = again else { return Err(changed()) };
    let own = text.get(lexemes.span()).unwrap_or_default();
    let executing = match &naming {
        Naming::Prepared(_, prepared) => execute_as_it_is(text, lexemes, catalog, prepared)?,
        _ => Action::Rewritten(Rewritten::plain(own)),
    };
    let executing = match executing {
        Action::Program(program) => match *program {
            Program::Layout(layout) => layout.steps,
            _ => return Err(changed()),
        },
        Action::Rewritten(rewritten) => vec![rewritten],
        Action::Unchanged | Action::Refused(_) => return Err(changed()),
    };
    let preparing = [Rewritten::plain(format!("DEALLOCATE {}", quoted(&name))), preparing];
    let steps = preparing.into_iter().chain(executing).collect();
    let layout = Layout { steps, answer: 2 };
    Ok(Some((Action::Program(Box::new(Program::Layout(layout))), Some(naming))))
}
