//! The table of operators that evaluate all their arguments first.

use super::{Value, arithmetic, arrays, compare, convert, dates, objects, sets, strings};
use crate::QueryError;

/// An operator of the table.
#[derive(Debug)]
pub(super) struct Operator {
    pub(super) name: &'static str,
    pub(super) signature: Signature,
    /// For named parameters: a single value that is no document stands for the first one.
    pub(super) takes_single: bool,
    pub(super) function: Function,
}

type Function = fn(&[Value]) -> Result<Value, QueryError>;

/// What arguments an operator takes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Signature {
    Positional {
        least: usize,
        most: usize,
    },
    /// Name and whether it must be given.
    Named(&'static [(&'static str, bool)]),
}

const MANY: usize = usize::MAX;

const fn positional(name: &'static str, least: usize, most: usize, function: Function) -> Operator {
    Operator { name, signature: Signature::Positional { least, most }, takes_single: false, function }
}

const fn named(
    name: &'static str,
    parameters: &'static [(&'static str, bool)],
    function: Function,
) -> Operator {
    Operator { name, signature: Signature::Named(parameters), takes_single: false, function }
}

const fn date_part(name: &'static str, function: Function) -> Operator {
    Operator { name, signature: Signature::Named(DATE), takes_single: true, function }
}

const DATE: &[(&str, bool)] = &[("date", true), ("timezone", false)];
const TRIM: &[(&str, bool)] = &[("input", true), ("chars", false)];
const REGEX: &[(&str, bool)] = &[("input", true), ("regex", true), ("options", false)];
const REPLACE: &[(&str, bool)] = &[("input", true), ("find", true), ("replacement", true)];
const DATE_STEP: &[(&str, bool)] =
    &[("startDate", true), ("unit", true), ("amount", true), ("timezone", false)];

static OPERATORS: &[Operator] = &[
    positional("$abs", 1, 1, arithmetic::abs),
    positional("$add", 0, MANY, arithmetic::add),
    positional("$allElementsTrue", 1, 1, sets::all_true),
    positional("$anyElementTrue", 1, 1, sets::any_true),
    positional("$arrayElemAt", 2, 2, arrays::element_at),
    positional("$arrayToObject", 1, 1, objects::from_array),
    positional("$avg", 0, MANY, arithmetic::avg),
    positional("$ceil", 1, 1, arithmetic::ceil),
    positional("$cmp", 2, 2, compare::cmp),
    positional("$concat", 0, MANY, strings::concat),
    positional("$concatArrays", 0, MANY, arrays::concat),
    named("$dateAdd", DATE_STEP, dates::add),
    named(
        "$dateDiff",
        &[
            ("startDate", true),
            ("endDate", true),
            ("unit", true),
            ("timezone", false),
            ("startOfWeek", false),
        ],
        dates::difference,
    ),
    named(
        "$dateFromParts",
        &[
            ("year", true),
            ("month", false),
            ("day", false),
            ("hour", false),
            ("minute", false),
            ("second", false),
            ("millisecond", false),
            ("timezone", false),
        ],
        dates::from_parts,
    ),
    named(
        "$dateFromString",
        &[
            ("dateString", true),
            ("format", false),
            ("timezone", false),
            ("onError", false),
            ("onNull", false),
        ],
        dates::from_string,
    ),
    named("$dateSubtract", DATE_STEP, dates::subtract),
    named("$dateToParts", &[("date", true), ("timezone", false)], dates::to_parts),
    named(
        "$dateToString",
        &[("date", true), ("format", false), ("timezone", false), ("onNull", false)],
        dates::to_string,
    ),
    named(
        "$dateTrunc",
        &[("date", true), ("unit", true), ("binSize", false), ("timezone", false), ("startOfWeek", false)],
        dates::truncate,
    ),
    date_part("$dayOfMonth", dates::day_of_month),
    date_part("$dayOfWeek", dates::day_of_week),
    date_part("$dayOfYear", dates::day_of_year),
    positional("$divide", 2, 2, arithmetic::divide),
    positional("$eq", 2, 2, compare::eq),
    positional("$exp", 1, 1, arithmetic::exp),
    positional("$first", 1, 1, arrays::first),
    positional("$floor", 1, 1, arithmetic::floor),
    Operator {
        name: "$getField",
        signature: Signature::Named(&[("field", true), ("input", false)]),
        takes_single: true,
        function: objects::get_field,
    },
    positional("$gt", 2, 2, compare::gt),
    positional("$gte", 2, 2, compare::gte),
    date_part("$hour", dates::hour),
    positional("$in", 2, 2, arrays::contains),
    positional("$indexOfArray", 2, 4, arrays::index_of),
    positional("$indexOfBytes", 2, 4, strings::index_of_bytes),
    positional("$indexOfCP", 2, 4, strings::index_of_points),
    positional("$isArray", 1, 1, arrays::is_array),
    positional("$isNumber", 1, 1, convert::is_number),
    date_part("$isoDayOfWeek", dates::iso_day_of_week),
    date_part("$isoWeek", dates::iso_week),
    date_part("$isoWeekYear", dates::iso_week_year),
    positional("$last", 1, 1, arrays::last),
    positional("$ln", 1, 1, arithmetic::ln),
    positional("$log", 2, 2, arithmetic::log),
    positional("$log10", 1, 1, arithmetic::log10),
    positional("$lt", 2, 2, compare::lt),
    positional("$lte", 2, 2, compare::lte),
    named("$ltrim", TRIM, strings::trim_start),
    positional("$max", 0, MANY, arithmetic::max),
    positional("$mergeObjects", 0, MANY, objects::merge),
    date_part("$millisecond", dates::millisecond),
    positional("$min", 0, MANY, arithmetic::min),
    date_part("$minute", dates::minute),
    positional("$mod", 2, 2, arithmetic::modulus),
    date_part("$month", dates::month),
    positional("$multiply", 0, MANY, arithmetic::multiply),
    positional("$ne", 2, 2, compare::ne),
    positional("$not", 1, 1, compare::not),
    positional("$objectToArray", 1, 1, objects::to_array),
    positional("$pow", 2, 2, arithmetic::pow),
    positional("$range", 2, 3, arrays::range),
    named("$regexFind", REGEX, strings::regex_find),
    named("$regexFindAll", REGEX, strings::regex_find_all),
    named("$regexMatch", REGEX, strings::regex_match),
    named("$replaceAll", REPLACE, strings::replace_all),
    named("$replaceOne", REPLACE, strings::replace_one),
    positional("$reverseArray", 1, 1, arrays::reverse),
    positional("$round", 1, 2, arithmetic::round),
    named("$rtrim", TRIM, strings::trim_end),
    date_part("$second", dates::second),
    positional("$setDifference", 2, 2, sets::difference),
    positional("$setEquals", 2, MANY, sets::equals),
    named("$setField", &[("field", true), ("input", true), ("value", true)], objects::set_field),
    positional("$setIntersection", 0, MANY, sets::intersection),
    positional("$setIsSubset", 2, 2, sets::is_subset),
    positional("$setUnion", 0, MANY, sets::union),
    positional("$size", 1, 1, arrays::size),
    positional("$slice", 2, 3, arrays::slice),
    positional("$split", 2, 2, strings::split),
    positional("$sqrt", 1, 1, arithmetic::sqrt),
    positional("$stdDevPop", 0, MANY, arithmetic::std_dev_pop),
    positional("$stdDevSamp", 0, MANY, arithmetic::std_dev_samp),
    positional("$strLenBytes", 1, 1, strings::length_in_bytes),
    positional("$strLenCP", 1, 1, strings::length_in_points),
    positional("$strcasecmp", 2, 2, strings::compare_ignoring_case),
    positional("$substr", 3, 3, strings::substring_bytes),
    positional("$substrBytes", 3, 3, strings::substring_bytes),
    positional("$substrCP", 3, 3, strings::substring_points),
    positional("$subtract", 2, 2, arithmetic::subtract),
    positional("$sum", 0, MANY, arithmetic::sum),
    positional("$toBool", 1, 1, convert::to_bool),
    positional("$toDate", 1, 1, convert::to_date),
    positional("$toDecimal", 1, 1, convert::to_decimal),
    positional("$toDouble", 1, 1, convert::to_double),
    positional("$toInt", 1, 1, convert::to_int),
    positional("$toLong", 1, 1, convert::to_long),
    positional("$toLower", 1, 1, strings::to_lower),
    positional("$toObjectId", 1, 1, convert::to_object_id),
    positional("$toString", 1, 1, convert::to_string),
    positional("$toUpper", 1, 1, strings::to_upper),
    named("$trim", TRIM, strings::trim),
    positional("$trunc", 1, 2, arithmetic::trunc),
    positional("$type", 1, 1, convert::type_name),
    named("$unsetField", &[("field", true), ("input", true)], objects::unset_field),
    date_part("$week", dates::week),
    date_part("$year", dates::year),
    named("$zip", &[("inputs", true), ("useLongestLength", false), ("defaults", false)], arrays::zip),
];

/// Operators MongoDB has and Arras has not.
const UNSUPPORTED: &[&str] = &[
    "$accumulator",
    "$acos",
    "$acosh",
    "$asin",
    "$asinh",
    "$atan",
    "$atan2",
    "$atanh",
    "$binarySize",
    "$bitAnd",
    "$bitNot",
    "$bitOr",
    "$bitXor",
    "$bsonSize",
    "$cos",
    "$cosh",
    "$degreesToRadians",
    "$firstN",
    "$function",
    "$lastN",
    "$maxN",
    "$median",
    "$meta",
    "$minN",
    "$percentile",
    "$radiansToDegrees",
    "$rand",
    "$sampleRate",
    "$sin",
    "$sinh",
    "$tan",
    "$tanh",
    "$toHashedIndexKey",
    "$tsIncrement",
    "$tsSecond",
];

/// The operator of a name.
pub(super) fn find(name: &str) -> Result<&'static Operator, QueryError> {
    if UNSUPPORTED.contains(&name) {
        return Err(QueryError::unsupported(format!("the expression {name}")));
    }
    OPERATORS.iter().find(|operator| operator.name == name).ok_or_else(|| {
        QueryError::new(168, "InvalidPipelineOperator", format!("Unrecognized expression '{name}'"))
    })
}
