//! Insertion: into the leaf, and splits upwards.

use super::search::find_entry;
use super::tie::Among;
use super::tree::{Path, Tree};
use arras_protocol::bplus::{Bound, NewEntry, SealedEntry};
use arras_protocol::{Blob, Refusal};
use arras_storage::{Read, Write};
use std::cmp::Ordering;

/// Inserts entries; positions of those that were there.
pub(super) fn apply<T: Write>(tree: &mut Tree<T>, entries: &[NewEntry]) -> Result<Vec<u32>, Refusal> {
    let mut present = Vec::new();
    for (position, entry) in (0..).zip(entries) {
        if !insert(tree, entry)? {
            present.push(position);
        }
    }
    Ok(present)
}

/// Checks a new entry's lengths; its place among those of its value.
pub(super) fn check<T>(tree: &Tree<T>, entry: &NewEntry) -> Result<Among, Refusal> {
    let scheme = tree.layout.scheme;
    if scheme.stored_bytes() != Some(entry.stored.len()) || scheme.query_bytes() != Some(entry.query.len()) {
        return super::malformed("a ciphertext that is not of the scheme");
    }
    if entry.equals.is_some() != scheme.hides_equality() {
        return super::malformed(
            "bounds of the value's entries are for schemes that hide equality, and for all of them",
        );
    }
    Among::new(tree, entry.sealed, entry.tie)
}

/// A bound at a query ciphertext.
pub(super) fn bound(query: &Blob) -> Bound {
    Bound { query: query.clone(), after: None }
}

/// Walks to the place just after the entry of this value and name; true if it is there.
pub(super) fn place<T: Read>(
    tree: &Tree<T>,
    query: &Blob,
    sealed: SealedEntry,
    among: &Among,
) -> Result<(Path, bool), Refusal> {
    let path = tree.seek(|stored, other| {
        let order = tree.layout.compare(query.as_slice(), stored)?;
        Ok(order.then_with(|| among.compare(other)) != Ordering::Less)
    })?;
    let leaf = path.leaf()?;
    let there = match leaf.position.checked_sub(1) {
        Some(before) => {
            let (stored, other) = leaf.page.entry(before)?;
            other == sealed.as_bytes() && tree.layout.compare(query.as_slice(), stored)? == Ordering::Equal
        }
        None => false,
    };
    Ok((path, there))
}

/// Inserts an entry; false if it was there.
fn insert<T: Write>(tree: &mut Tree<T>, entry: &NewEntry) -> Result<bool, Refusal> {
    let among = check(tree, entry)?;
    if let Some((lower, upper)) = &entry.equals
        // Where the new ciphertext is the only one of its value, nothing equal is stored.
        && !(lower == upper && *lower == entry.query)
        && find_entry(tree, (&bound(lower), &bound(upper)), &entry.sealed)?.is_some()
    {
        return Ok(false);
    }
    let (path, there) = place(tree, &entry.query, entry.sealed, &among)?;
    if there {
        return Ok(false);
    }
    let record = [entry.stored.as_slice(), entry.sealed.as_bytes()].concat();
    let mut steps = path.0.into_iter().rev();
    let Some(mut leaf) = steps.next() else {
        return super::page::damaged("a path without a page");
    };
    leaf.page.insert(leaf.position, &record);
    let mut step = leaf;
    // A page over its layout's most is split; what separates the halves goes up.
    while step.page.count() > tree.layout.most(step.page.level()) {
        let (separator, right) = step.page.split(step.page.count() / 2)?;
        tree.put(step.number, &step.page)?;
        let right = tree.add(&right)?;
        match steps.next() {
            Some(parent) => {
                step = parent;
                step.page.insert_child(step.position, &separator, right);
            }
            None => return tree.grow(&separator, right).map(|()| true),
        }
    }
    tree.put(step.number, &step.page)?;
    Ok(true)
}
