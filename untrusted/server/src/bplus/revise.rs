//! Revisions: changes of an index whose ciphertexts are its client's state, each from one version to another.

use super::insert::put;
use super::remove::take;
use super::replace;
use super::search::find_entry;
use super::tree::{Path, Tree};
use super::{check_count, malformed};
use arras_protocol::bplus::{Bound, Placed, Revision, Wanted};
use arras_protocol::{Blob, Refusal};
use arras_storage::{Read, Write};
use std::cmp::Ordering;
use std::ops::{Deref, DerefMut};

/// A request must be of the index's version.
pub(super) fn check_version<T>(tree: &Tree<T>, version: u64) -> Result<(), Refusal> {
    match tree.header.version {
        now if now == version => Ok(()),
        version => Err(Refusal::OtherVersion { version }),
    }
}

/// Takes the index to its next version.
pub(super) fn apply<T: DerefMut<Target: Write>>(
    tree: &mut Tree<T>,
    revision: &Revision,
) -> Result<(), Refusal> {
    if !tree.layout.scheme.hides_equality() {
        return malformed("revisions are for schemes whose ciphertexts the client keeps");
    }
    check_version(tree, revision.from)?;
    if revision.to <= revision.from {
        return malformed("a version that does not rise");
    }
    check_count(revision.removed.len().max(revision.inserted.len()))?;
    replace::apply(tree, revision.moves.as_slice())?;
    for entry in &revision.removed {
        match place(tree, entry)? {
            (mut path, Some(name)) if name == *entry.sealed.as_bytes() => {
                if let Some(leaf) = path.0.last_mut() {
                    leaf.position = leaf.position.saturating_sub(1);
                }
                take(tree, path)?;
            }
            _ => return malformed("the removal of an entry that is not there"),
        }
    }
    for entry in &revision.inserted {
        match place(tree, entry)? {
            (path, None) => put(tree, path, &[entry.stored.as_slice(), entry.sealed.as_bytes()].concat())?,
            (_, Some(_)) => return malformed("a ciphertext that another entry has"),
        }
    }
    tree.header.version = revision.to;
    Ok(())
}

/// Walks to the place just after a ciphertext; the name of the entry that has it.
fn place<T: Deref<Target: Read>>(tree: &Tree<T>, entry: &Placed) -> Result<(Path, Option<Vec<u8>>), Refusal> {
    let ciphertext = entry.stored.as_slice();
    if tree.layout.scheme.stored_bytes() != Some(ciphertext.len()) {
        return malformed("a ciphertext that is not of the scheme");
    }
    let path = tree.seek(|stored, _| Ok(tree.layout.compare(ciphertext, stored)? != Ordering::Less))?;
    let leaf = path.leaf()?;
    let name = match leaf.position.checked_sub(1) {
        Some(before) => {
            let (stored, name) = leaf.page.entry(before)?;
            (stored == ciphertext).then(|| name.to_vec())
        }
        None => None,
    };
    Ok((path, name))
}

/// A bound at a query ciphertext.
fn bound(query: &Blob) -> Bound {
    Bound { query: query.clone(), after: None }
}

/// The stored ciphertexts of entries, each looked for between the ends of its value.
pub(super) fn locate<T: Deref<Target: Read>>(
    tree: &Tree<T>,
    wanted: &[Wanted],
) -> Result<Vec<Option<Blob>>, Refusal> {
    if !tree.layout.scheme.hides_equality() {
        return malformed("entries are located for schemes whose ciphertexts the client keeps");
    }
    check_count(wanted.len())?;
    let locate = |wanted: &Wanted| {
        let (lower, upper) = (bound(&wanted.lower), bound(&wanted.upper));
        let Some(path) = find_entry(tree, (&lower, &upper), &wanted.sealed)? else { return Ok(None) };
        let leaf = path.leaf()?;
        leaf.page.entry(leaf.position).map(|(stored, _)| Some(Blob(stored.to_vec())))
    };
    wanted.iter().map(locate).collect()
}
