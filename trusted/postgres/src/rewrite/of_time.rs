//! What is written to be computed of a day or a moment: an interval later, cut, or one field of it.

use super::expression::argument_of;
use super::moment::{interval, string};
use crate::codec::{Field, Unit};
use crate::moment::OfTime;
use crate::text::Lexemes;
use sqlparser::ast::{BinaryOperator, Expr, Function, FunctionArguments};

/// Functions that are read here.
const CALLED: [&str; 3] = ["date_trunc", "date_part", "timezone"];

/// Is it such a function?
pub(super) fn is_called(name: &str) -> bool {
    CALLED.contains(&name)
}

/// What is made, and what it is made of.
pub(super) fn of_time<'e>(lexemes: &Lexemes, expression: &'e Expr) -> Option<(OfTime, &'e Expr)> {
    match expression {
        Expr::BinaryOp { left, op: BinaryOperator::Plus, right } => {
            let (by, of) = match interval(lexemes, right) {
                Some((by, _)) => (by, left),
                None => (interval(lexemes, left)?.0, right),
            };
            Some((OfTime::moved(by), of))
        }
        Expr::BinaryOp { left, op: BinaryOperator::Minus, right } => {
            Some((OfTime::moved(interval(lexemes, right)?.0.negated()?), left))
        }
        Expr::Extract { field, expr, .. } => Some((OfTime::field(Field::parse(&field.to_string())?), expr)),
        Expr::AtTimeZone { timestamp, time_zone } => {
            is_utc(string(lexemes, time_zone)?.0).then_some((OfTime::in_utc(), timestamp))
        }
        Expr::Function(function) => called(lexemes, function),
        _ => None,
    }
}

fn is_utc(name: &str) -> bool {
    name.eq_ignore_ascii_case("utc")
}

fn called<'e>(lexemes: &Lexemes, function: &'e Function) -> Option<(OfTime, &'e Expr)> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let is_plain = list.clauses.is_empty()
        && list.duplicate_treatment.is_none()
        && function.filter.is_none()
        && function.over.is_none();
    let given: Vec<&Expr> = list.args.iter().map(argument_of).collect::<Option<_>>()?;
    let ([how, of], true) = (&given[..], is_plain) else { return None };
    let how = string(lexemes, how)?.0;
    let made = match function.name.to_string().to_lowercase().as_str() {
        "date_trunc" => OfTime::truncated(Unit::parse(how)?),
        "date_part" => OfTime::part(Field::parse(how)?),
        "timezone" if is_utc(how) => OfTime::in_utc(),
        _ => return None,
    };
    Some((made, of))
}
