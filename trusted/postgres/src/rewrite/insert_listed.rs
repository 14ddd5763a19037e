//! `INSERT ... SELECT ... FROM (VALUES ...)` and `... FROM unnest(...)`: rows that the statement itself lists, or arrays.
//!
//! What goes to encrypted columns is sealed where it is listed, so that the server sees none of it and runs the statement as
//! any other: a column of the list becomes the columns that its target is, and the query selects them all. SQLAlchemy's
//! `insertmanyvalues` and Django's `bulk_create` write such statements, and so do many by hand.

use super::analysis::Analysis;
use super::constant::{Constant, cast_tokens, constant, in_parentheses};
use super::insert::{Columns, items};
use super::moment::{beside_times, constant_or_moment};
use super::scope::{Relation, RelationColumn, Scope};
use super::term::{Term, stored_name, stored_order};
use super::write::{Target, listed as with_commas, stored_forms, stored_names};
use crate::catalog::Encryption;
use crate::column_type::ColumnType;
use crate::error::{SqlError, sqlstate};
use crate::plan::{Form, Piece, Source};
use crate::text::fold;
use crate::values::common_time;
use sqlparser::ast::{
    Expr, GroupByExpr, Ident, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr, TableAlias,
    TableFactor, Values,
};
use sqlparser::tokenizer::Token;
use std::ops::Range;
use std::sync::Arc;

/// PostgreSQL's number of the type that a parameter of a list has that nothing says more of.
const TEXT: u32 = 25;

/// What lists rows.
#[derive(Clone, Copy)]
enum List<'q> {
    Values(&'q Values, &'q TableAlias),
    /// Arrays, whether their members are counted, and the alias.
    Arrays(&'q [Expr], bool, Option<&'q TableAlias>),
}

/// The list that a query selects from, if that is all that it selects from.
fn list_of(source: &Query) -> Option<(&Select, List<'_>)> {
    let SetExpr::Select(select) = &*source.body else { return None };
    let [from] = &select.from[..] else { return None };
    let ties = source.fetch.as_ref().is_some_and(|fetch| fetch.with_ties);
    let simple = source.with.is_none()
        && !ties
        && from.joins.is_empty()
        && select.into.is_none()
        && select.distinct.is_none()
        && select.having.is_none()
        && matches!(&select.group_by, GroupByExpr::Expressions(list, _) if list.is_empty());
    if !simple {
        return None;
    }
    match &from.relation {
        TableFactor::Derived { lateral: false, subquery, alias: Some(alias), .. } => {
            let bare =
                subquery.with.is_none() && subquery.order_by.is_none() && subquery.limit_clause.is_none();
            match &*subquery.body {
                SetExpr::Values(values) if bare && subquery.locks.is_empty() => {
                    Some((select, List::Values(values, alias)))
                }
                _ => None,
            }
        }
        TableFactor::UNNEST { alias, array_exprs, with_offset: false, with_ordinality, .. } => {
            Some((select, List::Arrays(array_exprs, *with_ordinality, alias.as_ref())))
        }
        _ => None,
    }
}

/// How many columns a star of such a list is.
pub(super) fn width_of_star(source: &Query) -> Option<usize> {
    let (select, list) = list_of(source)?;
    let [SelectItem::Wildcard(_)] = &select.projection[..] else { return None };
    Some(list.width())
}

impl List<'_> {
    fn width(self) -> usize {
        match self {
            List::Values(values, _) => values.rows.first().map_or(0, |row| row.content.len()),
            List::Arrays(arrays, counted, _) => arrays.len() + usize::from(counted),
        }
    }

    fn alias(&self) -> Option<&TableAlias> {
        match self {
            List::Values(_, alias) => Some(alias),
            List::Arrays(_, _, alias) => *alias,
        }
    }

    /// The names of its columns.
    fn names(self) -> Vec<String> {
        let folded = |name: &Ident| fold(&name.value, name.quote_style.is_some());
        let given = self.alias().map(|alias| alias.columns.iter().map(|column| folded(&column.name)));
        let mut names: Vec<String> = given.into_iter().flatten().collect();
        for place in names.len()..self.width() {
            names.push(match self {
                List::Values(..) => format!("column{}", place + 1),
                List::Arrays(arrays, ..) if place == arrays.len() => "ordinality".into(),
                // One array's column has the name of the alias.
                List::Arrays([_], _, Some(alias)) if alias.columns.is_empty() => folded(&alias.name),
                // More of them have one name, and none is meant by it.
                List::Arrays([_], ..) => "unnest".into(),
                List::Arrays(..) => format!("unnest {}", place + 1),
            });
        }
        names
    }
}

/// A result of the query that is a column of the list.
struct Selected {
    /// Its place in the list.
    column: usize,
    /// Its tokens, with those of casts.
    tokens: Range<usize>,
    /// The types that it is cast to.
    casts: Vec<String>,
}

/// A list whose rows are stored.
struct Listed<'q> {
    list: List<'q>,
    names: Vec<String>,
    /// For each of its columns, what it is stored in.
    targets: Vec<Target>,
    /// The types that it is cast to before.
    casts: Vec<Vec<String>>,
}

impl Listed<'_> {
    /// The columns that a column of the list is, by their names in the new text.
    fn stored_names(&self, column: usize) -> Vec<String> {
        let name = self.names.get(column).map_or("", String::as_str);
        stored_names(name, self.targets.get(column).and_then(Option::as_ref))
    }

    /// The relation that the query selects from.
    fn relation(&self) -> Relation {
        let is_values = matches!(self.list, List::Values(..));
        let column = |(name, target): (&String, &Target)| RelationColumn {
            name: name.clone(),
            encryption: target.clone(),
            // What an array's members have beside them are ciphertexts, which cannot be compared.
            terms: is_values,
            merged: false,
            kind: None,
        };
        let name = self.list.alias().map(|alias| fold(&alias.name.value, alias.name.quote_style.is_some()));
        let columns = self.names.iter().zip(&self.targets).map(column).collect();
        Relation { name, schema: None, derived: false, certain: true, table: None, columns: Some(columns) }
    }
}

/// Does a cast make of a parameter what storing it does: of an integer a decimal of the column?
fn is_as_stored(found: &Constant, name: &str, encryption: &Encryption) -> bool {
    let is_whole = found.cast_kind().is_some_and(ColumnType::is_integer);
    let to = ColumnType::parse(name).filter(|to| matches!(to, ColumnType::Numeric(_)));
    matches!(found.source, Source::Parameter(_))
        && is_whole
        && to.is_some_and(|to| to == encryption.kind || to.modifier() == -1)
}

impl Analysis<'_> {
    /// Stores the rows of a list. False if the query is of another kind, and nothing was touched.
    pub(super) fn insert_listed(&mut self, source: &Query, columns: &Columns) -> Result<bool, SqlError> {
        let Some((select, list)) = list_of(source) else { return Ok(false) };
        let names = list.names();
        let is_star = matches!(select.projection[..], [SelectItem::Wildcard(_)]);
        if !is_star && items(select).count() != select.projection.len() {
            return Ok(false);
        }
        let count = if is_star { names.len() } else { select.projection.len() };
        if count != columns.targets.len() {
            return Err(self.wrong_count(select, count > columns.targets.len()));
        }
        let mut targets: Vec<Target> = vec![None; names.len()];
        let mut selected = Vec::new();
        let mut plain = vec![is_star; names.len()];
        for (place, (_, target)) in columns.targets.iter().enumerate() {
            let found = match is_star {
                true => Some(Selected { column: place, tokens: 0..0, casts: Vec::new() }),
                false => items(select).nth(place).and_then(|item| self.selected(item, &names)),
            };
            match (found, target) {
                (Some(found), Some(target)) => {
                    self.check_once(&mut targets, &plain, &found, (target, is_star))?;
                    selected.push(Some(found));
                }
                (Some(found), None) => {
                    if let Some(used) = plain.get_mut(found.column) {
                        *used = true;
                    }
                    selected.push(None);
                }
                (None, Some(_)) => return Ok(false),
                (None, None) => selected.push(None),
            }
        }
        // What is computed beside it may give a listed row several times.
        if targets.iter().flatten().any(|target| target.hides_frequency())
            && !items(select).all(|item| {
                constant_or_moment(self.lexemes, item).is_some() || self.selected(item, &names).is_some()
            })
        {
            return Ok(false);
        }
        let mut casts = vec![Vec::new(); names.len()];
        for found in selected.iter().flatten() {
            if let Some(of_column) = casts.get_mut(found.column) {
                of_column.clone_from(&found.casts);
            }
        }
        let listed = Listed { list, names, targets, casts };
        self.seal_listed(&listed, select, columns)?;
        self.select_listed(&listed, (source, select), &selected, columns)?;
        Ok(true)
    }

    fn wrong_count(&self, select: &Select, more: bool) -> SqlError {
        let message = match more {
            true => "INSERT has more expressions than target columns",
            false => "INSERT has more target columns than expressions",
        };
        let at = self.lexemes.position_of(select.select_token.0.span).unwrap_or(0);
        self.at(SqlError::new(sqlstate::SYNTAX_ERROR, message), at)
    }

    /// Notes what a column of the list is stored in: one encrypted column, and no other.
    fn check_once(
        &self,
        targets: &mut [Target],
        plain: &[bool],
        found: &Selected,
        (target, is_star): (&Arc<Encryption>, bool),
    ) -> Result<(), SqlError> {
        let elsewhere = !is_star && plain.get(found.column) == Some(&true);
        match targets.get_mut(found.column) {
            Some(known @ None) if !elsewhere => *known = Some(target.clone()),
            _ => {
                return Err(self.unsupported(
                    found.tokens.start,
                    format!("a listed value is stored in column {} and in another", target.label),
                    "List it once for each column.",
                ));
            }
        }
        for name in &found.casts {
            let cast = Constant {
                tokens: found.tokens.clone(),
                source: Source::Constant(None),
                written: super::constant::Written::Any,
                cast: Some(name.clone()),
            };
            self.check_constant(&cast, target)?;
        }
        Ok(())
    }

    /// The column of the list that a result is, perhaps cast.
    fn selected(&self, item: &Expr, names: &[String]) -> Option<Selected> {
        match item {
            Expr::Identifier(name) => {
                let at = self.lexemes.position_of(name.span)?;
                let folded = fold(&name.value, name.quote_style.is_some());
                let column = names.iter().position(|known| *known == folded)?;
                Some(Selected { column, tokens: at..at + 1, casts: Vec::new() })
            }
            Expr::CompoundIdentifier(parts) => {
                let [relation, name] = &parts[..] else { return None };
                let inner = self.selected(&Expr::Identifier(name.clone()), names)?;
                let start = self.lexemes.position_of(relation.span)?;
                Some(Selected { tokens: start..inner.tokens.end, ..inner })
            }
            Expr::Nested(inner) => {
                let inner = self.selected(inner, names)?;
                let tokens = in_parentheses(self.lexemes, inner.tokens.clone())?;
                Some(Selected { tokens, ..inner })
            }
            Expr::Cast { kind, expr, format: None, .. } => {
                let mut inner = self.selected(expr, names)?;
                let (tokens, name) = cast_tokens(self.lexemes, kind, &inner.tokens)?;
                inner.casts.push(name);
                Some(Selected { tokens, ..inner })
            }
            _ => None,
        }
    }

    /// Seals what is listed, where it is listed, and names it.
    fn seal_listed(
        &mut self,
        listed: &Listed<'_>,
        select: &Select,
        columns: &Columns,
    ) -> Result<(), SqlError> {
        match listed.list {
            List::Values(values, _) => self.seal_rows(values, listed, columns)?,
            List::Arrays(arrays, ..) => {
                if let Some(missing) = columns.missing.first() {
                    return Err(self.unsupported(
                        0,
                        format!(
                            "column {} has a default, and the arrays give it no values",
                            missing.encryption.label
                        ),
                        "Give values of all encrypted columns that have a default, or use INSERT ... VALUES.",
                    ));
                }
                for ((array, target), casts) in arrays.iter().zip(&listed.targets).zip(&listed.casts) {
                    self.seal_array(array, target.as_ref(), casts)?;
                }
            }
        }
        self.name_listed(listed, select, columns)
    }

    fn seal_rows(&mut self, values: &Values, listed: &Listed<'_>, columns: &Columns) -> Result<(), SqlError> {
        let scope = Scope::new(None);
        let times: Vec<_> = (0..listed.names.len()).map(|place| self.time_among(values, place)).collect();
        for row in &values.rows {
            if row.content.len() != listed.names.len() {
                let at = self.lexemes.position_of(row.opening_token.0.span).unwrap_or(0);
                let message = "VALUES lists must all be the same length";
                return Err(self.at(SqlError::new(sqlstate::SYNTAX_ERROR, message), at));
            }
            let into = listed.targets.iter().zip(&listed.casts).zip(&times);
            for (value, ((target, casts), time)) in row.content.iter().zip(into) {
                if let (Some(found), Some(encryption)) = (constant_or_moment(self.lexemes, value), target) {
                    self.seal_cell(beside_times(found, *time, encryption), encryption, casts)?;
                    continue;
                }
                self.stored_value(value, target.as_ref(), &scope)?;
            }
            let end = self.lexemes.position_of(row.closing_token.0.span);
            if let (Some(end), false) = (end, columns.missing.is_empty()) {
                let mut pieces = vec![Piece::Text(", ".into())];
                pieces.extend(with_commas(self.missing_pieces(&columns.missing)?));
                let start = self.lexemes.bytes(end).start;
                self.edits.replace(start..start, pieces);
            }
        }
        Ok(())
    }

    /// The type of the days and moments that a list has in a column, if it has some.
    fn time_among(&self, values: &Values, place: usize) -> Option<ColumnType> {
        let cells = values.rows.iter().filter_map(|row| row.content.get(place));
        let found = cells.filter_map(|cell| constant_or_moment(self.lexemes, cell)?.cast_kind());
        common_time(&found.collect::<Vec<_>>())
    }

    fn seal_cell(
        &mut self,
        found: Constant,
        encryption: &Arc<Encryption>,
        casts: &[String],
    ) -> Result<(), SqlError> {
        if found.cast.is_none() {
            // As the server takes it, before the query casts it.
            self.type_parameter(&found.source, TEXT);
        }
        let tokens = found.tokens.clone();
        let cast_to = |found: Constant, name: &String| {
            if is_as_stored(&found, name, encryption) { Some(found) } else { found.cast_to(name.clone()) }
        };
        let cast = casts.iter().try_fold(found, cast_to);
        let found = &cast.ok_or_else(|| self.not_cast(&tokens, encryption))?;
        let forms = stored_forms(encryption).into_iter();
        let parts = forms.map(|(_, form)| self.typed_pieces(found, form)).collect::<Result<_, _>>()?;
        let bytes = self.bytes(&found.tokens);
        self.edits.replace(bytes, with_commas(parts));
        Ok(())
    }

    /// That the proxy does not know what casts one behind the other make of a value.
    fn not_cast(&self, tokens: &Range<usize>, encryption: &Encryption) -> SqlError {
        self.unsupported(
            tokens.start,
            format!("a value that is listed for column {} is cast to several types", encryption.label),
            "Cast it once.",
        )
    }

    fn seal_array(
        &mut self,
        array: &Expr,
        target: Option<&Arc<Encryption>>,
        casts: &[String],
    ) -> Result<(), SqlError> {
        let Some(encryption) = target else { return self.expression(array, &Scope::new(None), "unnest()") };
        let at = super::select::first_token(self.lexemes, array);
        let Some(found) = constant(self.lexemes, array) else {
            return Err(self.unsupported(
                at,
                format!(
                    "column {} is encrypted: the array of its values must be a constant or a parameter",
                    encryption.label
                ),
                "Bind the array as a parameter.",
            ));
        };
        let found = self.array_of(found)?;
        let tokens = found.tokens.clone();
        let cast = casts.iter().try_fold(found, |found, name| found.members_cast_to(name));
        let found = cast.ok_or_else(|| self.not_cast(&tokens, encryption))?;
        let mut parts = Vec::new();
        for (_, form) in stored_forms(encryption) {
            let form = match form {
                Form::Equality(encryption) => Form::EqualityArray(encryption),
                Form::Order(encryption) => Form::OrderArray(encryption),
                Form::Text(encryption) => Form::TextArray(encryption),
                _ => Form::SealedArray(encryption.clone()),
            };
            let mut pieces = self.value_pieces(&found, form)?;
            // Written as a text it is of no type that `unnest` knows.
            pieces.push(Piece::Text("::bytea[]".into()));
            parts.push(pieces);
        }
        let bytes = self.bytes(&found.tokens);
        self.edits.replace(bytes, with_commas(parts));
        Ok(())
    }

    /// Gives the list's columns their names, each followed by those of its terms.
    fn name_listed(
        &mut self,
        listed: &Listed<'_>,
        select: &Select,
        columns: &Columns,
    ) -> Result<(), SqlError> {
        let mut all: Vec<String> =
            (0..listed.names.len()).flat_map(|column| listed.stored_names(column)).collect();
        all.extend(columns.missing_names());
        let all = format!("({})", all.join(", "));
        if let List::Arrays(_, counted, alias) = listed.list {
            let end = self.end_of_unnest(select, counted)?;
            if alias.is_none() {
                let end = self.lexemes.bytes(end.saturating_sub(1)).end;
                self.edits.insert(end, format!(" AS \"unnest\" {all}"));
                return Ok(());
            }
        }
        let Some(alias) = listed.list.alias() else { return Ok(()) };
        self.understand(&alias.name);
        let named = self.lexemes.position_of(alias.name.span).unwrap_or(0);
        if matches!(self.lexemes.token(named + 1), Some(Token::LParen)) {
            let end = self.lexemes.after_parentheses(named + 1).unwrap_or(named + 2);
            self.understand_tokens(named + 1..end);
            let bytes = self.bytes(&(named + 1..end));
            self.edits.replace(bytes, vec![Piece::Text(all)]);
        } else {
            self.edits.insert(self.lexemes.bytes(named).end, format!(" {all}"));
        }
        Ok(())
    }

    /// The token behind `unnest(...)`, and behind the words that have its members counted.
    fn end_of_unnest(&mut self, select: &Select, counted: bool) -> Result<usize, SqlError> {
        let at =
            self.place_of_from(select).map(|from| from + 1).filter(|at| self.lexemes.is_word(*at, "unnest"));
        let Some((at, end)) = at.and_then(|at| Some((at, self.lexemes.after_parentheses(at + 1)?))) else {
            let message = "this form of unnest() is not rewritten".into();
            return Err(self.unsupported(0, message, "Write FROM unnest(...)."));
        };
        self.understand_tokens(at..at + 1);
        Ok(if counted { end + 2 } else { end })
    }

    /// Selects all the columns that the list's columns are.
    fn select_listed(
        &mut self,
        listed: &Listed<'_>,
        (source, select): (&Query, &Select),
        selected: &[Option<Selected>],
        columns: &Columns,
    ) -> Result<(), SqlError> {
        let relation = listed.relation();
        self.watch_relation(&relation);
        let scope = Scope { relations: vec![relation], outer: None };
        let missing: String = columns.missing_names().map(|name| format!(", {name}")).collect();
        if let [SelectItem::Wildcard(options)] = &select.projection[..] {
            let at = self.lexemes.position_of(options.wildcard_token.0.span).unwrap_or(0);
            let all: Vec<String> =
                (0..listed.names.len()).map(|column| listed.selected_text(column)).collect();
            self.edits.replace(self.lexemes.bytes(at), vec![Piece::Text(all.join(", ") + &missing)]);
        } else {
            for (item, found) in items(select).zip(selected) {
                match found {
                    None => self.expression(item, &scope, "a list's value that is stored as it is")?,
                    Some(found) => {
                        let bytes = self.bytes(&found.tokens);
                        self.understand_tokens(found.tokens.clone());
                        let text = listed.selected_text(found.column);
                        self.edits.replace(bytes, vec![Piece::Text(text)]);
                    }
                }
            }
            self.alias_items(select);
            let end = self.place_of_from(select).map(|from| self.lexemes.bytes(from.saturating_sub(1)).end);
            if let (Some(end), false) = (end, missing.is_empty()) {
                self.edits.insert(end, missing);
            }
        }
        if let Some(condition) = &select.selection {
            self.expression(condition, &scope, "WHERE")?;
        }
        self.check_order(source.order_by.as_ref(), select)?;
        self.order_by(source.order_by.as_ref(), select, &[], &scope)?;
        let limits = super::select::limits(source);
        self.expressions(limits, &Scope::new(None), "LIMIT")
    }

    /// Results are ordered by columns of the list: by number or alias a result is another one in the new text.
    pub(super) fn check_order(&self, order: Option<&OrderBy>, select: &Select) -> Result<(), SqlError> {
        let Some(OrderBy { kind: OrderByKind::Expressions(order), .. }) = order else { return Ok(()) };
        let named = |expression: &Expr| match expression {
            Expr::Value(_) => true,
            Expr::Identifier(name) => select.projection.iter().any(|item| match item {
                SelectItem::ExprWithAlias { alias, .. } => {
                    let folded = |name: &Ident| fold(&name.value, name.quote_style.is_some());
                    folded(alias) == folded(name)
                }
                _ => false,
            }),
            _ => false,
        };
        match order.iter().find(|item| named(&item.expr)) {
            None => Ok(()),
            Some(item) => Err(self.unsupported(
                super::select::first_token(self.lexemes, &item.expr),
                "what is stored in encrypted columns is not ordered by a result's number or alias".into(),
                "Order by a column or an expression.",
            )),
        }
    }

    /// Names that results are given.
    fn alias_items(&mut self, select: &Select) {
        for item in &select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item {
                self.understand(alias);
            }
        }
    }

    /// The token of a query's `FROM`.
    pub(super) fn place_of_from(&self, select: &Select) -> Option<usize> {
        let start = self.lexemes.position_of(select.select_token.0.span)?;
        if self.lexemes.is_word(start, "table") {
            // Its star is there, too.
            return Some(start + 1);
        }
        let mut depth = 0_usize;
        for (at, lexeme) in self.lexemes.list.iter().enumerate().skip(start) {
            match lexeme.token.token {
                Token::LParen | Token::LBracket => depth += 1,
                Token::RParen | Token::RBracket => depth = depth.checked_sub(1)?,
                _ if depth == 0 && self.is_clause(at, "from") => return Some(at),
                _ => {}
            }
        }
        None
    }
}

impl Listed<'_> {
    /// What the query selects for a column of the list.
    fn selected_text(&self, column: usize) -> String {
        let names = self.stored_names(column);
        let Some(encryption) = self.targets.get(column).and_then(Option::as_ref) else {
            return names.join(", ");
        };
        let is_array = matches!(self.list, List::Arrays(..));
        let term_of = std::iter::once(None).chain(encryption.terms().map(Some));
        let text = |(name, term): (String, Option<Term>)| match term {
            Some(Term::Order) if is_array => stored_order(encryption, &name),
            Some(Term::Text) if is_array => stored_name(encryption, &name),
            Some(Term::Order | Term::Equality | Term::Text) | None => name,
        };
        names.into_iter().zip(term_of).map(text).collect::<Vec<_>>().join(", ")
    }
}
