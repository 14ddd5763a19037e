//! The state of one statement's analysis: what is understood of it, and what is replaced.
//!
//! *Fail closed.* The names that reach encrypted data (the tables, their encrypted columns, their terms, the aliases of
//! either) are watched: each token that is such a name must have been understood as what it is, by whoever understood it,
//! or the statement is refused. So a form of SQL that this module does not know about cannot pass with a reference to an
//! encrypted column in it.

use super::edits::{Edits, compact, parameter_of};
use super::insert_rows::{InsertedRows, is_constant};
use super::mention::is_keyword;
use super::recompute::Computed;
use super::scope::{Found, Relation, Scope};
use super::select::Grouped;
use super::term::Term;
use super::upsert::Upsert;
use crate::catalog::{Catalog, Encryption, ORDER_SUFFIX, SUFFIXES, Table, Taken};
use crate::error::{SqlError, sqlstate};
use crate::plan::{Form, Gap, ParameterType, Piece, Rewritten, Source, Value};
use crate::text::{Lexemes, fold, name_of, quoted};
use sqlparser::ast::{Expr, Ident, ObjectName};
use sqlparser::tokenizer::Token;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

/// Columns that every table has, names that are a function's without parentheses, and the forms of `normalize()`.
const SYSTEM_COLUMNS: [&str; 12] = [
    "ctid",
    "xmin",
    "xmax",
    "cmin",
    "cmax",
    "tableoid",
    "current_schema",
    "system_user",
    "nfc",
    "nfd",
    "nfkc",
    "nfkd",
];
/// What `RETURNING` calls a row before and behind a change, from PostgreSQL 18 on.
const ROWS_OF_CHANGES: [&str; 2] = ["old", "new"];

/// One statement's analysis.
pub(super) struct Analysis<'a> {
    pub(super) text: &'a str,
    pub(super) lexemes: &'a Lexemes,
    pub(super) catalog: &'a Catalog,
    /// Names that are watched.
    names: BTreeSet<String>,
    /// Columns of the statement's tables that are declared and were not there when the tables were looked at: they may be
    /// there by now, and nothing goes into one as it is.
    absent: BTreeSet<String>,
    /// Tokens that are understood.
    understood: BTreeSet<usize>,
    pub(super) edits: Edits,
    /// Types of the client's parameters that are values of encrypted columns.
    pub(super) parameters: BTreeMap<u16, u32>,
    /// What the proxy computes.
    pub(super) computed: Computed,
    /// The rows of a query that the proxy seals.
    pub(super) inserted: Option<InsertedRows>,
    /// What an `INSERT` does where a row is there.
    pub(super) upsert: Option<Upsert>,
    /// Common table expressions in sight, the nearest last.
    pub(super) common: Vec<Relation>,
    /// Is what a statement changes looked at, which no common table expression is?
    pub(super) changes: bool,
    /// What the rows are grouped by whose results or conditions are looked at.
    pub(super) groups: Grouped,
    /// Is the result of what is looked at denied, as under a `NOT`?
    denied: bool,
    /// Does the query that is looked at give all rows that are equal to its last (`WITH TIES`)?
    pub(super) with_ties: bool,
    /// Is the query that is looked at the statement's own, whose results go to the client, and are they read by nothing else?
    pub(super) shows_results: bool,
    /// Columns whose defaults were looked at, and those.
    pub(super) defaults: BTreeMap<[u8; 8], Option<crate::catalog::Constant>>,
    /// Columns that the statement takes by their places.
    pub(super) layouts: Vec<Taken>,
    /// Plain tables that are named without a schema as declared ones are which are not there.
    pub(super) namesakes: Vec<Taken>,
    /// It reads no view wherever it has the name of one: it says which columns a table has.
    pub(super) reads_no_view: bool,
    /// What encrypted columns that are watched are called, by name.
    pub(super) labels: BTreeMap<String, String>,
    /// The first encrypted column that is read, and where.
    pub(super) met: Option<(String, usize)>,
    /// The first encrypted column that a star stands for, or that `USING` names, and where.
    pub(super) listed: Option<(String, usize)>,
    /// The columns in sight that have labels.
    ordered: BTreeSet<[u8; 8]>,
}

/// A reference to an encrypted column.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    pub(super) encryption: Arc<Encryption>,
    /// Its name in its relation.
    pub(super) column: String,
    /// Its relation's name.
    pub(super) relation: Option<String>,
    /// It stands for a column of two relations, and is written as that of the first.
    pub(super) qualified: bool,
    /// Are its terms at hand?
    pub(super) terms: bool,
    /// Is it an aggregate's argument, whose least or greatest value is meant?
    pub(super) is_extreme: bool,
    /// The tokens of the reference; the last one is the column's name.
    pub(super) tokens: Range<usize>,
}

/// The tokens of new names, behind `AS`, and of types, behind `::` and in a cast, but those of encrypted tables' rows: values of these, and
/// what is taken out of them, are in plaintext.
fn new_names_and_types(lexemes: &Lexemes, catalog: &Catalog) -> BTreeSet<usize> {
    let (mut understood, mut in_casts) = (BTreeSet::new(), Vec::new());
    for at in 0..lexemes.list.len() {
        let is_type = match lexemes.token(at) {
            Some(Token::LParen) => {
                in_casts.push(at.checked_sub(1).is_some_and(|before| lexemes.is_word(before, "cast")));
                continue;
            }
            Some(Token::RParen) => {
                in_casts.pop();
                continue;
            }
            Some(Token::DoubleColon) => true,
            _ if lexemes.is_word(at, "as") => in_casts.last() == Some(&true),
            _ => continue,
        };
        let is_of_rows = matches!(lexemes.token(at + 1), Some(Token::Word(word)) if catalog.sensitive().holds(&name_of(word)));
        if !(is_type && is_of_rows) {
            understood.insert(at + 1);
        }
    }
    understood
}

impl<'a> Analysis<'a> {
    pub(super) fn new(text: &'a str, lexemes: &'a Lexemes, catalog: &'a Catalog) -> Self {
        Self {
            text,
            lexemes,
            catalog,
            names: BTreeSet::new(),
            absent: BTreeSet::new(),
            understood: new_names_and_types(lexemes, catalog),
            edits: Edits::default(),
            parameters: BTreeMap::new(),
            computed: Computed::default(),
            inserted: None,
            upsert: None,
            common: Vec::new(),
            changes: false,
            groups: Grouped::default(),
            denied: false,
            with_ties: false,
            shows_results: false,
            defaults: BTreeMap::new(),
            layouts: Vec::new(),
            namesakes: Vec::new(),
            reads_no_view: false,
            labels: BTreeMap::new(),
            met: None,
            listed: None,
            ordered: BTreeSet::new(),
        }
    }

    /// The token of an identifier is understood.
    pub(super) fn understand(&mut self, identifier: &Ident) {
        let name = fold(&identifier.value, identifier.quote_style.is_some());
        if !self.is_absent(&name) && !self.is_term(&name) {
            self.understood.extend(self.lexemes.position_of(identifier.span));
        }
    }

    /// Watches a table's columns that are declared and not there.
    pub(super) fn watch_absent(&mut self, table: &Table) {
        let declared = self.catalog.schema().tables.get(&(table.schema.clone(), table.name.clone()));
        let absent =
            declared.into_iter().flat_map(BTreeMap::keys).filter(|name| table.column(name).is_none());
        self.absent.extend(absent.cloned());
        self.names.extend(self.absent.iter().cloned());
    }

    /// Is it a column that is declared and not there?
    pub(super) fn is_absent(&self, name: &str) -> bool {
        self.absent.contains(name)
    }

    pub(super) fn understand_tokens(&mut self, tokens: Range<usize>) {
        self.understood.extend(tokens);
    }

    /// Every part of a name is understood.
    pub(super) fn understand_name(&mut self, name: &ObjectName) {
        for part in &name.0 {
            if let Some(identifier) = part.as_ident() {
                self.understand(identifier);
            }
        }
    }

    /// Watches what reaches a relation's encrypted columns.
    pub(super) fn watch_relation(&mut self, relation: &Relation) {
        if !relation.is_encrypted() {
            return;
        }
        self.names.extend(relation.name.clone());
        for column in relation.encrypted() {
            let labelled = column.encryption.as_ref().filter(|encryption| encryption.labels().is_some());
            self.ordered.extend(labelled.map(|encryption| encryption.id));
            let named = column.encryption.as_ref().map(|of| (column.name.clone(), of.label.clone()));
            self.labels.extend(named);
            let terms = SUFFIXES.map(|suffix| format!("{}{suffix}", column.name));
            self.names.insert(column.name.clone());
            self.names.extend(terms);
        }
    }

    /// The bytes of some tokens.
    pub(super) fn bytes(&self, tokens: &Range<usize>) -> Range<usize> {
        let last = tokens.end.saturating_sub(1).max(tokens.start);
        self.lexemes.bytes(tokens.start).start..self.lexemes.bytes(last).end
    }

    /// The client's text of some tokens.
    pub(super) fn source(&self, tokens: &Range<usize>) -> &'a str {
        self.text.get(self.bytes(tokens)).unwrap_or_default()
    }

    /// An error at a token.
    pub(super) fn at(&self, error: SqlError, token: usize) -> SqlError {
        error.at(self.text, self.lexemes.bytes(token).start)
    }

    /// That an encrypted column cannot be read by something.
    pub(super) fn unreadable(&self, reference: &Reference, reader: &str) -> SqlError {
        let label = &reference.encryption.label;
        let searches_text = ["operator @@", "function to_tsvector()"].contains(&reader);
        let hint = if searches_text {
            "Look for words in the application; words of encrypted documents are found by $text, over MongoDB's protocol."
        } else {
            "Select the column and compute with it in the application, or compare the column alone."
        };
        let error = SqlError::new(
            sqlstate::FEATURE_NOT_SUPPORTED,
            format!("column {label} is encrypted: {reader} cannot read it"),
        )
        .detail("The server holds ciphertext. It can compare a column with constants, parameters and columns that share its key.")
        .hint(hint);
        self.at(error, reference.tokens.end.saturating_sub(1))
    }

    /// That a column's declaration lacks an operation.
    pub(super) fn undeclared(&self, reference: &Reference, reader: &str, operation: &str) -> SqlError {
        let label = &reference.encryption.label;
        let error = SqlError::new(
            sqlstate::FEATURE_NOT_SUPPORTED,
            format!("column {label} is encrypted without \"{operation}\": {reader} needs it"),
        )
        .hint(format!(
            "Add \"{operation}\" to the operations of {label} in the schema file, and migrate the column."
        ));
        self.at(error, reference.tokens.end.saturating_sub(1))
    }

    /// That something cannot be done, at a token.
    pub(super) fn unsupported(&self, token: usize, message: String, hint: &str) -> SqlError {
        self.at(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message).hint(hint), token)
    }

    /// The encrypted column that an expression names alone, if it does.
    pub(super) fn reference(
        &mut self,
        expression: &Expr,
        scope: &Scope<'_>,
    ) -> Result<Option<Reference>, SqlError> {
        let parts: Vec<&Ident> = match expression {
            Expr::Identifier(name) => vec![name],
            Expr::CompoundIdentifier(parts) => parts.iter().collect(),
            Expr::Nested(inner) => return self.reference(inner, scope),
            _ => return Ok(None),
        };
        let names: Vec<String> =
            parts.iter().map(|part| fold(&part.value, part.quote_style.is_some())).collect();
        let start = parts.first().and_then(|part| self.lexemes.position_of(part.span)).unwrap_or(0);
        let end =
            parts.last().and_then(|part| self.lexemes.position_of(part.span)).map_or(start, |at| at + 1);
        let found = match &names[..] {
            [column] => scope.find(column),
            [relation, column] => qualified(scope.relation(None, relation), column),
            [schema, relation, column] => qualified(scope.relation(Some(schema), relation), column),
            _ => Found::Nowhere,
        };
        let name = names.last().cloned().unwrap_or_default();
        match found {
            Found::Encrypted(relation, column) => {
                let encryption = column.encryption.clone();
                let qualified = names.len() == 1 && scope.merges(&name);
                let (relation, terms) = (relation.name.clone(), column.terms);
                let met = encryption.as_ref().map(|of| (of.label.clone(), end.saturating_sub(1)));
                self.met = self.met.take().or(met);
                for part in parts.iter().take(parts.len().saturating_sub(1)) {
                    self.understand(part);
                }
                Ok(encryption.map(|encryption| Reference {
                    is_extreme: false,
                    qualified,
                    encryption,
                    column: name,
                    relation,
                    terms,
                    tokens: start..end,
                }))
            }
            Found::Plain => {
                parts.iter().for_each(|part| self.understand(part));
                Ok(None)
            }
            Found::Nowhere => self.nowhere(&names, start, scope),
            Found::Row => Err(self.unsupported(
                start,
                format!("a whole row of {name} holds encrypted columns, which are read one by one"),
                "Name the columns.",
            )),
            Found::Uncertain => Err(self.unsupported(
                start,
                format!(
                    "\"{name}\" may be an encrypted column, or one of a relation whose columns are not known"
                ),
                "Write the relation's name before the column's.",
            )),
            Found::Ambiguous => {
                let message = format!("column reference \"{name}\" is ambiguous");
                Err(self.at(SqlError::new(sqlstate::AMBIGUOUS_COLUMN, message), start))
            }
        }
    }

    /// What is no column of a query whose columns are all known is PostgreSQL's error, said here where the statement has
    /// constants: sent on, those beside it would be in the server's log.
    fn nowhere(&self, names: &[String], at: usize, scope: &Scope<'_>) -> Result<Option<Reference>, SqlError> {
        let name = names.last().map_or("", String::as_str);
        let is_special = is_keyword(self.lexemes, at) || SYSTEM_COLUMNS.contains(&name);
        let has_constants = self.lexemes.list.iter().any(|lexeme| is_constant(&lexeme.token.token));
        let is_said =
            has_constants || self.is_term(name) || names.iter().any(|name| self.names.contains(name));
        let of_changes =
            names.len() == 2 && names.first().is_some_and(|name| ROWS_OF_CHANGES.contains(&name.as_str()));
        let is_known = match names {
            // It may be a function of the relation's rows.
            [relation, _] => scope.relation(None, relation).map_or(scope.is_known(), |named| {
                named.certain && named.columns.is_some() && !self.catalog.takes_rows(name)
            }),
            _ => scope.is_known(),
        };
        if is_special || names.len() > 2 || !is_said || of_changes || !is_known {
            return Ok(None);
        }
        let error = match names {
            [relation, _] if scope.relation(None, relation).is_none() => SqlError::new(
                sqlstate::UNDEFINED_TABLE,
                format!("missing FROM-clause entry for table \"{relation}\""),
            ),
            [relation, _] => {
                SqlError::new(sqlstate::UNDEFINED_COLUMN, format!("column {relation}.{name} does not exist"))
            }
            _ => SqlError::new(sqlstate::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist")),
        };
        Err(self.at(error, at))
    }

    /// Is it the name of a column of terms, which no statement of a client's names?
    fn is_term(&self, name: &str) -> bool {
        SUFFIXES.iter().any(|suffix| name.ends_with(suffix)) && self.names.contains(name)
    }

    /// A reference stands as it is: the sealed value.
    pub(super) fn keep(&mut self, reference: &Reference) {
        self.understood.extend(reference.tokens.clone());
        let bytes = self.bytes(&reference.tokens);
        if reference.qualified && !self.edits.covers(bytes.start) {
            let text = format!("{}{}", qualifier(reference), quoted(&reference.column));
            self.edits.replace(bytes, vec![Piece::Text(text)]);
        }
    }

    /// A reference to a column becomes one to a term of it.
    pub(super) fn replace_with_term(&mut self, reference: &Reference, term: Term) {
        if self.is_of_group(reference, term) {
            let bytes = self.bytes(&reference.tokens);
            let text = self.term_text(reference, term);
            self.edits.replace(bytes, vec![Piece::Text(text)]);
            self.understand_tokens(reference.tokens.clone());
            return;
        }
        let last = reference.tokens.end.saturating_sub(1);
        let name = quoted(&format!("{}{}", reference.column, term.suffix()));
        let name = format!("{}{name}", qualifier(reference));
        self.edits.replace(self.lexemes.bytes(last), vec![Piece::Text(name)]);
        self.understood.insert(last);
    }

    /// The text of a reference to a column's term.
    pub(super) fn term_text(&self, reference: &Reference, term: Term) -> String {
        let before = reference.tokens.start..reference.tokens.end.saturating_sub(1);
        let qualifier =
            if before.is_empty() { qualifier(reference) } else { self.source(&before).to_owned() };
        let term_of = format!("{qualifier}{}", quoted(&format!("{}{}", reference.column, term.suffix())));
        if self.is_of_group(reference, term) { term.any_of(&reference.encryption, &term_of) } else { term_of }
    }

    /// Whether a term is asked of a group whose rows have a value in common, and not this term of it: any row's is the value's.
    fn is_of_group(&self, reference: &Reference, term: Term) -> bool {
        let is_shared = reference.encryption.shared_terms().any(|shared| shared == term);
        !is_shared && !reference.is_extreme && self.groups.holds(reference)
    }

    /// Looks at what is computed of the rows of a group, not of the group.
    pub(super) fn within_group<T>(&mut self, look: impl FnOnce(&mut Self) -> T) -> T {
        let groups = std::mem::take(&mut self.groups);
        let found = look(self);
        self.groups = groups;
        found
    }

    /// Notes that a client's parameter is a value of that type.
    pub(super) fn type_parameter(&mut self, source: &Source, oid: u32) {
        if let Source::Parameter(number) = source {
            self.parameters.entry(*number).or_insert(oid);
        }
    }

    /// The watched name that was not understood, if there is one.
    pub(super) fn not_understood(&self) -> Option<usize> {
        self.not_understood_in(0..self.lexemes.list.len())
    }

    /// The same, among some tokens.
    pub(super) fn not_understood_in(&self, tokens: Range<usize>) -> Option<usize> {
        let tables = self.catalog.sensitive();
        let is_table =
            |name: &str| tables.holds(name) && !(self.reads_no_view && self.catalog.is_only_view(name));
        let watched = |(at, lexeme): (usize, &crate::text::Lexeme)| match &lexeme.token.token {
            Token::Word(word) => ((self.names.contains(&name_of(word)) || is_table(&name_of(word)))
                && !self.understood.contains(&at)
                && !is_keyword(self.lexemes, at))
            .then_some(at),
            _ => None,
        };
        self.lexemes
            .list
            .iter()
            .enumerate()
            .skip(tokens.start)
            .take(tokens.len())
            .filter(|(_, lexeme)| !self.edits.covers(lexeme.bytes.start))
            .find_map(watched)
    }

    /// Gives the parameters that were not replaced their new numbers.
    pub(super) fn place_plain_parameters(&mut self) {
        self.place_plain_parameters_in(0..self.lexemes.list.len());
    }

    /// Gives the parameters among some tokens that were not replaced their new numbers.
    pub(super) fn place_plain_parameters_in(&mut self, tokens: Range<usize>) {
        for lexeme in self.lexemes.list.get(tokens).unwrap_or_default() {
            let Token::Placeholder(name) = &lexeme.token.token else { continue };
            let Some(number) = name.strip_prefix('$').and_then(|digits| digits.parse().ok()) else {
                continue;
            };
            if self.edits.covers(lexeme.bytes.start) {
                continue;
            }
            let value = Value {
                source: Source::Parameter(number),
                form: Form::Plain,
                sent_as: None,
                at: lexeme.bytes.start,
            };
            let position = self.edits.value(value);
            self.edits.replace(lexeme.bytes.clone(), vec![Piece::Value(position)]);
        }
    }

    /// A statement of some pieces, with the values and parameters that they use.
    pub(super) fn rewritten(&self, pieces: Vec<Piece>) -> Rewritten {
        let (pieces, values) = compact(pieces, &self.edits.values);
        let parameters = self.parameter_types(&values);
        let locks = self.locks(&pieces, &values);
        let (defaults, layouts) = (self.defaults.clone(), self.layouts.clone());
        let outputs = crate::plan::Outputs::AsSent;
        Rewritten { pieces, values, parameters, outputs, locks, defaults, layouts }
    }

    /// Looks at something; `denies`: what is true of it then is false of the whole.
    pub(super) fn denying<T>(&mut self, denies: bool, look: impl FnOnce(&mut Self) -> T) -> T {
        self.denied ^= denies;
        let looked = look(self);
        self.denied ^= denies;
        looked
    }

    /// Is it denied that the constants of `c = 5`, or with `is_not` of `c <> 5`, are a row's?
    pub(super) fn denies(&self, is_not: bool) -> bool {
        self.denied != is_not
    }

    /// What a comparison here must be of what is stored in the gap around its constant meanwhile. A ciphertext has none.
    pub(super) fn gap(&self, encryption: &Encryption) -> Gap {
        if self.denied && encryption.labels().is_some() { Gap::Inside } else { Gap::Outside }
    }

    /// The columns whose labels a statement needs held that compares or copies labels and writes or locks rows.
    pub(super) fn locks(&self, pieces: &[Piece], values: &[Value]) -> BTreeSet<[u8; 8]> {
        let writes = (0..self.lexemes.list.len())
            .any(|at| ["update", "delete", "share"].iter().any(|word| self.lexemes.is_word(at, word)));
        let label = format!("{ORDER_SUFFIX}\"");
        let compares = values.iter().any(|value| matches!(value.form, Form::Bound(..)))
            || pieces.iter().any(|piece| matches!(piece, Piece::Text(text) if text.contains(&label)));
        if writes && compares { self.ordered.clone() } else { BTreeSet::new() }
    }

    /// What is known of each of the client's parameters.
    pub(super) fn parameter_types(&self, values: &[Value]) -> Vec<ParameterType> {
        let named = self.lexemes.list.iter().filter_map(|lexeme| match &lexeme.token.token {
            Token::Placeholder(name) => name.strip_prefix('$')?.parse::<u16>().ok(),
            _ => None,
        });
        // Where each is sent first as it came.
        let mut plain = HashMap::new();
        for (position, value) in values.iter().enumerate().filter(|(_, value)| value.form == Form::Plain) {
            if let Some(number) = parameter_of(value) {
                plain.entry(number).or_insert(position);
            }
        }
        let of = |number: u16| match (self.parameters.get(&number), plain.get(&number)) {
            (Some(oid), _) => ParameterType::Encrypted(*oid),
            (None, Some(position)) => ParameterType::Plain(*position),
            (None, None) => ParameterType::Unused,
        };
        (1..=named.max().unwrap_or(0)).map(of).collect()
    }
}

/// What is written before a column's name that would be ambiguous otherwise.
fn qualifier(reference: &Reference) -> String {
    let relation = reference.relation.as_ref().filter(|_| reference.qualified);
    relation.map(|relation| format!("{}.", quoted(relation))).unwrap_or_default()
}

fn qualified<'s>(relation: Option<&'s Relation>, name: &str) -> Found<'s> {
    let Some(relation) = relation else { return Found::Nowhere };
    match relation.column(name) {
        Some(column) if column.encryption.is_some() => Found::Encrypted(relation, column),
        Some(_) => Found::Plain,
        None if relation.columns.is_none() => Found::Plain,
        None => Found::Nowhere,
    }
}
