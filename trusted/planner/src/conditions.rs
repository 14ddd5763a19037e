//! What a filter asks of the values at each path, as far as an index can answer it.
//!
//! Everything kept here is *necessary*: a document that passes the filter has, at the path, an index term
//! ([`crate::terms`]) among the condition's values. What cannot be said so is opaque, and left to the re-check.

use crate::interval::{Edge, Interval};
use arras_documents::filter::{Expr, Members, Test};
use arras_documents::order::{self, Class};
use bson::Bson;

/// Values of which a term must be one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Values {
    /// Single values.
    pub(crate) points: Vec<Bson>,
    /// Intervals.
    pub(crate) intervals: Vec<Interval>,
    /// Having such a term is not only necessary but sufficient (on an index without arrays).
    pub(crate) exact: bool,
}

impl Values {
    fn points(points: Vec<Bson>, exact: bool) -> Self {
        Self { points, intervals: Vec::new(), exact }
    }

    fn interval(lower: Edge, upper: Edge) -> Self {
        Self { points: Vec::new(), intervals: vec![Interval { lower, upper }], exact: true }
    }

    pub(crate) fn only_points(&self) -> bool {
        self.intervals.is_empty()
    }

    pub(crate) fn contains(&self, value: &Bson) -> bool {
        self.points.iter().any(|point| order::equal(point, value))
            || self.intervals.iter().any(|interval| interval.contains(value))
    }

    /// Could a document without the field pass?
    pub(crate) fn has_null(&self) -> bool {
        self.contains(&Bson::Null)
    }

    /// All of them as intervals.
    pub(crate) fn as_intervals(&self) -> Vec<Interval> {
        self.points.iter().cloned().map(Interval::point).chain(self.intervals.iter().cloned()).collect()
    }

    /// The values in both, where both speak of one single term. May be wider, never narrower.
    fn narrowed(self, other: &Self) -> Self {
        let exact = self.exact && other.exact;
        if self.only_points() {
            // Two long lists are compared by hash: pair by pair they would take hours.
            let theirs = Members::new(other.points.clone());
            let shared = |point: &Bson| {
                theirs.contain(Some(point)) || other.intervals.iter().any(|interval| interval.contains(point))
            };
            let points = self.points.into_iter().filter(shared).collect();
            return Self { points, intervals: Vec::new(), exact };
        }
        if other.only_points() {
            return other.clone().narrowed(&self);
        }
        match (
            self.points.as_slice(),
            self.intervals.as_slice(),
            other.points.as_slice(),
            other.intervals.as_slice(),
        ) {
            ([], [own], [], [theirs]) => {
                let exact = exact && own.narrowed_exactly(theirs);
                Self { points: Vec::new(), intervals: vec![own.clone().narrowed(theirs)], exact }
            }
            _ => Self { exact: false, ..self },
        }
    }
}

impl Interval {
    /// Would [`Interval::narrowed`] leave exactly the values in both?
    fn narrowed_exactly(&self, other: &Self) -> bool {
        let class = |interval: &Self| interval.lower.value().or(interval.upper.value()).map(order::class);
        class(self) == class(other)
    }
}

/// What a filter asks of one path.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    /// Its number within the filter.
    pub(crate) id: usize,
    pub(crate) path: String,
    /// The operator as the application wrote it.
    pub(crate) operator: &'static str,
    pub(crate) values: Values,
}

/// A part of a filter no index answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opaque {
    pub(crate) path: String,
    pub(crate) operator: &'static str,
}

/// An `$or`: one of these sets of conditions holds.
#[derive(Clone, Debug)]
pub(crate) struct Alternatives {
    pub(crate) id: usize,
    pub(crate) branches: Vec<Conditions>,
}

/// A conjunction of conditions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conditions {
    pub(crate) all: Vec<Condition>,
    pub(crate) any: Vec<Alternatives>,
    pub(crate) opaque: Vec<Opaque>,
    /// A `$text` must hold.
    pub(crate) text: bool,
    /// Nothing can pass.
    pub(crate) never: bool,
}

impl Conditions {
    pub(crate) fn of(expr: &Expr) -> Self {
        let mut conditions = Self::default();
        conditions.add(expr, &mut 0);
        conditions
    }

    /// Does every document pass?
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.any.is_empty() && self.opaque.is_empty() && !self.never
    }

    fn add(&mut self, expr: &Expr, next_id: &mut usize) {
        match expr {
            Expr::Always => {}
            Expr::Never => self.never = true,
            Expr::And(inner) => inner.iter().for_each(|expr| self.add(expr, next_id)),
            Expr::Or(inner) => {
                let mut branches = Vec::with_capacity(inner.len());
                for expr in inner {
                    let mut branch = Self::default();
                    branch.add(expr, next_id);
                    branches.push(branch);
                }
                branches.retain(|branch| !branch.never);
                match branches.as_slice() {
                    [] => self.never = true,
                    _ if branches.iter().any(Self::is_empty) => {}
                    _ => self.any.push(Alternatives { id: number(next_id), branches }),
                }
            }
            Expr::Nor(_) => self.opaque("", "$nor"),
            Expr::Expression(_) => self.opaque("", "$expr"),
            Expr::Text(_) => {
                self.text = true;
                self.opaque("", "$text");
            }
            Expr::Field { path, test } => self.add_test(path, test, next_id),
        }
    }

    fn opaque(&mut self, path: &str, operator: &'static str) {
        self.opaque.push(Opaque { path: path.to_owned(), operator });
    }

    fn add_test(&mut self, path: &str, test: &Test, next_id: &mut usize) {
        match test {
            Test::All(tests) if tests.is_empty() => self.never = true,
            Test::All(tests) => tests.iter().for_each(|test| self.add_test(path, test, next_id)),
            Test::ElemMatchValue(tests) => self.add_element(path, tests, next_id),
            Test::ElemMatch(inner) => self.add_element_document(path, inner, next_id),
            _ => match values(test) {
                Some(values) => self.push(path, operator(test), values, next_id),
                None => self.opaque(path, operator(test)),
            },
        }
    }

    fn push(&mut self, path: &str, operator: &'static str, values: Values, next_id: &mut usize) {
        self.never |= values.points.is_empty() && values.intervals.is_empty();
        self.all.push(Condition { id: number(next_id), path: path.to_owned(), operator, values });
    }

    /// Tests that one element passes together: each element is a term, so the tests narrow one another whatever
    /// the index holds.
    fn add_element(&mut self, path: &str, tests: &[Test], next_id: &mut usize) {
        self.opaque(path, "$elemMatch");
        let mut together: Option<Values> = None;
        for values in tests.iter().filter_map(values) {
            together = Some(match together {
                Some(earlier) => earlier.narrowed(&values),
                None => values,
            });
        }
        if let Some(values) = together {
            self.push(path, "$elemMatch", Values { exact: false, ..values }, next_id);
        }
    }

    /// Conditions on an element that is a document. A condition on its field `b` is one on the path `a.b`, but
    /// for elements that are arrays, which are seen as documents with offsets for names: a numeric name, and a
    /// missing field, may be found there without a term at `a.b`.
    fn add_element_document(&mut self, path: &str, inner: &Expr, next_id: &mut usize) {
        self.opaque(path, "$elemMatch");
        let mut element = Self::default();
        element.add(inner, next_id);
        self.never |= element.never;
        for condition in element.all {
            let first = condition.path.split('.').next().unwrap_or_default();
            if condition.values.has_null() || arras_documents::path::offset_of(first).is_some() {
                continue;
            }
            let values = Values { exact: false, ..condition.values };
            self.all.push(Condition { path: format!("{path}.{}", condition.path), values, ..condition });
        }
    }
}

fn number(next_id: &mut usize) -> usize {
    *next_id += 1;
    *next_id - 1
}

/// The values a term must be among for a document to pass, if that can be said.
fn values(test: &Test) -> Option<Values> {
    match test {
        Test::Eq(value) => Some(equal_to(value)),
        Test::In(values) => {
            let each = values.iter().map(equal_to);
            Some(each.fold(Values::points(Vec::new(), true), |mut all, values| {
                all.exact &= values.exact;
                all.points.extend(values.points);
                all
            }))
        }
        Test::AnyOf(tests) => {
            let mut all = Values::points(Vec::new(), true);
            for test in tests {
                let values = values(test)?;
                all.exact &= values.exact;
                all.points.extend(values.points);
                all.intervals.extend(values.intervals);
            }
            Some(all)
        }
        Test::Gt(value) => ranged(value, false, || (Edge::Excluded(value.clone()), Edge::Bracket)),
        Test::Gte(value) => ranged(value, true, || (Edge::Included(value.clone()), Edge::Bracket)),
        Test::Lt(value) => ranged(value, false, || (lowest(value), Edge::Excluded(value.clone()))),
        Test::Lte(value) => ranged(value, true, || (lowest(value), Edge::Included(value.clone()))),
        Test::Regex(pattern) => {
            let interval = Interval::prefix(pattern.literal_prefix()?);
            // The same regular expression stored as a value matches too.
            let itself = bson::Regex {
                pattern: pattern.source().try_into().ok()?,
                options: pattern.options().try_into().ok()?,
            };
            Some(Values { points: vec![itself.into()], intervals: vec![interval], exact: false })
        }
        _ => None,
    }
}

fn equal_to(value: &Bson) -> Values {
    match value {
        // Matches a missing field, null, and the deprecated undefined, all of which have the term null; but what
        // lacks the field below an array is the re-check's to say.
        Bson::Null | Bson::Undefined => Values::points(vec![Bson::Null], false),
        // Matches the array itself, whose first element (or emptiness) is a term, and an array with it for element.
        Bson::Array(elements) => {
            let first = match elements.first() {
                None => Bson::Undefined,
                Some(Bson::Undefined) => Bson::Null,
                Some(first) => first.clone(),
            };
            Values::points(vec![first, value.clone()], false)
        }
        _ => Values::points(vec![value.clone()], true),
    }
}

/// A range operator's values: within the operand's type class.
fn ranged(value: &Bson, or_equal: bool, edges: impl FnOnce() -> (Edge, Edge)) -> Option<Values> {
    match order::class(value) {
        Class::Null | Class::Undefined if or_equal => Some(equal_to(&Bson::Null)),
        Class::Null | Class::Undefined => Some(Values::points(Vec::new(), true)),
        Class::Number if order::is_nan(value) && or_equal => Some(equal_to(value)),
        Class::Number if order::is_nan(value) => Some(Values::points(Vec::new(), true)),
        Class::Number
        | Class::String
        | Class::Object
        | Class::Binary
        | Class::ObjectId
        | Class::Boolean
        | Class::Date
        | Class::Timestamp => {
            let (lower, upper) = edges();
            Some(Values::interval(lower, upper))
        }
        // Whole arrays are no terms; the ends of the order and code are compared too rarely to be worth it.
        _ => None,
    }
}

/// The lower end of "less than this": NaN is the lowest number, and less than none.
fn lowest(value: &Bson) -> Edge {
    if order::class(value) == Class::Number { Edge::Excluded(Bson::Double(f64::NAN)) } else { Edge::Bracket }
}

/// The operator as it is written in a filter.
pub(crate) fn operator(test: &Test) -> &'static str {
    match test {
        Test::All(_) => "$all",
        Test::AnyOf(_) | Test::In(_) => "$in",
        Test::Bits { .. } => "$bits",
        Test::ElemMatch(_) | Test::ElemMatchValue(_) => "$elemMatch",
        Test::Eq(_) => "$eq",
        Test::Exists(_) => "$exists",
        Test::Gt(_) => "$gt",
        Test::Gte(_) => "$gte",
        Test::Lt(_) => "$lt",
        Test::Lte(_) => "$lte",
        Test::Mod { .. } => "$mod",
        Test::Ne(_) => "$ne",
        Test::Nin(_) => "$nin",
        Test::Not(_) => "$not",
        Test::Regex(_) => "$regex",
        Test::Size(_) => "$size",
        Test::Type(_) => "$type",
    }
}

/// The conditions on a path, as one set of values for an index: on an index without arrays a document has one
/// term, which all of them are about; else different conditions may be met by different elements, and only one
/// of them may bound the search. Returns the values and the conditions they stand for.
pub(crate) fn at_path<'c>(
    conditions: impl Iterator<Item = &'c Condition>,
    path: &str,
    multikey: bool,
) -> Option<(Values, Vec<usize>)> {
    let mut found: Vec<&Condition> = conditions.filter(|condition| condition.path == path).collect();
    found.sort_by_key(|condition| width_class(&condition.values));
    let first = found.first()?;
    if multikey {
        return Some((first.values.clone(), vec![first.id]));
    }
    let mut values = first.values.clone();
    for other in found.get(1..)? {
        values = values.narrowed(&other.values);
    }
    Some((values, found.iter().map(|condition| condition.id).collect()))
}

/// Guess of how much a condition leaves, for choosing one: fewest points first, then closed intervals, then others.
fn width_class(values: &Values) -> (bool, bool, usize) {
    let closed = values.intervals.iter().all(Interval::is_closed);
    (!values.only_points(), !closed, values.points.len() + values.intervals.len())
}
