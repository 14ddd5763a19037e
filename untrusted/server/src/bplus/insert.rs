//! Insertion: into the leaf, and splits upwards.

use super::tie::Among;
use super::tree::{Path, Tree};
use arras_protocol::bplus::{NewEntry, SealedEntry};
use arras_protocol::{Blob, Refusal};
use arras_storage::{Read, Write};
use std::cmp::Ordering;
use std::ops::{Deref, DerefMut};

/// Inserts entries; those that are there stay.
pub(super) fn apply<T: DerefMut<Target: Write>>(
    tree: &mut Tree<T>,
    entries: &[NewEntry],
) -> Result<(), Refusal> {
    for entry in entries {
        let among = check(tree, entry)?;
        let (path, there) = place(tree, &entry.query, entry.sealed, &among)?;
        if !there {
            put(tree, path, &[entry.stored.as_slice(), entry.sealed.as_bytes()].concat())?;
        }
    }
    Ok(())
}

/// Checks a new entry's lengths; its place among those of its value.
pub(super) fn check<T>(tree: &Tree<T>, entry: &NewEntry) -> Result<Among, Refusal> {
    let scheme = tree.layout.scheme;
    if scheme.stored_bytes() != Some(entry.stored.len()) || scheme.query_bytes() != Some(entry.query.len()) {
        return super::malformed("a ciphertext that is not of the scheme");
    }
    Among::new(tree, entry.sealed, entry.tie)
}

/// Walks to the place just after the entry of this value and name; true if it is there.
pub(super) fn place<T: Deref<Target: Read>>(
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

/// Puts a record in at the place a path leads to.
pub(super) fn put<T: DerefMut<Target: Write>>(
    tree: &mut Tree<T>,
    path: Path,
    record: &[u8],
) -> Result<(), Refusal> {
    let mut steps = path.0.into_iter().rev();
    let Some(mut leaf) = steps.next() else {
        return super::page::damaged("a path without a page");
    };
    leaf.page.insert(leaf.position, record);
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
            None => return tree.grow(&separator, right),
        }
    }
    tree.put(step.number, &step.page)
}
