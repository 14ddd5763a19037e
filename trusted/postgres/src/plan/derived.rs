//! What the proxy computes of a row or a group that the server sends.

use super::{Arithmetic, Fold};
use crate::catalog::Encryption;
use crate::column_type::ColumnType;
use crate::moment::OfTime;
use std::sync::Arc;

/// What the proxy computes of a row: of its sealed values, of sums, and of what stands beside them.
#[derive(Clone, Debug, PartialEq)]
pub struct Derived {
    /// What it is computed of, in the order in which it comes.
    pub parts: Vec<DerivedPart>,
    /// How.
    pub expression: DerivedExpression,
    /// The type of the result.
    pub kind: ColumnType,
    /// A column that is read, for messages.
    pub column: Arc<Encryption>,
}

/// A part of what is computed with.
#[derive(Clone, Debug, PartialEq)]
pub enum DerivedPart {
    /// Sealed values, folded into one.
    Fold(Fold, Arc<Encryption>),
    /// A `bigint` that the server computes: its digits, or nothing for NULL.
    Count,
    /// One sealed value, or nothing for NULL.
    Value(Arc<Encryption>),
    /// A plain value as the protocol has it in binary, behind a byte; or nothing for NULL.
    Plain(ColumnType),
}

/// An expression on those.
#[derive(Clone, Debug, PartialEq)]
pub enum DerivedExpression {
    /// The part of that position.
    Part(usize),
    /// A number in digits, of the type that they have.
    Number(String),
    /// A value's text; none is NULL.
    Constant(Option<String>, ColumnType),
    /// Arithmetic as PostgreSQL's.
    Arithmetic(Arithmetic, Box<DerivedExpression>, Box<DerivedExpression>),
    /// With the other sign.
    Negated(Box<DerivedExpression>),
    /// The first that is not NULL, in the type of all.
    Coalesce(Vec<DerivedExpression>),
    /// NULL where the second is equal.
    NullIf(Box<DerivedExpression>, Box<DerivedExpression>),
    /// The value behind the first condition that is true, in the type of all; without one the last, or NULL.
    Case(Vec<(DerivedExpression, DerivedExpression)>, Option<Box<DerivedExpression>>),
    /// Rounded, to so many digits behind the point.
    Round(Box<DerivedExpression>, Option<i32>),
    /// Cut to so many digits behind the point, or before it.
    Truncate(Box<DerivedExpression>, i32),
    /// What a function makes of it.
    Called(Called, Box<DerivedExpression>),
    /// What is made of a day or a moment.
    OfTime(OfTime, Box<DerivedExpression>),
    /// Of another type.
    Cast(Box<DerivedExpression>, ColumnType),
    /// Whether the two compare so.
    Compared(Compared, Box<DerivedExpression>, Box<DerivedExpression>),
    /// Whether it is NULL.
    IsNull(Box<DerivedExpression>),
    /// Whether it is this truth value, and not NULL.
    Is(bool, Box<DerivedExpression>),
    /// Whether it is not true.
    Not(Box<DerivedExpression>),
    /// Whether all are true.
    All(Vec<DerivedExpression>),
}

/// A function of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// `abs`
    Absolute,
    /// `floor`
    Floor,
    /// `ceil`
    Ceiling,
    /// `trunc`
    Truncated,
    /// `upper`, of ASCII
    Upper,
    /// `lower`, of ASCII
    Lower,
    /// `length`, in characters
    Length,
    /// `octet_length`
    Bytes,
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}
