//! Bulk load at the right edge of the tree: pages are filled to the brim, each is written once.

use super::insert::check;
use super::page::damaged;
use super::tie::Among;
use super::tree::{Path, Tree};
use arras_protocol::Refusal;
use arras_protocol::bplus::NewEntry;
use arras_storage::Write;
use std::cmp::Ordering;
use std::ops::DerefMut;

/// Appends entries, each greater than all before.
pub(super) fn apply<T: DerefMut<Target: Write>>(
    tree: &mut Tree<T>,
    entries: &[NewEntry],
) -> Result<(), Refusal> {
    if entries.is_empty() {
        return Ok(());
    }
    let mut path = tree.seek(|_, _| Ok(true))?;
    for entry in entries {
        let among = check(tree, entry)?;
        ascends(tree, &path, entry, &among)?;
        let record = [entry.stored.as_slice(), entry.sealed.as_bytes()].concat();
        append(tree, &mut path, &record)?;
    }
    for step in &path.0 {
        tree.put(step.number, &step.page)?;
    }
    balance(tree)
}

/// The entry must be greater than the last one.
fn ascends<T>(tree: &Tree<T>, path: &Path, entry: &NewEntry, among: &Among) -> Result<(), Refusal> {
    let page = &path.leaf()?.page;
    let Some(last) = page.count().checked_sub(1) else { return Ok(()) };
    let (stored, name) = page.entry(last)?;
    let order = tree.layout.compare(entry.query.as_slice(), stored)?;
    match order.then_with(|| among.compare(name)) {
        Ordering::Greater => Ok(()),
        _ => super::malformed("a load that does not ascend"),
    }
}

/// Appends a record at the end of the path, starting new pages where the old are full.
fn append<T: DerefMut<Target: Write>>(
    tree: &mut Tree<T>,
    path: &mut Path,
    record: &[u8],
) -> Result<(), Refusal> {
    let full =
        path.0.iter().rev().take_while(|step| step.page.count() >= tree.layout.most(step.page.level()));
    let full = full.count();
    if full == path.0.len() {
        // All are full: a root above. Its first child is the old root.
        let level = tree.header.level.saturating_add(1);
        let empty = tree.layout.inner(level, tree.header.root);
        tree.raise(&empty, path)?;
    }
    // The step above the full pages takes a separator; below it a new page of each level starts.
    let above = path.0.len() - 1 - full;
    if full > 0 {
        let mut child = None;
        let mut started = Vec::new();
        for level in 0..full {
            let level = u8::try_from(level).unwrap_or(u8::MAX);
            let page = match child {
                None => tree.layout.empty_leaf(),
                Some(child) => tree.layout.inner(level, child),
            };
            let number = tree.add(&page)?;
            child = Some(number);
            started.push((number, page));
        }
        for step in path.0.drain(above + 1..) {
            tree.put(step.number, &step.page)?;
        }
        let Some((step, child)) = path.0.last_mut().zip(child) else {
            return damaged("a path without a page");
        };
        step.page.insert_child(step.page.count(), record, child);
        step.position = step.page.count();
        path.0.extend(started.into_iter().rev().map(|(number, page)| super::tree::Step {
            number,
            page,
            position: 0,
        }));
    }
    match path.0.last_mut() {
        Some(leaf) => {
            leaf.page.insert(leaf.page.count(), record);
            Ok(())
        }
        None => damaged("a path without a page"),
    }
}

/// Fills the pages on the right edge up, which may be less than half full, from their left siblings, from the root
/// down.
fn balance<T: DerefMut<Target: Write>>(tree: &mut Tree<T>) -> Result<(), Refusal> {
    let path = tree.seek(|_, _| Ok(true))?;
    let mut steps = path.0.into_iter();
    let Some(mut parent) = steps.next() else {
        return damaged("a path without a page");
    };
    for step in steps {
        let (level, count) = (step.page.level(), step.page.count());
        let fewest = tree.layout.fewest(level);
        let mut page = step.page;
        if count < fewest {
            let Some(at) = parent.page.count().checked_sub(1) else {
                return damaged("an inner page without separators");
            };
            let number = parent.page.child(at)?;
            let mut left = tree.page(number, level)?;
            let separator = parent.page.whole_entry(at)?;
            // The left sibling is full: it gives half of what both have.
            left.merge(&separator, &page)?;
            let (separator, right) = left.split(left.count() / 2)?;
            tree.put(number, &left)?;
            tree.put(step.number, &right)?;
            parent.page.set_entry(at, &separator)?;
            tree.put(parent.number, &parent.page)?;
            page = right;
        }
        parent = super::tree::Step { number: step.number, position: page.count(), page };
    }
    Ok(())
}
