//! The aggregation expression language.

use crate::{QueryError, clock, limits};
use bson::{Bson, DateTime, Document};

mod arithmetic;
mod arrays;
mod calendar;
mod compare;
mod convert;
mod dates;
mod evaluate;
mod objects;
mod operators;
mod parse;
mod sets;
mod strings;

pub(crate) use arrays::part;
pub(crate) use compare::compare_values;
use evaluate::Scope;
use operators::Operator;

/// A value while it is computed: none is missing.
type Value = Option<Bson>;

/// A parsed expression.
#[derive(Clone, Debug)]
pub struct Expression {
    node: Node,
}

#[derive(Clone, Debug)]
enum Node {
    And(Vec<Node>),
    Array(Vec<Node>),
    Call {
        operator: &'static Operator,
        arguments: Vec<Node>,
    },
    Cond(Box<[Node; 3]>),
    Constant(Value),
    Convert(Box<Convert>),
    Document(Vec<(String, Node)>),
    Filter {
        input: Box<Node>,
        name: String,
        condition: Box<Node>,
        limit: Option<Box<Node>>,
    },
    IfNull(Vec<Node>),
    Let {
        bindings: Vec<(String, Node)>,
        body: Box<Node>,
    },
    Map {
        input: Box<Node>,
        name: String,
        body: Box<Node>,
    },
    Or(Vec<Node>),
    /// A path of the document at hand; empty: the document itself.
    Path(Vec<String>),
    Reduce {
        input: Box<Node>,
        initial: Box<Node>,
        body: Box<Node>,
    },
    SortArray {
        input: Box<Node>,
        by: parse::ArraySort,
    },
    Switch {
        branches: Vec<(Node, Node)>,
        default: Option<Box<Node>>,
    },
    Variable {
        name: String,
        path: Vec<String>,
    },
}

#[derive(Clone, Debug)]
struct Convert {
    input: Node,
    to: Node,
    on_error: Option<Node>,
    on_null: Option<Node>,
}

impl Expression {
    /// Reads an expression: a literal, a field path, an operator, or a document or array of expressions. `$$NOW`
    /// stands for the time of this call.
    ///
    /// # Errors
    /// 168 `InvalidPipelineOperator` names an unknown operator; others as MongoDB.
    pub fn parse(expression: &Bson) -> Result<Self, QueryError> {
        Self::parse_at(expression, clock::now())
    }

    /// [`Expression::parse`] with the time given.
    ///
    /// # Errors
    /// As [`Expression::parse`].
    pub fn parse_at(expression: &Bson, now: DateTime) -> Result<Self, QueryError> {
        limits::value_bytes(expression, limits::DEPTH_MAX)?;
        Ok(Expression { node: parse::Parser::new(now).node(expression)? })
    }

    /// An expression that is this value for every document.
    pub fn literal(value: Bson) -> Self {
        Expression { node: Node::Constant(Some(value)) }
    }

    /// Its value for a document; none is a missing value.
    ///
    /// # Errors
    /// As MongoDB, for operands of wrong type and the like; 292 if it computes more than
    /// [`crate::pipeline::MEMORY_BYTES_MAX`].
    pub fn evaluate(&self, document: &Document) -> Result<Option<Bson>, QueryError> {
        Scope::new(document).evaluate(&self.node)
    }

    /// The value if it is the same for every document.
    pub fn constant(&self) -> Option<&Bson> {
        match &self.node {
            Node::Constant(value) => value.as_ref(),
            _ => None,
        }
    }

    /// The path if it is just that (`"$a.b"`).
    pub fn field_path(&self) -> Option<String> {
        match &self.node {
            Node::Path(path) if !path.is_empty() => Some(path.join(".")),
            _ => None,
        }
    }

    /// The top-level fields of the document it may read, sorted; none if it may read all (`$$ROOT`).
    pub fn fields(&self) -> Option<Vec<String>> {
        let mut fields = Vec::new();
        let known = collect_fields(&self.node, &mut fields);
        fields.sort();
        fields.dedup();
        known.then_some(fields)
    }
}

/// Collects top-level fields; false if all may be read.
fn collect_fields(node: &Node, fields: &mut Vec<String>) -> bool {
    let mut all = |nodes: &mut dyn Iterator<Item = &Node>| {
        let mut known = true;
        for node in nodes {
            known &= collect_fields(node, fields);
        }
        known
    };
    match node {
        Node::Constant(_) | Node::Variable { .. } => true,
        Node::Path(path) => match path.first() {
            Some(field) => {
                fields.push(field.clone());
                true
            }
            None => false,
        },
        Node::And(nodes) | Node::Or(nodes) | Node::Array(nodes) | Node::IfNull(nodes) => {
            all(&mut nodes.iter())
        }
        Node::Call { arguments, .. } => all(&mut arguments.iter()),
        Node::Cond(nodes) => all(&mut nodes.iter()),
        Node::Convert(convert) => {
            let given = [
                Some(&convert.input),
                Some(&convert.to),
                convert.on_error.as_ref(),
                convert.on_null.as_ref(),
            ];
            all(&mut given.into_iter().flatten())
        }
        Node::Document(entries) => all(&mut entries.iter().map(|(_, node)| node)),
        Node::Filter { input, condition, limit, .. } => {
            all(&mut [Some(input), Some(condition), limit.as_ref()].into_iter().flatten().map(|node| &**node))
        }
        Node::Let { bindings, body } => {
            all(&mut bindings.iter().map(|(_, node)| node).chain(std::iter::once(&**body)))
        }
        Node::Map { input, body, .. } => all(&mut [&**input, &**body].into_iter()),
        Node::Reduce { input, initial, body } => all(&mut [&**input, &**initial, &**body].into_iter()),
        Node::SortArray { input, .. } => all(&mut std::iter::once(&**input)),
        Node::Switch { branches, default } => all(&mut branches
            .iter()
            .flat_map(|(case, then)| [case, then])
            .chain(default.iter().map(|node| &**node))),
    }
}

/// Whether a value counts as true: all but false, null, missing, undefined and zero.
pub fn truthy(value: Option<&Bson>) -> bool {
    match value {
        None | Some(Bson::Null | Bson::Undefined) => false,
        Some(Bson::Boolean(flag)) => *flag,
        Some(Bson::Double(number)) => *number != 0.0,
        Some(Bson::Int32(number)) => *number != 0,
        Some(Bson::Int64(number)) => *number != 0,
        Some(Bson::Decimal128(number)) => !crate::decimal::of(*number).is_zero(),
        Some(_) => true,
    }
}

/// True for what most operators answer with null.
fn is_nullish(value: &Value) -> bool {
    matches!(value, None | Some(Bson::Null | Bson::Undefined))
}

/// MongoDB's name of a value's type in messages and for `$type`.
fn type_of(value: &Value) -> &'static str {
    value.as_ref().map_or("missing", crate::order::type_name)
}

#[cfg(test)]
mod tests;
