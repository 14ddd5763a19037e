//! Replacement of stored ciphertexts: all leaves are rewritten, and separators become what is in them.

use super::page::damaged;
use super::tree::Tree;
use arras_protocol::Refusal;
use arras_protocol::bplus::Replacement;
use arras_storage::Write;

/// Old and new ciphertexts, ascending.
struct Pairs<'r>(Vec<(&'r [u8], &'r [u8])>);

impl<'r> Pairs<'r> {
    fn open(bytes: &'r [u8], stored_bytes: usize) -> Result<Self, Refusal> {
        let pairs = bytes.chunks(2 * stored_bytes).map(|pair| pair.split_at_checked(stored_bytes));
        let Some(pairs) = pairs.collect::<Option<Vec<_>>>() else {
            return super::malformed("half a replacement");
        };
        let ascends = pairs.is_sorted_by(|one, next| one.0 < next.0 && one.1 < next.1);
        if !ascends || pairs.iter().any(|pair| pair.1.len() != stored_bytes) {
            return super::malformed("replacements that do not ascend");
        }
        Ok(Self(pairs))
    }

    fn new_of(&self, old: &[u8]) -> Option<&'r [u8]> {
        let place = self.0.binary_search_by(|pair| pair.0.cmp(old)).ok()?;
        self.0.get(place).map(|pair| pair.1)
    }
}

/// Applies a replacement, or does nothing if it was applied before.
pub(super) fn apply<T: Write>(tree: &mut Tree<T>, replacement: &Replacement) -> Result<(), Refusal> {
    if !tree.layout.scheme.hides_equality() {
        return super::malformed("this scheme's ciphertexts do not change");
    }
    let pairs = Pairs::open(replacement.pairs.as_slice(), tree.layout.stored_bytes)?;
    if replacement.version == tree.header.version {
        return Ok(());
    }
    if Some(replacement.version) != tree.header.version.checked_add(1) {
        return super::malformed("a replacement of another version");
    }
    rewrite(tree, &pairs, tree.header.root, tree.header.level)?;
    tree.header.version = replacement.version;
    Ok(())
}

/// Rewrites what is below a page; its first entry. No deeper than the tree.
fn rewrite<T: Write>(
    tree: &mut Tree<T>,
    pairs: &Pairs<'_>,
    number: u64,
    level: u8,
) -> Result<Vec<u8>, Refusal> {
    let mut page = tree.page(number, level)?;
    if level == 0 {
        for position in 0..page.count() {
            let (stored, row) = page.entry(position)?;
            if let Some(new) = pairs.new_of(stored) {
                let entry = [new, row].concat();
                page.set_entry(position, &entry)?;
            }
        }
        tree.put(number, &page)?;
        return match page.count() {
            0 if tree.header.level > 0 => damaged("an empty page below the root"),
            0 => Ok(Vec::new()),
            _ => page.whole_entry(0),
        };
    }
    let first = rewrite(tree, pairs, page.child(0)?, level - 1)?;
    for position in 0..page.count() {
        let separator = rewrite(tree, pairs, page.child(position + 1)?, level - 1)?;
        page.set_entry(position, &separator)?;
    }
    tree.put(number, &page)?;
    Ok(first)
}
