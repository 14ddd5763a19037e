//! Parsing of filters.

use super::{BitTest, Expr, Members, Pattern, Test, TypeTest};
use crate::expression::Expression;
use crate::text::TextCondition;
use crate::{QueryError, order, path};
use bson::{Bson, DateTime, Document};

/// Bits a mask may name by position.
const BIT_POSITION_MAX: i64 = i32::MAX as i64;

/// Aliases of `$type` with their numeric codes.
const TYPES: [(i64, &str); 21] = [
    (1, "double"),
    (2, "string"),
    (3, "object"),
    (4, "array"),
    (5, "binData"),
    (6, "undefined"),
    (7, "objectId"),
    (8, "bool"),
    (9, "date"),
    (10, "null"),
    (11, "regex"),
    (12, "dbPointer"),
    (13, "javascript"),
    (14, "symbol"),
    (15, "javascriptWithScope"),
    (16, "int"),
    (17, "timestamp"),
    (18, "long"),
    (19, "decimal"),
    (-1, "minKey"),
    (127, "maxKey"),
];

/// What conditions are on, which says whether an `$expr` may be among them.
#[derive(Clone, Copy, Debug)]
pub(super) enum Subject {
    /// Whole documents; `$$NOW` stands for this time.
    Documents(DateTime),
    /// Elements of an array, in an `$elemMatch`.
    Elements,
    /// Elements that an update changes or removes.
    Updated,
}

pub(super) fn document(filter: &Document, subject: Subject) -> Result<Expr, QueryError> {
    let mut conditions = Vec::with_capacity(filter.len());
    for (name, value) in filter {
        if name.starts_with('$') {
            conditions.extend(top_level(name, value, subject)?);
        } else {
            conditions.extend(field(name, value)?);
        }
    }
    Ok(match conditions.len() {
        0 => Expr::Always,
        1 => conditions.pop().unwrap_or(Expr::Always),
        _ => Expr::And(conditions),
    })
}

fn top_level(operator: &str, value: &Bson, subject: Subject) -> Result<Option<Expr>, QueryError> {
    Ok(match operator {
        "$and" => Some(Expr::And(list(operator, value, subject)?)),
        "$or" => Some(Expr::Or(list(operator, value, subject)?)),
        "$nor" => Some(Expr::Nor(list(operator, value, subject)?)),
        "$expr" => Some(Expr::Expression(expression(value, subject)?)),
        "$comment" => None,
        "$alwaysTrue" => Some(Expr::Always),
        "$alwaysFalse" => Some(Expr::Never),
        // The fields of a database reference.
        "$ref" | "$id" | "$db" if !matches!(subject, Subject::Documents(_)) => {
            Some(Expr::Field { path: operator.to_owned(), test: Test::Eq(value.clone()) })
        }
        "$text" if matches!(subject, Subject::Updated) => {
            return Err(QueryError::bad_value("$text is not allowed in this context"));
        }
        "$text" => Some(Expr::Text(TextCondition::parse(value)?)),
        "$where" | "$jsonSchema" | "$sampleRate" => {
            return Err(QueryError::unsupported(operator));
        }
        _ => {
            return Err(QueryError::bad_value(format!(
                "unknown top level operator: {operator}. If you have a field name that starts with a '$' symbol, \
                 consider using $getField or $setField."
            )));
        }
    })
}

fn expression(value: &Bson, subject: Subject) -> Result<Expression, QueryError> {
    match subject {
        Subject::Documents(now) => Expression::parse_at(value, now),
        Subject::Elements => {
            Err(QueryError::bad_value("$expr can only be applied to the top-level document"))
        }
        Subject::Updated => {
            Err(QueryError::new(224, "QueryFeatureNotAllowed", "$expr is not allowed in this context"))
        }
    }
}

fn list(operator: &str, value: &Bson, subject: Subject) -> Result<Vec<Expr>, QueryError> {
    let Bson::Array(entries) = value else {
        return Err(QueryError::bad_value(format!("{operator} must be an array")));
    };
    if entries.is_empty() {
        return Err(QueryError::bad_value("$and/$or/$nor must be a nonempty array"));
    }
    entries
        .iter()
        .map(|entry| match entry {
            Bson::Document(inner) => document(inner, subject),
            _ => Err(QueryError::bad_value("$or/$and/$nor entries need to be full objects")),
        })
        .collect()
}

fn field(path: &str, value: &Bson) -> Result<Vec<Expr>, QueryError> {
    path::check_depth(path)?;
    let tests = match value {
        Bson::Document(operators) if is_operators(operators) => tests(path, operators)?,
        Bson::RegularExpression(_) => vec![Test::Regex(pattern(value)?)],
        literal => vec![Test::Eq(literal.clone())],
    };
    Ok(tests.into_iter().map(|test| Expr::Field { path: path.to_owned(), test }).collect())
}

/// True if a document is a set of operators, rather than a value. Database references are values.
pub(crate) fn is_operators(document: &Document) -> bool {
    document
        .keys()
        .next()
        .is_some_and(|name| name.starts_with('$') && !matches!(name.as_str(), "$ref" | "$id" | "$db"))
}

/// True for a word that stands in a filter, where the names of fields do, and not in what is asked of one field's value.
pub(crate) fn is_of_documents(operator: &str) -> bool {
    matches!(
        operator,
        "$and"
            | "$or"
            | "$nor"
            | "$expr"
            | "$comment"
            | "$alwaysTrue"
            | "$alwaysFalse"
            | "$text"
            | "$where"
            | "$jsonSchema"
            | "$sampleRate"
    )
}

/// The tests of an operator document such as `{$gt: 1, $lt: 5}`.
pub(crate) fn tests(path: &str, operators: &Document) -> Result<Vec<Test>, QueryError> {
    let mut tests = Vec::with_capacity(operators.len());
    for (operator, value) in operators {
        match operator.as_str() {
            "$regex" => tests.push(Test::Regex(regex(value, operators.get("$options"))?)),
            "$options" => {
                if !operators.contains_key("$regex") {
                    return Err(QueryError::bad_value("$options needs a $regex"));
                }
            }
            "$comment" => {}
            _ => tests.push(test(path, operator, value)?),
        }
    }
    Ok(tests)
}

fn test(path: &str, operator: &str, value: &Bson) -> Result<Test, QueryError> {
    Ok(match operator {
        "$eq" => Test::Eq(value.clone()),
        "$ne" => Test::Ne(no_regex(path, operator, value)?),
        "$gt" => Test::Gt(no_regex(path, operator, value)?),
        "$gte" => Test::Gte(no_regex(path, operator, value)?),
        "$lt" => Test::Lt(no_regex(path, operator, value)?),
        "$lte" => Test::Lte(no_regex(path, operator, value)?),
        "$in" => membership(operator, value)?,
        "$nin" => match membership(operator, value)? {
            Test::In(values) => Test::Nin(values),
            mixed => Test::Not(vec![mixed]),
        },
        "$exists" => Test::Exists(crate::expression::truthy(Some(value))),
        "$type" => Test::Type(types(value)?),
        "$not" => negation(path, value)?,
        "$all" => all(path, value)?,
        "$elemMatch" => element_match(path, value)?,
        "$size" => Test::Size(size(value)?),
        "$mod" => modulus(value)?,
        "$bitsAllSet" => bits(operator, BitTest::AllSet, value)?,
        "$bitsAllClear" => bits(operator, BitTest::AllClear, value)?,
        "$bitsAnySet" => bits(operator, BitTest::AnySet, value)?,
        "$bitsAnyClear" => bits(operator, BitTest::AnyClear, value)?,
        "$near" | "$nearSphere" | "$geoWithin" | "$within" | "$geoIntersects" | "$maxDistance"
        | "$minDistance" => {
            return Err(QueryError::unsupported(format!("{operator} on the field '{path}'")));
        }
        _ => return Err(QueryError::bad_value(format!("unknown operator: {operator}"))),
    })
}

fn no_regex(path: &str, operator: &str, value: &Bson) -> Result<Bson, QueryError> {
    match value {
        Bson::RegularExpression(_) if operator == "$ne" => {
            Err(QueryError::bad_value("Can't have regex as arg to $ne."))
        }
        Bson::RegularExpression(_) => {
            Err(QueryError::bad_value(format!("Can't have RegEx as arg to predicate over field '{path}'.")))
        }
        _ => Ok(value.clone()),
    }
}

fn pattern(value: &Bson) -> Result<Pattern, QueryError> {
    match value {
        Bson::RegularExpression(regex) => Pattern::new(regex.pattern.as_str(), regex.options.as_str()),
        _ => Err(QueryError::bad_value("$regex has to be a string")),
    }
}

fn regex(value: &Bson, options: Option<&Bson>) -> Result<Pattern, QueryError> {
    let options = match options {
        None => None,
        Some(Bson::String(options)) => Some(options.as_str()),
        Some(_) => return Err(QueryError::bad_value("$options has to be a string")),
    };
    match value {
        Bson::String(source) => Pattern::new(source, options.unwrap_or_default()),
        Bson::RegularExpression(regex) => {
            let own = regex.options.as_str();
            if options.is_some() && !own.is_empty() {
                return Err(crate::error::location!(51074, "options set in both $regex and $options"));
            }
            Pattern::new(regex.pattern.as_str(), options.unwrap_or(own))
        }
        _ => Err(QueryError::bad_value("$regex has to be a string")),
    }
}

fn membership(operator: &str, value: &Bson) -> Result<Test, QueryError> {
    let Bson::Array(entries) = value else {
        return Err(QueryError::bad_value(format!("{operator} needs an array")));
    };
    let mut values = Vec::with_capacity(entries.len());
    let mut patterns = Vec::new();
    for entry in entries {
        match entry {
            Bson::RegularExpression(_) => patterns.push(Test::Regex(pattern(entry)?)),
            Bson::Document(inner) if is_operators(inner) => {
                return Err(QueryError::bad_value(format!("cannot nest $ under {operator}")));
            }
            _ => values.push(entry.clone()),
        }
    }
    let values = Members::new(values);
    if patterns.is_empty() {
        return Ok(Test::In(values));
    }
    patterns.push(Test::In(values));
    Ok(Test::AnyOf(patterns))
}

fn types(value: &Bson) -> Result<Vec<TypeTest>, QueryError> {
    let one = |value: &Bson| match value {
        Bson::String(name) if name == "number" => Ok(TypeTest::Number),
        Bson::String(name) => TYPES
            .iter()
            .find(|(_, alias)| alias == name)
            .map(|(_, alias)| TypeTest::Alias(alias))
            .ok_or_else(|| QueryError::bad_value(format!("Unknown type name alias: {name}"))),
        number => {
            let Some(code) = order::as_exact_i64(number) else {
                return Err(QueryError::type_mismatch("type must be represented as a number or a string"));
            };
            TYPES
                .iter()
                .find(|(known, _)| *known == code)
                .map(|(_, alias)| TypeTest::Alias(alias))
                .ok_or_else(|| QueryError::bad_value(format!("Invalid numerical type code: {code}")))
        }
    };
    match value {
        Bson::Array(entries) if entries.is_empty() => {
            Err(QueryError::failed_to_parse("$type must match at least one type"))
        }
        Bson::Array(entries) => entries.iter().map(one).collect(),
        value => Ok(vec![one(value)?]),
    }
}

fn negation(path: &str, value: &Bson) -> Result<Test, QueryError> {
    match value {
        Bson::RegularExpression(_) => Ok(Test::Not(vec![Test::Regex(pattern(value)?)])),
        Bson::Document(operators) if operators.is_empty() => {
            Err(QueryError::bad_value("$not cannot be empty"))
        }
        Bson::Document(operators) => {
            // Names without a dollar are refused as unknown operators.
            Ok(Test::Not(tests(path, operators)?))
        }
        _ => Err(QueryError::bad_value("$not needs a regex or a document")),
    }
}

fn all(path: &str, value: &Bson) -> Result<Test, QueryError> {
    let Bson::Array(entries) = value else {
        return Err(QueryError::bad_value("$all needs an array"));
    };
    let is_match = |entry: &Bson| matches!(entry, Bson::Document(inner) if inner.keys().next().is_some_and(|name| name == "$elemMatch"));
    let first_matches = entries.first().is_some_and(is_match);
    let tests = entries
        .iter()
        .map(|entry| match entry {
            Bson::Document(inner) if first_matches && is_match(entry) && inner.len() == 1 => {
                element_match(path, inner.get("$elemMatch").unwrap_or(&Bson::Null))
            }
            _ if first_matches => Err(QueryError::bad_value("$all/$elemMatch has to be consistent")),
            Bson::Document(inner) if is_operators(inner) => {
                Err(QueryError::bad_value("no $ expressions in $all"))
            }
            Bson::RegularExpression(_) => Ok(Test::Regex(pattern(entry)?)),
            literal => Ok(Test::Eq(literal.clone())),
        })
        .collect::<Result<_, _>>()?;
    Ok(Test::All(tests))
}

pub(crate) fn element_match(path: &str, value: &Bson) -> Result<Test, QueryError> {
    let Bson::Document(inner) = value else {
        return Err(QueryError::bad_value("$elemMatch needs an Object"));
    };
    // Logical operators start conditions on documents; any other operator tests the element itself.
    let tests_value = is_operators(inner)
        && !inner.keys().any(|name| matches!(name.as_str(), "$and" | "$or" | "$nor" | "$where" | "$expr"));
    if tests_value {
        return Ok(Test::ElemMatchValue(tests(path, inner)?));
    }
    if inner.contains_key("$where") || inner.contains_key("$expr") {
        return Err(QueryError::bad_value("$elemMatch cannot contain $where or $expr expression"));
    }
    Ok(Test::ElemMatch(Box::new(document(inner, Subject::Elements)?)))
}

fn size(value: &Bson) -> Result<i64, QueryError> {
    let size = order::as_exact_i64(value).ok_or_else(|| {
        QueryError::bad_value(format!("Failed to parse $size. Expected an integer: $size: {value}"))
    })?;
    if size < 0 {
        let message = format!("Failed to parse $size. Expected a non-negative number in: $size: {value}");
        return Err(QueryError::bad_value(message));
    }
    Ok(size)
}

fn modulus(value: &Bson) -> Result<Test, QueryError> {
    let Bson::Array(parts) = value else {
        return Err(QueryError::bad_value("malformed mod, needs to be an array"));
    };
    let [divisor, remainder] = parts.as_slice() else {
        let too = if parts.len() < 2 { "not enough" } else { "too many" };
        return Err(QueryError::bad_value(format!("malformed mod, {too} elements")));
    };
    let number = |value: &Bson, what: &str| {
        order::as_lossy_i64(value)
            .ok_or_else(|| QueryError::bad_value(format!("malformed mod, {what} not a number")))
    };
    let (divisor, remainder) = (number(divisor, "divisor")?, number(remainder, "remainder")?);
    if divisor == 0 {
        return Err(QueryError::bad_value("divisor cannot be 0"));
    }
    Ok(Test::Mod { divisor, remainder })
}

fn bits(operator: &str, want: BitTest, value: &Bson) -> Result<Test, QueryError> {
    let positions = match value {
        Bson::Array(entries) => entries
            .iter()
            .map(|entry| {
                order::as_exact_i64(entry)
                    .filter(|position| (0..=BIT_POSITION_MAX).contains(position))
                    .and_then(|position| u32::try_from(position).ok())
                    .ok_or_else(|| {
                        QueryError::bad_value(format!(
                            "Failed to parse bit position. Expected a non-negative integer in: {operator}: {entry}"
                        ))
                    })
            })
            .collect::<Result<_, _>>()?,
        Bson::Binary(binary) => set_positions(&binary.bytes),
        mask => match order::as_exact_i64(mask) {
            Some(mask) if mask >= 0 => set_positions(&mask.to_le_bytes()),
            Some(_) => {
                return Err(QueryError::failed_to_parse(format!(
                    "Expected a non-negative number in: {operator}: {mask}"
                )));
            }
            None => {
                return Err(QueryError::bad_value(format!(
                    "{operator} takes an Array, a number, or a BinData but received: {operator}: {mask}"
                )));
            }
        },
    };
    Ok(Test::Bits { want, positions })
}

fn set_positions(little_endian: &[u8]) -> Vec<u32> {
    let mut positions = Vec::new();
    for (byte_offset, byte) in little_endian.iter().enumerate() {
        for bit in 0..8 {
            if (byte >> bit) & 1 == 1
                && let Ok(byte_offset) = u32::try_from(byte_offset)
            {
                positions.push(byte_offset * 8 + bit);
            }
        }
    }
    positions
}
