//! `PREPARE`, `EXECUTE` and `DEALLOCATE`, `DECLARE`, `FETCH` and `CLOSE`: statements about what a session has named.
//!
//! A prepared statement takes ciphertext for its parameters, so that `EXECUTE` is rewritten with the constants that it
//! gives; the rows that `FETCH` gives are those of the cursor's query.

mod again;

use super::analysis::Analysis;
use super::constant::{Constant, constant};
use super::statement;
use crate::catalog::{Catalog, Encryption};
use crate::codec::{array_members, type_of};
use crate::column_type::ColumnType;
use crate::error::{SqlError, sqlstate};
use crate::named::{Named, Naming, Prepared};
use crate::plan::{Action, Form, Layout, Outputs, ParameterType, Piece, Program, Rewritten, Source, Value};
use crate::text::{Lexemes, name_of};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;
use std::ops::Range;
use std::sync::Arc;

/// First words of such statements.
const WORDS: [&str; 7] = ["prepare", "execute", "deallocate", "declare", "fetch", "close", "discard"];

/// Quickly: may a text have such a statement?
pub(crate) fn may_be_in(text: &str) -> bool {
    let begins = |part: &str| {
        let part = part.trim_start();
        // What begins with a comment may go on with anything.
        part.starts_with("--")
            || part.starts_with("/*")
            || WORDS
                .iter()
                .any(|word| part.get(..word.len()).is_some_and(|first| first.eq_ignore_ascii_case(word)))
    };
    text.split(';').any(begins) || contains_execute(text)
}

/// `EXPLAIN EXECUTE`, `CREATE TABLE ... AS EXECUTE`.
fn contains_execute(text: &str) -> bool {
    text.as_bytes().windows(7).any(|part| part.eq_ignore_ascii_case(b"execute"))
}

/// What becomes of a statement, and of names.
type NamedAction = (Action, Option<Naming>);

/// Plans such a statement; none if it is none, or names nothing encrypted.
pub(super) fn plan(
    text: &str,
    lexemes: &Lexemes,
    catalog: &Catalog,
    named: &Named,
) -> Result<Option<NamedAction>, SqlError> {
    let first = WORDS.into_iter().find(|word| lexemes.is_word(0, word));
    let Some(first) = first else { return inner_execute(text, lexemes, named) };
    let name = word_at(lexemes, 1);
    match (first, name) {
        ("prepare", Some(name)) if !lexemes.is_word(1, "transaction") => {
            prepare(text, lexemes, catalog, (named, name))
        }
        ("declare", Some(name)) => declare(text, lexemes, catalog, (named, name)),
        ("execute", Some(name)) => match named.prepared(&name) {
            Some(prepared) if prepared.is_program => Err(refused(
                "EXECUTE does not run a statement for which the proxy reads and writes rows",
                "Bind it with the protocol, as it was prepared.",
                (text, lexemes, 1),
            )),
            Some(prepared) if !again::stands(prepared, catalog) => {
                again::execute(text, lexemes, catalog, (named, name))
            }
            Some(prepared) => execute(text, lexemes, catalog, prepared).map(|action| Some((action, None))),
            None => require_not_gone(&name, named).map(|()| None),
        },
        ("fetch", _) => {
            let last = lexemes.list.len().saturating_sub(1);
            let outputs = word_at(lexemes, last).and_then(|name| named.cursors.get(&name));
            let fetched = |outputs: &Arc<Outputs>| {
                let text = text.get(lexemes.span()).unwrap_or_default();
                Rewritten { outputs: (**outputs).clone(), ..Rewritten::plain(text) }
            };
            Ok(outputs.map(|outputs| (Action::Rewritten(fetched(outputs)), None)))
        }
        ("close", Some(name)) => {
            let all = lexemes.is_word(1, "all");
            let known = if all { !named.cursors.is_empty() } else { named.cursors.contains_key(&name) };
            known.then(|| same(text, lexemes, catalog, Naming::Closed((!all).then_some(name)))).transpose()
        }
        ("deallocate", Some(_)) => {
            let at = if lexemes.is_word(1, "prepare") { 2 } else { 1 };
            let all = lexemes.is_word(at, "all");
            let name = word_at(lexemes, at).unwrap_or_default();
            let any = || !named.prepared.is_empty() || named.has_parsed;
            let known = if all { any() } else { named.prepared(&name).is_some() };
            known
                .then(|| same(text, lexemes, catalog, Naming::Deallocated((!all).then_some(name))))
                .transpose()
        }
        ("discard", Some(_)) if lexemes.is_word(1, "all") && !named.is_empty() => {
            same(text, lexemes, catalog, Naming::Discarded).map(Some)
        }
        _ => Ok(None),
    }
}

/// The name that a statement prepares one under.
pub(super) fn prepares(lexemes: &Lexemes) -> Option<String> {
    let is_one = lexemes.is_word(0, "prepare") && !lexemes.is_word(1, "transaction");
    is_one.then(|| word_at(lexemes, 1)).flatten()
}

/// That a name that nothing encrypted has was not meant to be such a statement's: what is given to it was for encrypted columns.
fn require_not_gone(name: &str, named: &Named) -> Result<(), SqlError> {
    match named.gone.has(name.as_bytes()) {
        true => Err(SqlError::new("26000", format!("prepared statement \"{name}\" does not exist"))),
        false => Ok(()),
    }
}

fn word_at(lexemes: &Lexemes, at: usize) -> Option<String> {
    match lexemes.token(at) {
        Some(Token::Word(word)) => Some(name_of(word)),
        _ => None,
    }
}

/// A statement as it is, with what it does to names.
fn same(text: &str, lexemes: &Lexemes, catalog: &Catalog, naming: Naming) -> Result<NamedAction, SqlError> {
    let mut analysis = Analysis::new(text, lexemes, catalog);
    analysis.place_plain_parameters();
    let pieces = analysis.edits.pieces(text, lexemes.span())?;
    Ok((Action::Rewritten(analysis.rewritten(pieces)), Some(naming)))
}

/// `EXECUTE` within another statement would show the server the constants that it gives.
fn inner_execute(text: &str, lexemes: &Lexemes, named: &Named) -> Result<Option<NamedAction>, SqlError> {
    let runs = |at: &usize| {
        lexemes.is_word(*at, "execute")
            && word_at(lexemes, at + 1).is_some_and(|name| named.prepared(&name).is_some())
    };
    match (1..lexemes.list.len()).find(runs) {
        None => {
            let named_at = |at| if lexemes.is_word(at, "execute") { word_at(lexemes, at + 1) } else { None };
            let mut names = (1..lexemes.list.len()).filter_map(named_at);
            names.try_for_each(|name| require_not_gone(&name, named)).map(|()| None)
        }
        Some(at) => Err(refused(
            "EXECUTE of a statement that reads encrypted columns is a statement of its own",
            "Write the statement itself in the place of EXECUTE.",
            (text, lexemes, at),
        )),
    }
}

fn refused(message: &str, hint: &str, (text, lexemes, at): (&str, &Lexemes, usize)) -> SqlError {
    SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message).hint(hint).at(text, lexemes.bytes(at).start)
}

/// What becomes of the statement within a statement, from a token on; none if nothing of it is encrypted.
fn inside(
    text: &str,
    lexemes: &Lexemes,
    catalog: &Catalog,
    start: usize,
) -> Result<Option<Rewritten>, SqlError> {
    let inner = Lexemes { list: lexemes.list.get(start..).unwrap_or_default().to_vec() };
    match super::plan_one(text, &inner, catalog)? {
        Action::Unchanged => Ok(None),
        Action::Rewritten(rewritten) => Ok(Some(rewritten)),
        Action::Refused(error) => Err(error),
        Action::Program(_) => Err(refused(
            "a statement for which the proxy reads and writes rows is not prepared in SQL",
            "Prepare it with the protocol (a driver's prepare), or run it as it is.",
            (text, lexemes, start),
        )),
    }
}

fn declare(
    text: &str,
    lexemes: &Lexemes,
    catalog: &Catalog,
    (named, name): (&Named, String),
) -> Result<Option<NamedAction>, SqlError> {
    let Some(start) = (2..lexemes.list.len()).find(|at| lexemes.is_word(*at, "for")).map(|at| at + 1) else {
        return Ok(None);
    };
    let Some(query) = inside(text, lexemes, catalog, start)? else {
        return match named.cursors.contains_key(&name) {
            true => same(text, lexemes, catalog, Naming::Closed(Some(name))).map(Some),
            false => Ok(Some((Action::Unchanged, None))),
        };
    };
    if let Some(at) = (2..start).find(|at| lexemes.is_word(*at, "binary")) {
        let message = "a cursor that reads encrypted columns is not BINARY";
        return Err(refused(
            message,
            "Leave out BINARY, or use a portal of the protocol.",
            (text, lexemes, at),
        ));
    }
    named.check_room(0)?;
    let outlives = (2..start).any(|at| lexemes.is_word(at, "with") && lexemes.is_word(at + 1, "hold"));
    let outputs = Arc::new(query.outputs.clone());
    let mut pieces = vec![Piece::Text(before(text, lexemes, start).to_owned())];
    pieces.extend(query.pieces);
    let declared = Rewritten { pieces, outputs: Outputs::AsSent, ..Rewritten::default() };
    let (values, parameters, locks) = (query.values, query.parameters, query.locks);
    let declared = Rewritten { values, parameters, locks, ..declared };
    Ok(Some((Action::Rewritten(declared), Some(Naming::Declared(name, outputs, outlives)))))
}

/// The type that a value of a form is sent as.
fn physical_type(form: &Form) -> &'static str {
    match form {
        Form::Presence | Form::FoundEmpty(..) => "boolean",
        Form::Found(..) => "bytea[]",
        form if form.is_array() => "bytea[]",
        _ => "bytea",
    }
}

/// The text of a statement before a token.
fn before<'t>(text: &'t str, lexemes: &Lexemes, at: usize) -> &'t str {
    text.get(lexemes.span().start..lexemes.bytes(at).start).unwrap_or_default()
}

fn prepare(
    text: &str,
    lexemes: &Lexemes,
    catalog: &Catalog,
    (named, name): (&Named, String),
) -> Result<Option<NamedAction>, SqlError> {
    let list =
        matches!(lexemes.token(2), Some(Token::LParen)).then(|| lexemes.after_parentheses(2)).flatten();
    let at = list.unwrap_or(2);
    if !lexemes.is_word(at, "as") {
        return Ok(None);
    }
    let Some(rewritten) = inside(text, lexemes, catalog, at + 1)? else {
        return match named.prepared.contains_key(&name) {
            true => same(text, lexemes, catalog, Naming::Replaced(name)).map(Some),
            false => Ok(Some((Action::Unchanged, None))),
        };
    };
    let bytes = 5 * (text.len() + rewritten.extended_text().len());
    named.check_room(bytes)?;
    let declared = list.map_or_else(Vec::new, |end| parts(lexemes, 3..end - 1));
    let of_columns: Vec<Option<ColumnType>> =
        declared.iter().map(|tokens| declared_type(text_of(text, lexemes, tokens)?)).collect();
    let tokens_of = |value: &Value| match value.source {
        Source::Parameter(number) => usize::from(number).checked_sub(1).and_then(|place| declared.get(place)),
        _ => None,
    };
    let name_of = |value: &Value| tokens_of(value).and_then(|tokens| text_of(text, lexemes, tokens));
    let is_sealed = |value: &&Value| !matches!(value.form, Form::Plain | Form::Presence);
    let padded =
        rewritten.values.iter().filter(is_sealed).find(|value| name_of(value).is_some_and(is_padded));
    if let Some(at) = padded.and_then(tokens_of).map(|tokens| tokens.start) {
        return Err(refused(
            "a parameter of this type is compared otherwise than a value of an encrypted column",
            "Declare it as text or varchar, or as the column is declared.",
            (text, lexemes, at),
        ));
    }
    let kind = |value: &Value| match (&value.form, &value.source) {
        (Form::Plain, Source::Parameter(_)) => name_of(value).unwrap_or("unknown").to_owned(),
        (form, _) => physical_type(form).to_owned(),
    };
    let kinds: Vec<String> = rewritten.values.iter().map(kind).collect();
    let kinds = if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
    let head = text.get(lexemes.span().start..lexemes.bytes(1).end).unwrap_or_default();
    let sent = format!("{head}{kinds} AS {}", rewritten.extended_text());
    let parameters = rewritten.parameters.len().max(declared.len());
    let text = text.to_owned();
    let prepared =
        Arc::new(Prepared { text, rewritten, parameters, declared: of_columns, bytes, is_program: false });
    Ok(Some((Action::Rewritten(Rewritten::plain(sent)), Some(Naming::Prepared(name, prepared)))))
}

fn text_of<'t>(text: &'t str, lexemes: &Lexemes, tokens: &Range<usize>) -> Option<&'t str> {
    text.get(lexemes.bytes(tokens.start).start..lexemes.bytes(tokens.end.checked_sub(1)?).end)
}

/// The type that a parameter is declared with, or its members: `PREPARE` has none with digits or a length.
fn declared_type(name: &str) -> Option<ColumnType> {
    let name = name.to_lowercase();
    ColumnType::parse(name.strip_suffix("[]").unwrap_or(&name)).map(ColumnType::plain)
}

/// Is it a type whose texts are padded with blanks that do not count, or one of money?
fn is_padded(name: &str) -> bool {
    let name = name.to_lowercase();
    let name = name.strip_prefix("pg_catalog.").unwrap_or(&name);
    let word = name.split(['(', '[']).next().unwrap_or_default().trim();
    ["char", "character", "nchar", "national char", "national character", "bpchar", "\"char\"", "money"]
        .contains(&word)
}

/// The parts of a list between commas.
pub(super) fn parts(lexemes: &Lexemes, tokens: Range<usize>) -> Vec<Range<usize>> {
    let (mut found, mut start, mut depth) = (Vec::new(), tokens.start, 0_usize);
    for at in tokens.clone() {
        match lexemes.token(at) {
            Some(Token::LParen | Token::LBracket) => depth += 1,
            Some(Token::RParen | Token::RBracket) => depth = depth.saturating_sub(1),
            Some(Token::Comma) if depth == 0 => {
                found.push(start..at);
                start = at + 1;
            }
            _ => {}
        }
    }
    if start < tokens.end {
        found.push(start..tokens.end);
    }
    found
}

fn execute(
    text: &str,
    lexemes: &Lexemes,
    catalog: &Catalog,
    prepared: &Prepared,
) -> Result<Action, SqlError> {
    let listed =
        matches!(lexemes.token(2), Some(Token::LParen)).then(|| lexemes.after_parentheses(2)).flatten();
    let given = listed.map_or_else(Vec::new, |end| parts(lexemes, 3..end - 1));
    if given.len() != prepared.parameters {
        let name = word_at(lexemes, 1).unwrap_or_default();
        let message = format!("wrong number of parameters for prepared statement \"{name}\"");
        let detail = format!("Expected {} parameters but got {}.", prepared.parameters, given.len());
        return Err(SqlError::new(sqlstate::SYNTAX_ERROR, message).detail(detail));
    }
    let mut analysis = Analysis::new(text, lexemes, catalog);
    let mut pieces = vec![Piece::Text(
        text.get(lexemes.span().start..lexemes.bytes(1).end).unwrap_or_default().to_owned(),
    )];
    for (place, value) in prepared.rewritten.values.iter().enumerate() {
        pieces.push(Piece::Text(if place == 0 { "(" } else { ", " }.into()));
        let Source::Parameter(number) = value.source else {
            // A constant of the prepared text: sealed anew each time.
            let position = analysis.edits.value(Value { at: 0, ..value.clone() });
            pieces.push(Piece::Value(position));
            continue;
        };
        let tokens = usize::from(number).checked_sub(1).and_then(|place| given.get(place));
        let Some(tokens) = tokens else {
            let message = format!("there is no parameter ${number}");
            return Err(SqlError::new(sqlstate::UNDEFINED_PARAMETER, message));
        };
        pieces.push(analysis.argument(value, tokens, prepared.type_of(number))?);
    }
    if !prepared.rewritten.values.is_empty() {
        pieces.push(Piece::Text(")".into()));
    }
    let rewritten = analysis.rewritten(pieces);
    // `EXECUTE` has no parameters of its own: its values are written in.
    let (outputs, locks) = (prepared.rewritten.outputs.clone(), prepared.rewritten.locks.clone());
    let layouts = prepared.rewritten.layouts.clone();
    let step = Rewritten { outputs, locks, layouts, parameters: Vec::new(), ..rewritten };
    Ok(Action::Program(Box::new(Program::Layout(Layout { steps: vec![step], answer: 0 }))))
}

impl Prepared {
    /// The type of a parameter: as it was declared, or as the statement has it.
    fn type_of(&self, number: u16) -> Option<ColumnType> {
        let place = usize::from(number).checked_sub(1)?;
        let declared = self.declared.get(place).copied().flatten();
        declared.or_else(|| match self.rewritten.parameters.get(place)? {
            ParameterType::Encrypted(oid) => type_of(*oid),
            ParameterType::Plain(_) | ParameterType::Unused => None,
        })
    }
}

impl Analysis<'_> {
    /// The constant that some tokens are.
    fn constant_of(&self, tokens: &Range<usize>) -> Option<Constant> {
        let parsed = self.lexemes.tokens().get(tokens.clone()).map(<[_]>::to_vec).unwrap_or_default();
        let expression = Parser::new(&PostgreSqlDialect {}).with_tokens_with_locations(parsed).parse_expr();
        let found = constant(self.lexemes, &expression.ok()?)?;
        (found.tokens == *tokens).then_some(found)
    }

    /// Whether `EXECUTE` gives something for a parameter, where that alone is asked.
    fn presence_of(&mut self, tokens: &Range<usize>, at: usize) -> Piece {
        match self.constant_of(tokens) {
            Some(Constant { source, .. }) => {
                let value = Value { source, form: Form::Presence, sent_as: None, at };
                Piece::Value(self.edits.value(value))
            }
            None => Piece::Text(format!("NULLIF(({}) IS NOT NULL, false)", self.source(tokens))),
        }
    }

    /// What `EXECUTE` gives for a parameter.
    fn argument(
        &mut self,
        value: &Value,
        tokens: &Range<usize>,
        declared: Option<ColumnType>,
    ) -> Result<Piece, SqlError> {
        let at = self.lexemes.bytes(tokens.start).start;
        let encryption = match (&value.form, value.form.encryption()) {
            (Form::Presence, _) => return Ok(self.presence_of(tokens, at)),
            (_, Some(encryption)) => Arc::clone(encryption),
            (_, None) => return Ok(Piece::Text(self.source(tokens).to_owned())),
        };
        statement::require_shallow(self.lexemes)?;
        let Some(found) = self.constant_of(tokens) else {
            return Err(self.unsupported(
                tokens.start,
                format!("what EXECUTE gives for column {} must be a constant", encryption.label),
                "Compute the value in the application.",
            ));
        };
        let (source, sent_as) =
            self.given(found, value, &encryption, declared).map_err(|error| self.at(error, tokens.start))?;
        Ok(Piece::Value(self.edits.value(Value { source, form: value.form.clone(), sent_as, at })))
    }
    /// What a constant is for a parameter: cast as it is written, assigned to the parameter's type, and cast as the prepared text does.
    fn given(
        &self,
        found: Constant,
        value: &Value,
        encryption: &Encryption,
        declared: Option<ColumnType>,
    ) -> Result<(Source, Option<ColumnType>), SqlError> {
        if found.is_cast_elsewhere() {
            self.check_constant(&found, encryption)?;
        }
        let parameter = declared.unwrap_or(encryption.kind).plain();
        let sent_as = Some(value.sent_as.unwrap_or(parameter));
        let one = |text: &Option<String>| {
            text.as_deref().map(|text| found.assigned_to(text, parameter, value.sent_as)).transpose()
        };
        let source = match &found.source {
            Source::Constant(Some(list)) if value.form.is_array() => {
                let wrong = || {
                    let message = format!("malformed array literal: \"{list}\"");
                    SqlError::new(sqlstate::INVALID_TEXT_REPRESENTATION, message)
                };
                let list = array_members(list).ok_or_else(wrong)?;
                Source::Constants(list.iter().map(one).collect::<Result<_, _>>()?)
            }
            Source::Constant(text) => Source::Constant(one(text)?),
            Source::Parameter(_)
            | Source::Constants(_)
            | Source::Read(_)
            | Source::Computed(_)
            | Source::Moment(_) => {
                return Ok((found.source, value.sent_as));
            }
        };
        Ok((source, sent_as))
    }
}
