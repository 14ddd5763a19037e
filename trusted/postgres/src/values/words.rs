//! Words of texts: those that a statement stores are entered before it is sent, and those that it looks for are found.

use super::{Inputs, argument, defect, given, given_members, put_answer};
use crate::catalog::Encryption;
use crate::codec::Datum;
use crate::error::{SqlError, sqlstate};
use crate::plan::{Form, PhysicalValue, Source, Value};
use arras_service::columns::Columns;
use arras_service::words::{TextName, Words};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// PostgreSQL's numbers of types that are texts, and of what has none.
const TEXT_OIDS: [u32; 5] = [0, 19, 25, 705, 1043];

/// A text that a statement stores.
struct Text {
    position: usize,
    /// Its place among the members of an array.
    member: Option<usize>,
    text: String,
}

/// A column and a text of it.
type TextOf = ([u8; 8], String);

/// Names of texts that were entered for several rows together.
#[derive(Default)]
pub(crate) struct Entered(Mutex<HashMap<TextOf, VecDeque<Vec<u8>>>>);

impl Entered {
    fn add(&self, column: [u8; 8], texts: Vec<String>, names: Vec<Vec<u8>>) {
        // Nothing panics while it is held.
        let mut entered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (text, name) in texts.into_iter().zip(names) {
            entered.entry((column, text)).or_default().push_back(name);
        }
    }

    fn take(&self, column: [u8; 8], text: &str) -> Option<Vec<u8>> {
        let mut entered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entered.get_mut(&(column, text.to_owned()))?.pop_front()
    }
}

/// What keeps a column's words.
fn words_of(columns: &dyn Columns, of: &Encryption) -> Result<Arc<dyn Words>, SqlError> {
    columns.words(of.id).ok_or_else(|| {
        let message = format!(
            "the words of column {} are kept by a host of boolean search, and this proxy knows none",
            of.label
        );
        SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message)
            .hint("Name the host under [search] in the proxy's configuration.")
    })
}

/// A value as the text whose words are entered; none is NULL.
fn text_of(datum: Datum, encryption: &Encryption) -> Result<String, SqlError> {
    match datum.storable(encryption)? {
        Datum::Text(text) => Ok(text),
        _ => Err(defect("what has no words was to be entered")),
    }
}

/// The texts that a value stores.
fn texts_of(position: usize, value: &Value, inputs: Inputs<'_>) -> Result<Vec<Text>, SqlError> {
    match &value.form {
        Form::Text(encryption) => {
            let Some(datum) = given(value, encryption, inputs)? else { return Ok(Vec::new()) };
            Ok(vec![Text { position, member: None, text: text_of(datum, encryption)? }])
        }
        Form::TextArray(encryption) => {
            let members = given_members(value, encryption, inputs)?.unwrap_or_default();
            let one = |(member, datum): (usize, Option<Datum>)| {
                Some(text_of(datum?, encryption).map(|text| Text { position, member: Some(member), text }))
            };
            members.into_iter().enumerate().filter_map(one).collect()
        }
        _ => Ok(Vec::new()),
    }
}

/// The column of a form that stores texts under names.
fn stored(form: &Form) -> Option<&Arc<Encryption>> {
    match form {
        Form::Text(encryption) | Form::TextArray(encryption) => Some(encryption),
        _ => None,
    }
}

/// Enters the texts that a statement stores, of each column together, and puts their names in the places of its values. Only
/// behind all else that may be wrong with them.
pub(super) async fn enter(
    values: &[Value],
    inputs: Inputs<'_>,
    columns: &dyn Columns,
    found: &mut [PhysicalValue],
) -> Result<(), SqlError> {
    let mut of_column: BTreeMap<[u8; 8], (&Encryption, Vec<Text>)> = BTreeMap::new();
    for (position, value) in values.iter().enumerate() {
        let Some(encryption) = stored(&value.form) else { continue };
        for text in texts_of(position, value, inputs)? {
            match inputs.entered.and_then(|entered| entered.take(encryption.id, &text.text)) {
                Some(name) => put_answer(found, (position, text.member), name)?,
                None => of_column.entry(encryption.id).or_insert((encryption, Vec::new())).1.push(text),
            }
        }
    }
    for (encryption, texts) in of_column.into_values() {
        let entered = texts.iter().map(|text| text.text.clone()).collect();
        let names = words_of(columns, encryption)?.enter(entered).await?;
        for (text, name) in texts.iter().zip(names) {
            put_answer(found, (text.position, text.member), name)?;
        }
    }
    Ok(())
}

/// The same of many rows: what [`enter`] then takes one by one. Rows from the first on that has a value which is none of its
/// column's are left to whoever computes them, and says so.
///
/// # Errors
/// The words cannot be entered.
pub(crate) async fn enter_rows(
    values: &[Value],
    rows: &[Inputs<'_>],
    columns: &dyn Columns,
) -> Result<Entered, SqlError> {
    let entered = Entered::default();
    if rows.len() < 2 || values.iter().all(|value| stored(&value.form).is_none()) {
        return Ok(entered);
    }
    let mut of_column: BTreeMap<[u8; 8], (&Encryption, Vec<String>)> = BTreeMap::new();
    'rows: for inputs in rows {
        for (position, value) in values.iter().enumerate() {
            let Some(encryption) = stored(&value.form) else { continue };
            let Ok(texts) = texts_of(position, value, *inputs) else { break 'rows };
            let list = &mut of_column.entry(encryption.id).or_insert((encryption, Vec::new())).1;
            list.extend(texts.into_iter().map(|text| text.text));
        }
    }
    for (column, (encryption, texts)) in of_column {
        let names = words_of(columns, encryption)?.enter(texts.clone()).await?;
        entered.add(column, texts, names);
    }
    Ok(entered)
}

/// Finds what a statement looks for.
pub(super) async fn find(
    values: &[Value],
    inputs: Inputs<'_>,
    columns: &dyn Columns,
    found: &mut [PhysicalValue],
) -> Result<(), SqlError> {
    for (value, place) in values.iter().zip(found) {
        let (encryption, written, which) = match &value.form {
            Form::Found(encryption, written, which) => (encryption, *written, Some(*which)),
            Form::FoundEmpty(encryption, written) => (encryption, *written, None),
            _ => continue,
        };
        let Some(query) = query_of(value, inputs)? else { continue };
        let words = words_of(columns, encryption)?;
        let answer = match which {
            Some(which) => words.find(&query, written, which).await.map(names_found),
            None => {
                words.finds_nothing_said(&query, written).map(|found| PhysicalValue::Text(found.to_string()))
            }
        };
        *place = answer.map_err(SqlError::from).map_err(|error| match value.source {
            Source::Constant(_) => error.at(inputs.text, value.at),
            _ => error,
        })?;
    }
    Ok(())
}

/// The names that a search found. NULL is not in an empty array, and whether it is in another is not known: there is always a name, if
/// one that no text has.
fn names_found(names: Vec<TextName>) -> PhysicalValue {
    let none: Option<TextName> = names.is_empty().then(rand::random);
    PhysicalValue::Array(names.into_iter().chain(none).map(|name| Some(name.to_vec())).collect())
}

/// The text of a query; none is NULL.
fn query_of(value: &Value, inputs: Inputs<'_>) -> Result<Option<String>, SqlError> {
    match &value.source {
        Source::Constant(text) => Ok(text.clone()),
        Source::Parameter(number) => {
            let given = argument(*number, inputs)?;
            if !TEXT_OIDS.contains(&given.oid) {
                let message = "a search for words is given as a text";
                return Err(SqlError::new(sqlstate::DATATYPE_MISMATCH, message));
            }
            let text = given.bytes.map(|bytes| std::str::from_utf8(bytes).map(str::to_owned));
            text.transpose().map_err(|_| {
                let message = "invalid byte sequence for encoding \"UTF8\"";
                SqlError::new(sqlstate::CHARACTER_NOT_IN_REPERTOIRE, message)
            })
        }
        Source::Constants(_) | Source::Read(_) | Source::Computed(_) | Source::Moment(_) => {
            Err(defect("a search for words is neither constant nor parameter"))
        }
    }
}
