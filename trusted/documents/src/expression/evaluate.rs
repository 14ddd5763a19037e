//! Evaluation of expressions.

use super::{Convert, Node, Value, convert, is_nullish, parse::ArraySort, truthy, type_of};
use crate::error::location;
use crate::pipeline::MEMORY_BYTES_MAX;
use crate::{QueryError, limits, order};
use bson::{Bson, Document};

/// The document and variables an expression is evaluated with, and how much it may still compute.
pub(super) struct Scope<'e> {
    root: &'e Document,
    variables: Vec<(&'e str, Value)>,
    bytes_left: usize,
}

impl<'e> Scope<'e> {
    pub(super) fn new(root: &'e Document) -> Self {
        Scope { root, variables: Vec::new(), bytes_left: MEMORY_BYTES_MAX }
    }

    /// Counts a value that was copied or made. Bounds memory and, because values of variables pass through
    /// here, nesting: without it a few nested `$let` or `$reduce` could double a value without end.
    fn charge(&mut self, value: Value) -> Result<Value, QueryError> {
        if let Some(value) = &value {
            let bytes = limits::value_bytes(value, limits::DEPTH_MAX)?.saturating_add(1);
            self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or_else(|| {
                QueryError::memory(format!(
                    "an expression computed more than {MEMORY_BYTES_MAX} bytes for one document"
                ))
            })?;
        }
        Ok(value)
    }

    pub(super) fn evaluate(&mut self, node: &'e Node) -> Result<Value, QueryError> {
        match node {
            Node::Constant(value) => self.charge(value.clone()),
            Node::Path(path) => match path.split_first() {
                None => self.charge(Some(Bson::Document(self.root.clone()))),
                Some((field, rest)) => {
                    let value = self.root.get(field).and_then(|value| descend(value, rest));
                    self.charge(value)
                }
            },
            Node::Variable { name, path } => {
                let bound = self.variables.iter().rev().find(|(known, _)| known == name);
                let value =
                    bound.and_then(|(_, value)| value.as_ref()).and_then(|value| descend(value, path));
                self.charge(value)
            }
            Node::Document(entries) => self.document(entries),
            Node::Array(nodes) => {
                let values = self.all(nodes)?;
                Ok(Some(Bson::Array(values.into_iter().map(|value| value.unwrap_or(Bson::Null)).collect())))
            }
            Node::Call { operator, arguments } => {
                let values = self.all(arguments)?;
                let result = (operator.function)(&values)?;
                self.charge(result)
            }
            Node::And(nodes) => self.logical(nodes, false),
            Node::Or(nodes) => self.logical(nodes, true),
            Node::Cond(nodes) => {
                let [condition, then, otherwise] = &**nodes;
                let chosen = if self.is_true(condition)? { then } else { otherwise };
                self.evaluate(chosen)
            }
            Node::IfNull(nodes) => self.if_null(nodes),
            Node::Switch { branches, default } => self.switch(branches, default.as_deref()),
            Node::Let { bindings, body } => {
                let mut bound = Vec::with_capacity(bindings.len());
                for (name, node) in bindings {
                    bound.push((name.as_str(), self.evaluate(node)?));
                }
                self.with(bound, body)
            }
            Node::Map { input, name, body } => self.map(input, name, body),
            Node::Filter { input, name, condition, limit } => {
                self.filter(input, name, condition, limit.as_deref())
            }
            Node::Reduce { input, initial, body } => self.reduce(input, initial, body),
            Node::SortArray { input, by } => self.sort_array(input, by),
            Node::Convert(convert) => self.convert(convert),
        }
    }

    fn all(&mut self, nodes: &'e [Node]) -> Result<Vec<Value>, QueryError> {
        nodes.iter().map(|node| self.evaluate(node)).collect()
    }

    fn is_true(&mut self, node: &'e Node) -> Result<bool, QueryError> {
        Ok(truthy(self.evaluate(node)?.as_ref()))
    }

    /// Evaluates `body` with more variables bound.
    fn with(&mut self, bound: Vec<(&'e str, Value)>, body: &'e Node) -> Result<Value, QueryError> {
        let outer = self.variables.len();
        self.variables.extend(bound);
        let result = self.evaluate(body);
        self.variables.truncate(outer);
        result
    }

    fn document(&mut self, entries: &'e [(String, Node)]) -> Result<Value, QueryError> {
        let mut document = Document::new();
        for (name, node) in entries {
            if let Some(value) = self.evaluate(node)? {
                document.insert(name.clone(), value);
            }
        }
        Ok(Some(Bson::Document(document)))
    }

    fn logical(&mut self, nodes: &'e [Node], decisive: bool) -> Result<Value, QueryError> {
        for node in nodes {
            if self.is_true(node)? == decisive {
                return Ok(Some(Bson::Boolean(decisive)));
            }
        }
        Ok(Some(Bson::Boolean(!decisive)))
    }

    fn if_null(&mut self, nodes: &'e [Node]) -> Result<Value, QueryError> {
        let mut value = None;
        for node in nodes {
            value = self.evaluate(node)?;
            if !is_nullish(&value) {
                break;
            }
        }
        Ok(value)
    }

    fn switch(
        &mut self,
        branches: &'e [(Node, Node)],
        default: Option<&'e Node>,
    ) -> Result<Value, QueryError> {
        for (case, then) in branches {
            if self.is_true(case)? {
                return self.evaluate(then);
            }
        }
        match default {
            Some(node) => self.evaluate(node),
            None => Err(location!(
                40066,
                "$switch could not find a matching branch for an input, and no default was specified."
            )),
        }
    }

    /// The array a node gives; none for null.
    fn array(&mut self, node: &'e Node, operator: &str) -> Result<Option<Vec<Bson>>, QueryError> {
        match self.evaluate(node)? {
            Some(Bson::Array(array)) => Ok(Some(array)),
            value if is_nullish(&value) => Ok(None),
            other => Err(location!(16883, "input to {operator} must be an array not {}", type_of(&other))),
        }
    }

    fn map(&mut self, input: &'e Node, name: &'e str, body: &'e Node) -> Result<Value, QueryError> {
        let Some(array) = self.array(input, "$map")? else {
            return Ok(Some(Bson::Null));
        };
        let mut mapped = Vec::with_capacity(array.len());
        for element in array {
            mapped.push(self.with(vec![(name, Some(element))], body)?.unwrap_or(Bson::Null));
        }
        Ok(Some(Bson::Array(mapped)))
    }

    fn filter(
        &mut self,
        input: &'e Node,
        name: &'e str,
        condition: &'e Node,
        limit: Option<&'e Node>,
    ) -> Result<Value, QueryError> {
        let Some(array) = self.array(input, "$filter")? else {
            return Ok(Some(Bson::Null));
        };
        let limit = match limit {
            None => usize::MAX,
            Some(node) => match self.evaluate(node)? {
                value if is_nullish(&value) => usize::MAX,
                value => value
                    .as_ref()
                    .and_then(order::as_exact_i64)
                    .and_then(|limit| usize::try_from(limit).ok())
                    .filter(|limit| *limit > 0)
                    .ok_or_else(|| location!(327392, "$filter: limit must be greater than 0"))?,
            },
        };
        let mut kept = Vec::new();
        for element in array {
            if kept.len() >= limit {
                break;
            }
            if truthy(self.with(vec![(name, Some(element.clone()))], condition)?.as_ref()) {
                kept.push(element);
            }
        }
        Ok(Some(Bson::Array(kept)))
    }

    fn reduce(&mut self, input: &'e Node, initial: &'e Node, body: &'e Node) -> Result<Value, QueryError> {
        let Some(array) = self.array(input, "$reduce")? else {
            return Ok(Some(Bson::Null));
        };
        let mut value = self.evaluate(initial)?;
        for element in array {
            value = self.with(vec![("this", Some(element)), ("value", value)], body)?;
            value = self.charge(value)?;
        }
        Ok(value)
    }

    fn sort_array(&mut self, input: &'e Node, by: &'e ArraySort) -> Result<Value, QueryError> {
        let mut array = match self.evaluate(input)? {
            Some(Bson::Array(array)) => array,
            value if is_nullish(&value) => return Ok(Some(Bson::Null)),
            other => {
                return Err(location!(
                    2942504,
                    "The input argument to $sortArray must be an array, but was of type: {}",
                    type_of(&other)
                ));
            }
        };
        let empty = Document::new();
        array.sort_by(|left, right| match by {
            ArraySort::Whole { descending } => {
                let ordering = order::compare(left, right);
                if *descending { ordering.reverse() } else { ordering }
            }
            ArraySort::Fields(sort) => {
                sort.compare(left.as_document().unwrap_or(&empty), right.as_document().unwrap_or(&empty))
            }
        });
        Ok(Some(Bson::Array(array)))
    }

    fn convert(&mut self, convert: &'e Convert) -> Result<Value, QueryError> {
        let input = self.evaluate(&convert.input)?;
        if is_nullish(&input) {
            return convert.on_null.as_ref().map_or(Ok(Some(Bson::Null)), |node| self.evaluate(node));
        }
        let to = self.evaluate(&convert.to)?;
        match convert::to_type(&input, &to) {
            Err(error) if error.code == 241 => {
                convert.on_error.as_ref().map_or(Err(error), |node| self.evaluate(node))
            }
            result => result,
        }
    }
}

/// The value at a path below `value`: arrays on the way are mapped, their elements that are no documents or lack
/// the path left out.
pub(super) fn descend(value: &Bson, path: &[String]) -> Value {
    let Some((name, rest)) = path.split_first() else {
        return Some(value.clone());
    };
    match value {
        Bson::Document(document) => document.get(name).and_then(|inner| descend(inner, rest)),
        Bson::Array(array) => Some(Bson::Array(
            array
                .iter()
                .filter(|element| matches!(element, Bson::Document(_)))
                .filter_map(|element| descend(element, path))
                .collect(),
        )),
        _ => None,
    }
}
