//! One statement that mentions an encrypted table.

use super::analysis::Analysis;
use super::copy::Copy;
use super::defined::{self, KeptBy};
use super::insert_rows::is_constant;
use super::layout::Beside;
use super::meant;
use super::mention::{is_escaped, makes_code};
use super::select::{Mode, ResultColumn};
use super::spelling::for_parser;
use super::views;
use crate::catalog::Catalog;
use crate::error::{SqlError, sqlstate};
use crate::plan::{Action, Layout, Outputs, Program};
use crate::text::{Lexemes, name_of};
use sqlparser::ast::{CreateTable, CreateView, Statement};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Span, Token};

/// Operators and conditions of one statement: the tree of a long chain of them is as deep as it is long.
const MAX_OPERATORS: usize = 2_000;

/// First words of statements that read no column's value, whatever they name.
const UNREAD: [&[&str]; 18] = [
    &["vacuum"],
    &["analyze"],
    &["analyse"],
    &["cluster"],
    &["reindex"],
    &["truncate"],
    &["lock"],
    &["drop", "table"],
    &["drop", "view"],
    &["drop", "materialized", "view"],
    &["refresh", "materialized", "view"],
    &["comment", "on"],
    &["grant"],
    &["revoke"],
    &["create", "sequence"],
    &["alter", "sequence"],
    &["drop", "index"],
    &["discard"],
];

/// What publishes a table: it reads no value unless it has a condition.
const PUBLICATION: [&str; 2] = ["create", "publication"];

fn publication(text: &str, lexemes: &Lexemes) -> Result<Action, SqlError> {
    let Some(at) = (0..lexemes.list.len()).find(|at| lexemes.is_word(*at, "where")) else {
        return Ok(Action::Unchanged);
    };
    let message =
        "a publication of encrypted tables has no condition: its constants would be kept as they are";
    Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message).at(text, lexemes.bytes(at).start))
}

/// Words that join operands.
const JOINING: [&str; 25] = [
    "and",
    "or",
    "not",
    "union",
    "intersect",
    "except",
    "is",
    "isnull",
    "notnull",
    "in",
    "like",
    "ilike",
    "similar",
    "between",
    "collate",
    "at",
    "overlaps",
    "xor",
    "rlike",
    "regexp",
    "match",
    "member",
    "operator",
    "div",
    "minus",
];

/// Does a token join operands, or take one? All but names, constants and what only parts or groups.
fn is_operator(token: &Token) -> bool {
    match token {
        Token::Word(word) => {
            word.quote_style.is_none() && JOINING.iter().any(|joins| word.value.eq_ignore_ascii_case(joins))
        }
        token if is_constant(token) => false,
        Token::Comma
        | Token::Period
        | Token::SemiColon
        | Token::Eq
        | Token::LParen
        | Token::RParen
        | Token::LBracket
        | Token::RBracket => false,
        _ => true,
    }
}

/// Plans a statement whose token at `mention` is an encrypted table's name.
///
/// # Errors
/// Why it is refused.
pub(super) fn plan(
    text: &str,
    lexemes: &Lexemes,
    catalog: &Catalog,
    mention: usize,
) -> Result<Action, SqlError> {
    let begins = |words: &&[&str]| words.iter().enumerate().all(|(at, word)| lexemes.is_word(at, word));
    if UNREAD.iter().any(begins) {
        // What would take away another keyring's rows; `DROP` is the way out.
        if begins(&&["truncate"][..]) {
            fitting(lexemes, catalog)?;
        }
        return meant::plan(text, lexemes, catalog);
    }
    if begins(&&PUBLICATION[..]) {
        return publication(text, lexemes);
    }
    if views::are_other_things(lexemes, catalog) {
        return Ok(Action::Unchanged);
    }
    require_readable(text, lexemes, catalog, mention)?;
    let parsed = parse(text, lexemes, mention);
    let mut analysis = Analysis::new(text, lexemes, catalog);
    if let Some(at) = views::read_by(parsed.as_ref().ok(), lexemes, catalog) {
        return Err(analysis.of_view(at));
    }
    if defined::means_no_relation(parsed.as_ref().ok(), lexemes, catalog) {
        return Ok(Action::Unchanged);
    }
    if let Some(error) = analysis.not_made_of(mention) {
        return Err(error);
    }
    let statement = parsed?;
    analysis.reads_no_view = views::are_none_in(&statement);
    match &statement {
        Statement::CreateTable(CreateTable { query: Some(query), name, .. }) => {
            analysis.kept_query(query, name, KeptBy::Table)?;
            finish(analysis, &[])
        }
        Statement::CreateView(CreateView { query, name, .. }) => {
            analysis.kept_query(query, name, KeptBy::View)?;
            finish(analysis, &[])
        }
        Statement::CreateTable(table) => {
            let beside = analysis.create_table(table)?;
            finish_layout(analysis, beside)
        }
        Statement::AlterTable(alter) => {
            let beside = analysis.alter_table(alter)?;
            finish_layout(analysis, beside)
        }
        Statement::Copy { source, to, target, options, legacy_options, values: _ } => {
            let copy = Copy { source, to: *to, target, options, legacy: legacy_options };
            match analysis.copy(&copy)? {
                Some(action) => Ok(action),
                None => finish(analysis, &[]),
            }
        }
        Statement::CreateIndex(index) => {
            let beside = analysis.create_index(index)?;
            finish_layout(analysis, beside)
        }
        _ => {
            let results = analysis.statement(&statement)?;
            analysis.layouts.append(&mut analysis.namesakes);
            finish(analysis, &results)
        }
    }
}

/// That no table which a statement may name is of other keys, or otherwise than it is declared.
fn fitting(lexemes: &Lexemes, catalog: &Catalog) -> Result<(), SqlError> {
    let misfit = |lexeme: &crate::text::Lexeme| match &lexeme.token.token {
        Token::Word(word) => catalog.misfit(&name_of(word)).cloned(),
        _ => None,
    };
    lexemes.list.iter().find_map(misfit).map_or(Ok(()), Err)
}

/// That a statement may be analysed at all.
fn require_readable(
    text: &str,
    lexemes: &Lexemes,
    catalog: &Catalog,
    mention: usize,
) -> Result<(), SqlError> {
    fitting(lexemes, catalog)?;
    if makes_code(lexemes) {
        let message =
            "code that runs in the database does not name encrypted tables: there are no keys there";
        return Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message)
            .hint("Let the application run its statements.")
            .at(text, lexemes.bytes(mention).start));
    }
    let merges = |at: &usize| lexemes.is_word(*at, "merge") && lexemes.is_word(at + 1, "into");
    if let Some(at) = (0..lexemes.list.len()).find(merges) {
        let message = "MERGE with tables that have encrypted columns is not rewritten";
        return Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message)
            .hint("Use INSERT ... ON CONFLICT, or UPDATE and INSERT.")
            .at(text, lexemes.bytes(at).start));
    }
    if let Some(at) = (0..lexemes.list.len()).find(|at| is_escaped(lexemes, *at)) {
        let message = "a name in Unicode escapes is not read where encrypted tables are";
        return Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message)
            .hint("Write the name itself, in double quotes.")
            .at(text, lexemes.bytes(at).start));
    }
    let has_underscores = |lexeme: &crate::text::Lexeme| matches!(&lexeme.token.token, Token::Number(digits, _) if digits.contains('_'));
    if let Some(lexeme) = lexemes.list.iter().find(|lexeme| has_underscores(lexeme)) {
        // Only PostgreSQL 16 and newer read one number there.
        let message = "underscores between digits are not read where encrypted tables are";
        return Err(SqlError::new(sqlstate::SYNTAX_ERROR, message)
            .hint("Write the digits alone.")
            .at(text, lexeme.bytes.start));
    }
    require_shallow(lexemes)
}

/// That the tree of a statement is walked, and dropped, within a thread's stack.
pub(super) fn require_shallow(lexemes: &Lexemes) -> Result<(), SqlError> {
    let tokens = || lexemes.list.iter().map(|lexeme| &lexeme.token.token);
    let operators = tokens().filter(|token| is_operator(token)).count();
    // `a = 1 OR a = 2` is as deep as it has ORs; `a = 1 = 1` is an error in PostgreSQL, and deep all the same.
    let equals = tokens().filter(|token| **token == Token::Eq).count();
    if operators > MAX_OPERATORS || equals > MAX_OPERATORS {
        let message =
            format!("a statement that names an encrypted table has {MAX_OPERATORS} operators at most");
        return Err(
            SqlError::new(sqlstate::STATEMENT_TOO_COMPLEX, message).hint("Use IN or = ANY for long lists.")
        );
    }
    Ok(())
}

/// A statement about a table's columns, with those beside it.
fn finish_layout(analysis: Analysis<'_>, beside: Beside) -> Result<Action, SqlError> {
    let action = finish(analysis, &[])?;
    let Beside { before, after, .. } = beside;
    match action {
        Action::Rewritten(rewritten)
            if !before.is_empty() || !after.is_empty() || !rewritten.values.is_empty() =>
        {
            let answer = before.len();
            let steps = before.into_iter().chain([rewritten]).chain(after).collect();
            Ok(Action::Program(Box::new(Program::Layout(Layout { steps, answer }))))
        }
        Action::Rewritten(_) | Action::Unchanged | Action::Program(_) | Action::Refused(_) => Ok(action),
    }
}

pub(super) fn parse(text: &str, lexemes: &Lexemes, mention: usize) -> Result<Statement, SqlError> {
    let mut tokens = for_parser(lexemes);
    if lexemes.is_word(0, "copy") {
        // Options stand behind where the rows come from or go to; a query before that has its own `ON`.
        let streams = |at: &usize| lexemes.is_word(*at, "stdin") || lexemes.is_word(*at, "stdout");
        let options = (0..tokens.len()).rfind(streams).unwrap_or(tokens.len());
        tokens.iter_mut().skip(options).for_each(|token| spell_out(&mut token.token));
    }
    let mut parser = Parser::new(&PostgreSqlDialect {}).with_tokens_with_locations(tokens);
    let parsed = parser.parse_statement().and_then(|statement| {
        let rest = parser.peek_token();
        if rest.token == Token::EOF { Ok(statement) } else { parser.expected("end of statement", rest) }
    });
    parsed.map_err(|error| {
        let (message, sqlstate) = match error {
            ParserError::TokenizerError(message) | ParserError::ParserError(message) => {
                (message, sqlstate::SYNTAX_ERROR)
            }
            ParserError::RecursionLimitExceeded => ("it is nested too deeply".into(), sqlstate::STATEMENT_TOO_COMPLEX),
        };
        let at_end = message.ends_with("found: EOF");
        let (message, at) = placed(&message, lexemes).unwrap_or((message.clone(), mention));
        let byte = if at_end { lexemes.span().end } else { lexemes.bytes(at).start };
        SqlError::new(sqlstate, format!("a statement that names an encrypted table is not understood: {message}"))
            .detail("A statement that cannot be analysed is refused: it might show what is encrypted, or store it in plaintext.")
            .at(text, byte)
    })
}

/// Options of `COPY` are `on` and `off`, too, which the parser knows as `true` and `false`.
fn spell_out(token: &mut Token) {
    if let Token::Word(word) = token {
        match word.value.to_ascii_lowercase().as_str() {
            "on" if word.quote_style.is_none() => *token = Token::make_keyword("TRUE"),
            "off" if word.quote_style.is_none() => *token = Token::make_keyword("FALSE"),
            _ => {}
        }
    }
}

/// The parser's message without the place that it ends in, and the token there.
fn placed(message: &str, lexemes: &Lexemes) -> Option<(String, usize)> {
    let (message, place) = message.rsplit_once(" at Line: ")?;
    let (line, column) = place.split_once(", Column: ")?;
    let start = Location::new(line.parse().ok()?, column.parse().ok()?);
    Some((message.to_owned(), lexemes.position_of(Span::new(start, start))?))
}

impl Analysis<'_> {
    fn statement(&mut self, statement: &Statement) -> Result<Vec<ResultColumn>, SqlError> {
        match statement {
            Statement::Query(query) => {
                self.shows_results = true;
                self.query(query, None, Mode::Top)
            }
            Statement::Insert(insert) => self.insert(insert, Mode::Top),
            Statement::Update(update) => self.update(update, Mode::Top),
            Statement::Delete(delete) => self.delete(delete, Mode::Top),
            Statement::Explain { statement, .. } => {
                self.statement(statement)?;
                Ok(Vec::new())
            }
            // Names in it stay not understood, and it is refused.
            _ => Ok(Vec::new()),
        }
    }

    /// A watched name that was not understood.
    pub(super) fn refusal(&self, at: usize) -> SqlError {
        let name = self.text.get(self.lexemes.bytes(at)).unwrap_or_default();
        if matches!(self.lexemes.token(at), Some(Token::Word(word)) if self.is_absent(&name_of(word))) {
            let message = format!("column \"{}\" does not exist", name.trim_matches('"'));
            return self.at(SqlError::new(sqlstate::UNDEFINED_COLUMN, message), at);
        }
        let what = match self.labels.get(name.trim_matches('"')) {
            Some(label) => format!("column {label} is encrypted, and this use of it is not understood"),
            None => {
                format!("{name} is encrypted or has encrypted columns, and this use of it is not understood")
            }
        };
        let error = SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, what)
        .detail("A statement that cannot be analysed is refused: it might show what is encrypted, or store it in plaintext.");
        let defines = ["create", "alter"].iter().any(|word| self.lexemes.is_word(0, word));
        let error = match defines {
            true => error.hint("Leave it out: let the application set and check the value."),
            false => error,
        };
        self.at(error, at)
    }
}

/// What the statement becomes, once everything in it is understood.
fn finish(mut analysis: Analysis<'_>, results: &[ResultColumn]) -> Result<Action, SqlError> {
    if let Some(at) = analysis.not_understood() {
        return Err(analysis.refusal(at));
    }
    let encrypted = results.iter().any(|result| !result.is_plain());
    let runs_in_steps = analysis.inserted.is_some() || !analysis.computed.is_empty();
    if analysis.edits.is_empty() && !encrypted && !runs_in_steps && analysis.layouts.is_empty() {
        return Ok(Action::Unchanged);
    }
    analysis.place_plain_parameters();
    analysis.edits.check(analysis.text, analysis.lexemes)?;
    let outputs = || match encrypted {
        true => Outputs::Columns(results.iter().map(ResultColumn::output).collect()),
        false => Outputs::AsSent,
    };
    if let Some(rows) = analysis.inserted.take() {
        let program = analysis.insert_program(&rows, outputs())?;
        return Ok(Action::Program(Box::new(Program::Recompute(program))));
    }
    if !analysis.computed.is_empty() {
        let outputs = outputs();
        return Ok(Action::Program(Box::new(Program::Recompute(analysis.recompute(outputs)?))));
    }
    let pieces = analysis.edits.pieces(analysis.text, analysis.lexemes.span())?;
    let mut rewritten = analysis.rewritten(pieces);
    if encrypted {
        rewritten.outputs = Outputs::Columns(results.iter().map(ResultColumn::output).collect());
    }
    Ok(Action::Rewritten(rewritten))
}
