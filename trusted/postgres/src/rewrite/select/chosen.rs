//! Results that are one of several values of a column: `CASE`, `coalesce`. The server chooses among sealed values, the proxy
//! opens what was chosen.

use super::What;
use crate::catalog::Encryption;
use crate::column_type::ColumnType;
use crate::error::{SqlError, sqlstate};
use crate::plan::{Form, Piece, Source};
use crate::rewrite::analysis::Analysis;
use crate::rewrite::constant::{Constant, Written, cast_tokens, in_parentheses};
use crate::rewrite::expression::argument_of;
use crate::rewrite::moment::{beside_times, constant_or_moment};
use crate::rewrite::scope::Scope;
use crate::rewrite::term::Term;
use crate::rewrite::write::assigned;
use crate::text::name_of;
use crate::values::{common_kind, common_time, kind_of_digits};
use sqlparser::ast::{CastKind, Expr, FunctionArguments};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;
use std::ops::Range;
use std::sync::Arc;

/// What may stand before parentheses in a condition and says the same each time within a statement: words of SQL, types with a
/// length, and functions of PostgreSQL that are not volatile.
const STEADY: [&str; 103] = [
    "all",
    "and",
    "any",
    "array",
    "as",
    "between",
    "by",
    "case",
    "cast",
    "else",
    "from",
    "ilike",
    "in",
    "is",
    "like",
    "not",
    "on",
    "or",
    "overlaps",
    "row",
    "similar",
    "some",
    "then",
    "values",
    "when",
    "zone",
    "bit",
    "bpchar",
    "char",
    "character",
    "decimal",
    "interval",
    "numeric",
    "time",
    "timestamp",
    "timestamptz",
    "varbit",
    "varchar",
    "varying",
    "abs",
    "age",
    "array_length",
    "ascii",
    "btrim",
    "cardinality",
    "ceil",
    "ceiling",
    "char_length",
    "character_length",
    "chr",
    "coalesce",
    "concat",
    "concat_ws",
    "date",
    "date_bin",
    "date_part",
    "date_trunc",
    "decode",
    "encode",
    "extract",
    "floor",
    "greatest",
    "initcap",
    "jsonb_typeof",
    "least",
    "left",
    "length",
    "lower",
    "lpad",
    "ltrim",
    "make_date",
    "md5",
    "mod",
    "now",
    "nullif",
    "octet_length",
    "overlay",
    "position",
    "power",
    "regexp_replace",
    "repeat",
    "replace",
    "reverse",
    "right",
    "round",
    "rpad",
    "rtrim",
    "sign",
    "split_part",
    "sqrt",
    "starts_with",
    "statement_timestamp",
    "strpos",
    "substr",
    "substring",
    "to_char",
    "to_date",
    "to_number",
    "to_timestamp",
    "translate",
    "trim",
    "trunc",
    "upper",
];

/// The values among which an expression chooses, and the conditions that it chooses by.
fn choices(expression: &Expr) -> Option<(Vec<&Expr>, Vec<&Expr>)> {
    match expression {
        Expr::Nested(inner) | Expr::Cast { expr: inner, format: None, .. } => choices(inner),
        Expr::Case { operand: None, conditions, else_result, .. } => {
            let values = conditions.iter().map(|when| &when.result).chain(else_result.as_deref()).collect();
            Some((values, conditions.iter().map(|when| &when.condition).collect()))
        }
        Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("coalesce") => {
            let FunctionArguments::List(list) = &function.args else { return None };
            Some((list.args.iter().filter_map(argument_of).collect(), Vec::new()))
        }
        _ => None,
    }
}

/// The choice that an expression casts, the kind of the cast and what it casts.
fn cast_of_choice(expression: &Expr) -> Option<(&CastKind, &Expr)> {
    match expression {
        Expr::Nested(inner) => cast_of_choice(inner),
        Expr::Cast { kind, expr, format: None, .. } => choices(expr).map(|_| (kind, &**expr)),
        _ => None,
    }
}

/// The type that a choice is cast to at last; none inside if no column is of it.
fn kind_of_cast(expression: &Expr) -> Option<Option<ColumnType>> {
    match expression {
        Expr::Nested(inner) => kind_of_cast(inner),
        Expr::Cast { expr, data_type, format: None, .. } => {
            choices(expr).map(|_| ColumnType::parse(&data_type.to_string()))
        }
        _ => None,
    }
}

/// Does a cast to a type leave all values of another as they are?
fn keeps(to: ColumnType, of: ColumnType) -> bool {
    let is_wide = || match (of, to) {
        (of, to) if of.is_integer() && to.is_integer() => common_kind(&[of, to]) == Some(to),
        (of, to) => of.plain() == to.plain() || (of.is_text() && to.is_text()),
    };
    let has_digits = |kind| match kind {
        ColumnType::Timestamp(digits) | ColumnType::TimestampTz(digits) => Some(digits.unwrap_or(6)),
        _ => None,
    };
    let is_finer = || of.plain() == to.plain() && has_digits(to) >= has_digits(of);
    to.is_same(of) || (to.modifier() == -1 && is_wide()) || (of.is_time() && is_finer())
}

impl Analysis<'_> {
    /// The tokens of a choice.
    fn tokens_of_choice(&self, expression: &Expr) -> Option<Range<usize>> {
        match expression {
            Expr::Case { case_token, end_token, .. } => {
                let start = self.lexemes.position_of(case_token.0.span)?;
                Some(start..self.lexemes.position_of(end_token.0.span)? + 1)
            }
            Expr::Nested(inner) => in_parentheses(self.lexemes, self.tokens_of_choice(inner)?),
            Expr::Cast { kind, expr, .. } => {
                let inner = self.tokens_of_choice(expr)?;
                cast_tokens(self.lexemes, kind, &inner).map(|(tokens, _)| tokens)
            }
            Expr::Function(function) => {
                let [part] = &function.name.0[..] else { return None };
                let start = self.lexemes.position_of(part.as_ident()?.span)?;
                Some(start..self.lexemes.after_parentheses(start + 1)?)
            }
            _ => None,
        }
    }

    /// A choice that is cast to its column's type, as Django writes it, is chosen without the casts: the names of their types, the
    /// innermost first, for its constants.
    fn leave_out_casts(
        &mut self,
        expression: &Expr,
        encryption: &Encryption,
        scope: &Scope<'_>,
    ) -> Result<Vec<String>, SqlError> {
        let (mut rest, mut names) = (expression, Vec::new());
        while let Some((kind, inner)) = cast_of_choice(rest) {
            let chosen = self.tokens_of_choice(inner);
            let cast = chosen.and_then(|chosen| {
                let (tokens, name) = cast_tokens(self.lexemes, kind, &chosen)?;
                Some((chosen, tokens, name))
            });
            let Some((chosen, tokens, name)) = cast else {
                let label = &encryption.label;
                return Err(self.unsupported(
                    super::first_token(self.lexemes, rest),
                    format!(
                        "a choice among values of column {label} is cast in a form that is not rewritten"
                    ),
                    "Leave out the cast.",
                ));
            };
            let (source, written) = (Source::Constant(None), Written::Any);
            let cast = Constant { tokens: tokens.clone(), source, written, cast: Some(name.clone()) };
            self.check_constant(&cast, encryption)?;
            names.insert(0, name);
            let is_kept = cast.cast_kind().is_none_or(|kind| keeps(kind, encryption.kind));
            if !is_kept && self.column_of(&[inner], scope)?.is_some() {
                return Err(self.unsupported(
                    tokens.start,
                    format!(
                        "a cast to another type, other digits or another length than column {}'s has",
                        encryption.label
                    ),
                    "Leave out the cast, or cast to the column's type.",
                ));
            }
            for around in [tokens.start..chosen.start, chosen.end..tokens.end] {
                if !around.is_empty() {
                    self.understand_tokens(around.clone());
                    let bytes = self.bytes(&around);
                    self.edits.replace(bytes, vec![Piece::Text(" ".into())]);
                }
            }
            rest = inner;
        }
        Ok(names)
    }

    /// A constant of a choice as the casts around that make it; of the type first that it has among the choice's values.
    fn cast_in_choice(
        &self,
        found: Constant,
        (casts, among): (&[String], Option<ColumnType>),
    ) -> Result<Constant, SqlError> {
        let is_open = found.cast.is_none() && found.written == Written::Any;
        let is_text = matches!(found.source, Source::Constant(Some(_)));
        let first = among.filter(|_| is_open && is_text && !casts.is_empty()).map(ColumnType::name);
        let mut cast = found.clone();
        for name in first.iter().chain(casts) {
            // What has no value is none of any type, and a parameter has that of the column.
            let has_effect = match cast.source {
                Source::Parameter(_) => ColumnType::parse(name).is_some_and(|kind| kind.modifier() != -1),
                Source::Moment(_) => true,
                _ => is_text,
            };
            if !has_effect {
                continue;
            }
            let Some(made) = cast.cast_to(name.clone()) else {
                return Err(self.unsupported(
                    found.tokens.start,
                    format!("a value of a choice does not become {name} here"),
                    "Leave out the cast.",
                ));
            };
            cast = made;
        }
        Ok(cast)
    }

    /// What a choice among values of an encrypted column gives; none if it is no such choice, and nothing was touched.
    pub(super) fn chosen(&mut self, expression: &Expr, scope: &Scope<'_>) -> Result<Option<What>, SqlError> {
        if cast_of_choice(expression).is_some() {
            // A result of a cast is of its type, which may be another.
            return Ok(None);
        }
        let Some((values, _)) = choices(expression) else { return Ok(None) };
        let Some(encryption) = self.column_of(&values, scope)? else { return Ok(None) };
        let encryption = self.as_chosen(expression, encryption, scope)?;
        self.choose((&[expression], (&[], None)), &Form::Sealed(encryption.clone()), &encryption, scope)?;
        Ok(Some(What::Sealed(encryption, false)))
    }

    /// The column with the type that a choice among its values and constants has. Nobody stores what is chosen: the constants are
    /// sealed for the statement's results.
    fn as_chosen(
        &mut self,
        expression: &Expr,
        encryption: Arc<Encryption>,
        scope: &Scope<'_>,
    ) -> Result<Arc<Encryption>, SqlError> {
        let mut kinds = Vec::new();
        let is_open = self.kinds_of_choice(expression, &mut kinds, scope)?;
        let encryption = encryption.chosen_in(self.text);
        let Some(kind) = common_kind(&kinds).or_else(|| common_time(&kinds)) else {
            return Ok(Arc::new(encryption));
        };
        let kind = if is_open { kind.plain() } else { kind };
        // What is sealed of one is read as the other.
        let is_alike =
            kind.plain() == encryption.kind.plain() || (kind.is_integer() && encryption.kind.is_integer());
        if !is_alike {
            return Err(self.unsupported(
                super::first_token(self.lexemes, expression),
                format!(
                    "a value of column {} is chosen beside one of type {}",
                    encryption.label,
                    kind.name()
                ),
                "Select both, and choose in the application.",
            ));
        }
        Ok(Arc::new(Encryption { kind, ..encryption }))
    }

    /// The types of the values of a choice; whether one of them has none of its own, as a string, NULL and what is not there.
    fn kinds_of_choice(
        &mut self,
        expression: &Expr,
        kinds: &mut Vec<ColumnType>,
        scope: &Scope<'_>,
    ) -> Result<bool, SqlError> {
        if let Some(found) = constant_or_moment(self.lexemes, expression) {
            let kind = match (&found.source, found.written) {
                _ if found.cast.is_some() => found.cast_kind(),
                (Source::Constant(Some(digits)), Written::Number) => Some(kind_of_digits(digits)),
                (_, Written::Boolean) => Some(ColumnType::Boolean),
                _ => None,
            };
            kinds.extend(kind);
            return Ok(kind.is_none());
        }
        let Some((mut values, _)) = choices(expression) else {
            kinds.extend(self.reference(expression, scope)?.map(|reference| reference.encryption.kind));
            return Ok(false);
        };
        let mut is_open = matches!(expression, Expr::Case { else_result: None, .. });
        if matches!(expression, Expr::Case { else_result: Some(_), .. }) {
            // That of `ELSE` is the first among them.
            values.rotate_right(1);
        }
        for value in values {
            is_open |= match kind_of_cast(value) {
                Some(kind) => {
                    kinds.extend(kind);
                    kind.is_none()
                }
                None => self.kinds_of_choice(value, kinds, scope)?,
            };
        }
        Ok(is_open)
    }

    /// The type that the values of a choice have in common, without digits or a length.
    ///
    /// # Errors
    /// PostgreSQL finds none for them.
    fn kind_among(&mut self, choice: &Expr, scope: &Scope<'_>) -> Result<Option<ColumnType>, SqlError> {
        let mut kinds = Vec::new();
        self.kinds_of_choice(choice, &mut kinds, scope)?;
        let family = |kind: ColumnType| match kind.plain() {
            kind if kind.is_number() => ColumnType::Numeric(None),
            kind if kind.is_text() => ColumnType::Text,
            ColumnType::Timestamp(_) | ColumnType::TimestampTz(_) => ColumnType::Date,
            kind => kind,
        };
        let other = |first: &ColumnType| kinds.iter().find(|kind| family(**kind) != family(*first));
        if let Some((first, other)) = kinds.first().and_then(|first| Some((first, other(first)?))) {
            let message =
                format!("types {} and {} of a choice cannot be matched", first.name(), other.name());
            let at = super::first_token(self.lexemes, choice);
            return Err(self.at(SqlError::new(sqlstate::DATATYPE_MISMATCH, message), at));
        }
        Ok(common_kind(&kinds).or_else(|| common_time(&kinds)).map(ColumnType::plain))
    }

    /// That a value of a choice among numbers is one where its text would be stored: PostgreSQL reads it as a number first.
    fn require_number(
        &self,
        found: &Constant,
        (casts, among): (&[String], Option<ColumnType>),
        encryption: &Encryption,
    ) -> Result<(), SqlError> {
        let is_open = found.cast.is_none() && found.written == Written::Any;
        let is_as_it_is = match &found.source {
            Source::Constant(None) => false,
            Source::Parameter(_) => true,
            _ => casts.is_empty(),
        };
        let stays = is_open && is_as_it_is && encryption.kind.is_text();
        if !(stays && among.is_some_and(ColumnType::is_number)) {
            return Ok(());
        }
        Err(self.unsupported(
            found.tokens.start,
            format!("a string or a parameter is chosen beside a number for column {}", encryption.label),
            "Write the numbers as strings.",
        ))
    }

    /// The first encrypted column among values.
    fn column_of(
        &mut self,
        values: &[&Expr],
        scope: &Scope<'_>,
    ) -> Result<Option<Arc<Encryption>>, SqlError> {
        for value in values {
            if constant_or_moment(self.lexemes, value).is_some() {
                continue;
            }
            let found = match choices(value) {
                Some((inner, _)) => self.column_of(&inner, scope)?,
                None => self.reference(value, scope)?.map(|reference| reference.encryption),
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Does an expression choose among constants and values of one column only?
    pub(in crate::rewrite) fn only_chooses(
        &mut self,
        expression: &Expr,
        encryption: &Encryption,
        scope: &Scope<'_>,
    ) -> Result<bool, SqlError> {
        let Some((values, _)) = choices(expression) else { return Ok(false) };
        for value in values {
            let fits = constant_or_moment(self.lexemes, value).is_some()
                || self.only_chooses(value, encryption, scope)?
                || self
                    .reference(value, scope)?
                    .is_some_and(|found| found.encryption.id == encryption.id && found.terms);
            if !fits {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A choice that is stored is made anew for each form of its value, and must come out the same each time: it may call nothing
    /// of which that is not known.
    pub(in crate::rewrite) fn require_steady(
        &self,
        tokens: &Range<usize>,
        encryption: &Encryption,
    ) -> Result<(), SqlError> {
        let calls = |at: &usize| {
            let Some(Token::Word(word)) = self.lexemes.token(*at) else { return false };
            if matches!(word.keyword, Keyword::SELECT | Keyword::TABLE) {
                // Of a view, or with a limit: it may give other rows.
                return true;
            }
            let is_called = matches!(self.lexemes.token(at + 1), Some(Token::LParen));
            is_called && !(STEADY.contains(&name_of(word).as_str()) && self.is_of_the_system(*at))
        };
        let Some(at) = tokens.clone().find(calls) else { return Ok(()) };
        let name = self.source(&(at..at + 1)).to_owned();
        Err(self.unsupported(
            at,
            format!(
                "what is stored in column {} is chosen by {name}, which may say another thing each time",
                encryption.label
            ),
            "Select it first, and send the value.",
        ))
    }

    /// Is a name written alone, or as that of `pg_catalog`?
    fn is_of_the_system(&self, at: usize) -> bool {
        let before = |count: usize| at.checked_sub(count);
        let is_qualified = before(1).is_some_and(|at| matches!(self.lexemes.token(at), Some(Token::Period)));
        !is_qualified
            || before(2).is_some_and(|at| self.lexemes.is_word(at, "pg_catalog"))
                && !before(3).is_some_and(|at| matches!(self.lexemes.token(at), Some(Token::Period)))
    }

    /// The text of some tokens that choose among values of a column, as a value in a form: the sealed one or a term.
    pub(in crate::rewrite) fn chosen_pieces(
        &mut self,
        expression: &Expr,
        tokens: &Range<usize>,
        form: &Form,
        encryption: &Arc<Encryption>,
        scope: &Scope<'_>,
    ) -> Result<Vec<Piece>, SqlError> {
        let other = self.edits.take();
        let chosen = self.choose((&[expression], (&[], None)), form, encryption, scope);
        self.place_plain_parameters_in(tokens.clone());
        let pieces = self.edits.pieces(self.text, self.bytes(tokens));
        self.edits.restore(other);
        chosen?;
        pieces
    }

    /// Values, of which constants are cast as is said and then become values of a column.
    fn choose(
        &mut self,
        (values, casts): (&[&Expr], (&[String], Option<ColumnType>)),
        form: &Form,
        encryption: &Arc<Encryption>,
        scope: &Scope<'_>,
    ) -> Result<(), SqlError> {
        for value in values {
            if let Some(found) = constant_or_moment(self.lexemes, value) {
                self.require_number(&found, casts, encryption)?;
                let found = beside_times(found, casts.1, encryption);
                let found = self.cast_in_choice(found, casts)?;
                let pieces = self.typed_pieces(&assigned(&found, encryption), form.clone())?;
                let bytes = self.bytes(&found.tokens);
                self.edits.replace(bytes, pieces);
                continue;
            }
            if let Some((inner, conditions)) = choices(value) {
                let mut names = self.leave_out_casts(value, encryption, scope)?;
                self.expressions(conditions, scope, "CASE")?;
                self.understand_called(value);
                names.extend_from_slice(casts.0);
                let among = self.kind_among(value, scope)?;
                self.choose((&inner, (&names, among)), form, encryption, scope)?;
                continue;
            }
            match self.reference(value, scope)? {
                Some(reference) if reference.encryption.id == encryption.id => match form {
                    Form::Equality(_) => self.replace_with_term(&reference, Term::Equality),
                    Form::Order(_) => self.replace_with_term(&reference, Term::Order),
                    Form::Text(_) => self.replace_with_term(&reference, Term::Text),
                    Form::Plain
                    | Form::Presence
                    | Form::Sealed(_)
                    | Form::Default(_)
                    | Form::SealedArray(_)
                    | Form::EqualTo(_)
                    | Form::EqualityArray(_)
                    | Form::EqualToArray(_)
                    | Form::OrderArray(_)
                    | Form::TextArray(_)
                    | Form::Found(..)
                    | Form::FoundEmpty(..)
                    | Form::Bound(..) => {
                        self.keep(&reference);
                        if self.groups.holds(&reference) {
                            let bytes = self.bytes(&reference.tokens);
                            self.edits.insert(bytes.start, "arras.any_of(");
                            self.edits.insert(bytes.end, ")");
                        }
                    }
                },
                Some(reference) => {
                    return Err(self.unreadable(&reference, "a choice among values of several columns"));
                }
                None => {
                    return Err(self.unsupported(
                        super::first_token(self.lexemes, value),
                        format!(
                            "a value of column {} is chosen beside one that the server computes",
                            encryption.label
                        ),
                        "Select both, and choose in the application.",
                    ));
                }
            }
        }
        Ok(())
    }

    /// The name of the function that an expression calls is understood.
    fn understand_called(&mut self, expression: &Expr) {
        match expression {
            Expr::Function(function) => self.understand_name(&function.name),
            Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => self.understand_called(inner),
            _ => {}
        }
    }
}
