//! Replacement of stored ciphertexts: leaves between the least and the greatest are rewritten, and separators there
//! become what is in the leaves.

use super::page::{Page, damaged};
use super::tree::Tree;
use arras_protocol::Refusal;
use arras_protocol::bplus::ENTRIES_MAX;
use arras_storage::Write;
use std::ops::DerefMut;

/// Old and new ciphertexts, ascending.
struct Pairs<'r>(Vec<(&'r [u8], &'r [u8])>);

impl<'r> Pairs<'r> {
    fn open(bytes: &'r [u8], stored_bytes: usize) -> Result<Self, Refusal> {
        let pairs = bytes.chunks(2 * stored_bytes).map(|pair| pair.split_at_checked(stored_bytes));
        let Some(pairs) = pairs.collect::<Option<Vec<_>>>() else {
            return super::malformed("half a replacement");
        };
        if pairs.len() > ENTRIES_MAX {
            return Err(Refusal::Limit(format!("{} moves, at most {ENTRIES_MAX}", pairs.len())));
        }
        let ascends = pairs.is_sorted_by(|one, next| one.0 < next.0 && one.1 < next.1);
        if !ascends || pairs.iter().any(|pair| pair.1.len() != stored_bytes) {
            return super::malformed("replacements that do not ascend");
        }
        Ok(Self(pairs))
    }

    /// The least and the greatest ciphertext there is, old or new.
    fn region(&self) -> Option<(&'r [u8], &'r [u8])> {
        let (first, last) = (self.0.first()?, self.0.last()?);
        Some((first.0.min(first.1), last.0.max(last.1)))
    }

    fn new_of(&self, old: &[u8]) -> Option<&'r [u8]> {
        let place = self.0.binary_search_by(|pair| pair.0.cmp(old)).ok()?;
        self.0.get(place).map(|pair| pair.1)
    }
}

/// Changes ciphertexts: old and new in turn, ascending in both.
pub(super) fn apply<T: DerefMut<Target: Write>>(tree: &mut Tree<T>, moves: &[u8]) -> Result<(), Refusal> {
    let pairs = Pairs::open(moves, tree.layout.stored_bytes)?;
    if let Some(region) = pairs.region() {
        let change = Change { pairs, region };
        rewrite(tree, &change, (tree.header.root, tree.header.level), (None, None))?;
    }
    Ok(())
}

/// What changes, and between which ciphertexts.
struct Change<'r> {
    pairs: Pairs<'r>,
    region: (&'r [u8], &'r [u8]),
}

impl Change<'_> {
    /// Whether there may be something to change between two separators.
    fn concerns(&self, (lower, upper): (Option<&[u8]>, Option<&[u8]>)) -> bool {
        lower.is_none_or(|lower| lower <= self.region.1) && upper.is_none_or(|upper| self.region.0 <= upper)
    }

    /// Whether a separator may be on the wrong side of a new ciphertext.
    fn contains(&self, separator: &[u8]) -> bool {
        self.region.0 <= separator && separator <= self.region.1
    }
}

/// Rewrites what is below a page, which is between two separators, as far as the change concerns it; its first entry,
/// unless that is too far to the left. No deeper than the tree.
fn rewrite<T: DerefMut<Target: Write>>(
    tree: &mut Tree<T>,
    change: &Change<'_>,
    (number, level): (u64, u8),
    (lower, upper): (Option<&[u8]>, Option<&[u8]>),
) -> Result<Option<Vec<u8>>, Refusal> {
    let mut page = tree.page(number, level)?;
    if level == 0 {
        return rewrite_leaf(tree, change, number, page).map(Some);
    }
    let old = page.clone();
    let separator = |position: usize| match position.checked_sub(1) {
        Some(before) if before < old.count() => old.entry(before).map(|(stored, _)| Some(stored)),
        Some(_) => Ok(upper),
        None => Ok(lower),
    };
    let mut first = None;
    for position in 0..=old.count() {
        let between = (separator(position)?, separator(position + 1)?);
        if !change.concerns(between) {
            continue;
        }
        let entry = rewrite(tree, change, (old.child(position)?, level - 1), between)?;
        match position.checked_sub(1) {
            None => first = entry,
            // Also one that was left by an entry that is gone: it could be in the way of a new ciphertext.
            Some(before) if between.0.is_some_and(|separator| change.contains(separator)) => match entry {
                Some(entry) => page.set_entry(before, &entry)?,
                None => return damaged("separators that do not ascend"),
            },
            Some(_) => {}
        }
    }
    if page.bytes() != old.bytes() {
        tree.put(number, &page)?;
    }
    Ok(first)
}

/// Rewrites a leaf; its first entry.
fn rewrite_leaf<T: DerefMut<Target: Write>>(
    tree: &mut Tree<T>,
    change: &Change<'_>,
    number: u64,
    mut page: Page,
) -> Result<Vec<u8>, Refusal> {
    let mut changed = false;
    for position in 0..page.count() {
        let (stored, name) = page.entry(position)?;
        if let Some(new) = change.pairs.new_of(stored) {
            let entry = [new, name].concat();
            page.set_entry(position, &entry)?;
            changed = true;
        }
    }
    if changed {
        tree.put(number, &page)?;
    }
    match page.count() {
        0 if tree.header.level > 0 => damaged("an empty page below the root"),
        0 => Ok(Vec::new()),
        _ => page.whole_entry(0),
    }
}
