//! Values on their way to the database and back: computed from what a client binds, opened from what a row holds.

mod ahead;
mod arithmetic;
mod compared;
mod default;
mod derived;
mod folding;
mod given;
mod session_keys;
mod stored;
#[cfg(test)]
mod tests;
mod words;

use crate::catalog::Encryption;
use crate::codec::Datum;
use crate::column_type::ColumnType;
use crate::error::{SqlError, sqlstate};
use crate::moment::Began;
use crate::plan::{Fold, Form, Gap, Output, PhysicalValue, Side, Source, Value};
pub(crate) use ahead::enter;
pub(crate) use arithmetic::{kind_of, kind_of_digits, sign};
use arras_service::columns::{Columns, OrderEncoder, OrderTerms, Place};
pub(crate) use compared::is_finer;
use compared::{Standing, compared_key, equality_bytes, equality_members, order_standing};
pub(crate) use default::{MOMENT, open_default};
pub(crate) use derived::{check_constant, common_kind, common_time, constant_value, kind_of_operator};
pub(crate) use folding::Folding;
use given::{given, given_members};
pub use session_keys::{ConnectionId, ConnectionKeys, Viewer};
use std::collections::BTreeMap;
use std::sync::Arc;
pub(crate) use stored::stored_terms;
pub(crate) use words::{Entered, enter_rows};

/// What the function of a bound is given first: below all labels.
const BOUND_BELOW_ALL: u8 = 0;
/// Above all labels.
const BOUND_ABOVE_ALL: u8 = 1;
/// The label of the ciphertext that follows.
const BOUND_AT: u8 = 2;
/// Just below the label of the ciphertext that follows.
const BOUND_BEFORE: u8 = 3;
/// Just above the label of the ciphertext that follows.
const BOUND_AFTER: u8 = 4;
/// Added to one of the last three: a label that was learned, and its epoch, come before the ciphertext.
const BOUND_LEARNED: u8 = 16;
/// Added to any, and to what is then 18 or more: the epoch must be the one that the statement sees.
const BOUND_OF_EPOCH: u8 = 32;

/// A parameter that a client bound.
#[derive(Clone, Copy)]
pub struct Argument<'a> {
    /// Number of the type that the client declared; 0 if it left that open.
    pub oid: u32,
    /// Is it in binary?
    pub binary: bool,
    /// The value; none is NULL.
    pub bytes: Option<&'a [u8]>,
}

/// What values are computed from.
#[derive(Clone, Copy, Default)]
pub struct Inputs<'a> {
    /// The client's text, for the places of errors.
    pub text: &'a str,
    /// The client's parameters.
    pub arguments: &'a [Argument<'a>],
    /// Columns of the row that a program has read, as text; of an encrypted column, opened.
    pub read: &'a [Option<String>],
    /// What a program has computed, as text.
    pub computed: &'a [Option<String>],
    /// Texts whose words were entered already.
    pub(crate) entered: Option<&'a Entered>,
    /// Whom it is for.
    pub asker: Asker,
}

/// What of a session matters to its values.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asker {
    /// The database's process.
    pub process: Option<i32>,
    /// May its transactions see the database as it was when they began? Then ciphertexts carry the labels that they have now.
    pub sees_the_past: bool,
    /// What its values for results are sealed to, and its time zone.
    pub viewer: Viewer,
    /// When its transaction and the statement began.
    pub began: Began,
}

/// A value whose ciphertext in its column's order is asked for.
struct Asked<'v> {
    position: usize,
    /// Its place among the members of an array.
    member: Option<usize>,
    encryption: &'v Arc<Encryption>,
    key: Vec<u8>,
    /// Where the value stands: at the key, above it and below the next, beyond all.
    standing: Standing<()>,
    /// None: it is stored. Else: it is compared with.
    side: Option<(Side, Gap)>,
}

/// Computes a statement's values, in their order. All that are asked of one column's order are asked together.
///
/// # Errors
/// A parameter is missing, or no value of its column's type; the database cannot be asked.
pub async fn compute(
    values: &[Value],
    inputs: Inputs<'_>,
    columns: &dyn Columns,
) -> Result<Vec<PhysicalValue>, SqlError> {
    let mut found = Vec::with_capacity(values.len());
    let mut asked = Vec::new();
    for (position, value) in values.iter().enumerate() {
        // Only of a constant PostgreSQL says where it is.
        let placed = |error: SqlError| match value.source {
            Source::Constant(_) | Source::Constants(_) => error.at(inputs.text, value.at),
            Source::Parameter(_) | Source::Read(_) | Source::Computed(_) | Source::Moment(_) => error,
        };
        found.push(local(value, inputs, columns).map_err(placed)?);
        asked.extend(asked_of(position, value, inputs).map_err(placed)?);
    }
    let mut of_column: BTreeMap<([u8; 8], bool), Vec<Asked<'_>>> = BTreeMap::new();
    for one in asked {
        of_column.entry((one.encryption.id, one.side.is_some())).or_default().push(one);
    }
    for ((column, compared), list) in of_column {
        let label = list.first().map_or("", |one| one.encryption.label.as_str());
        let missing =
            || SqlError::new(sqlstate::INTERNAL_ERROR, format!("column {label} has no encoder of its order"));
        let encoder = columns.encoder(column).ok_or_else(missing)?;
        let keys: Vec<Vec<u8>> = list.iter().map(|one| one.key.clone()).collect();
        let asker = inputs.asker;
        let mut answers: Vec<(Option<u8>, Vec<u8>)> = if compared {
            let places = encoder.places(&keys).await?;
            let bound = |(one, place): (&Asked<'_>, Place)| {
                let (side, gap) = one.side.unwrap_or((Side::Equal, Gap::Outside));
                match one.standing {
                    Standing::At(()) => bound(place, side, gap),
                    Standing::Above(()) => bound_above(place, side, gap),
                    Standing::BelowAll => (BOUND_BELOW_ALL, Vec::new()),
                    Standing::AboveAll => (BOUND_ABOVE_ALL, Vec::new()),
                }
            };
            list.iter().zip(places).map(bound).map(|(kind, ciphertext)| (Some(kind), ciphertext)).collect()
        } else {
            let stored = encoder.encode(&keys, asker.process).await?;
            stored.into_iter().map(|ciphertext| (None, ciphertext)).collect()
        };
        if asker.sees_the_past {
            carry_labels(&*encoder, &mut answers).await?;
        }
        let answers =
            answers.into_iter().map(|(kind, rest)| kind.into_iter().chain(rest).collect::<Vec<u8>>());
        if answers.len() != list.len() {
            return Err(SqlError::new(
                sqlstate::INTERNAL_ERROR,
                format!("column {label}: not every value was answered"),
            ));
        }
        for (one, answer) in list.iter().zip(answers) {
            put_answer(&mut found, (one.position, one.member), answer)?;
        }
    }
    // A statement may look for what it stores.
    words::enter(values, inputs, columns, &mut found).await?;
    words::find(values, inputs, columns, &mut found).await?;
    Ok(found)
}

/// What is asked of the order of a value's column; nothing where its terms are ciphertexts.
fn asked_of<'v>(position: usize, value: &'v Value, inputs: Inputs<'_>) -> Result<Vec<Asked<'v>>, SqlError> {
    let (encryption, side) = match &value.form {
        Form::Order(encryption) | Form::Bound(encryption, ..) | Form::OrderArray(encryption)
            if encryption.order_is_ciphertext() =>
        {
            return Ok(Vec::new());
        }
        Form::Order(encryption) => (encryption, None),
        Form::Bound(encryption, side, gap) => (encryption, Some((*side, *gap))),
        Form::OrderArray(encryption) => {
            let members = given_members(value, encryption, inputs)?.unwrap_or_default();
            let one = |(member, datum): (usize, Option<Datum>)| {
                let key = datum?.storable(encryption).and_then(|datum| datum.order_key(encryption));
                let standing = Standing::At(());
                Some(key.map(|key| Asked {
                    position,
                    member: Some(member),
                    encryption,
                    key,
                    standing,
                    side: None,
                }))
            };
            return members.into_iter().enumerate().filter_map(one).collect();
        }
        Form::Plain
        | Form::Presence
        | Form::Sealed(_)
        | Form::Default(_)
        | Form::SealedArray(_)
        | Form::Equality(_)
        | Form::EqualTo(_)
        | Form::EqualityArray(_)
        | Form::EqualToArray(_)
        | Form::Text(_)
        | Form::TextArray(_)
        | Form::Found(..)
        | Form::FoundEmpty(..) => {
            return Ok(Vec::new());
        }
    };
    let stored = || {
        let Some(datum) = given(value, encryption, inputs)? else { return Ok(None) };
        datum.storable(encryption)?.order_key(encryption).map(|key| Some(Standing::At(key)))
    };
    let found = if side.is_some() { order_standing(value, encryption, inputs) } else { stored() };
    let Some(found) = found? else { return Ok(Vec::new()) };
    let (key, standing) = found.of_key(encryption)?;
    Ok(vec![Asked { position, member: None, encryption, key, standing, side }])
}

/// Puts what was answered in the place of what was asked for.
fn put_answer(
    found: &mut [PhysicalValue],
    (position, member): (usize, Option<usize>),
    answer: Vec<u8>,
) -> Result<(), SqlError> {
    match (found.get_mut(position), member) {
        (Some(PhysicalValue::Array(members)), Some(member)) => {
            if let Some(place) = members.get_mut(member) {
                *place = Some(answer);
            }
        }
        (Some(place), None) => *place = PhysicalValue::Bytes(answer),
        (Some(_) | None, _) => return Err(defect("a term was asked for what has none")),
    }
    Ok(())
}

/// Puts the label that each ciphertext has now beside it. Where keys leave, a statement that sees the past may see rows of one
/// that has left since: what it compares with is then good at its own time only.
async fn carry_labels(
    encoder: &dyn OrderEncoder,
    answers: &mut [(Option<u8>, Vec<u8>)],
) -> Result<(), SqlError> {
    let ciphertexts: Vec<Vec<u8>> = answers.iter().map(|(_, ciphertext)| ciphertext.clone()).collect();
    let learned = encoder.learned(&ciphertexts).await?;
    for ((kind, rest), label) in answers.iter_mut().zip(learned.labels) {
        match (kind, label) {
            // The end of all labels has none of its own.
            (Some(kind), _) if rest.is_empty() => {
                debug_assert!(*kind <= BOUND_ABOVE_ALL);
                if learned.keys_leave {
                    *kind += BOUND_LEARNED + BOUND_OF_EPOCH;
                    rest.extend([[0; 8], learned.epoch].concat());
                }
            }
            (Some(kind), Some(label)) => {
                *kind += BOUND_LEARNED + if learned.keys_leave { BOUND_OF_EPOCH } else { 0 };
                rest.splice(..0, [label, learned.epoch].concat());
            }
            (None, Some(label)) => rest.extend([label, learned.epoch].concat()),
            (Some(_), None) if learned.keys_leave => {
                let message = "could not serialize access: a value of the order has gone meanwhile";
                return Err(SqlError::new(sqlstate::SERIALIZATION_FAILURE, message));
            }
            (_, None) => {}
        }
    }
    Ok(())
}

/// What the database compares labels with, by where a value stands: how it is meant, and the ciphertext.
fn bound(place: Place, side: Side, gap: Gap) -> (u8, Vec<u8>) {
    let Place { exact, among, below, above } = place;
    if let Some(exact) = exact {
        return (BOUND_AT, exact);
    }
    let (first, last) = among.unzip();
    let beside = |key: Option<Vec<u8>>, kind, none| key.map_or((none, Vec::new()), |key| (kind, key));
    match (side, gap) {
        (Side::Less, Gap::Outside) => beside(below, BOUND_AFTER, BOUND_BELOW_ALL),
        (Side::Less, Gap::Inside) => beside(first.or(above), BOUND_AT, BOUND_ABOVE_ALL),
        (Side::LessOrEqual, Gap::Outside) => beside(last.or(below), BOUND_AT, BOUND_BELOW_ALL),
        (Side::LessOrEqual, Gap::Inside) => beside(above, BOUND_BEFORE, BOUND_ABOVE_ALL),
        (Side::Greater, Gap::Outside) => beside(above, BOUND_BEFORE, BOUND_ABOVE_ALL),
        (Side::Greater, Gap::Inside) => beside(last.or(below), BOUND_AT, BOUND_BELOW_ALL),
        (Side::GreaterOrEqual, Gap::Outside) => beside(first.or(above), BOUND_AT, BOUND_ABOVE_ALL),
        (Side::GreaterOrEqual, Gap::Inside) => beside(below, BOUND_AFTER, BOUND_BELOW_ALL),
        // No label is that of what is not stored.
        (Side::Equal, _) => (BOUND_BELOW_ALL, Vec::new()),
    }
}

/// The same for a value between that of the place and the next. No other is stored between the two, so what is just above the
/// label of the first is right for all sides.
fn bound_above(place: Place, side: Side, gap: Gap) -> (u8, Vec<u8>) {
    let Place { exact, among, below, above } = place;
    match exact.or(among.map(|(_, last)| last)) {
        Some(last) => (BOUND_AFTER, last),
        None => bound(Place { exact: None, among: None, below, above }, side, gap),
    }
}

/// What makes a column's terms of order, where they are ciphertexts.
fn order_terms(columns: &dyn Columns, of: &Encryption) -> Result<Arc<dyn OrderTerms>, SqlError> {
    let missing = || {
        SqlError::new(
            sqlstate::INTERNAL_ERROR,
            format!("the proxy has no keys of column {}'s order", of.label),
        )
    };
    columns.order_terms(of.id).ok_or_else(missing)
}

/// A value as far as it is computed without asking the database.
fn local(value: &Value, inputs: Inputs<'_>, columns: &dyn Columns) -> Result<PhysicalValue, SqlError> {
    let bytes = |encryption: &Arc<Encryption>, make: &dyn Fn(Datum) -> Result<Vec<u8>, SqlError>| {
        Ok(match given(value, encryption, inputs)? {
            None => PhysicalValue::Null,
            Some(datum) => PhysicalValue::Bytes(make(datum)?),
        })
    };
    let keys = ConnectionKeys::new(columns, inputs.asker.viewer);
    let term = |encryption: &Encryption, canonical: &[u8]| keys.equality(encryption, canonical);
    match &value.form {
        Form::Plain => Ok(match &value.source {
            Source::Parameter(number) => PhysicalValue::Client(*number),
            Source::Constant(text) => text.clone().map_or(PhysicalValue::Null, PhysicalValue::Text),
            Source::Read(position) => plain(inputs.read, *position)?,
            Source::Computed(position) => plain(inputs.computed, *position)?,
            Source::Constants(_) => return Err(defect("an array stands where a plain value does")),
            Source::Moment(_) => return Err(defect("the database computes moments of plain values")),
        }),
        Form::Presence => presence(value, inputs),
        Form::Sealed(encryption) => {
            bytes(encryption, &|datum| keys.seal(encryption, &datum.storable(encryption)?.stored()))
        }
        Form::Default(encryption) => default::sealed(value, encryption, keys),
        Form::Equality(encryption) => {
            bytes(encryption, &|datum| term(encryption, &datum.storable(encryption)?.canonical()))
        }
        Form::EqualTo(encryption) => Ok(match equality_bytes(value, encryption, inputs)? {
            None => PhysicalValue::Null,
            Some(bytes) => PhysicalValue::Bytes(term(encryption, &bytes)?),
        }),
        Form::SealedArray(encryption) => array(value, encryption, inputs, &|datum| {
            keys.seal(encryption, &datum.storable(encryption)?.stored()).map(Some)
        }),
        Form::EqualityArray(encryption) => array(value, encryption, inputs, &|datum| {
            term(encryption, &datum.storable(encryption)?.canonical()).map(Some)
        }),
        Form::EqualToArray(encryption) => {
            let members = equality_members(value, encryption, inputs)?;
            each(members, &|bytes| term(encryption, &bytes).map(Some))
        }
        Form::OrderArray(encryption) if encryption.order_is_ciphertext() => {
            array(value, encryption, inputs, &|datum| {
                let key = datum.storable(encryption)?.order_key(encryption)?;
                Ok(Some(order_terms(columns, encryption)?.stored(&key)?))
            })
        }
        Form::Order(encryption) if encryption.order_is_ciphertext() => bytes(encryption, &|datum| {
            let key = datum.storable(encryption)?.order_key(encryption)?;
            Ok(order_terms(columns, encryption)?.stored(&key)?)
        }),
        Form::Bound(encryption, side, _) if encryption.order_is_ciphertext() => {
            Ok(match order_standing(value, encryption, inputs)? {
                None => PhysicalValue::Null,
                Some(standing) => {
                    let key = compared_key(standing, *side, encryption)?;
                    PhysicalValue::Bytes(order_terms(columns, encryption)?.compared(&key)?)
                }
            })
        }
        Form::OrderArray(encryption) | Form::TextArray(encryption) => {
            array(value, encryption, inputs, &|_| Ok(None))
        }
        // What is not NULL is asked for.
        Form::Order(_) | Form::Bound(..) | Form::Text(_) | Form::Found(..) | Form::FoundEmpty(..) => {
            Ok(PhysicalValue::Null)
        }
    }
}

/// True, or NULL if the value is.
fn presence(value: &Value, inputs: Inputs<'_>) -> Result<PhysicalValue, SqlError> {
    let is_null = match &value.source {
        Source::Parameter(number) => argument(*number, inputs)?.bytes.is_none(),
        source => *source == Source::Constant(None),
    };
    Ok(if is_null { PhysicalValue::Null } else { PhysicalValue::Text("true".into()) })
}

/// What is made of each member of an array; NULL stays NULL.
fn array(
    value: &Value,
    encryption: &Encryption,
    inputs: Inputs<'_>,
    make: &dyn Fn(Datum) -> Result<Option<Vec<u8>>, SqlError>,
) -> Result<PhysicalValue, SqlError> {
    each(given_members(value, encryption, inputs)?, make)
}

/// The same of members that are read already.
fn each<T>(
    members: Option<Vec<Option<T>>>,
    make: &dyn Fn(T) -> Result<Option<Vec<u8>>, SqlError>,
) -> Result<PhysicalValue, SqlError> {
    let Some(members) = members else { return Ok(PhysicalValue::Null) };
    let made = members.into_iter().map(|member| member.map_or(Ok(None), make));
    made.collect::<Result<_, SqlError>>().map(PhysicalValue::Array)
}

fn defect(what: &str) -> SqlError {
    SqlError::new(sqlstate::INTERNAL_ERROR, what)
}

fn plain(row: &[Option<String>], position: usize) -> Result<PhysicalValue, SqlError> {
    let value = row.get(position).ok_or_else(|| defect("a row has fewer columns than were read"))?;
    Ok(value.clone().map_or(PhysicalValue::Null, PhysicalValue::Text))
}

fn argument<'a>(number: u16, inputs: Inputs<'a>) -> Result<Argument<'a>, SqlError> {
    let found = usize::from(number).checked_sub(1).and_then(|position| inputs.arguments.get(position));
    found.copied().ok_or_else(|| {
        SqlError::new(sqlstate::UNDEFINED_PARAMETER, format!("there is no parameter ${number}"))
    })
}

/// What a `RowDescription` says of a column that the proxy opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Number of the type.
    pub oid: u32,
    /// Bytes, or -1 where it differs.
    pub length: i16,
    /// Type modifier; -1 for none.
    pub modifier: i32,
}

impl Output {
    /// What a client is told of the column; none if that is what the server says.
    #[must_use]
    pub fn shown(&self) -> Option<Shown> {
        let shown =
            |kind: ColumnType| Shown { oid: kind.oid(), length: kind.length(), modifier: kind.modifier() };
        match self {
            Self::Plain | Self::PlainRest => None,
            Self::Sealed(encryption) => Some(shown(encryption.kind)),
            Self::Fold(fold, encryption) => Some(shown(fold.kind(encryption.kind))),
            Self::Derived(summed) => Some(shown(summed.kind)),
        }
    }

    /// Opens a value of the column for the client; none is NULL. `raw` is what the server sent, in binary or text.
    ///
    /// # Errors
    /// It was not sealed for this column, or is no `bytea` at all; a sum leaves its type.
    pub fn open(
        &self,
        raw: Option<&[u8]>,
        raw_is_binary: bool,
        binary: bool,
        keys: ConnectionKeys<'_>,
    ) -> Result<Option<Vec<u8>>, SqlError> {
        let written = |value: &Datum, kind: ColumnType| {
            if binary { value.to_binary(kind) } else { value.to_text_in(kind, keys.zone()).into_bytes() }
        };
        if let Some(mut folding) = Folding::of(self, raw_is_binary) {
            let found = match raw {
                None => folding.end_of_nothing(keys.zone())?,
                Some(raw) => {
                    folding.read(raw, keys)?;
                    folding.end(keys.zone())?
                }
            };
            return Ok(found.map(|(value, kind)| written(&value, kind)));
        }
        let Some(raw) = raw else { return Ok(None) };
        match self {
            Self::Plain | Self::PlainRest | Self::Fold(..) | Self::Derived(_) => Ok(Some(raw.to_vec())),
            Self::Sealed(encryption) => {
                let sealed = bytea(raw, raw_is_binary).ok_or_else(|| not_sealed(encryption))?;
                Ok(Some(written(&opened(&sealed, encryption, keys)?, encryption.kind)))
            }
        }
    }
}

fn not_sealed(encryption: &Encryption) -> SqlError {
    SqlError::new(
        sqlstate::DATA_CORRUPTED,
        format!("column {} holds what was not sealed for it", encryption.label),
    )
}

fn opened(sealed: &[u8], encryption: &Encryption, keys: ConnectionKeys<'_>) -> Result<Datum, SqlError> {
    let stored = keys.open(encryption, sealed)?.map_err(|_| {
        not_sealed(encryption).hint("Was the column encrypted under another key, or its ciphertext changed?")
    })?;
    Datum::from_stored(encryption.kind, &stored)
}

fn bytea(raw: &[u8], binary: bool) -> Option<Vec<u8>> {
    if binary {
        return Some(raw.to_vec());
    }
    match Datum::from_text(ColumnType::Bytea, std::str::from_utf8(raw).ok()?).ok()? {
        Datum::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

impl Fold {
    /// The type of what values of a type are folded into, as PostgreSQL's.
    #[must_use]
    pub fn kind(self, kind: ColumnType) -> ColumnType {
        match (self, kind) {
            (Self::Sum, ColumnType::SmallInt | ColumnType::Integer) => ColumnType::BigInt,
            (Self::Sum, ColumnType::Real) => ColumnType::Real,
            (_, ColumnType::Real | ColumnType::DoublePrecision) => ColumnType::DoublePrecision,
            _ => ColumnType::Numeric(None),
        }
    }
}
