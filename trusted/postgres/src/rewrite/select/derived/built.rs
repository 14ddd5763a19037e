//! What the proxy computes of values, as PostgreSQL finds the types of it.

use super::{Gathered, arguments_of, conditions, name_of};
use crate::codec::Datum;
use crate::column_type::ColumnType;
use crate::error::SqlError;
use crate::plan::{Arithmetic, Called, DerivedExpression, Source};
use crate::rewrite::analysis::Analysis;
use crate::rewrite::constant::{Constant, Written, constant};
use crate::rewrite::of_time::{self, of_time};
use crate::rewrite::scope::Scope;
use crate::values::common_kind;
use sqlparser::ast::{BinaryOperator, CastKind, CeilFloorKind, DateTimeField, Expr, Function, UnaryOperator};

/// A value of a type that is known, or one that takes the type of what stands beside it.
pub(super) enum Operand {
    Typed(DerivedExpression, ColumnType),
    /// A string, NULL or a parameter without a cast.
    Open(Constant),
}

/// Functions that the proxy computes of values.
const CALLED: [(&str, Called); 9] = [
    ("abs", Called::Absolute),
    ("ceiling", Called::Ceiling),
    ("trunc", Called::Truncated),
    ("upper", Called::Upper),
    ("lower", Called::Lower),
    ("length", Called::Length),
    ("char_length", Called::Length),
    ("character_length", Called::Length),
    ("octet_length", Called::Bytes),
];

/// Is it a function that the proxy computes?
pub(super) fn is_called(name: &str) -> bool {
    ["round", "coalesce", "nullif"].contains(&name)
        || of_time::is_called(name)
        || CALLED.iter().any(|(other, _)| *other == name)
}

/// The arithmetic that an operator is.
pub(in crate::rewrite) fn operator_of(op: &BinaryOperator) -> Option<Arithmetic> {
    Some(match op {
        BinaryOperator::Plus => Arithmetic::Plus,
        BinaryOperator::Minus => Arithmetic::Minus,
        BinaryOperator::Multiply => Arithmetic::Times,
        BinaryOperator::Divide => Arithmetic::Over,
        BinaryOperator::Modulo => Arithmetic::Modulo,
        BinaryOperator::StringConcat => Arithmetic::Concatenated,
        _ => return None,
    })
}

impl Analysis<'_> {
    /// What the proxy computes; none if it does not know how. A value alone whose type is open is a text.
    pub(super) fn built(
        &mut self,
        expression: &Expr,
        gathered: &mut Gathered,
        scope: &Scope<'_>,
    ) -> Result<Option<DerivedExpression>, SqlError> {
        Ok(match self.operand_of(expression, gathered, scope)? {
            Some(Operand::Typed(found, _)) => Some(found),
            Some(Operand::Open(found)) => self.settled(Operand::Open(found), ColumnType::Text, gathered)?,
            None => None,
        })
    }

    /// The same with its type.
    pub(super) fn operand_of(
        &mut self,
        expression: &Expr,
        gathered: &mut Gathered,
        scope: &Scope<'_>,
    ) -> Result<Option<Operand>, SqlError> {
        if let Some(found) = constant(self.lexemes, expression) {
            return self.constant_operand(found, gathered);
        }
        if let Some(reference) = self.reference(expression, scope)? {
            let found = self.gathered_value(&reference, gathered)?;
            return Ok(Some(Operand::Typed(found, reference.encryption.kind)));
        }
        let found = match expression {
            Expr::Nested(inner) => return self.operand_of(inner, gathered, scope),
            other if let Some((how, of)) = of_time(self.lexemes, other) => {
                let inner = self.typed(of, gathered, scope)?;
                inner.map(|inner| DerivedExpression::OfTime(how, Box::new(inner)))
            }
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
                self.gathered_plain(expression, gathered, scope)
            }
            Expr::BinaryOp { left, op, right } if operator_of(op).is_some() => {
                let Some(operator) = operator_of(op) else { return Ok(None) };
                self.arithmetic((left, operator, right), gathered, scope)?
            }
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
                let inner = self.typed(expr, gathered, scope)?;
                inner.map(|inner| DerivedExpression::Negated(Box::new(inner)))
            }
            Expr::UnaryOp { op: UnaryOperator::Plus, expr } => {
                let inner = self.typed(expr, gathered, scope)?;
                let kind = inner.as_ref().and_then(|inner| inner.kind(&gathered.parts));
                let both = inner.zip(kind.filter(|kind| kind.is_number()));
                both.map(|(inner, kind)| DerivedExpression::Cast(Box::new(inner), kind.plain()))
            }
            Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, format: None } => {
                let Some(kind) = ColumnType::parse(&data_type.to_string()) else { return Ok(None) };
                let inner = self.typed(expr, gathered, scope)?;
                inner.map(|inner| DerivedExpression::Cast(Box::new(inner), kind))
            }
            Expr::Ceil { expr, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
                let inner = self.typed(expr, gathered, scope)?;
                inner.map(|inner| DerivedExpression::Called(Called::Ceiling, Box::new(inner)))
            }
            Expr::Floor { expr, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
                let inner = self.typed(expr, gathered, scope)?;
                inner.map(|inner| DerivedExpression::Called(Called::Floor, Box::new(inner)))
            }
            Expr::Function(function) => self.called(function, gathered, scope)?,
            Expr::Case { .. } => self.case_of(expression, gathered, scope)?,
            other => self.condition_of(other, gathered, scope)?,
        };
        let kind = found.as_ref().and_then(|found| found.kind(&gathered.parts));
        let Some((found, kind)) = found.zip(kind) else { return Ok(None) };
        // PostgreSQL computes it before it reads a row.
        if found.is_constant() {
            crate::values::check_constant(&found, &gathered.column)?;
        }
        Ok(Some(Operand::Typed(found, kind)))
    }

    /// A value whose type is known by itself.
    pub(super) fn typed(
        &mut self,
        expression: &Expr,
        gathered: &mut Gathered,
        scope: &Scope<'_>,
    ) -> Result<Option<DerivedExpression>, SqlError> {
        Ok(match self.operand_of(expression, gathered, scope)? {
            Some(Operand::Typed(found, _)) => Some(found),
            Some(Operand::Open(_)) | None => None,
        })
    }

    fn constant_operand(
        &mut self,
        found: Constant,
        gathered: &mut Gathered,
    ) -> Result<Option<Operand>, SqlError> {
        if found.is_cast_elsewhere() {
            return Ok(None);
        }
        let cast = found.cast_kind().filter(|_| found.cast.is_some());
        let is_array = found.cast.as_deref().is_some_and(|name| name.ends_with("[]"));
        let expression = match (&found.source, cast, found.written) {
            _ if is_array => return Ok(None),
            (Source::Constant(Some(digits)), None, Written::Number) => {
                DerivedExpression::Number(digits.clone())
            }
            (Source::Constant(text), Some(kind), _) => {
                let text = text.clone();
                self.check_text(&found, kind)?;
                DerivedExpression::Constant(text, kind)
            }
            (Source::Constant(text), None, Written::Boolean) => {
                DerivedExpression::Constant(text.clone(), ColumnType::Boolean)
            }
            (Source::Parameter(_), Some(kind), _) => self.gathered_parameter(&found, kind, gathered)?,
            (Source::Constant(_) | Source::Parameter(_), None, Written::Any) => {
                return Ok(Some(Operand::Open(found)));
            }
            _ => return Ok(None),
        };
        let kind = expression.kind(&gathered.parts);
        Ok(kind.map(|kind| Operand::Typed(expression, kind)))
    }

    /// That a constant is one of a type: else it is PostgreSQL's error, before a row is read.
    fn check_text(&self, found: &Constant, kind: ColumnType) -> Result<(), SqlError> {
        let Source::Constant(Some(text)) = &found.source else { return Ok(()) };
        Datum::cast_text(kind, text).map(drop).map_err(|error| self.at(error, found.tokens.start))
    }

    /// A value as one of a type, if it may take any.
    pub(super) fn settled(
        &mut self,
        operand: Operand,
        kind: ColumnType,
        gathered: &mut Gathered,
    ) -> Result<Option<DerivedExpression>, SqlError> {
        let kind = kind.plain();
        match operand {
            Operand::Typed(found, _) => Ok(Some(found)),
            Operand::Open(found) => match &found.source {
                Source::Parameter(_) => self.gathered_parameter(&found, kind, gathered).map(Some),
                Source::Constant(text) => {
                    self.check_text(&found, kind)?;
                    Ok(Some(DerivedExpression::Constant(text.clone(), kind)))
                }
                Source::Constants(_) | Source::Read(_) | Source::Computed(_) | Source::Moment(_) => Ok(None),
            },
        }
    }

    /// Two values, of which one may take the type of the other.
    pub(super) fn settled_both(
        &mut self,
        (left, right): (&Expr, &Expr),
        gathered: &mut Gathered,
        scope: &Scope<'_>,
    ) -> Result<Option<(DerivedExpression, DerivedExpression)>, SqlError> {
        let left = self.operand_of(left, gathered, scope)?;
        let right = self.operand_of(right, gathered, scope)?;
        let (Some(left), Some(right)) = (left, right) else { return Ok(None) };
        let kind = match (&left, &right) {
            (Operand::Typed(_, kind), _) | (_, Operand::Typed(_, kind)) => *kind,
            (Operand::Open(_), Operand::Open(_)) => return Ok(None),
        };
        let left = self.settled(left, kind, gathered)?;
        let right = self.settled(right, kind, gathered)?;
        Ok(left.zip(right))
    }

    fn arithmetic(
        &mut self,
        (left, operator, right): (&Expr, Arithmetic, &Expr),
        gathered: &mut Gathered,
        scope: &Scope<'_>,
    ) -> Result<Option<DerivedExpression>, SqlError> {
        let left = self.operand_of(left, gathered, scope)?;
        let right = self.operand_of(right, gathered, scope)?;
        let (Some(left), Some(right)) = (left, right) else { return Ok(None) };
        let kind = match (&left, &right) {
            (Operand::Typed(_, left), Operand::Typed(_, right)) => {
                if left.is_text() {
                    *left
                } else {
                    *right
                }
            }
            (Operand::Typed(_, kind), _) | (_, Operand::Typed(_, kind)) => *kind,
            (Operand::Open(_), Operand::Open(_)) => return Ok(None),
        };
        let of = match operator {
            // Beside anything else than bytes what is open is a text, and so is what stands beside a text.
            Arithmetic::Concatenated if kind != ColumnType::Bytea => ColumnType::Text,
            Arithmetic::Concatenated => kind,
            // A day takes more than a day.
            _ if !kind.is_number()
                && !matches!((&left, &right), (Operand::Typed(..), Operand::Typed(..))) =>
            {
                return Ok(None);
            }
            _ => kind,
        };
        if operator == Arithmetic::Concatenated {
            let is_known_text = |operand: &Operand| match operand {
                Operand::Typed(_, kind) => kind.is_text() || *kind == ColumnType::Bytea,
                Operand::Open(_) => true,
            };
            if !is_known_text(&left) && !is_known_text(&right) {
                return Ok(None);
            }
        }
        let left = self.settled(left, of, gathered)?;
        let right = self.settled(right, of, gathered)?;
        let Some((left, right)) = left.zip(right) else { return Ok(None) };
        let as_text = |value: DerivedExpression, gathered: &Gathered| match value.kind(&gathered.parts) {
            Some(kind)
                if of == ColumnType::Text && operator == Arithmetic::Concatenated && !kind.is_text() =>
            {
                DerivedExpression::Cast(Box::new(value), ColumnType::Text)
            }
            _ => value,
        };
        let (left, right) = (as_text(left, gathered), as_text(right, gathered));
        Ok(Some(DerivedExpression::Arithmetic(operator, Box::new(left), Box::new(right))))
    }

    /// Values of one type, of which those that are open take the type of the others. Behind the first they may not be computed
    /// for each row.
    pub(super) fn settled_all(
        &mut self,
        list: &[&Expr],
        gathered: &mut Gathered,
        scope: &Scope<'_>,
    ) -> Result<Option<Vec<DerivedExpression>>, SqlError> {
        let around = gathered.lazy;
        let mut operands = Vec::with_capacity(list.len());
        for one in list {
            let Some(operand) = self.operand_of(one, gathered, scope)? else { return Ok(None) };
            operands.push(operand);
            gathered.lazy = true;
        }
        gathered.lazy = around;
        let kinds: Vec<ColumnType> = operands
            .iter()
            .filter_map(|operand| match operand {
                Operand::Typed(_, kind) => Some(*kind),
                Operand::Open(_) => None,
            })
            .collect();
        // What has no type at all is a text.
        let kind = if kinds.is_empty() { Some(ColumnType::Text) } else { common_kind(&kinds) };
        let Some(kind) = kind else { return Ok(None) };
        let mut settled = Vec::with_capacity(operands.len());
        for operand in operands {
            let Some(one) = self.settled(operand, kind, gathered)? else { return Ok(None) };
            settled.push(one);
        }
        Ok(Some(settled))
    }

    fn called(
        &mut self,
        function: &Function,
        gathered: &mut Gathered,
        scope: &Scope<'_>,
    ) -> Result<Option<DerivedExpression>, SqlError> {
        let name = name_of(function);
        if self.aggregated(function, scope)?.is_some() {
            return self.gathered_aggregate(function, gathered, scope);
        }
        let arguments = arguments_of(function);
        match (name.as_str(), arguments.as_deref()) {
            ("count", _) => self.gathered_count(function, gathered, scope),
            ("nullif", Some([counted, number])) if self.is_counted(counted, number) => {
                self.gathered_count(function, gathered, scope)
            }
            ("nullif", Some([value, other])) => {
                let both = self.settled_both((value, other), gathered, scope)?;
                let Some((value, other)) = both else { return Ok(None) };
                let is_sure = conditions::are_sure(&[&value, &other], gathered);
                Ok(is_sure.then(|| DerivedExpression::NullIf(Box::new(value), Box::new(other))))
            }
            ("round", Some([value])) => {
                let value = self.typed(value, gathered, scope)?;
                Ok(value.map(|value| DerivedExpression::Round(Box::new(value), None)))
            }
            ("round" | "trunc", Some([value, digits])) => {
                let found = constant(self.lexemes, digits).filter(|found| found.cast.is_none());
                let Some(Source::Constant(Some(digits))) = found.map(|found| found.source) else {
                    return Ok(None);
                };
                let Ok(digits) = digits.parse() else { return Ok(None) };
                let value = self.typed(value, gathered, scope)?;
                Ok(value.map(|value| match name.as_str() {
                    "round" => DerivedExpression::Round(Box::new(value), Some(digits)),
                    _ => DerivedExpression::Truncate(Box::new(value), digits),
                }))
            }
            ("coalesce", Some(list)) if !list.is_empty() => {
                Ok(self.settled_all(list, gathered, scope)?.map(DerivedExpression::Coalesce))
            }
            (name, Some([value])) => {
                let Some((_, called)) = CALLED.iter().find(|(other, _)| *other == name) else {
                    return Ok(None);
                };
                let value = self.typed(value, gathered, scope)?;
                Ok(value.map(|value| DerivedExpression::Called(*called, Box::new(value))))
            }
            _ => Ok(None),
        }
    }

    /// Is it a count beside a whole number, which the server compares?
    fn is_counted(&self, counted: &Expr, number: &Expr) -> bool {
        let is_count =
            matches!(counted, Expr::Function(inner) if name_of(inner) == "count" && inner.over.is_none());
        is_count
            && constant(self.lexemes, number).is_some_and(|found| {
                matches!(&found.source, Source::Constant(Some(digits)) if digits.parse::<i32>().is_ok())
                    && found.cast.is_none()
                    && found.written == Written::Number
            })
    }
}
