//! Names of the catalogue become those of views that show encrypted columns as they are declared.

use super::analysis::Analysis;
use crate::catalog::Catalog;
use crate::error::SqlError;
use crate::plan::{Action, Piece};
use crate::text::{Lexemes, name_of};
use sqlparser::tokenizer::Token;
use std::ops::Range;

/// Relations that are shown otherwise, with the schema that they are in.
const RELATIONS: [(&str, &str); 8] = [
    ("pg_catalog", "pg_class"),
    ("pg_catalog", "pg_attribute"),
    ("pg_catalog", "pg_index"),
    ("pg_catalog", "pg_constraint"),
    ("pg_catalog", "pg_trigger"),
    ("information_schema", "columns"),
    ("information_schema", "key_column_usage"),
    ("information_schema", "constraint_column_usage"),
];

/// Columns that a table has and no view.
const OF_TABLES: [&str; 6] = ["xmin", "xmax", "cmin", "cmax", "ctid", "tableoid"];

/// Functions that are.
const FUNCTIONS: [&str; 2] = ["pg_get_indexdef", "pg_get_constraintdef"];

/// Quickly: may a text, in small letters, name one of them?
pub(super) fn may_be_in(folded: &str) -> bool {
    let named = |name: &str| folded.contains(name);
    FUNCTIONS.iter().any(|name| named(name))
        || RELATIONS.iter().any(|(schema, name)| named(name) && (*schema == "pg_catalog" || named(schema)))
}

/// The tokens of a name that is shown otherwise, ending at a position, and the name's last part.
fn shown_at(lexemes: &Lexemes, at: usize) -> Option<(Range<usize>, String)> {
    let Some(Token::Word(word)) = lexemes.token(at) else { return None };
    let name = name_of(word);
    let called = matches!(lexemes.token(at + 1), Some(Token::LParen));
    let before = at.checked_sub(1).and_then(|before| lexemes.token(before));
    let schema = match before {
        Some(Token::Period) => match at.checked_sub(2).and_then(|at| lexemes.token(at)) {
            Some(Token::Word(schema)) => Some(name_of(schema)),
            _ => return None,
        },
        // A type, or a name that is given.
        Some(Token::DoubleColon) => return None,
        Some(Token::Word(word)) if word.value.eq_ignore_ascii_case("as") => return None,
        _ => None,
    };
    let known = if called {
        let of_catalog = schema.as_deref().is_none_or(|schema| schema == "pg_catalog");
        of_catalog && FUNCTIONS.contains(&name.as_str())
    } else {
        // Without its schema a name is found in `pg_catalog` only.
        RELATIONS.iter().any(|(place, relation)| {
            *relation == name && schema.as_deref().map_or(*place == "pg_catalog", |schema| schema == *place)
        })
    };
    let start = if schema.is_some() { at - 2 } else { at };
    known.then_some((start..at + 1, name))
}

/// A statement that names no encrypted table, with the names of the catalogue replaced.
///
/// # Errors
/// The text could not be put together: a defect.
pub(super) fn plan(text: &str, lexemes: &Lexemes, catalog: &Catalog) -> Result<Action, SqlError> {
    let mut analysis = Analysis::new(text, lexemes, catalog);
    // Only which indexes there are is another in the view of it.
    let of_tables = (0..lexemes.list.len()).any(|at| OF_TABLES.iter().any(|name| lexemes.is_word(at, name)));
    for at in 0..lexemes.list.len() {
        if let Some((tokens, name)) =
            shown_at(lexemes, at).filter(|(_, name)| !(of_tables && name == "pg_class"))
        {
            let bytes = analysis.bytes(&tokens);
            analysis.edits.replace(bytes, vec![Piece::Text(format!("arras.{name}"))]);
        }
    }
    if analysis.edits.is_empty() {
        return Ok(Action::Unchanged);
    }
    analysis.place_plain_parameters();
    analysis.edits.check(text, lexemes)?;
    let pieces = analysis.edits.pieces(text, lexemes.span())?;
    Ok(Action::Rewritten(analysis.rewritten(pieces)))
}
