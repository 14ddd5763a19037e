//! Parsing of expressions.

use super::{Convert, Node, operators};
use crate::error::location;
use crate::sort::Sort;
use crate::{QueryError, order, path};
use bson::{Bson, DateTime, Document};

/// How `$sortArray` sorts.
#[derive(Clone, Debug)]
pub(super) enum ArraySort {
    Fields(Sort),
    Whole { descending: bool },
}

pub(super) struct Parser {
    now: DateTime,
    /// Variables bound where the parser stands.
    variables: Vec<String>,
}

impl Parser {
    pub(super) fn new(now: DateTime) -> Self {
        Parser { now, variables: Vec::new() }
    }

    pub(super) fn node(&mut self, value: &Bson) -> Result<Node, QueryError> {
        Ok(match value {
            Bson::String(text) if text.starts_with("$$") => self.variable(text)?,
            Bson::String(text) if text.starts_with('$') => {
                Node::Path(components(text.get(1..).unwrap_or_default())?)
            }
            Bson::Array(values) => {
                let nodes = values.iter().map(|value| self.node(value)).collect::<Result<_, _>>()?;
                constant_array(nodes)
            }
            Bson::Document(document) => self.document(document)?,
            literal => Node::Constant(Some(literal.clone())),
        })
    }

    fn nodes(&mut self, value: &Bson) -> Result<Vec<Node>, QueryError> {
        match value {
            Bson::Array(values) => values.iter().map(|value| self.node(value)).collect(),
            single => Ok(vec![self.node(single)?]),
        }
    }

    fn document(&mut self, document: &Document) -> Result<Node, QueryError> {
        if let Some((operator, argument)) = document.iter().next().filter(|(name, _)| name.starts_with('$')) {
            if document.len() > 1 {
                return Err(location!(
                    15983,
                    "An object representing an expression must have exactly one field: {document}"
                ));
            }
            return self.operator(operator, argument);
        }
        let mut entries = Vec::with_capacity(document.len());
        for (name, value) in document {
            if name.starts_with('$') {
                return Err(location!(16410, "FieldPath field names may not start with '$': '{name}'"));
            }
            if name.contains('.') {
                return Err(location!(16412, "FieldPath field names may not contain '.': '{name}'"));
            }
            entries.push((name.clone(), self.node(value)?));
        }
        Ok(constant_document(entries))
    }

    fn variable(&self, text: &str) -> Result<Node, QueryError> {
        let mut parts = text.get(2..).unwrap_or_default().split('.');
        let name = parts.next().unwrap_or_default();
        let rest: Vec<&str> = parts.collect();
        let path = if rest.is_empty() { Vec::new() } else { components(&rest.join("."))? };
        Ok(match name {
            "ROOT" | "CURRENT" => Node::Path(path),
            "NOW" if path.is_empty() => Node::Constant(Some(Bson::DateTime(self.now))),
            "REMOVE" if path.is_empty() => Node::Constant(None),
            _ if self.variables.iter().any(|known| known == name) => {
                Node::Variable { name: name.to_owned(), path }
            }
            "CLUSTER_TIME" | "SEARCH_META" | "USER_ROLES" | "DESCEND" | "PRUNE" | "KEEP" => {
                return Err(QueryError::unsupported(format!("the variable $${name}")));
            }
            _ => return Err(location!(17276, "Use of undefined variable: {name}")),
        })
    }

    fn operator(&mut self, name: &str, argument: &Bson) -> Result<Node, QueryError> {
        Ok(match name {
            "$literal" | "$const" => Node::Constant(Some(argument.clone())),
            "$expr" => self.node(argument)?,
            "$and" => Node::And(self.nodes(argument)?),
            "$or" => Node::Or(self.nodes(argument)?),
            "$cond" => self.cond(argument)?,
            "$ifNull" => {
                let nodes = self.nodes(argument)?;
                if nodes.len() < 2 {
                    return Err(location!(
                        1257300,
                        "$ifNull needs at least two arguments, had: {}",
                        nodes.len()
                    ));
                }
                Node::IfNull(nodes)
            }
            "$switch" => self.switch(argument)?,
            "$let" => self.bind(argument)?,
            "$map" => {
                let [input, name, body] = self.iteration("$map", argument, "in", &["input", "as", "in"])?;
                let (input, name, body) = (boxed("$map", input)?, name_of(name), boxed("$map", body)?);
                Node::Map { input, name, body }
            }
            "$filter" => self.filter(argument)?,
            "$reduce" => self.reduce(argument)?,
            "$sortArray" => self.sort_array(argument)?,
            "$convert" => self.convert(argument)?,
            _ => self.call(name, argument)?,
        })
    }

    fn call(&mut self, name: &str, argument: &Bson) -> Result<Node, QueryError> {
        let operator = operators::find(name)?;
        let arguments = match (operator.signature, argument) {
            (operators::Signature::Named(parameters), Bson::Document(given))
                if !(operator.takes_single
                    && given.keys().next().is_some_and(|key| key.starts_with('$'))) =>
            {
                if let Some(unknown) =
                    given.keys().find(|key| !parameters.iter().any(|(known, _)| known == key))
                {
                    return Err(location!(40415, "Unrecognized argument to {name}: {unknown}"));
                }
                let mut arguments = Vec::with_capacity(parameters.len());
                for (parameter, required) in parameters {
                    arguments.push(match given.get(parameter) {
                        Some(value) => self.node(value)?,
                        None if *required => {
                            return Err(location!(40414, "Missing '{parameter}' parameter to {name}"));
                        }
                        None => absent(name),
                    });
                }
                arguments
            }
            (operators::Signature::Named(_), _) if !operator.takes_single => {
                return Err(location!(40413, "{name} only supports an object as its argument"));
            }
            (operators::Signature::Named(parameters), single) => {
                let mut arguments = self.nodes(single)?;
                arguments.resize(parameters.len(), absent(name));
                arguments
            }
            (operators::Signature::Positional { least, most }, argument) => {
                let arguments = self.nodes(argument)?;
                if !(least..=most).contains(&arguments.len()) {
                    return Err(wrong_count(name, least, most, arguments.len()));
                }
                arguments
            }
        };
        Ok(Node::Call { operator, arguments })
    }

    fn cond(&mut self, argument: &Bson) -> Result<Node, QueryError> {
        let nodes = match argument {
            Bson::Document(given) => {
                if let Some(unknown) =
                    given.keys().find(|key| !matches!(key.as_str(), "if" | "then" | "else"))
                {
                    return Err(location!(17083, "Unrecognized parameter to $cond: {unknown}"));
                }
                let mut part = |name: &str| {
                    let value = given
                        .get(name)
                        .ok_or_else(|| location!(17080, "Missing '{name}' parameter to $cond"))?;
                    self.node(value)
                };
                vec![part("if")?, part("then")?, part("else")?]
            }
            other => self.nodes(other)?,
        };
        let count = nodes.len();
        let nodes: [Node; 3] = nodes.try_into().map_err(|_| wrong_count("$cond", 3, 3, count))?;
        Ok(Node::Cond(Box::new(nodes)))
    }

    fn switch(&mut self, argument: &Bson) -> Result<Node, QueryError> {
        let given = named("$switch", argument, &["branches", "default"])?;
        let Some(Bson::Array(branches)) = given.get("branches") else {
            return Err(location!(40061, "$switch expected an array for 'branches'"));
        };
        let mut parsed = Vec::with_capacity(branches.len());
        for branch in branches {
            let branch = named("$switch branch", branch, &["case", "then"])?;
            let mut part = |name: &str| {
                let value = branch
                    .get(name)
                    .ok_or_else(|| location!(40067, "$switch requires each branch have a '{name}'"))?;
                self.node(value)
            };
            parsed.push((part("case")?, part("then")?));
        }
        let default = given.get("default").map(|value| self.node(value)).transpose()?.map(Box::new);
        if parsed.is_empty() && default.is_none() {
            return Err(location!(40068, "$switch requires at least one branch"));
        }
        Ok(Node::Switch { branches: parsed, default })
    }

    fn bind(&mut self, argument: &Bson) -> Result<Node, QueryError> {
        let given = named("$let", argument, &["vars", "in"])?;
        let Some(Bson::Document(variables)) = given.get("vars") else {
            return Err(location!(16876, "Missing 'vars' parameter to $let"));
        };
        let body = given.get("in").ok_or_else(|| location!(16877, "Missing 'in' parameter to $let"))?;
        let mut bindings = Vec::with_capacity(variables.len());
        for (name, value) in variables {
            check_name(name)?;
            bindings.push((name.clone(), self.node(value)?));
        }
        let names: Vec<String> = variables.keys().cloned().collect();
        let body = Box::new(self.with(&names, body)?);
        Ok(Node::Let { bindings, body })
    }

    /// Parses `body` where more variables are bound.
    fn with(&mut self, names: &[String], body: &Bson) -> Result<Node, QueryError> {
        let outer = self.variables.len();
        self.variables.extend_from_slice(names);
        let node = self.node(body);
        self.variables.truncate(outer);
        node
    }

    /// Input, variable and body of `$map` and `$filter`.
    fn iteration(
        &mut self,
        operator: &str,
        argument: &Bson,
        body: &str,
        parameters: &[&str],
    ) -> Result<[Option<Node>; 3], QueryError> {
        let given = named(operator, argument, parameters)?;
        let input = given.get("input").map(|value| self.node(value)).transpose()?;
        let name = match given.get("as") {
            None => "this".to_owned(),
            Some(Bson::String(name)) => {
                check_name(name)?;
                name.clone()
            }
            Some(_) => return Err(location!(16867, "{operator}: 'as' must be a string")),
        };
        let body = given.get(body).map(|value| self.with(std::slice::from_ref(&name), value)).transpose()?;
        Ok([input, Some(Node::Variable { name, path: Vec::new() }), body])
    }

    fn filter(&mut self, argument: &Bson) -> Result<Node, QueryError> {
        let parameters = ["input", "as", "cond", "limit"];
        let [input, name, condition] = self.iteration("$filter", argument, "cond", &parameters)?;
        let limit = match argument {
            Bson::Document(given) => {
                given.get("limit").map(|value| self.node(value)).transpose()?.map(Box::new)
            }
            _ => None,
        };
        let (input, name, condition) =
            (boxed("$filter", input)?, name_of(name), boxed("$filter", condition)?);
        Ok(Node::Filter { input, name, condition, limit })
    }

    fn reduce(&mut self, argument: &Bson) -> Result<Node, QueryError> {
        let given = named("$reduce", argument, &["input", "initialValue", "in"])?;
        let missing = |name: &str| location!(40077, "$reduce requires '{name}' to be specified");
        let input = self.node(given.get("input").ok_or_else(|| missing("input"))?)?;
        let initial = self.node(given.get("initialValue").ok_or_else(|| missing("initialValue"))?)?;
        let names = ["this".to_owned(), "value".to_owned()];
        let body = self.with(&names, given.get("in").ok_or_else(|| missing("in"))?)?;
        Ok(Node::Reduce { input: Box::new(input), initial: Box::new(initial), body: Box::new(body) })
    }

    fn sort_array(&mut self, argument: &Bson) -> Result<Node, QueryError> {
        let given = named("$sortArray", argument, &["input", "sortBy"])?;
        let missing = || location!(2942502, "$sortArray requires 'input' and 'sortBy' to be specified");
        let input = Box::new(self.node(given.get("input").ok_or_else(missing)?)?);
        let sort_by = given.get("sortBy").ok_or_else(missing)?;
        let by = match (sort_by, order::as_exact_i64(sort_by)) {
            (Bson::Document(keys), _) => ArraySort::Fields(Sort::of_elements(keys)?),
            (_, Some(1)) => ArraySort::Whole { descending: false },
            (_, Some(-1)) => ArraySort::Whole { descending: true },
            _ => {
                return Err(location!(2942507, "The $sort element value must be either 1 or -1"));
            }
        };
        Ok(Node::SortArray { input, by })
    }

    fn convert(&mut self, argument: &Bson) -> Result<Node, QueryError> {
        let given = named("$convert", argument, &["input", "to", "onError", "onNull"])?;
        let missing =
            |name: &str| QueryError::failed_to_parse(format!("Missing '{name}' parameter to $convert"));
        let input = self.node(given.get("input").ok_or_else(|| missing("input"))?)?;
        let to = self.node(given.get("to").ok_or_else(|| missing("to"))?)?;
        let on_error = given.get("onError").map(|value| self.node(value)).transpose()?;
        let on_null = given.get("onNull").map(|value| self.node(value)).transpose()?;
        Ok(Node::Convert(Box::new(Convert { input, to, on_error, on_null })))
    }
}

/// What stands for an optional argument that was not given.
fn absent(operator: &str) -> Node {
    // $getField reads the document at hand unless told otherwise.
    if operator == "$getField" { Node::Path(Vec::new()) } else { Node::Constant(None) }
}

fn components(path: &str) -> Result<Vec<String>, QueryError> {
    if path.is_empty() {
        return Err(location!(16872, "'$' by itself is not a valid FieldPath"));
    }
    if path.ends_with('.') {
        return Err(location!(40353, "FieldPath must not end with a '.'."));
    }
    path::check(path)?;
    path.split('.')
        .map(|part| match part.starts_with('$') {
            true => Err(location!(
                16410,
                "FieldPath field names may not start with '$'. Consider using $getField or $setField."
            )),
            false => Ok(part.to_owned()),
        })
        .collect()
}

fn check_name(name: &str) -> Result<(), QueryError> {
    let starts_well = name.starts_with(|first: char| first.is_ascii_lowercase() || !first.is_ascii());
    let goes_on = name
        .chars()
        .all(|character| character.is_ascii_alphanumeric() || character == '_' || !character.is_ascii());
    if starts_well && goes_on {
        return Ok(());
    }
    Err(QueryError::failed_to_parse(format!(
        "'{name}' starts with or contains an invalid character for a user variable name"
    )))
}

fn named<'v>(operator: &str, argument: &'v Bson, parameters: &[&str]) -> Result<&'v Document, QueryError> {
    let Bson::Document(given) = argument else {
        return Err(location!(16878, "{operator} only supports an object as its argument"));
    };
    match given.keys().find(|key| !parameters.contains(&key.as_str())) {
        Some(unknown) => Err(location!(16879, "Unrecognized parameter to {operator}: {unknown}")),
        None => Ok(given),
    }
}

fn boxed(operator: &str, node: Option<Node>) -> Result<Box<Node>, QueryError> {
    node.map(Box::new).ok_or_else(|| location!(16880, "Missing parameter to {operator}"))
}

fn name_of(node: Option<Node>) -> String {
    match node {
        Some(Node::Variable { name, .. }) => name,
        _ => "this".to_owned(),
    }
}

fn wrong_count(name: &str, least: usize, most: usize, given: usize) -> QueryError {
    if least == most {
        return location!(
            16020,
            "Expression {name} takes exactly {least} arguments. {given} were passed in."
        );
    }
    location!(
        28667,
        "Expression {name} takes at least {least} arguments, and at most {most}, but {given} were passed in."
    )
}

/// An array whose elements are all constant is a constant.
fn constant_array(nodes: Vec<Node>) -> Node {
    if !nodes.iter().all(|node| matches!(node, Node::Constant(_))) {
        return Node::Array(nodes);
    }
    let values = nodes.into_iter().map(|node| match node {
        Node::Constant(Some(value)) => value,
        _ => Bson::Null,
    });
    Node::Constant(Some(Bson::Array(values.collect())))
}

fn constant_document(entries: Vec<(String, Node)>) -> Node {
    if !entries.iter().all(|(_, node)| matches!(node, Node::Constant(_))) {
        return Node::Document(entries);
    }
    let values = entries.into_iter().filter_map(|(name, node)| match node {
        Node::Constant(value) => value.map(|value| (name, value)),
        _ => None,
    });
    Node::Constant(Some(Bson::Document(values.collect())))
}
