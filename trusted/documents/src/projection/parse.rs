//! Parsing of projections.

use super::{Action, Field, Mode, Projection, path};
use crate::error::location;
use crate::expression::{self, Expression};
use crate::{QueryError, filter, order, text};
use bson::{Bson, DateTime, Document};

/// Whose projection it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Find,
    Stage,
}

/// A path and what is asked of it.
type Entry = (String, Action);

pub(super) fn projection(
    specification: &Document,
    dialect: Dialect,
    now: DateTime,
) -> Result<Projection, QueryError> {
    if specification.is_empty() {
        if dialect == Dialect::Stage {
            return Err(location!(
                51272,
                "Invalid $project :: caused by :: projection specification must have at least one field"
            ));
        }
        return Ok(Projection { mode: Mode::Exclude, fields: Vec::new() });
    }
    let mut entries = Vec::new();
    flatten("", specification, (dialect, now), &mut entries)?;
    let mode = mode(&entries)?;
    let id = entries.iter().any(|(path, _)| path == "_id" || path.starts_with("_id."));
    if mode == Mode::Include && !id {
        entries.insert(0, ("_id".to_owned(), Action::Include));
    }
    let mut fields = Vec::new();
    for (path, action) in entries {
        // In an exclusion, `_id: 1` asks for what happens anyway.
        if mode == Mode::Exclude && matches!(action, Action::Include) {
            continue;
        }
        let components: Vec<&str> = path.split('.').collect();
        insert(&mut fields, &path, &components, action)?;
    }
    Ok(Projection { mode, fields })
}

pub(super) fn added(specification: &Document, now: DateTime) -> Result<Projection, QueryError> {
    if specification.is_empty() {
        return Err(location!(
            40177,
            "Invalid $addFields :: caused by :: specification must have at least one field"
        ));
    }
    let mut entries = Vec::new();
    flatten_added("", specification, now, &mut entries)?;
    let mut fields = Vec::new();
    for (path, action) in entries {
        let components: Vec<&str> = path.split('.').collect();
        insert(&mut fields, &path, &components, action)?;
    }
    Ok(Projection { mode: Mode::Add, fields })
}

fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}

/// True for `{$operator: ...}`.
fn is_operator(document: &Document) -> bool {
    document.keys().next().is_some_and(|name| name.starts_with('$'))
}

fn flatten_added(
    prefix: &str,
    specification: &Document,
    now: DateTime,
    out: &mut Vec<Entry>,
) -> Result<(), QueryError> {
    for (name, value) in specification {
        let path = join(prefix, name);
        path::check(&path)?;
        refuse_dollar(&path)?;
        match value {
            value if text::is_score(value)? => out.push((path, Action::TextScore(None))),
            Bson::Document(inner) if !inner.is_empty() && !is_operator(inner) => {
                flatten_added(&path, inner, now, out)?;
            }
            value => out.push((path, Action::Compute(Expression::parse_at(value, now)?))),
        }
    }
    Ok(())
}

fn refuse_dollar(path: &str) -> Result<(), QueryError> {
    if path.split('.').any(|part| part.starts_with('$')) {
        return Err(location!(16410, "FieldPath field names may not start with '$': '{path}'"));
    }
    Ok(())
}

fn flatten(
    prefix: &str,
    specification: &Document,
    (dialect, now): (Dialect, DateTime),
    out: &mut Vec<Entry>,
) -> Result<(), QueryError> {
    for (name, value) in specification {
        let path = join(prefix, name);
        if dialect == Dialect::Find
            && let Some(array) = path.strip_suffix(".$")
        {
            path::check(array)?;
            out.push((array.to_owned(), Action::Positional(array.to_owned())));
            continue;
        }
        path::check(&path)?;
        refuse_dollar(&path)?;
        let action = match value {
            Bson::Document(inner) if inner.is_empty() => {
                return Err(location!(
                    51270,
                    "An empty sub-projection is not a valid value. Found empty object at path"
                ));
            }
            value if text::is_score(value)? => Action::TextScore(None),
            Bson::Document(inner) if is_operator(inner) => operator(&path, inner, (dialect, now))?,
            Bson::Document(inner) => {
                flatten(&path, inner, (dialect, now), out)?;
                continue;
            }
            Bson::Boolean(_) | Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_) => {
                if expression::truthy(Some(value)) {
                    Action::Include
                } else {
                    Action::Exclude
                }
            }
            value => Action::Compute(Expression::parse_at(value, now)?),
        };
        out.push((path, action));
    }
    Ok(())
}

fn operator(
    path: &str,
    operator: &Document,
    (dialect, now): (Dialect, DateTime),
) -> Result<Action, QueryError> {
    let slice = operator.get("$slice").filter(|_| dialect == Dialect::Find && operator.len() == 1);
    if let Some(argument) = slice
        && let Some(action) = find_slice(argument)?
    {
        return Ok(action);
    }
    if dialect == Dialect::Find
        && let Some(argument) = operator.get("$elemMatch")
    {
        if path.contains('.') {
            return Err(location!(31275, "Cannot use $elemMatch projection on a nested field."));
        }
        return Ok(Action::ElemMatch(filter::element_match(path, argument)?));
    }
    Ok(Action::Compute(Expression::parse_at(&Bson::Document(operator.clone()), now)?))
}

/// The `$slice` of a find, unless its argument is that of the expression of the same name.
fn find_slice(argument: &Bson) -> Result<Option<Action>, QueryError> {
    let number = |value: &Bson| order::as_lossy_i64(value);
    if let Some(count) = number(argument) {
        let position = if count < 0 { count } else { 0 };
        return Ok(Some(Action::Slice { position, count: count.saturating_abs() }));
    }
    let Bson::Array(parts) = argument else {
        return Err(location!(28667, "First argument to $slice must be a number or an array"));
    };
    match parts.as_slice() {
        [position, count] => match (number(position), number(count)) {
            (Some(_), Some(count)) if count <= 0 => Err(location!(28724, "$slice limit must be positive")),
            (Some(position), Some(count)) => Ok(Some(Action::Slice { position, count })),
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}

fn mode(entries: &[Entry]) -> Result<Mode, QueryError> {
    let mut mode: Option<Mode> = None;
    for (path, action) in entries.iter().filter(|(path, _)| path != "_id") {
        let wanted = match action {
            Action::Exclude => Mode::Exclude,
            Action::Slice { .. } | Action::TextScore(_) => continue,
            _ => Mode::Include,
        };
        match (mode, wanted) {
            (Some(Mode::Include), Mode::Exclude) => {
                return Err(location!(31254, "Cannot do exclusion on field {path} in inclusion projection"));
            }
            (Some(Mode::Exclude), Mode::Include) => {
                return Err(location!(31253, "Cannot do inclusion on field {path} in exclusion projection"));
            }
            _ => mode = Some(wanted),
        }
    }
    let id = entries.iter().find(|(path, _)| path == "_id").map(|(_, action)| action);
    Ok(match (mode, id) {
        (Some(Mode::Exclude), Some(Action::Compute(_))) => {
            return Err(location!(31252, "Cannot use an expression for _id in an exclusion projection"));
        }
        (Some(mode), _) => mode,
        (None, Some(Action::Include | Action::Compute(_))) => Mode::Include,
        (None, _) => Mode::Exclude,
    })
}

fn insert(
    fields: &mut Vec<Field>,
    path: &str,
    components: &[&str],
    action: Action,
) -> Result<(), QueryError> {
    let Some((first, rest)) = components.split_first() else {
        return Ok(());
    };
    let position = match fields.iter().position(|field| field.name == *first) {
        Some(_) if rest.is_empty() => return Err(location!(31250, "Path collision at {path}")),
        Some(position) => position,
        None => {
            let action = if rest.is_empty() { action } else { chain(rest, action) };
            fields.push(Field { name: (*first).to_owned(), action });
            return Ok(());
        }
    };
    match fields.get_mut(position).map(|field| &mut field.action) {
        Some(Action::Nested(children)) => insert(children, path, rest, action),
        _ => Err(location!(31249, "Path collision at {path} remaining portion {}", rest.join("."))),
    }
}

/// The nested fields of a path no other path shares.
fn chain(components: &[&str], action: Action) -> Action {
    components
        .iter()
        .rev()
        .fold(action, |action, name| Action::Nested(vec![Field { name: (*name).to_owned(), action }]))
}
