//! A user's own data and queries: tables as CSV, checked before any work starts.

use super::NumberType;
use crate::queries::RangeQuery;
use csv::{ReaderBuilder, StringRecord};
use std::collections::HashMap;
use std::fmt;

/// Most records or queries of a file.
const LINES_MAX: usize = 50_000_000;

/// Which column of a table holds the values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Column {
    /// The only one.
    #[default]
    Only,
    /// By its place, from 1.
    Number(usize),
    /// By its name in the first line.
    Name(String),
}

impl Column {
    /// A number is a place, anything else a name.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Name(text.to_owned()), Self::Number)
    }
}

/// How many digits after the point are kept: 12.5 is 1250 with two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decimals(pub u8);

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ImportError {
    /// The file's name, as it was given.
    pub file: String,
    /// Line, from 1; none if the whole file is meant.
    pub line: Option<u64>,
    /// Column of the table, from 1; none if the whole line is meant.
    pub column: Option<usize>,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(column) = self.column {
            write!(f, ":{column}")?;
        }
        write!(f, ": {}", self.what)
    }
}

/// Where in a file something is.
struct Place<'a> {
    file: &'a str,
    line: Option<u64>,
}

impl Place<'_> {
    fn wrong(&self, column: Option<usize>, what: impl Into<String>) -> ImportError {
        ImportError { file: self.file.to_owned(), line: self.line, column, what: what.into() }
    }
}

/// The values of a column of a table. A first line that is no number is a header; empty lines are passed over.
///
/// # Errors
/// [`ImportError`]: not a number, too many digits after the point, outside the type, a missing column, no values.
pub fn import_data(
    file: &str,
    text: &[u8],
    column: &Column,
    numbers: NumberType,
    decimals: Decimals,
) -> Result<Vec<i64>, ImportError> {
    let mut at = match column {
        Column::Number(0) => return Err(whole(file, "columns are counted from 1")),
        Column::Number(number) => Some(*number - 1),
        Column::Only | Column::Name(_) => None,
    };
    let mut values = Vec::new();
    for (place, record, first) in records(file, text) {
        let record = record?;
        if first && at.is_none() {
            let found = chosen(&place, &record, column)?;
            at = Some(found);
            if matches!(column, Column::Name(_)) {
                continue;
            }
        }
        let at = at.unwrap_or(0);
        let field = record
            .get(at)
            .ok_or_else(|| place.wrong(Some(at + 1), format!("the line has {} columns", record.len())))?;
        match number(field, numbers, decimals) {
            Err(NotAccepted::NotANumber) if first && is_name(field) => {}
            Err(wrong) => return Err(place.wrong(Some(at + 1), wrong.describe(field, numbers, decimals))),
            Ok(value) => values.push(value),
        }
    }
    if values.is_empty() { Err(whole(file, "no values")) } else { Ok(values) }
}

/// The groups of a table's rows, by a column of any text: rows of one text have one number. In the order of
/// [`import_data`] from the same table, which skips a first line that is a header.
///
/// # Errors
/// [`ImportError`]: a missing column.
pub fn import_groups(file: &str, text: &[u8], column: &Column, rows: usize) -> Result<Vec<u64>, ImportError> {
    let mut at = match column {
        Column::Number(0) => return Err(whole(file, "columns are counted from 1")),
        Column::Number(number) => Some(*number - 1),
        Column::Only | Column::Name(_) => None,
    };
    let mut numbers: HashMap<String, u64> = HashMap::new();
    let mut groups = Vec::with_capacity(rows + 1);
    for (place, record, first) in records(file, text) {
        let record = record?;
        let at = match at {
            Some(at) => at,
            None => *at.insert(chosen(&place, &record, column)?),
        };
        if first && matches!(column, Column::Name(_)) {
            continue;
        }
        let field = record
            .get(at)
            .ok_or_else(|| place.wrong(Some(at + 1), format!("the line has {} columns", record.len())))?;
        let next = numbers.len() as u64;
        groups.push(*numbers.entry(field.to_owned()).or_insert(next));
    }
    // A first line that is a header of the values is one here, too.
    if groups.len() == rows + 1 {
        groups.remove(0);
    }
    Ok(groups)
}

/// Ranges, one a line: `lower,upper`, both included. A first line that holds no number is a header.
///
/// # Errors
/// [`ImportError`]: not two numbers, outside the type, bounds that cross, no queries.
pub fn import_queries(
    file: &str,
    text: &[u8],
    numbers: NumberType,
    decimals: Decimals,
) -> Result<Vec<RangeQuery>, ImportError> {
    let mut queries = Vec::new();
    for (place, record, first) in records(file, text) {
        let record = record?;
        let (Some(lower), Some(upper), None) = (record.get(0), record.get(1), record.get(2)) else {
            return Err(place.wrong(None, "a query is two numbers: lower,upper"));
        };
        let ends = [lower, upper].map(|field| number(field, numbers, decimals));
        if first && is_name(lower) && is_name(upper) {
            continue;
        }
        let [lower, upper] = [(lower, ends[0], 1), (upper, ends[1], 2)].map(|(field, end, column)| {
            end.map_err(|wrong| place.wrong(Some(column), wrong.describe(field, numbers, decimals)))
        });
        let query = RangeQuery { lower: lower?, upper: upper? };
        if query.lower > query.upper {
            return Err(place.wrong(None, "the lower bound is above the upper one"));
        }
        queries.push(query);
    }
    if queries.is_empty() { Err(whole(file, "no queries")) } else { Ok(queries) }
}

fn whole(file: &str, what: &str) -> ImportError {
    Place { file, line: None }.wrong(None, what)
}

/// The lines of a table: where each is, what is on it, and whether it is the first.
fn records<'a>(
    file: &'a str,
    text: &'a [u8],
) -> impl Iterator<Item = (Place<'a>, Result<StringRecord, ImportError>, bool)> {
    let mut reader =
        ReaderBuilder::new().has_headers(false).flexible(true).trim(csv::Trim::All).from_reader(text);
    let mut count = 0usize;
    std::iter::from_fn(move || {
        let mut record = StringRecord::new();
        let read = reader.read_record(&mut record);
        let line = record.position().map(|position| line_of(text, position));
        let first = count == 0;
        count += 1;
        let place = Place { file, line: line.or_else(|| Some(reader.position().line())) };
        match read {
            Ok(false) => None,
            Ok(true) if count > LINES_MAX => {
                let wrong = place.wrong(None, format!("more than {LINES_MAX} lines"));
                Some((place, Err(wrong), first))
            }
            Ok(true) => Some((place, Ok(record), first)),
            Err(error) => {
                let line = error.position().map(csv::Position::line);
                let what = match error.kind() {
                    csv::ErrorKind::Utf8 { .. } => "not text (UTF-8)".to_owned(),
                    _ => error.to_string(),
                };
                let place = Place { file, line };
                let wrong = place.wrong(None, what);
                Some((place, Err(wrong), first))
            }
        }
    })
}

/// Whether the first field of a column can be its name: one that begins like a number is a mistyped number.
fn is_name(field: &str) -> bool {
    field.starts_with(|first: char| !first.is_ascii_digit() && !"+-.".contains(first))
}

/// The line a record is on. The reader gives the place where it began to look for it, empty lines before it.
fn line_of(text: &[u8], position: &csv::Position) -> u64 {
    let from = usize::try_from(position.byte()).unwrap_or(usize::MAX);
    let ahead = text.get(from..).unwrap_or_default().iter();
    let passed =
        ahead.take_while(|byte| matches!(byte, b'\r' | b'\n')).filter(|byte| **byte == b'\n').count();
    position.line() + passed as u64
}

/// The place of the values, found on the first line.
fn chosen(place: &Place<'_>, first: &StringRecord, column: &Column) -> Result<usize, ImportError> {
    let names = || first.iter().collect::<Vec<_>>().join(", ");
    match column {
        Column::Name(name) => first.iter().position(|field| field == name).ok_or_else(|| {
            place.wrong(None, format!("no column is named {name}; the first line has: {}", names()))
        }),
        Column::Number(number) => Ok(number.saturating_sub(1)),
        Column::Only if first.len() == 1 => Ok(0),
        Column::Only => {
            Err(place
                .wrong(None, format!("{} columns: choose one by number or name ({})", first.len(), names())))
        }
    }
}

/// Why a field is no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotAccepted {
    NotANumber,
    Outside,
    TooManyDigits,
}

impl NotAccepted {
    fn describe(self, field: &str, numbers: NumberType, decimals: Decimals) -> String {
        let shown: String = field.chars().take(40).collect();
        match self {
            Self::NotANumber => format!("\"{shown}\" is not a number"),
            Self::Outside => {
                let (least, greatest) = numbers.domain().limits();
                let greatest = greatest.min(i128::from(i64::MAX));
                let kept = if decimals.0 > 0 { " once the point is moved" } else { "" };
                format!("{shown} is outside {} ({least} to {greatest}){kept}", numbers.name())
            }
            Self::TooManyDigits => {
                format!(
                    "{shown} has more than {} digits after the point: have more kept (--decimals)",
                    decimals.0
                )
            }
        }
    }
}

/// An exact decimal, its point moved to the right.
fn number(field: &str, numbers: NumberType, decimals: Decimals) -> Result<i64, NotAccepted> {
    let (negative, digits) = match field.strip_prefix(['-', '+']) {
        Some(digits) => (field.starts_with('-'), digits),
        None => (false, field),
    };
    let (before, after) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if before.len() + after.len() == 0 || !all_digits(before) || !all_digits(after) {
        return Err(NotAccepted::NotANumber);
    }
    let after = after.trim_end_matches('0');
    let kept = usize::from(decimals.0);
    if after.len() > kept {
        return Err(NotAccepted::TooManyDigits);
    }
    let padding = std::iter::repeat_n(b'0', kept - after.len());
    let mut value: i128 = 0;
    for digit in before.bytes().chain(after.bytes()).chain(padding) {
        let next = value.checked_mul(10).and_then(|tens| tens.checked_add(i128::from(digit - b'0')));
        value = next.ok_or(NotAccepted::Outside)?;
    }
    let value = i64::try_from(if negative { -value } else { value }).map_err(|_| NotAccepted::Outside)?;
    if numbers.holds(value) { Ok(value) } else { Err(NotAccepted::Outside) }
}
