//! Where a table's entries are in the engine.
//!
//! A commit writes at least one page for every table of the engine that it changes. Tables of few entries that most
//! commits change are therefore kept in one: a [`crate::Table`] named `group.name` is the part of the engine's table
//! `group.` whose keys begin with `name` and a zero byte.

use crate::{KeyRange, Table, prefix_range};
use redb::TableDefinition;
use std::borrow::Cow;
use std::ops::Bound;

/// Bounds of keys.
type OwnedRange = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The engine's table that holds a table's entries.
pub(super) fn definition(table: Table) -> TableDefinition<'static, &'static [u8], &'static [u8]> {
    TableDefinition::new(engine_name(table))
}

/// Name of the engine's table that holds a table's entries.
pub(super) fn engine_name(table: Table) -> &'static str {
    split(table).map_or(table.0, |(group, _)| group)
}

/// What the engine's keys of a table begin with.
pub(super) fn prefix(table: Table) -> Vec<u8> {
    split(table).map(|(_, name)| [name.as_bytes(), b"\0"].concat()).unwrap_or_default()
}

/// The name of a table's group, with the dot, and its own.
fn split(table: Table) -> Option<(&'static str, &'static str)> {
    let dot = table.0.find('.')?;
    table.0.split_at_checked(dot + 1)
}

/// The engine's key for a table's.
pub(super) fn key<'k>(prefix: &[u8], key: &'k [u8]) -> Cow<'k, [u8]> {
    if prefix.is_empty() { Cow::Borrowed(key) } else { Cow::Owned([prefix, key].concat()) }
}

/// The engine's range for a range of a table whose keys have a prefix there.
pub(super) fn range(prefix: &[u8], range: KeyRange<'_>) -> OwnedRange {
    let place = |bound: Bound<&[u8]>| bound.map(|name| key(prefix, name).into_owned());
    let (first, last) = (place(range.0), place(range.1));
    let whole = prefix_range(prefix);
    let or = |bound, otherwise| if matches!(bound, Bound::Unbounded) { otherwise } else { bound };
    (or(first, whole.0), or(last, whole.1))
}

/// True if the engine's table of this name holds several tables.
pub(super) fn is_group(name: &str) -> bool {
    name.ends_with('.')
}

/// Name of the table that the entry with `key` in the engine's table `name` belongs to.
pub(super) fn table_of<'n>(name: &'n str, key: &[u8]) -> Cow<'n, str> {
    if !is_group(name) {
        return Cow::Borrowed(name);
    }
    let part = key.split(|byte| *byte == 0).next().unwrap_or_default();
    Cow::Owned(format!("{name}{}", String::from_utf8_lossy(part)))
}
