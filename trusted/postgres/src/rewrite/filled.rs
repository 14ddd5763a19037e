//! Rows that are inserted through views: PostgreSQL gives them the defaults of columns that the view has not, and of an encrypted
//! column that is a sealed value without its terms.

use super::defined::word;
use crate::catalog::Catalog;
use crate::error::{SqlError, sqlstate};
use crate::text::Lexemes;
use sqlparser::tokenizer::Token;

/// That a statement inserts no rows through a view over a table whose encrypted columns have defaults.
///
/// # Errors
/// 0A000: it does.
pub(super) fn refused(text: &str, lexemes: &Lexemes, catalog: &Catalog) -> Result<(), SqlError> {
    let target = |at: usize| {
        let inserts = lexemes.is_word(at, "into") || (at == 0 && lexemes.is_word(at, "copy"));
        let skipped = inserts.then(|| if lexemes.is_word(at + 1, "binary") { at + 2 } else { at + 1 })?;
        let is_qualified = |at: usize| matches!(lexemes.token(at + 1), Some(Token::Period));
        let last = (0..2).fold(skipped, |at, _| if is_qualified(at) { at + 2 } else { at });
        let schema = last.checked_sub(2).filter(|_| last > skipped).and_then(|at| word(lexemes, at));
        let column = catalog.filled_by_default(schema.as_deref(), &word(lexemes, last)?)?;
        let takes_out = lexemes.is_word(at, "copy") && !copies_in(lexemes, last + 1);
        (!takes_out).then_some((last, column))
    };
    let Some((at, column)) = (0..lexemes.list.len()).find_map(target) else { return Ok(()) };
    let name = text.get(lexemes.bytes(at)).unwrap_or_default();
    let message = format!(
        "a row that is inserted through the view {name} gets the default of {column} from the server, without its terms"
    );
    Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message)
        .detail("The column is encrypted: the proxy seals its default for each row, and sees none that goes into a view.")
        .hint("INSERT INTO the table itself, or DROP DEFAULT.")
        .at(text, lexemes.bytes(at).start))
}

/// Does `FROM` follow what `COPY` names, and its list of columns?
fn copies_in(lexemes: &Lexemes, at: usize) -> bool {
    let listed = matches!(lexemes.token(at), Some(Token::LParen));
    let behind = if listed { lexemes.after_parentheses(at) } else { Some(at) };
    behind.is_some_and(|at| lexemes.is_word(at, "from"))
}
