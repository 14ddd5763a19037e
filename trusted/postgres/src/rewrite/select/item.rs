//! The results of a query, one by one.

use super::figured::figured;
use super::group::{Grouped, number};
use super::{Mode, ResultColumn, What};
use crate::catalog::Encryption;
use crate::column_type::ColumnType;
use crate::error::{SqlError, sqlstate};
use crate::plan::{Fold, Piece};
use crate::rewrite::analysis::{Analysis, Reference};
use crate::rewrite::comparison::common_term;
use crate::rewrite::constant::constant;
use crate::rewrite::expression::argument_of;
use crate::rewrite::scope::{Relation, Scope};
use crate::rewrite::spelling::is_table_query;
use crate::rewrite::term::Term;
use crate::text::{Lexemes, fold, quoted};
use sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArguments, GroupByExpr, Ident, OrderBy, OrderByKind, Select,
    SelectItem, SelectItemQualifiedWildcardKind, Spanned,
};
use std::ops::Range;
use std::sync::Arc;

/// The number of a result that an expression is (`ORDER BY 2`).
pub(super) fn ordinal(expression: &Expr) -> Option<usize> {
    number(expression)
}

/// The name that an expression is, alone or in parentheses.
pub(super) fn identifier(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Identifier(name) => Some(name_of(name)),
        Expr::Nested(inner) => identifier(inner),
        _ => None,
    }
}

fn name_of(identifier: &Ident) -> String {
    fold(&identifier.value, identifier.quote_style.is_some())
}

/// The result that an expression of `ORDER BY` or `GROUP BY` names by its number or name, if it does.
pub(super) fn meant_by<'e>(expression: &Expr, items: &'e [SelectItem]) -> Option<&'e Expr> {
    let expression_of = |item: &'e SelectItem| match item {
        SelectItem::UnnamedExpr(expression) | SelectItem::ExprWithAlias { expr: expression, .. } => {
            Some(expression)
        }
        SelectItem::ExprWithAliases { .. } | SelectItem::QualifiedWildcard(..) | SelectItem::Wildcard(_) => {
            None
        }
    };
    if let Some(number) = number(expression) {
        // Numbers count columns: behind a star they are not places in the list.
        let before = items.get(..number)?;
        let counted = before.iter().all(|item| expression_of(item).is_some());
        return if counted { before.last().and_then(expression_of) } else { None };
    }
    let name = identifier(expression)?;
    items.iter().find_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } if name_of(alias) == name => Some(expr),
        // What has no other name has the one that PostgreSQL gives it.
        SelectItem::UnnamedExpr(expression) if figured(expression) == name => Some(expression),
        SelectItem::ExprWithAlias { .. }
        | SelectItem::UnnamedExpr(_)
        | SelectItem::ExprWithAliases { .. }
        | SelectItem::QualifiedWildcard(..)
        | SelectItem::Wildcard(_) => None,
    })
}

/// Does a query read its own results: to group them, to tell equal ones, to order them by name or number?
pub(super) fn reads_results(select: &Select, order: Option<&OrderBy>) -> bool {
    let groups = match &select.group_by {
        GroupByExpr::Expressions(list, modifiers) => !list.is_empty() || !modifiers.is_empty(),
        GroupByExpr::All(_) => true,
    };
    let orders = match order.map(|order| &order.kind) {
        Some(OrderByKind::Expressions(list)) => {
            let is_computed = |meant: &Expr| !is_column(meant);
            list.iter().any(|item| meant_by(&item.expr, &select.projection).is_some_and(is_computed))
        }
        Some(OrderByKind::All(_)) => true,
        None => false,
    };
    groups || orders || select.distinct.is_some()
}

/// Is it a column's name, alone or in parentheses?
fn is_column(expression: &Expr) -> bool {
    match expression {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => true,
        Expr::Nested(inner) => is_column(inner),
        _ => false,
    }
}

/// The tokens of a name, a number, or either in parentheses.
pub(super) fn tokens_of(lexemes: &Lexemes, expression: &Expr) -> Option<Range<usize>> {
    match expression {
        Expr::Identifier(name) => lexemes.position_of(name.span).map(|at| at..at + 1),
        Expr::CompoundIdentifier(parts) => {
            let start = lexemes.position_of(parts.first()?.span)?;
            Some(start..lexemes.position_of(parts.last()?.span)? + 1)
        }
        Expr::Value(_) => constant(lexemes, expression).map(|found| found.tokens),
        Expr::Nested(inner) => {
            let inner = tokens_of(lexemes, inner)?;
            Some(inner.start.checked_sub(1)?..inner.end + 1)
        }
        _ => None,
    }
}

/// The token that an expression begins with, as near as the tree tells.
pub(in crate::rewrite) fn first_token(lexemes: &Lexemes, expression: &Expr) -> usize {
    lexemes.position_of(expression.span()).unwrap_or(0)
}

/// A column as a function gives its values: digits and lengths are not declared of them, and a varchar is of that type.
fn of_function(encryption: &Arc<Encryption>, varchar: ColumnType) -> Arc<Encryption> {
    let kind = match encryption.kind {
        ColumnType::Varchar(_) => varchar,
        kind if kind.plain() != kind => kind.plain(),
        _ => return encryption.clone(),
    };
    Arc::new(Encryption { kind, ..(**encryption).clone() })
}

impl Analysis<'_> {
    pub(in crate::rewrite) fn items(
        &mut self,
        items: &[SelectItem],
        scope: &Scope<'_>,
        grouped: &Grouped,
        mode: Mode<'_>,
    ) -> Result<Vec<ResultColumn>, SqlError> {
        let mut results = Vec::new();
        for item in items {
            match item {
                SelectItem::UnnamedExpr(expression) => {
                    results.push(self.item(expression, None, scope, grouped, mode)?)
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    self.understand(alias);
                    results.push(self.item(expr, Some(alias), scope, grouped, mode)?);
                }
                SelectItem::Wildcard(options) => {
                    let at = self.lexemes.position_of(options.wildcard_token.0.span).unwrap_or(0);
                    let relations: Vec<&Relation> = scope.relations.iter().collect();
                    results.extend(self.star(&relations, at..at + 1, mode)?);
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                    let at = self.lexemes.position_of(options.wildcard_token.0.span).unwrap_or(0);
                    let parts: Vec<String> =
                        name.0.iter().filter_map(|part| part.as_ident()).map(name_of).collect();
                    self.understand_name(name);
                    let relation = match &parts[..] {
                        [relation] => scope.relation(None, relation),
                        [schema, relation] => scope.relation(Some(schema), relation),
                        _ => None,
                    };
                    let start = at.saturating_sub(2 * name.0.len());
                    match relation {
                        Some(relation) => results.extend(self.star(&[relation], start..at + 1, mode)?),
                        None => results.push(ResultColumn { name: None, what: What::Rest }),
                    }
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::Expr(expression), _) => {
                    self.expression(expression, scope, "a star")?;
                    results.push(ResultColumn { name: None, what: What::Rest });
                }
                SelectItem::ExprWithAliases { expr, .. } => {
                    self.expression(expr, scope, "a list of aliases")?;
                    results.push(ResultColumn { name: None, what: What::Rest });
                }
            }
        }
        let rests = results.iter().filter(|result| matches!(result.what, What::Rest)).count();
        if rests > 1 && results.iter().any(|result| !result.is_plain()) {
            return Err(self.unsupported(
                0,
                "stars of more than one relation whose columns are not known stand beside encrypted columns"
                    .into(),
                "Name the columns.",
            ));
        }
        Ok(results)
    }

    /// `*`: the columns of relations, terms left out.
    fn star(
        &mut self,
        relations: &[&Relation],
        tokens: Range<usize>,
        mode: Mode<'_>,
    ) -> Result<Vec<ResultColumn>, SqlError> {
        let (mut results, mut texts) = (Vec::new(), Vec::new());
        let columns = relations.iter().flat_map(|relation| relation.columns.iter().flatten());
        let merged = columns.filter(|column| column.merged).count();
        let encrypted = relations.iter().any(|relation| relation.is_encrypted());
        for relation in relations {
            let qualifier =
                relation.name.as_deref().map(|name| format!("{}.", quoted(name))).unwrap_or_default();
            self.take_star(relation, (encrypted, mode), tokens.start)?;
            let Some(columns) = relation.columns.as_ref().filter(|_| !self.is_open(relation)) else {
                results.push(ResultColumn { name: None, what: What::Rest });
                texts.push(format!("{qualifier}*"));
                continue;
            };
            // Nothing is left out of it: its names are PostgreSQL's affair.
            let whole = relation.derived && !relation.is_encrypted() && !qualifier.is_empty();
            if whole {
                texts.push(format!("{qualifier}*"));
            }
            for column in columns.iter().filter(|column| !column.merged || relations.len() == 1) {
                if !whole {
                    texts.push(format!("{qualifier}{}", quoted(&column.name)));
                }
                let what = match &column.encryption {
                    None => What::Plain,
                    Some(encryption) => {
                        let terms = column.terms && matches!(mode, Mode::Relation);
                        if terms {
                            texts.extend(encryption.terms().map(|term| {
                                format!("{qualifier}{}", quoted(&format!("{}{}", column.name, term.suffix())))
                            }));
                        }
                        What::Sealed(encryption.clone(), terms)
                    }
                };
                results.push(ResultColumn { name: Some(column.name.clone()), what });
            }
        }
        if !encrypted {
            return Ok(results);
        }
        match mode {
            Mode::Top | Mode::Relation if merged == 0 || relations.len() == 1 => {
                let bytes = self.bytes(&tokens);
                let listed = texts.join(", ");
                // `TABLE t` has no star.
                let is_table = is_table_query(self.lexemes, tokens.start);
                let text = if is_table { format!("SELECT {listed} FROM") } else { listed };
                self.understand_tokens(tokens);
                self.edits.replace(bytes, vec![Piece::Text(text)]);
                Ok(results)
            }
            Mode::Unread => {
                self.understand_tokens(tokens);
                Ok(results)
            }
            Mode::Top | Mode::Relation | Mode::Term(..) | Mode::Plain => Err(self.unsupported(
                tokens.start,
                "a star with encrypted columns does not stand here".into(),
                "Name the columns.",
            )),
        }
    }

    fn item(
        &mut self,
        expression: &Expr,
        alias: Option<&Ident>,
        scope: &Scope<'_>,
        grouped: &Grouped,
        mode: Mode<'_>,
    ) -> Result<ResultColumn, SqlError> {
        if let Some(reference) = self.reference(expression, scope)? {
            let name = alias.map_or_else(|| reference.column.clone(), name_of);
            let Some(tokens) = tokens_of(self.lexemes, expression) else {
                return Err(self.unreadable(&reference, "this form of a result"));
            };
            let what = self.column_item(&reference, tokens, alias, grouped, mode)?;
            return Ok(ResultColumn { name: Some(name), what });
        }
        let shown = figured(expression);
        let name = alias.map_or_else(|| shown.clone(), name_of);
        if let Some(what) = self.chosen_item(expression, alias, (&shown, scope, mode))? {
            return Ok(ResultColumn { name: Some(name), what });
        }
        if let Some(found) = self.scalar_item(expression, scope, mode)? {
            let name = alias.map(name_of).or(found.name);
            return Ok(ResultColumn { name, what: found.what });
        }
        if let Expr::Function(function) = expression
            && let Some(what) = self.sum_or_default(function, scope, mode)?
        {
            return Ok(ResultColumn { name: Some(name), what });
        }
        if let Some(what) = self.derived_item(expression, alias, (&shown, scope, mode), false)? {
            return Ok(ResultColumn { name: Some(name), what });
        }
        if let Some(what) = self.case_item(expression, alias, (&shown, scope, mode))? {
            return Ok(ResultColumn { name: Some(name), what });
        }
        if let Expr::Function(function) = expression {
            let function_name = function.name.to_string().to_lowercase();
            if let Some(what) = self.aggregate_item(function, &function_name, alias, scope, mode)? {
                return Ok(ResultColumn { name: Some(name), what });
            }
            self.function(function, scope)?;
            return Ok(ResultColumn::plain(Some(name)));
        }
        let mark = self.edits.mark();
        let Err(error) = self.expression(expression, scope, "a computed result") else {
            return Ok(ResultColumn::plain(Some(name)));
        };
        if error.sqlstate != sqlstate::FEATURE_NOT_SUPPORTED {
            return Err(error);
        }
        self.edits.back_to(mark);
        match self.derived_item(expression, alias, (&shown, scope, mode), true)? {
            Some(what) => Ok(ResultColumn { name: Some(name), what }),
            None => Err(error),
        }
    }

    /// What constants stand in, chosen by encrypted columns, where the proxy can look at these: the server would see the constants
    /// beside the rows that they are of. None if it cannot, or there are none.
    fn case_item(
        &mut self,
        expression: &Expr,
        alias: Option<&Ident>,
        of: (&str, &Scope<'_>, Mode<'_>),
    ) -> Result<Option<What>, SqlError> {
        if !self.shows_results || !self.chooses_constants(expression, of.1)? {
            return Ok(None);
        }
        let mark = self.edits.mark();
        match self.derived_item(expression, alias, of, true) {
            Err(error) if error.sqlstate == sqlstate::FEATURE_NOT_SUPPORTED => {
                self.edits.back_to(mark);
                Ok(None)
            }
            found => found,
        }
    }

    /// A choice among values of an encrypted column, which the server makes where it can; none if it is something else.
    fn chosen_item(
        &mut self,
        expression: &Expr,
        alias: Option<&Ident>,
        (shown, scope, mode): (&str, &Scope<'_>, Mode<'_>),
    ) -> Result<Option<What>, SqlError> {
        if !matches!(mode, Mode::Top | Mode::Relation) {
            return Ok(None);
        }
        let mark = self.edits.mark();
        let refused = match self.chosen(expression, scope) {
            Err(error) if error.sqlstate == sqlstate::FEATURE_NOT_SUPPORTED => error,
            found => return found,
        };
        self.edits.back_to(mark);
        match self.derived_item(expression, alias, (shown, scope, mode), true)? {
            Some(what) => Ok(Some(what)),
            None => Err(refused),
        }
    }

    fn column_item(
        &mut self,
        reference: &Reference,
        tokens: Range<usize>,
        alias: Option<&Ident>,
        grouped: &Grouped,
        mode: Mode<'_>,
    ) -> Result<What, SqlError> {
        let encryption = reference.encryption.clone();
        match mode {
            Mode::Plain => Err(self.unreadable(reference, "the query around this one")),
            Mode::Unread => {
                self.keep(reference);
                Ok(What::Sealed(encryption, false))
            }
            Mode::Term(term, with) => {
                let fits = common_term(&with.encryption, &encryption, term) == Some(term);
                if !fits {
                    return Err(self.no_common_key(with, &encryption, "a comparison"));
                }
                self.need_compared(reference, "a comparison", Some(term))?;
                self.replace_with_term(reference, term);
                Ok(What::Term)
            }
            Mode::Top | Mode::Relation => {
                self.keep(reference);
                let bytes = self.bytes(&tokens);
                if grouped.holds(reference) {
                    // One of the group's sealed values: all open to the same.
                    self.edits.insert(bytes.start, "arras.any_of(");
                    let name = if alias.is_none() {
                        format!(" AS {}", quoted(&reference.column))
                    } else {
                        String::new()
                    };
                    self.edits.insert(bytes.end, format!("){name}"));
                }
                let terms = matches!(mode, Mode::Relation) && reference.terms;
                if terms {
                    let after = alias.and_then(|alias| self.lexemes.position_of(alias.span));
                    let end = after.map_or(bytes.end, |at| self.lexemes.bytes(at).end);
                    let name = alias.map_or_else(|| reference.column.clone(), name_of);
                    let texts: String = encryption
                        .terms()
                        .map(|term| {
                            let shown = quoted(&format!("{name}{}", term.suffix()));
                            format!(", {} AS {shown}", self.term_text(reference, term))
                        })
                        .collect();
                    self.edits.insert(end, texts);
                }
                Ok(What::Sealed(encryption, terms))
            }
        }
    }

    /// An aggregate of an encrypted column.
    pub(super) fn aggregate_item(
        &mut self,
        function: &Function,
        name: &str,
        alias: Option<&Ident>,
        scope: &Scope<'_>,
        mode: Mode<'_>,
    ) -> Result<Option<What>, SqlError> {
        let FunctionArguments::List(list) = &function.args else { return Ok(None) };
        let ([argument, ..], Some(at)) = (&list.args[..], self.token_of_name(function)) else {
            return Ok(None);
        };
        let Some(argument) = argument_of(argument) else { return Ok(None) };
        let known =
            matches!(name, "min" | "max" | "sum" | "avg" | "first_value" | "last_value" | "lag" | "lead");
        if !known || list.args.len() > 1 {
            return Ok(None);
        }
        let Some(reference) = self.reference(argument, scope)? else { return Ok(None) };
        let reader = format!("function {name}()");
        let distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
        let plain = !distinct && list.clauses.is_empty();
        self.understand_name(&function.name);
        let encryption = reference.encryption.clone();
        let what = match (name, mode) {
            ("min" | "max", Mode::Term(Term::Order, with)) if with.encryption.id == encryption.id => {
                self.need(&reference, &reader, Some(Term::Order))?;
                self.replace_with_term(&reference, Term::Order);
                self.name_extreme(function, &encryption);
                What::Term
            }
            ("min" | "max", Mode::Top | Mode::Relation) if function.over.is_none() && plain => {
                self.need_compared(&reference, &reader, Some(Term::Order))?;
                let Some(order) = encryption.order else {
                    return Err(self.undeclared(&reference, &reader, "order"));
                };
                let Some([least, greatest]) = order.extremes() else {
                    return Err(self.unsorted(&reference, &reader, order));
                };
                self.keep(&reference);
                let term = self.within_group(|analysis| analysis.term_text(&reference, Term::Order));
                let aggregate = if name == "min" { least } else { greatest };
                // Behind the argument with its parentheses: before that of the call.
                let close =
                    self.lexemes.after_parentheses(at + 1).map_or(reference.tokens.end, |end| end - 1);
                self.edits.insert(self.lexemes.bytes(close).start, format!(", {term}"));
                self.rename_aggregate(function, at, aggregate, alias.is_none().then_some(name))?;
                What::Sealed(of_function(&encryption, ColumnType::Text), false)
            }
            ("sum" | "avg", Mode::Top) if plain => {
                if !encryption.sum {
                    return Err(self.undeclared(&reference, &reader, "sum"));
                }
                self.keep(&reference);
                self.rename_aggregate(function, at, "array_agg", alias.is_none().then_some(name))?;
                What::Fold(if name == "sum" { Fold::Sum } else { Fold::Average }, encryption)
            }
            ("first_value" | "last_value" | "lag" | "lead", Mode::Top | Mode::Relation)
                if plain && function.over.is_some() =>
            {
                self.keep(&reference);
                What::Sealed(of_function(&encryption, ColumnType::Varchar(None)), false)
            }
            _ => return Err(self.unreadable(&reference, &reader)),
        };
        self.within_group(|analysis| analysis.around_function(function, scope))?;
        Ok(Some(what))
    }

    pub(super) fn token_of_name(&self, function: &Function) -> Option<usize> {
        let [part] = &function.name.0[..] else { return None };
        self.lexemes.position_of(part.as_ident()?.span)
    }

    /// Gives an aggregate another name; the result keeps the name that it had.
    fn rename_aggregate(
        &mut self,
        function: &Function,
        at: usize,
        name: &str,
        shown: Option<&str>,
    ) -> Result<(), SqlError> {
        let Some(end) = self.end_of_function(function, at) else {
            return Err(self.unsupported(
                at,
                "this form of an aggregate is not rewritten".into(),
                "Write it without FILTER.",
            ));
        };
        self.edits.replace(self.lexemes.bytes(at), vec![Piece::Text(name.into())]);
        self.understand_tokens(at..at + 1);
        let shown = shown.map(|shown| format!(" AS {}", quoted(shown))).unwrap_or_default();
        self.edits.insert(self.lexemes.bytes(end.saturating_sub(1)).end, shown);
        Ok(())
    }

    /// The token behind a function's call and its `FILTER` and `OVER`.
    pub(super) fn end_of_function(&self, function: &Function, at: usize) -> Option<usize> {
        let mut end = self.lexemes.after_parentheses(at + 1)?;
        if function.filter.is_some() {
            self.lexemes.is_word(end, "filter").then_some(())?;
            end = self.lexemes.after_parentheses(end + 1)?;
        }
        if function.over.is_some() {
            self.lexemes.is_word(end, "over").then_some(())?;
            end = self.lexemes.after_parentheses(end + 1).unwrap_or(end + 2);
        }
        Some(end)
    }
}
