//! Removal: from the leaf; a page that is less than half full borrows from a sibling or merges with it.

use super::insert::place;
use super::page::{Page, damaged};
use super::tie::Among;
use super::tree::{Path, Step, Tree};
use arras_protocol::Refusal;
use arras_protocol::bplus::Target;
use arras_storage::Write;
use std::ops::DerefMut;

/// Takes entries out.
pub(super) fn apply<T: DerefMut<Target: Write>>(
    tree: &mut Tree<T>,
    targets: &[Target],
) -> Result<(), Refusal> {
    for target in targets {
        if tree.layout.scheme.query_bytes() != Some(target.query.len()) {
            return super::malformed("a bound that is not of the scheme");
        }
        let among = Among::new(tree, target.sealed, target.tie)?;
        let (mut path, there) = place(tree, &target.query, target.sealed, &among)?;
        if let Some(leaf) = path.0.last_mut().filter(|_| there) {
            leaf.position -= 1;
            take(tree, path)?;
        }
    }
    Ok(())
}

/// Takes the entry out that a path leads to.
pub(super) fn take<T: DerefMut<Target: Write>>(tree: &mut Tree<T>, path: Path) -> Result<(), Refusal> {
    let mut steps = path.0.into_iter().rev();
    let Some(mut step) = steps.next() else {
        return damaged("a path without a page");
    };
    step.page.take(step.position, step.position + 1);
    for mut parent in steps {
        if step.page.count() >= tree.layout.fewest(step.page.level()) {
            return tree.put(step.number, &step.page);
        }
        if !refill(tree, step, &mut parent)? {
            return tree.put(parent.number, &parent.page);
        }
        step = parent;
    }
    shrink(tree, &step)
}

/// Writes the root; one without separators gives way to its only child.
fn shrink<T: DerefMut<Target: Write>>(tree: &mut Tree<T>, root: &Step) -> Result<(), Refusal> {
    if root.page.level() == 0 || root.page.count() > 0 {
        return tree.put(root.number, &root.page);
    }
    (tree.header.root, tree.header.level) = (root.page.child(0)?, root.page.level() - 1);
    tree.delete(root.number)
}

/// Fills a page up from a sibling, or merges the two; true if the parent lost a separator. The parent is changed,
/// not written.
fn refill<T: DerefMut<Target: Write>>(
    tree: &mut Tree<T>,
    step: Step,
    parent: &mut Step,
) -> Result<bool, Refusal> {
    let level = step.page.level();
    // The sibling to the left, but for the first child: then `at` separates the two.
    let (at, sibling_is_left) = match parent.position.checked_sub(1) {
        Some(before) => (before, true),
        None => (parent.position, false),
    };
    let sibling = if sibling_is_left { at } else { at + 1 };
    if at >= parent.page.count() {
        return damaged("an inner page without separators");
    }
    let number = parent.page.child(sibling)?;
    let sibling = tree.page(number, level)?;
    let ((left_number, mut left), (right_number, mut right)) = if sibling_is_left {
        ((number, sibling), (step.number, step.page))
    } else {
        ((step.number, step.page), (number, sibling))
    };
    let separator = parent.page.whole_entry(at)?;
    let together = left.count() + right.count() + usize::from(level > 0);
    if together <= tree.layout.most(level) {
        left.merge(&separator, &right)?;
        tree.put(left_number, &left)?;
        tree.delete(right_number)?;
        parent.page.take(at, at + 1);
        return Ok(true);
    }
    let separator = if sibling_is_left {
        lend_right(&mut left, &separator, &mut right)?
    } else {
        lend_left(&mut left, &separator, &mut right)?
    };
    tree.put(left_number, &left)?;
    tree.put(right_number, &right)?;
    parent.page.set_entry(at, &separator)?;
    Ok(false)
}

/// Moves the last record of `left` to `right`; the new separator.
fn lend_right(left: &mut Page, separator: &[u8], right: &mut Page) -> Result<Vec<u8>, Refusal> {
    let Some(last) = left.count().checked_sub(1) else {
        return damaged("an empty page below the root");
    };
    let up = left.whole_entry(last)?;
    if left.level() == 0 {
        right.insert(0, &left.take(last, last + 1));
    } else {
        // The child that moves is the last one of `left`; the separator between the pages comes down before what was
        // the first child of `right`.
        let child = left.child(last + 1)?;
        let first = right.child(0)?;
        left.take(last, last + 1);
        right.insert_child(0, separator, first);
        right.set_first_child(child);
    }
    Ok(up)
}

/// Moves the first record of `right` to `left`; the new separator.
fn lend_left(left: &mut Page, separator: &[u8], right: &mut Page) -> Result<Vec<u8>, Refusal> {
    if right.count() < 2 {
        return damaged("an almost empty page below the root");
    }
    if left.level() == 0 {
        let record = right.take(0, 1);
        left.insert(left.count(), &record);
        return right.whole_entry(0);
    }
    let up = right.whole_entry(0)?;
    let (child, first) = (right.child(0)?, right.child(1)?);
    left.insert_child(left.count(), separator, child);
    right.take(0, 1);
    right.set_first_child(first);
    Ok(up)
}
