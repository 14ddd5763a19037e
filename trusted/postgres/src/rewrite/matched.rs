//! `@@`: texts that are found by their words.
//!
//! `to_tsvector(c) @@ to_tsquery('cat & rat')` becomes `(c$text = ANY (names))`: which texts have the words the enclave says, when the
//! statement is bound. So it may stand wherever a condition may, and NULL is NULL. Of `to_tsvector(coalesce(c, ''))` it is a text without
//! a word.

use super::analysis::{Analysis, Reference};
use super::constant::{Constant, constant};
use super::expression::argument_of;
use super::scope::Scope;
use super::term::Term;
use crate::catalog::Encryption;
use crate::column_type::ColumnType;
use crate::error::SqlError;
use crate::plan::{Form, Piece, Source, Value};
use arras_service::words::{Which, WordQuery};
use sqlparser::ast::{self, Expr, Function, FunctionArguments, Ident};
use sqlparser::tokenizer::Token;
use std::ops::Range;

const READER: &str = "operator @@";

/// What stands on one side: the column or the query, the configuration that is named, and all its tokens.
pub(super) struct Side<T> {
    pub(super) what: T,
    configuration: Option<Constant>,
    pub(super) tokens: Range<usize>,
    /// Is NULL a text without a word?
    pub(super) is_text: bool,
}

/// How PostgreSQL's function of a name reads a query.
fn written_by(name: &str) -> Option<WordQuery> {
    Some(match name {
        "to_tsquery" => WordQuery::Formula,
        "plainto_tsquery" => WordQuery::All,
        "phraseto_tsquery" => WordQuery::Phrase,
        "websearch_to_tsquery" => WordQuery::Web,
        _ => return None,
    })
}

/// The name of a function of PostgreSQL's own, in small letters.
fn own_name(function: &Function) -> Option<String> {
    let parts: Option<Vec<&Ident>> = function.name.0.iter().map(|part| part.as_ident()).collect();
    match parts?[..] {
        [name] => Some(name.value.to_lowercase()),
        [schema, name] if schema.value.eq_ignore_ascii_case("pg_catalog") => Some(name.value.to_lowercase()),
        _ => None,
    }
}

/// The arguments of a plain call: the configuration, if it is named, and the text.
fn arguments(function: &Function) -> Option<(Option<&Expr>, &Expr)> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let is_plain = list.duplicate_treatment.is_none()
        && list.clauses.is_empty()
        && function.over.is_none()
        && function.filter.is_none();
    match &list.args[..] {
        [text] if is_plain => Some((None, argument_of(text)?)),
        [configuration, text] if is_plain => Some((Some(argument_of(configuration)?), argument_of(text)?)),
        _ => None,
    }
}

/// What `coalesce` gives an empty text for in the place of NULL.
fn or_empty(text: &Expr) -> Option<&Expr> {
    let Expr::Function(function) = text else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    let [first, second] = &list.args[..] else { return None };
    let is_it = own_name(function).as_deref() == Some("coalesce")
        && list.clauses.is_empty()
        && list.duplicate_treatment.is_none();
    let is_empty = match argument_of(second)? {
        Expr::Value(value) => matches!(&value.value, ast::Value::SingleQuotedString(text) if text.is_empty()),
        _ => false,
    };
    argument_of(first).filter(|_| is_it && is_empty)
}

impl Analysis<'_> {
    /// Two operands of `@@`. False: neither is an encrypted column.
    pub(super) fn matched(&mut self, left: &Expr, right: &Expr, scope: &Scope<'_>) -> Result<bool, SqlError> {
        let (column, query) = match (self.vector(left, scope)?, self.vector(right, scope)?) {
            (Some(column), None) => (column, right),
            (None, Some(column)) => (column, left),
            (None, None) => return Ok(false),
            (Some(column), Some(_)) => return Err(self.not_a_query(&column.what)),
        };
        let Some(query) = self.query_of_words(query) else { return Err(self.not_a_query(&column.what)) };
        let term = self.words_of(&column)?;
        if let Some(named) = &query.configuration {
            self.check_configuration(named, &column.what)?;
        }
        let (asked, written) = &query.what;
        if asked.cast.is_some() && !asked.cast_kind().is_some_and(ColumnType::is_text) {
            return Err(self.not_a_query(&column.what));
        }
        self.type_parameter(&asked.source, ColumnType::Text.oid());
        let at = self.lexemes.bytes(asked.tokens.start).start;
        let encryption = column.what.encryption.clone();
        // Of a text that is stored between the search and the statement nothing is known: it is missed, here and where this is denied.
        let (which, is_one) =
            if self.denies(false) { (Which::Others, "<> ALL") } else { (Which::Found, "= ANY") };
        let mut value = |form| {
            let source = asked.source.clone();
            Piece::Value(self.edits.value(Value { source, form, sent_as: None, at }))
        };
        let names = value(Form::Found(encryption.clone(), *written, which));
        let of_nothing = column.is_text.then(|| value(Form::FoundEmpty(encryption, *written)));
        let tokens = column.tokens.start.min(query.tokens.start)..column.tokens.end.max(query.tokens.end);
        let term = self.term_text(&column.what, term);
        let pieces = match of_nothing {
            None => vec![Piece::Text(format!("({term} {is_one} (")), names, Piece::Text("))".into())],
            Some(of_nothing) => vec![
                Piece::Text(format!("(({term} IS NOT NULL AND {term} {is_one} (")),
                names,
                Piece::Text(format!(")) OR ({term} IS NULL AND ")),
                of_nothing,
                Piece::Text("::pg_catalog.bool))".into()),
            ],
        };
        let bytes = self.bytes(&tokens);
        self.understand_tokens(tokens);
        self.edits.replace(bytes, pieces);
        Ok(true)
    }

    /// The term by which words are found that are read so.
    pub(super) fn words_of(&self, column: &Side<Reference>) -> Result<Term, SqlError> {
        let term = self.need_compared(&column.what, READER, Some(Term::Text))?;
        if let Some(named) = &column.configuration {
            self.check_configuration(named, &column.what)?;
        }
        Ok(term)
    }

    /// The encrypted column that an operand is, alone or in `to_tsvector()`.
    pub(super) fn vector(
        &mut self,
        operand: &Expr,
        scope: &Scope<'_>,
    ) -> Result<Option<Side<Reference>>, SqlError> {
        if let Some(reference) = self.reference(operand, scope)? {
            let tokens = self.with_parentheses(operand, reference.tokens.clone());
            return Ok(Some(Side { what: reference, configuration: None, tokens, is_text: false }));
        }
        match operand {
            Expr::Nested(inner) => {
                let found = self.vector(inner, scope)?;
                Ok(found.map(|found| Side { tokens: self.around(found.tokens), ..found }))
            }
            Expr::Function(function) if own_name(function).as_deref() == Some("to_tsvector") => {
                let Some((configuration, text)) = arguments(function) else { return Ok(None) };
                let inner = or_empty(text);
                let Some(reference) = self.reference(inner.unwrap_or(text), scope)? else { return Ok(None) };
                let Some(tokens) = self.tokens_of_call(function) else { return Ok(None) };
                let configuration = self.configuration(configuration, &reference)?;
                Ok(Some(Side { what: reference, configuration, tokens, is_text: inner.is_some() }))
            }
            _ => Ok(None),
        }
    }

    /// What an operand looks for; none if it is no query that the proxy reads.
    fn query_of_words(&mut self, operand: &Expr) -> Option<Side<(Constant, WordQuery)>> {
        if let Some(text) = constant(self.lexemes, operand) {
            // As PostgreSQL reads `text @@ text`.
            let tokens = text.tokens.clone();
            return Some(Side { what: (text, WordQuery::All), configuration: None, tokens, is_text: false });
        }
        match operand {
            Expr::Nested(inner) => {
                let found = self.query_of_words(inner)?;
                Some(Side { tokens: self.around(found.tokens), ..found })
            }
            Expr::Function(function) => {
                let written = written_by(&own_name(function)?)?;
                let (configuration, text) = arguments(function)?;
                let text = constant(self.lexemes, text)?;
                let configuration = match configuration {
                    None => None,
                    Some(named) => Some(constant(self.lexemes, named)?),
                };
                let tokens = self.tokens_of_call(function)?;
                Some(Side { what: (text, written), configuration, tokens, is_text: false })
            }
            _ => None,
        }
    }

    fn configuration(&self, named: Option<&Expr>, column: &Reference) -> Result<Option<Constant>, SqlError> {
        let Some(named) = named else { return Ok(None) };
        constant(self.lexemes, named).map(Some).ok_or_else(|| self.other_configuration(column))
    }

    /// Whether words are read as the column's were.
    fn check_configuration(&self, named: &Constant, column: &Reference) -> Result<(), SqlError> {
        let name = match &named.source {
            Source::Constant(Some(name)) => name.strip_prefix("pg_catalog.").unwrap_or(name),
            _ => return Err(self.other_configuration(column)),
        };
        if column.encryption.text.is_some_and(|own| own == name.to_lowercase()) {
            return Ok(());
        }
        Err(self.other_configuration(column))
    }

    fn other_configuration(&self, column: &Reference) -> SqlError {
        let Encryption { label, text, .. } = &*column.encryption;
        let own = text.unwrap_or_default();
        self.unsupported(
            column.tokens.end.saturating_sub(1),
            format!("the words of column {label} are kept as the configuration \"{own}\" reads them, and are found by that alone"),
            &format!("Name the configuration '{own}', or none; or give another column language = \"...\" in the schema file."),
        )
    }

    fn not_a_query(&self, column: &Reference) -> SqlError {
        self.unsupported(
            column.tokens.end.saturating_sub(1),
            format!("column {} is encrypted: what its words are compared with by @@ must be a query of a constant or a parameter", column.encryption.label),
            "Write to_tsquery, plainto_tsquery, phraseto_tsquery or websearch_to_tsquery of a text.",
        )
    }

    /// The tokens of a call, up to its parenthesis.
    fn tokens_of_call(&self, function: &Function) -> Option<Range<usize>> {
        let first = function.name.0.first()?.as_ident()?;
        let start = self.lexemes.position_of(first.span)?;
        let mut depth = 0_usize;
        for (at, lexeme) in self.lexemes.list.iter().enumerate().skip(start) {
            match lexeme.token.token {
                Token::LParen => depth += 1,
                Token::RParen if depth == 1 => return Some(start..at + 1),
                Token::RParen => depth = depth.checked_sub(1)?,
                _ => {}
            }
        }
        None
    }

    /// Tokens with the parentheses around them.
    fn around(&self, tokens: Range<usize>) -> Range<usize> {
        super::constant::in_parentheses(self.lexemes, tokens.clone()).unwrap_or(tokens)
    }

    /// The tokens of a reference with the parentheses that an expression has around it.
    fn with_parentheses(&self, operand: &Expr, tokens: Range<usize>) -> Range<usize> {
        match operand {
            Expr::Nested(inner) => self.around(self.with_parentheses(inner, tokens)),
            _ => tokens,
        }
    }
}
