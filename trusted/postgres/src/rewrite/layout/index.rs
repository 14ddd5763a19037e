//! Indexes of encrypted columns: of their terms, under the names that they have without.

use super::Beside;
use crate::catalog::Order;
use crate::error::SqlError;
use crate::plan::{Piece, Rewritten};
use crate::rewrite::analysis::{Analysis, Reference};
use crate::rewrite::constraint::{by_bytes, last_identifier, object_name};
use crate::rewrite::scope::Scope;
use crate::rewrite::term::Term;
use crate::text::{fold, quoted};
use sqlparser::ast::{CreateIndex, Expr, Ident, IndexType};

/// Names that are tried, one after the other.
const NAMES: usize = 20;

/// What stands in the place of the number in the name that an index has until it is named.
const UNNAMED: &str = "arras_idx";

/// Names of an index's columns, as PostgreSQL makes its own name of them.
fn columns_of(index: &CreateIndex) -> String {
    let mut columns: Vec<String> = Vec::new();
    for name in index
        .columns
        .iter()
        .map(|column| name_of(&column.column.expr))
        .chain(index.include.iter().map(folded))
    {
        let is_free = |one: &String| !columns.contains(one);
        let numbered = || (1..).map(|number: u32| format!("{name}{number}"));
        let free = std::iter::once(name.clone()).chain(numbered()).find(is_free);
        columns.extend(free);
    }
    columns.join("_")
}

/// Gives an index that was made under a name the first that is free of those which PostgreSQL would try. It cannot be said before:
/// the server knows which names are free.
fn named_as_of_columns(index: &CreateIndex, made: &str) -> Rewritten {
    let table = index.table_name.to_string();
    let called = last_identifier(&index.table_name).map(folded).unwrap_or_default();
    let columns = columns_of(index);
    let names = (0..NAMES).map(|number| {
        let label = if number == 0 { "idx".to_owned() } else { format!("idx{number}") };
        literal(&object_name(&called, &columns, &label))
    });
    Rewritten::plain(format!(
        "DO $arras$ DECLARE made pg_catalog.regclass; called text; BEGIN \
         SELECT c.oid INTO made FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) i.indexrelid \
         WHERE i.indrelid OPERATOR(pg_catalog.=) {}::pg_catalog.regclass AND c.relname OPERATOR(pg_catalog.=) {}::pg_catalog.name; \
         SELECT n.name INTO called FROM pg_catalog.unnest(ARRAY[{}]) WITH ORDINALITY n (name, place) WHERE NOT EXISTS \
         (SELECT FROM pg_catalog.pg_class c, pg_catalog.pg_class o WHERE o.oid OPERATOR(pg_catalog.=) made \
         AND c.relnamespace OPERATOR(pg_catalog.=) o.relnamespace AND c.relname OPERATOR(pg_catalog.=) n.name::pg_catalog.name) \
         ORDER BY n.place LIMIT 1; \
         IF called IS NULL THEN called := pg_catalog.concat('arras_', made::pg_catalog.oid); END IF; \
         EXECUTE pg_catalog.format('ALTER INDEX %s RENAME TO %I', made, called); END $arras$",
        literal(&table),
        literal(made),
        names.collect::<Vec<_>>().join(", ")
    ))
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn folded(name: &Ident) -> String {
    fold(&name.value, name.quote_style.is_some())
}

/// What PostgreSQL calls a part of an index.
fn name_of(part: &Expr) -> String {
    match part {
        Expr::Identifier(name) => folded(name),
        Expr::Function(function) => last_identifier(&function.name).map_or_else(|| "expr".to_owned(), folded),
        Expr::Nested(inner) => name_of(inner),
        _ => "expr".to_owned(),
    }
}

impl Analysis<'_> {
    /// An index of encrypted columns is one of their terms, with the name that it would have of the columns.
    pub(in crate::rewrite) fn create_index(&mut self, index: &CreateIndex) -> Result<Beside, SqlError> {
        let relation = self.table_named(&index.table_name, None)?;
        let scope = Scope { relations: vec![relation], outer: None };
        let (mut is_of_terms, mut is_of_words) = (false, false);
        for column in &index.columns {
            if self.index_of_words(index, &column.column.expr, &scope)? {
                (is_of_terms, is_of_words) = (true, true);
                continue;
            }
            let Some(reference) = self.reference(&column.column.expr, &scope)? else {
                self.expression(&column.column.expr, &scope, "an index")?;
                continue;
            };
            let plain = match &index.using {
                None | Some(IndexType::BTree) => true,
                Some(IndexType::Hash) => !index.unique,
                Some(_) => false,
            };
            let class = column.operator_class.as_ref();
            if !plain || class.is_some_and(|class| !by_bytes(class)) {
                return Err(self.unreadable(&reference, "this kind of index"));
            }
            if let Some(at) =
                class.and_then(last_identifier).and_then(|last| self.lexemes.position_of(last.span))
            {
                self.edits.replace(self.lexemes.bytes(at), vec![Piece::Text(String::new())]);
            }
            let term = self.term_of_index(&reference, index)?;
            self.replace_with_term(&reference, term);
            is_of_terms = true;
        }
        if is_of_words {
            self.sort_words();
        }
        for column in &index.include {
            self.understand(column);
        }
        if let Some(condition) = &index.predicate {
            self.expression(condition, &scope, "the condition of an index")?;
        }
        if !self.edits.values.is_empty() {
            return Err(self.unsupported(
                0,
                "the condition of an index compares an encrypted column with a value".into(),
                "Use IS NOT NULL, or an index without a condition.",
            ));
        }
        if index.name.is_some() || index.concurrently || !is_of_terms {
            return Ok(Beside::default());
        }
        let called = last_identifier(&index.table_name).map(folded).unwrap_or_default();
        let made = object_name(&called, &columns_of(index), UNNAMED);
        let Some(on) = (0..self.lexemes.list.len()).find(|at| self.lexemes.is_word(*at, "on")) else {
            return Ok(Beside::default());
        };
        self.edits.insert(self.lexemes.bytes(on).start, format!("{} ", quoted(&made)));
        Ok(Beside { before: Vec::new(), after: vec![named_as_of_columns(index, &made)], ..Beside::default() })
    }

    /// `USING gin (to_tsvector('english', c))`: rows are found by names, in an index that sorts. False if a part is none of words.
    fn index_of_words(
        &mut self,
        index: &CreateIndex,
        part: &Expr,
        scope: &Scope<'_>,
    ) -> Result<bool, SqlError> {
        let is_of_words = matches!(index.using, Some(IndexType::GIN | IndexType::GiST));
        if !is_of_words || !matches!(part, Expr::Function(_) | Expr::Nested(_)) {
            return Ok(false);
        }
        let Some(column) = self.vector(part, scope)? else { return Ok(false) };
        let term = self.words_of(&column)?;
        let text = self.term_text(&column.what, term);
        let bytes = self.bytes(&column.tokens);
        self.understand_tokens(column.tokens);
        self.edits.replace(bytes, vec![Piece::Text(text)]);
        Ok(true)
    }

    /// Replaces the kind of an index of words by one that sorts.
    fn sort_words(&mut self) {
        let is_kind = |at: &usize| {
            self.lexemes.is_word(at.saturating_sub(1), "using")
                && ["gin", "gist"].iter().any(|kind| self.lexemes.is_word(*at, kind))
        };
        if let Some(at) = (1..self.lexemes.list.len()).find(is_kind) {
            self.edits.replace(self.lexemes.bytes(at), vec![Piece::Text("btree".into())]);
        }
    }

    /// By what an index finds a column: uniqueness by equality, else by order where there is one.
    fn term_of_index(&self, reference: &Reference, index: &CreateIndex) -> Result<Term, SqlError> {
        let hashed = matches!(index.using, Some(IndexType::Hash));
        let sorts = reference.encryption.order.is_some_and(Order::sorts);
        let wanted = match (index.unique, sorts && !hashed) {
            (true, _) => Some(Term::Equality),
            (false, true) => Some(Term::Order),
            (false, false) => None,
        };
        self.need(reference, "an index", wanted)
    }
}
