//! All elements between two paths.

use super::buffer::visit_row;
use super::node::{PATH_MAX, Tree, damaged, malformed};
use arras_protocol::limits::REPLY_BYTES_SOFT;
use arras_protocol::pope::{Cursor, Node, Response, Run};
use arras_protocol::{Blob, Refusal};
use arras_storage::Read;
use std::ops::{ControlFlow, RangeInclusive};

/// Room for elements at first: those of most replies, so that they are not copied as it grows; below the 64 KiB from
/// which glibc's allocator merges its free pieces whenever one is freed.
const ELEMENTS_BYTES: usize = 48 << 10;

/// Most room made for elements before they are read.
const RESERVED_BYTES_MAX: usize = 1 << 18;

/// The walk so far.
struct Walk<'a, R> {
    tree: &'a Tree<'a, R>,
    /// Where the reply goes on, if it is a continuation.
    from_page: Option<u64>,
    path: Vec<Node>,
    elements: Vec<u8>,
    runs: Vec<Run>,
    next: Option<Cursor>,
}

pub(super) fn collect<R: Read>(
    tree: &Tree<'_, R>,
    lower: Vec<Node>,
    upper: &[Node],
    resume: Option<Cursor>,
) -> Result<Response, Refusal> {
    let (lower, from_page) = match resume {
        Some(cursor) => (cursor.path, Some(cursor.page)),
        None => (lower, None),
    };
    // The walk checks the rest of the paths where it follows them.
    if lower.first() != Some(&tree.head.root) || upper.first() != Some(&tree.head.root) {
        return Err(malformed("not a path from the root"));
    }
    let elements = Vec::with_capacity(ELEMENTS_BYTES);
    let mut walk = Walk { tree, from_page, path: Vec::new(), elements, runs: Vec::new(), next: None };
    walk.node(tree.head.root, lower.get(1..), upper.get(1..))?;
    let Walk { elements, runs, next, .. } = walk;
    Ok(Response::Found { elements: Blob(elements), runs, next })
}

/// A path from its second node on; `None` for one that has ended.
fn rest_of(path: Option<&[Node]>) -> Option<&[Node]> {
    path.and_then(|path| path.get(1..))
}

impl<R: Read> Walk<'_, R> {
    /// Walks a node's subtree. `lower` and `upper` are the rest of a bound's path, if it leads through this node.
    fn node(&mut self, node: Node, lower: Option<&[Node]>, upper: Option<&[Node]>) -> Result<(), Refusal> {
        if self.path.len() >= PATH_MAX {
            return Err(damaged("a path that does not end"));
        }
        self.path.push(node);
        let bound = |rest: Option<&[Node]>| rest.and_then(|rest| rest.first().copied());
        match (self.from_page, bound(lower)) {
            // A continuation: what is above its first node was returned before.
            (Some(_), Some(_)) => {}
            (Some(page), None) if lower.is_some() => self.buffers(node, node, page)?,
            _ => self.buffers(node, node, 0)?,
        }
        if self.next.is_none() && node.is_inner() {
            let page = self.tree.child(node)?;
            let place = |child: Node| {
                page.place(child).ok_or_else(|| malformed("a path to a node that is elsewhere"))
            };
            let first = bound(lower).map(place).transpose()?.unwrap_or(0);
            let last = bound(upper).map(place).transpose()?.unwrap_or(page.children.len().saturating_sub(1));
            if first > last {
                return Err(malformed("the upper path lies before the lower one"));
            }
            self.children(&page.children, first..=last, lower, upper)?;
        }
        self.path.pop();
        Ok(())
    }

    /// Walks some of a node's children, the first and the last of them along the paths.
    fn children(
        &mut self,
        children: &[Node],
        range: RangeInclusive<usize>,
        lower: Option<&[Node]>,
        upper: Option<&[Node]>,
    ) -> Result<(), Refusal> {
        let (first, last) = (*range.start(), *range.end());
        let mut rest = children.get(range).unwrap_or_default();
        while let (Some((&child, others)), None) = (rest.split_first(), &self.next) {
            let at = last.saturating_add(1).saturating_sub(rest.len());
            let lower = rest_of(lower.filter(|_| at == first));
            if child.is_inner() {
                self.node(child, lower, rest_of(upper.filter(|_| at == last)))?;
                rest = others;
                continue;
            }
            // Leaves that were made together have numbers in a row: one scan reads them all.
            let in_a_row = |two: &[Node]| matches!(two, [one, next] if next.0 == one.0.saturating_add(2));
            let more = rest.windows(2).take_while(|two| in_a_row(two)).count();
            let (row, others) = rest.split_at_checked(more.saturating_add(1)).unwrap_or((rest, &[]));
            let page = self.from_page.filter(|_| lower.is_some()).unwrap_or(0);
            self.buffers(child, row.last().copied().unwrap_or(child), page)?;
            rest = others;
        }
        Ok(())
    }

    /// Adds the buffers of nodes with numbers in a row, the first one's from page `from` on, as far as the reply
    /// may grow.
    fn buffers(&mut self, first: Node, last: Node, from: u64) -> Result<(), Refusal> {
        let element_bytes = self.tree.head.element_bytes();
        let is_child = self.path.last() != Some(&first);
        let (elements, runs, next, path) = (&mut self.elements, &mut self.runs, &mut self.next, &self.path);
        let leaves = last.number().saturating_sub(first.number()).saturating_add(1);
        let expected =
            usize::try_from(leaves).unwrap_or(1).saturating_mul(self.tree.head.page_bytes as usize / 2);
        elements.reserve(expected.min(RESERVED_BYTES_MAX));
        visit_row(self.tree, first, last, from, |node, number, page| {
            if elements.len() > REPLY_BYTES_SOFT {
                let mut path = path.clone();
                if is_child {
                    path.push(Node::leaf(node));
                }
                *next = Some(Cursor { path, page: number });
                return ControlFlow::Break(());
            }
            elements.extend_from_slice(page);
            let count = u32::try_from(page.len() / element_bytes).unwrap_or(u32::MAX);
            match runs.last_mut() {
                Some(run) if run.node == node => run.count = run.count.saturating_add(count),
                _ => runs.push(Run { node, count }),
            }
            ControlFlow::Continue(())
        })
    }
}
