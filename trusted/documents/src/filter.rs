//! Match expressions: the filter of a find, update, delete or `$match`.

use crate::expression::Expression;
use crate::text::{self, TextCondition};
use crate::{QueryError, clock, limits};
use bson::{Bson, DateTime, Document};

mod evaluate;
mod members;
mod parse;
mod pattern;

pub(crate) use evaluate::{element_offset, element_passes};
pub use members::Members;
pub(crate) use parse::{element_match, is_of_documents, is_operators, tests};
pub use pattern::Pattern;

/// A parsed filter.
#[derive(Clone, Debug)]
pub struct Filter {
    expr: Expr,
}

/// A condition on a document.
#[derive(Clone, Debug)]
pub enum Expr {
    /// Every document passes.
    Always,
    /// No document passes.
    Never,
    /// All hold.
    And(Vec<Expr>),
    /// One holds.
    Or(Vec<Expr>),
    /// None holds.
    Nor(Vec<Expr>),
    /// A test of the values at a path.
    Field {
        /// Dotted path.
        path: String,
        /// What is asked of the values there.
        test: Test,
    },
    /// `$expr`: the aggregation expression is true.
    Expression(Expression),
    /// `$text`.
    Text(TextCondition),
}

/// A test of the values at a path. All but the negations (`Ne`, `Nin`, `Not`, `Exists(false)`) hold if they
/// hold for one value found there; a negation holds if what it negates does not.
#[derive(Clone, Debug)]
pub enum Test {
    /// `$all`: each of these ([`Test::Eq`], [`Test::Regex`] or element matches) holds, perhaps for different
    /// elements. Empty: never holds.
    All(Vec<Test>),
    /// One of these holds: what `$in` with regular expressions means.
    AnyOf(Vec<Test>),
    /// `$bitsAllSet` and its kin.
    Bits {
        /// Which bits must be how.
        want: BitTest,
        /// The bits, by position.
        positions: Vec<u32>,
    },
    /// `$elemMatch` with conditions on an element that is a document or array.
    ElemMatch(Box<Expr>),
    /// `$elemMatch` with tests that one element must pass together.
    ElemMatchValue(Vec<Test>),
    /// Equals; null also matches a missing field.
    Eq(Bson),
    /// `$exists`.
    Exists(bool),
    /// Greater, within the type class of the operand.
    Gt(Bson),
    /// Greater or equal, within the type class of the operand.
    Gte(Bson),
    /// Equals one of these values.
    In(Members),
    /// Less, within the type class of the operand.
    Lt(Bson),
    /// Less or equal, within the type class of the operand.
    Lte(Bson),
    /// `$mod`.
    Mod {
        /// Not zero.
        divisor: i64,
        /// Of the division toward zero.
        remainder: i64,
    },
    /// Not [`Test::Eq`].
    Ne(Bson),
    /// Not [`Test::In`].
    Nin(Members),
    /// `$not`: these do not all hold.
    Not(Vec<Test>),
    /// `$regex`.
    Regex(Pattern),
    /// An array of so many elements.
    Size(i64),
    /// `$type`: one of these types.
    Type(Vec<TypeTest>),
}

/// Which bits a bit test wants how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitTest {
    /// `$bitsAllClear`.
    AllClear,
    /// `$bitsAllSet`.
    AllSet,
    /// `$bitsAnyClear`.
    AnyClear,
    /// `$bitsAnySet`.
    AnySet,
}

/// One alternative of `$type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeTest {
    /// `"number"`: any numeric type.
    Number,
    /// One BSON type, by MongoDB's alias ([`crate::order::type_name`]).
    Alias(&'static str),
}

impl Filter {
    /// Reads a filter document. `$$NOW` stands for the time of this call.
    ///
    /// # Errors
    /// MongoDB's for malformed filters (mostly 2 `BadValue`); operators that are not supported are named.
    pub fn parse(filter: &Document) -> Result<Self, QueryError> {
        Self::parse_at(filter, clock::now())
    }

    /// [`Filter::parse`] with the time given.
    ///
    /// # Errors
    /// As [`Filter::parse`].
    pub fn parse_at(filter: &Document, now: DateTime) -> Result<Self, QueryError> {
        Self::of(filter, parse::Subject::Documents(now))
    }

    /// Reads what an update asks of elements.
    pub(crate) fn of_updated(filter: &Document) -> Result<Self, QueryError> {
        Self::of(filter, parse::Subject::Updated)
    }

    fn of(filter: &Document, subject: parse::Subject) -> Result<Self, QueryError> {
        limits::check_built(filter)?;
        let expr = parse::document(filter, subject)?;
        text::check_place(&expr)?;
        Ok(Filter { expr })
    }

    /// The filter every document passes.
    pub fn all() -> Self {
        Filter { expr: Expr::Always }
    }

    /// A filter made of an expression.
    pub fn from_expr(expr: Expr) -> Self {
        Filter { expr }
    }

    /// Its `$text`, if it has one.
    pub fn text(&self) -> Option<&TextCondition> {
        text::of(&self.expr)
    }

    /// The parsed form.
    pub fn expr(&self) -> &Expr {
        &self.expr
    }

    /// Whether a document passes.
    ///
    /// # Errors
    /// Only `$expr` can fail, with the error of its expression, and `$text`, if nothing says what it means (27).
    pub fn matches(&self, document: &Document) -> Result<bool, QueryError> {
        evaluate::expr(&self.expr, document)
    }

    /// Offset of the element by which `document` passes the conditions on the array at `array_path`: what `$` in
    /// an update or projection stands for. Falls back on the array of another condition, as MongoDB does.
    pub fn array_offset(&self, document: &Document, array_path: &str) -> Option<usize> {
        evaluate::array_offset(&self.expr, document, array_path)
    }
}

#[cfg(test)]
mod tests;
