//! Parsing of pipelines.

use super::score;
use super::{Bucket, Group, GroupField, Pipeline, STAGES_MAX, Stage, Unwind};
use crate::error::location;
use crate::expression::Expression;
use crate::filter::Filter;
use crate::projection::Projection;
use crate::sort::Sort;
use crate::{QueryError, accumulate, limits, order, path};
use bson::{Bson, DateTime, Document};

/// Stages MongoDB has and Arras, or this function, has not.
const UNSUPPORTED: &[&str] = &[
    "$bucketAuto",
    "$changeStream",
    "$collStats",
    "$currentOp",
    "$densify",
    "$documents",
    "$fill",
    "$geoNear",
    "$graphLookup",
    "$indexStats",
    "$listLocalSessions",
    "$listSessions",
    "$lookup",
    "$merge",
    "$out",
    "$planCacheStats",
    "$redact",
    "$search",
    "$searchMeta",
    "$setWindowFields",
    "$unionWith",
    "$vectorSearch",
];

/// Stages that may not stand inside a facet.
fn is_facet(stage: &Stage) -> bool {
    matches!(stage, Stage::Facet(_))
}

pub(super) fn pipeline(stages: &[Document], now: DateTime) -> Result<Pipeline, QueryError> {
    Ok(Pipeline { stages: score::scored(parsed(stages, now)?)? })
}

/// The stages; what uses the text score is not told yet of which condition.
fn parsed(stages: &[Document], now: DateTime) -> Result<Vec<Stage>, QueryError> {
    if stages.len() > STAGES_MAX {
        return Err(location!(7749501, "Pipeline length must be no longer than {STAGES_MAX} stages."));
    }
    stages.iter().map(|specification| stage(specification, now)).collect()
}

fn stage(specification: &Document, now: DateTime) -> Result<Stage, QueryError> {
    limits::check_built(specification)?;
    let mut entries = specification.iter();
    let (Some((name, argument)), None) = (entries.next(), entries.next()) else {
        return Err(location!(
            40323,
            "A pipeline stage specification object must contain exactly one field."
        ));
    };
    match name.as_str() {
        "$match" => Ok(Stage::Match(Filter::parse_at(document(name, 15959, argument)?, now)?)),
        "$project" => Ok(Stage::Project(Projection::parse_stage(document(name, 15969, argument)?, now)?)),
        "$addFields" | "$set" => {
            Ok(Stage::AddFields(Projection::parse_added(document(name, 40272, argument)?, now)?))
        }
        "$unset" => unset(argument),
        "$group" => group(document(name, 15947, argument)?, now),
        "$sort" => sort(document(name, 15973, argument)?),
        "$limit" => match order::as_exact_i64(argument).and_then(|count| u64::try_from(count).ok()) {
            Some(0) | None => Err(location!(15958, "the limit must be positive: {argument}")),
            Some(count) => Ok(Stage::Limit(count)),
        },
        "$skip" => order::as_exact_i64(argument)
            .and_then(|count| u64::try_from(count).ok())
            .map(Stage::Skip)
            .ok_or_else(|| location!(15956, "Argument to $skip cannot be negative or no number: {argument}")),
        "$count" => count(argument),
        "$unwind" => unwind(argument),
        "$replaceRoot" => match only(name, &["newRoot"], document(name, 40229, argument)?)?.get("newRoot") {
            Some(root) => Ok(Stage::ReplaceRoot(Expression::parse_at(root, now)?)),
            None => {
                Err(location!(40414, "BSON field '$replaceRoot.newRoot' is missing but a required field"))
            }
        },
        "$replaceWith" => Ok(Stage::ReplaceRoot(Expression::parse_at(argument, now)?)),
        "$sample" => match only(name, &["size"], document(name, 28745, argument)?)?
            .get("size")
            .and_then(order::as_exact_i64)
        {
            Some(size) if size >= 0 => Ok(Stage::Sample(size.unsigned_abs())),
            _ => Err(location!(28747, "size argument to $sample must not be negative")),
        },
        "$sortByCount" => sort_by_count(argument, now),
        "$facet" => facet(document(name, 40169, argument)?, now),
        "$bucket" => bucket(document(name, 40201, argument)?, now),
        _ if UNSUPPORTED.contains(&name.as_str()) => {
            Err(QueryError::unsupported(format!("the pipeline stage {name}")))
        }
        _ => Err(location!(40324, "Unrecognized pipeline stage name: '{name}'")),
    }
}

/// A stage's fields, none but those that it has.
fn only<'v>(stage: &str, known: &[&str], fields: &'v Document) -> Result<&'v Document, QueryError> {
    match fields.keys().find(|field| !known.contains(&field.as_str())) {
        None => Ok(fields),
        Some(field) => Err(location!(40415, "BSON field '{stage}.{field}' is an unknown field.")),
    }
}

fn document<'v>(name: &str, code: i32, argument: &'v Bson) -> Result<&'v Document, QueryError> {
    argument.as_document().ok_or_else(|| {
        let message = format!("the {name} specification must be an object");
        // The number differs by stage; names of such codes are their numbers.
        let code_name = match code {
            15947 => "Location15947",
            15959 => "Location15959",
            15969 => "Location15969",
            15973 => "Location15973",
            28745 => "Location28745",
            40169 => "Location40169",
            40201 => "Location40201",
            40229 => "Location40229",
            _ => "Location40272",
        };
        QueryError::new(code, code_name, message)
    })
}

fn unset(argument: &Bson) -> Result<Stage, QueryError> {
    let wrong = || location!(31002, "$unset specification must be a string or an array");
    let paths: Vec<&str> = match argument {
        Bson::String(path) => vec![path],
        Bson::Array(paths) if !paths.is_empty() => {
            paths.iter().map(|path| path.as_str().ok_or_else(wrong)).collect::<Result<_, _>>()?
        }
        _ => return Err(wrong()),
    };
    Projection::without(&paths).map(Stage::Project)
}

fn sort(keys: &Document) -> Result<Stage, QueryError> {
    if keys.is_empty() {
        return Err(location!(15976, "$sort stage must have at least one sort key"));
    }
    Sort::parse(keys).map(Stage::Sort)
}

fn count(argument: &Bson) -> Result<Stage, QueryError> {
    match argument {
        Bson::String(name) if name.is_empty() => {
            Err(location!(40157, "the count field must be a non-empty string"))
        }
        Bson::String(name) if name.starts_with('$') => {
            Err(location!(40158, "the count field cannot be a $-prefixed path"))
        }
        Bson::String(name) if name.contains('.') => {
            Err(location!(40160, "the count field cannot contain '.'"))
        }
        Bson::String(name) => Ok(Stage::Count(name.clone())),
        _ => Err(location!(40156, "the count field must be a non-empty string")),
    }
}

fn group(specification: &Document, now: DateTime) -> Result<Stage, QueryError> {
    let Some(id) = specification.get("_id") else {
        return Err(location!(15955, "a group specification must include an _id"));
    };
    let id = Expression::parse_at(id, now)?;
    let fields = specification.iter().filter(|(name, _)| *name != "_id");
    let fields = fields.map(|(name, value)| group_field(name, value, now)).collect::<Result<_, _>>()?;
    Ok(Stage::Group(Group { id, fields }))
}

fn group_field(name: &str, value: &Bson, now: DateTime) -> Result<GroupField, QueryError> {
    if name.contains('.') {
        return Err(location!(40235, "The field name '{name}' cannot contain '.'"));
    }
    if name.starts_with('$') {
        return Err(location!(40236, "The field name '{name}' cannot be an operator name"));
    }
    let Bson::Document(specification) = value else {
        return Err(location!(40234, "The field '{name}' must be an accumulator object"));
    };
    let mut entries = specification.iter();
    let (Some((operator, argument)), None) = (entries.next(), entries.next()) else {
        return Err(location!(40238, "The field '{name}' must specify one accumulator"));
    };
    let operator = accumulate::find(operator)?;
    let argument = match (operator, argument) {
        ("$count", Bson::Document(nothing)) if nothing.is_empty() => Expression::literal(Bson::Int32(1)),
        ("$count", _) => {
            return Err(QueryError::type_mismatch("$count takes no arguments, i.e. $count:{}"));
        }
        (_, Bson::Array(values)) => match values.as_slice() {
            // An array of one argument stands for it.
            [single] => Expression::parse_at(single, now)?,
            _ => return Err(location!(40237, "The {operator} accumulator is a unary operator")),
        },
        (_, argument) => Expression::parse_at(argument, now)?,
    };
    Ok(GroupField { name: name.to_owned(), operator, argument })
}

fn unwind(argument: &Bson) -> Result<Stage, QueryError> {
    let empty = Document::new();
    let (path, options) = match argument {
        Bson::String(path) => (path.as_str(), &empty),
        Bson::Document(options) => match options.get("path") {
            Some(Bson::String(path)) => (path.as_str(), options),
            Some(_) => {
                return Err(location!(28808, "expected a string as the path for $unwind stage"));
            }
            None => return Err(location!(28812, "no path specified to $unwind stage")),
        },
        _ => {
            return Err(location!(
                15981,
                "expected either a string or an object as specification for $unwind stage"
            ));
        }
    };
    let Some(path) = path.strip_prefix('$') else {
        return Err(location!(28818, "path option to $unwind stage should be prefixed with a '$': {path}"));
    };
    path::check(path)?;
    let mut unwind =
        Unwind { path: path.to_owned(), include_array_index: None, preserve_null_and_empty_arrays: false };
    for (name, value) in options {
        match (name.as_str(), value) {
            ("path", _) => {}
            ("preserveNullAndEmptyArrays", Bson::Boolean(flag)) => {
                unwind.preserve_null_and_empty_arrays = *flag
            }
            ("preserveNullAndEmptyArrays", _) => {
                return Err(location!(
                    28809,
                    "expected a boolean for the preserveNullAndEmptyArrays option to $unwind stage"
                ));
            }
            ("includeArrayIndex", Bson::String(field)) if !field.is_empty() && !field.starts_with('$') => {
                path::check(field)?;
                unwind.include_array_index = Some(field.clone());
            }
            ("includeArrayIndex", _) => {
                return Err(location!(
                    28810,
                    "expected a non-empty string without a leading '$' for the includeArrayIndex option to $unwind \
                     stage"
                ));
            }
            _ => return Err(location!(28811, "unrecognized option to $unwind stage: {name}")),
        }
    }
    Ok(Stage::Unwind(unwind))
}

fn sort_by_count(argument: &Bson, now: DateTime) -> Result<Stage, QueryError> {
    let is_expression = match argument {
        Bson::String(path) => path.starts_with('$'),
        Bson::Document(inner) => inner.keys().next().is_some_and(|name| name.starts_with('$')),
        _ => false,
    };
    if !is_expression {
        return Err(location!(
            40147,
            "the sortByCount field must be defined as a $-prefixed path or an expression inside an object"
        ));
    }
    Ok(Stage::SortByCount(Expression::parse_at(argument, now)?))
}

fn facet(specification: &Document, now: DateTime) -> Result<Stage, QueryError> {
    if specification.is_empty() {
        return Err(location!(40169, "the $facet specification must be a non-empty object"));
    }
    let mut facets = Vec::with_capacity(specification.len());
    for (name, value) in specification {
        if name.contains('.') || name.starts_with('$') {
            return Err(location!(
                16410,
                "FieldPath field names may not start with '$' or contain '.': '{name}'"
            ));
        }
        let stages: Option<Vec<Document>> = value
            .as_array()
            .and_then(|stages| stages.iter().map(|stage| stage.as_document().cloned()).collect());
        let Some(stages) = stages else {
            return Err(location!(
                40170,
                "arguments to $facet must be arrays, {name} is type {}",
                order::type_name(value)
            ));
        };
        let stages = parsed(&stages, now)?;
        if stages.iter().any(is_facet) {
            return Err(location!(40600, "$facet is not allowed to be used within a $facet stage"));
        }
        facets.push((name.clone(), Pipeline { stages }));
    }
    Ok(Stage::Facet(facets))
}

fn bucket(specification: &Document, now: DateTime) -> Result<Stage, QueryError> {
    for name in specification.keys() {
        if !matches!(name.as_str(), "groupBy" | "boundaries" | "default" | "output") {
            return Err(location!(40197, "Unrecognized option to $bucket: {name}."));
        }
    }
    let (Some(group_by), Some(boundaries)) = (specification.get("groupBy"), specification.get("boundaries"))
    else {
        return Err(location!(40198, "$bucket requires 'groupBy' and 'boundaries' to be specified."));
    };
    let Bson::Array(boundaries) = boundaries else {
        return Err(location!(40200, "The $bucket 'boundaries' field must be an array of values"));
    };
    let boundaries = boundaries.iter().map(|value| constant(value, now)).collect::<Result<Vec<_>, _>>()?;
    if boundaries.len() < 2 {
        return Err(location!(40192, "The $bucket 'boundaries' field must have at least 2 values"));
    }
    for pair in boundaries.windows(2) {
        if let [low, high] = pair {
            if order::class(low) != order::class(high) {
                return Err(location!(
                    40193,
                    "All values in the 'boundaries' option to $bucket must have the same type"
                ));
            }
            if order::compare(low, high).is_ge() {
                return Err(location!(
                    40194,
                    "The 'boundaries' option to $bucket must be sorted, but elements {low} and {high} are not"
                ));
            }
        }
    }
    let default = specification.get("default").map(|value| constant(value, now)).transpose()?;
    let output = match specification.get("output") {
        None => vec![GroupField {
            name: "count".to_owned(),
            operator: "$sum",
            argument: Expression::literal(Bson::Int32(1)),
        }],
        Some(Bson::Document(fields)) => {
            fields.iter().map(|(name, value)| group_field(name, value, now)).collect::<Result<_, _>>()?
        }
        Some(_) => return Err(location!(40196, "The $bucket 'output' field must be an object")),
    };
    Ok(Stage::Bucket(Bucket { group_by: Expression::parse_at(group_by, now)?, boundaries, default, output }))
}

/// A value that must not depend on the document.
fn constant(value: &Bson, now: DateTime) -> Result<Bson, QueryError> {
    Expression::parse_at(value, now)?
        .constant()
        .cloned()
        .ok_or_else(|| location!(40191, "The $bucket 'boundaries' and 'default' must be constant values"))
}
