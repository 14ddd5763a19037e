//! The one type that PostgreSQL reads the members of a list as: `c IN ('5.0', 7.5)`.

use super::constant::{Constant, Written};
use crate::column_type::ColumnType;
use crate::plan::Source;

/// Types of a family, each taken for what stands beside one before it.
const FAMILIES: [&[ColumnType]; 2] = [
    &[
        ColumnType::SmallInt,
        ColumnType::Integer,
        ColumnType::BigInt,
        ColumnType::Numeric(None),
        ColumnType::Real,
        ColumnType::DoublePrecision,
    ],
    &[ColumnType::Date, ColumnType::Timestamp(None), ColumnType::TimestampTz(None)],
];

/// The type that all of some types are taken for; none if they are of several families, or of none of these.
fn common(kinds: impl IntoIterator<Item = ColumnType>) -> Option<ColumnType> {
    let kinds: Vec<ColumnType> = kinds.into_iter().map(ColumnType::plain).collect();
    let first = kinds.first()?;
    let family = FAMILIES.iter().find(|family| family.contains(first))?;
    let place = |kind: &ColumnType| family.iter().position(|other| other == kind);
    let places: Option<Vec<usize>> = kinds.iter().map(place).collect();
    family.get(places?.into_iter().max()?).copied()
}

/// The members of a list, those that are of any type as values of the one that the others have, and what they are compared with if
/// that counts. One alone is compared by itself.
pub(super) fn of_one_type(beside: Option<ColumnType>, members: Vec<Constant>) -> Vec<Constant> {
    let is_known = |member: &Constant| !member.is_cast_elsewhere();
    if members.len() < 2 || !members.iter().all(is_known) {
        return members;
    }
    let kinds = members.iter().filter_map(Constant::kind);
    let Some(kind) = common(beside.into_iter().chain(kinds)) else { return members };
    if beside.map(ColumnType::plain) == Some(kind) {
        return members;
    }
    let is_open = |member: &Constant| {
        let has_value = matches!(member.source, Source::Constant(Some(_)) | Source::Parameter(_));
        has_value && member.cast.is_none() && member.written == Written::Any
    };
    let cast = |member: Constant| match is_open(&member) {
        true => member.clone().cast_to(kind.name()).unwrap_or(member),
        false => member,
    };
    members.into_iter().map(cast).collect()
}
