//! Queries: what they read, and what their results are.

mod chosen;
mod default;
mod derived;
mod figured;
mod group;
mod item;
mod numbered;
mod scalar;

use super::analysis::{Analysis, Reference};
use super::scope::{Relation, RelationColumn, Scope};
use super::term::Term;
use crate::catalog::{Encryption, Origin};
use crate::error::SqlError;
use crate::plan::{Derived, Fold, Output};
pub(super) use derived::{is_safe, operator_of};
pub(super) use group::Grouped;
pub(super) use item::first_token;
use sqlparser::ast::{
    Expr, LimitClause, OrderBy, OrderByKind, Query, Select, SetExpr, SetOperator, SetQuantifier, Statement,
    With,
};
use std::sync::Arc;

/// What becomes of a query's result.
#[derive(Clone, Copy)]
pub(super) enum Mode<'r> {
    /// It goes to the client: sealed values are opened.
    Top,
    /// It is a relation: terms go beside sealed values.
    Relation,
    /// Its one column is compared with a column by a term.
    Term(Term, &'r Reference),
    /// The server reads it: nothing may be encrypted.
    Plain,
    /// Nobody reads it (`EXISTS`).
    Unread,
}

/// What a column of a result is.
#[derive(Clone, Debug)]
pub(super) struct ResultColumn {
    pub(super) name: Option<String>,
    pub(super) what: What,
}

/// What a column of a result holds.
#[derive(Clone, Debug)]
pub(super) enum What {
    Plain,
    /// Columns of a relation that is not known.
    Rest,
    /// Sealed values; its terms are columns beside it, or not.
    Sealed(Arc<Encryption>, bool),
    /// The term that the query around it compares.
    Term,
    /// Arrays of sealed values to fold.
    Fold(Fold, Arc<Encryption>),
    /// The same to compute with.
    Derived(Arc<Derived>),
}

impl ResultColumn {
    pub(super) fn plain(name: Option<String>) -> Self {
        Self { name, what: What::Plain }
    }

    pub(super) fn is_plain(&self) -> bool {
        match self.what {
            What::Plain | What::Rest | What::Term => true,
            What::Sealed(..) | What::Fold(..) | What::Derived(_) => false,
        }
    }

    /// The same where the other of two queries may give a value that the statement gave.
    fn or_chosen(self, other: &Self) -> Self {
        let chosen = |mut of: Arc<Encryption>, other: &Encryption| {
            if of.origin == Origin::Stored && other.origin != Origin::Stored {
                Arc::make_mut(&mut of).origin = other.origin;
            }
            of
        };
        let what = match (self.what, &other.what) {
            (What::Sealed(of, terms), What::Sealed(other, _)) => What::Sealed(chosen(of, other), terms),
            (What::Fold(fold, of), What::Fold(_, other)) => What::Fold(fold, chosen(of, other)),
            (what, _) => what,
        };
        Self { what, ..self }
    }

    pub(super) fn output(&self) -> Output {
        match &self.what {
            What::Plain | What::Term => Output::Plain,
            What::Rest => Output::PlainRest,
            What::Sealed(encryption, _) => Output::Sealed(encryption.clone()),
            What::Fold(fold, encryption) => Output::Fold(*fold, encryption.clone()),
            What::Derived(summed) => Output::Derived(Arc::clone(summed)),
        }
    }
}

/// The expressions of a query's limits.
pub(super) fn limits(query: &Query) -> Vec<&Expr> {
    match &query.limit_clause {
        Some(LimitClause::LimitOffset { limit, offset, limit_by }) => {
            limit.iter().chain(offset.iter().map(|offset| &offset.value)).chain(limit_by).collect()
        }
        Some(LimitClause::OffsetCommaLimit { offset, limit }) => vec![offset, limit],
        None => Vec::new(),
    }
}

impl Analysis<'_> {
    /// A query; its result's columns.
    pub(super) fn query(
        &mut self,
        query: &Query,
        outer: Option<&Scope<'_>>,
        mode: Mode<'_>,
    ) -> Result<Vec<ResultColumn>, SqlError> {
        self.query_with_ties(query, false, outer, mode)
    }

    /// A query; in parentheses, `WITH TIES` may be said behind them.
    fn query_with_ties(
        &mut self,
        query: &Query,
        ties: bool,
        outer: Option<&Scope<'_>>,
        mode: Mode<'_>,
    ) -> Result<Vec<ResultColumn>, SqlError> {
        let common = self.common.len();
        if let Some(with) = &query.with {
            self.with(with, outer)?;
        }
        let order = query.order_by.as_ref();
        let ties = ties || query.fetch.as_ref().is_some_and(|fetch| fetch.with_ties);
        let around = std::mem::replace(&mut self.with_ties, ties);
        let results = self.within_group(|analysis| analysis.body(&query.body, order, outer, mode))?;
        self.with_ties = around;
        for lock in &query.locks {
            if let Some(name) = &lock.of {
                self.understand_name(name);
            }
        }
        self.expressions(limits(query), &Scope::new(outer), "LIMIT")?;
        self.common.truncate(common);
        Ok(results)
    }

    /// A query that is compared with a column by a term: its one column is that term of a column that shares the key.
    pub(super) fn query_of_term(
        &mut self,
        query: &Query,
        scope: &Scope<'_>,
        term: Term,
        column: &Reference,
    ) -> Result<(), SqlError> {
        let results = self.query(query, Some(scope), Mode::Term(term, column))?;
        match &results[..] {
            [ResultColumn { what: What::Term, .. }] => Ok(()),
            _ => Err(self.unreadable(column, "a comparison with what is not a column of the same key")),
        }
    }

    fn with(&mut self, with: &With, outer: Option<&Scope<'_>>) -> Result<(), SqlError> {
        for table in &with.cte_tables {
            let name = table.alias.name.clone();
            self.understand(&name);
            let folded = crate::text::fold(&name.value, name.quote_style.is_some());
            let before = self.common.len();
            if with.recursive {
                self.common.push(Relation::unknown(Some(folded.clone())));
            }
            let results = self.query(&table.query, outer, Mode::Relation)?;
            self.common.truncate(before);
            let encrypted = results.iter().any(|result| !result.is_plain());
            let at = self.lexemes.position_of(name.span).unwrap_or(0);
            if encrypted && (with.recursive || !table.alias.columns.is_empty()) {
                return Err(self.unsupported(
                    at,
                    format!(
                        "\"{folded}\" gives encrypted columns, and is recursive or names its columns anew"
                    ),
                    "Name columns with AS inside the query; select encrypted columns outside the recursion.",
                ));
            }
            let relation = self.relation_of(Some(folded), results, !table.alias.columns.is_empty());
            self.common.push(relation);
        }
        Ok(())
    }

    /// The relation that a query's result is.
    pub(super) fn relation_of(
        &mut self,
        name: Option<String>,
        results: Vec<ResultColumn>,
        renamed: bool,
    ) -> Relation {
        let known = !renamed && results.iter().all(|result| result.name.is_some());
        if !known && results.iter().all(ResultColumn::is_plain) {
            return Relation::unknown(name);
        }
        let column = |result: ResultColumn| {
            let name = result.name.unwrap_or_else(|| "?column?".into());
            let (encryption, terms) = match result.what {
                What::Plain | What::Rest | What::Term => (None, false),
                What::Sealed(encryption, terms) => (Some(encryption), terms),
                What::Fold(..) | What::Derived(_) => (None, false),
            };
            RelationColumn { name, encryption, terms, merged: false, kind: None }
        };
        let relation = Relation {
            name,
            schema: None,
            derived: true,
            certain: known,
            table: None,
            columns: Some(results.into_iter().map(column).collect()),
        };
        self.watch_relation(&relation);
        relation
    }

    fn body(
        &mut self,
        body: &SetExpr,
        order: Option<&OrderBy>,
        outer: Option<&Scope<'_>>,
        mode: Mode<'_>,
    ) -> Result<Vec<ResultColumn>, SqlError> {
        match body {
            SetExpr::Select(select) => self.select(select, order, outer, mode),
            SetExpr::Query(query) => {
                let results = self.query_with_ties(query, self.with_ties, outer, mode)?;
                self.order_of_results(order, &results)?;
                Ok(results)
            }
            SetExpr::SetOperation { left, op, set_quantifier, right } => {
                self.shows_results = false;
                let first = self.body(left, None, outer, mode)?;
                let second = self.body(right, None, outer, mode)?;
                // Whether a union has rows does not depend on which of them are equal.
                let any = matches!(mode, Mode::Unread) || *set_quantifier == SetQuantifier::All;
                let all = *op == SetOperator::Union && any;
                let results = self.united(first, &second, all, mode)?;
                self.order_of_results(order, &results)?;
                Ok(results)
            }
            SetExpr::Values(values) => {
                let scope = Scope::new(outer);
                let rows = values.rows.iter().flat_map(|row| &row.content);
                self.expressions(rows, &scope, "VALUES")?;
                let width = values.rows.first().map_or(0, |row| row.content.len());
                Ok((1..=width).map(|place| ResultColumn::plain(Some(format!("column{place}")))).collect())
            }
            SetExpr::Insert(statement) | SetExpr::Update(statement) | SetExpr::Delete(statement) => {
                match statement {
                    Statement::Insert(insert) => self.insert(insert, mode),
                    Statement::Update(update) => self.update(update, mode),
                    Statement::Delete(delete) => self.delete(delete, mode),
                    _ => Ok(Vec::new()),
                }
            }
            // Names in it stay not understood.
            SetExpr::Merge(_) | SetExpr::Table(_) => Ok(Vec::new()),
        }
    }

    /// The result of two queries together.
    fn united(
        &self,
        first: Vec<ResultColumn>,
        second: &[ResultColumn],
        all: bool,
        mode: Mode<'_>,
    ) -> Result<Vec<ResultColumn>, SqlError> {
        let encrypted = first.iter().chain(second).find_map(|result| match &result.what {
            What::Sealed(encryption, _) | What::Fold(_, encryption) => Some(encryption.label.clone()),
            What::Derived(summed) => Some(summed.column.label.clone()),
            What::Plain | What::Rest | What::Term => None,
        });
        if let Mode::Term(..) = mode {
            // Whichever of the two gives something else than the term.
            let by_term =
                |results: &[ResultColumn]| results.iter().all(|result| matches!(result.what, What::Term));
            return Ok(if by_term(&first) { second.to_vec() } else { first });
        }
        let Some(label) = encrypted else { return Ok(first) };
        let same = |(left, right): (&ResultColumn, &ResultColumn)| match (&left.what, &right.what) {
            (What::Sealed(left, left_terms), What::Sealed(right, right_terms)) => {
                left.id == right.id && left.kind.plain() == right.kind.plain() && left_terms == right_terms
            }
            (What::Fold(left, of), What::Fold(right, other)) => left == right && of.id == other.id,
            (What::Plain, What::Plain) => true,
            _ => false,
        };
        if all && first.len() == second.len() && first.iter().zip(second).all(same) {
            return Ok(first.into_iter().zip(second).map(|(left, right)| left.or_chosen(right)).collect());
        }
        Err(self.unsupported(
            0,
            format!("column {label} is encrypted: a UNION without ALL, an INTERSECT or an EXCEPT cannot read it, nor can one with another column"),
            "Use UNION ALL of the same column, or SELECT DISTINCT.",
        ))
    }

    /// An order of the results of a union, by name or number.
    fn order_of_results(
        &mut self,
        order: Option<&OrderBy>,
        results: &[ResultColumn],
    ) -> Result<(), SqlError> {
        if results.iter().all(ResultColumn::is_plain) {
            return Ok(());
        }
        let Some(OrderBy { kind: OrderByKind::Expressions(order), .. }) = order else { return Ok(()) };
        for item in order {
            let place = numbered::place_of(&item.expr, results);
            if !place.and_then(|place| results.get(place)).is_some_and(ResultColumn::is_plain) {
                return Err(self.unsupported(
                    0,
                    "the result of a UNION is not ordered by an encrypted column".into(),
                    "Order the rows in the application, or use one query with OR.",
                ));
            }
            self.named_result(&item.expr, "ORDER BY", results)?;
            if let Expr::Identifier(name) = &item.expr {
                self.understand(name);
            }
        }
        Ok(())
    }

    fn select(
        &mut self,
        select: &Select,
        order: Option<&OrderBy>,
        outer: Option<&Scope<'_>>,
        mode: Mode<'_>,
    ) -> Result<Vec<ResultColumn>, SqlError> {
        let scope = self.from(&select.from, outer)?;
        if let (Some(into), true) = (&select.into, scope.is_encrypted()) {
            let at = self.lexemes.position_of(select.select_token.0.span).unwrap_or(0);
            return Err(self.unsupported(
                at,
                format!("{into} would make a table of ciphertext"),
                "Create the table, declare its columns, and insert the rows.",
            ));
        }
        if let Some(condition) = &select.selection {
            self.filter(condition, &scope)?;
        }
        let grouped = self.group_by(select, &scope)?;
        // From here on, what is looked at is of a group.
        let around = std::mem::replace(&mut self.groups, grouped.clone());
        let shown = self.shows_results && matches!(mode, Mode::Top) && outer.is_none();
        let shown = shown && !item::reads_results(select, order);
        let around_results = std::mem::replace(&mut self.shows_results, shown);
        let results = self.items(&select.projection, &scope, &grouped, mode)?;
        self.shows_results = around_results;
        self.grouped_results(select, &results, &scope)?;
        if let Some(having) = &select.having {
            self.expression(having, &scope, "HAVING")?;
        }
        for window in &select.named_window {
            self.understand(&window.0);
            self.named_window(&window.1, &scope)?;
        }
        let ordered = self.order_by(order, select, &results, &scope)?;
        self.distinct(select, &results, &ordered, &scope, mode)?;
        self.groups = around;
        Ok(results)
    }

    /// `GROUP BY`: columns become their terms.
    fn group_by(&mut self, select: &Select, scope: &Scope<'_>) -> Result<Grouped, SqlError> {
        let sqlparser::ast::GroupByExpr::Expressions(list, _) = &select.group_by else {
            return Ok(Grouped::default());
        };
        let mut grouped = Grouped::default();
        let each = list.iter().flat_map(|expression| match expression {
            // `GROUP BY (a, b)` groups by each of them.
            Expr::Tuple(list) => list.as_slice(),
            one => std::slice::from_ref(one),
        });
        for expression in each {
            // A name is an input column's before it is an alias.
            let input = item::identifier(expression).is_some_and(|name| scope.knows(&name));
            let meant = if input { None } else { item::meant_by(expression, &select.projection) };
            let Some(reference) = self.reference(meant.unwrap_or(expression), scope)? else {
                match item::tokens_of(self.lexemes, expression).filter(|_| meant.is_some()) {
                    // It is looked at where the result is.
                    Some(tokens) => self.understand_tokens(tokens),
                    None => self.expression(expression, scope, "GROUP BY")?,
                }
                continue;
            };
            self.need(&reference, "GROUP BY", None)?;
            let terms: Vec<String> =
                reference.encryption.shared_terms().map(|term| self.term_text(&reference, term)).collect();
            let at = match meant {
                Some(_) => item::tokens_of(self.lexemes, expression),
                None => Some(reference.tokens.clone()),
            };
            if let Some(tokens) = at {
                let bytes = self.bytes(&tokens);
                self.understand_tokens(tokens);
                self.edits.replace(bytes, vec![crate::plan::Piece::Text(terms.join(", "))]);
            }
            grouped.columns.push((reference.relation.clone(), reference.column.clone()));
        }
        Ok(grouped)
    }
}
