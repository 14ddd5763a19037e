//! All elements between two paths.

use super::buffer::visit;
use super::node::{PATH_MAX, Tree, damaged, malformed};
use arras_protocol::limits::REPLY_BYTES_SOFT;
use arras_protocol::pope::{Cursor, Node, Response, Run};
use arras_protocol::{Blob, Refusal};
use arras_storage::Read;
use std::ops::ControlFlow;

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
    tree.check_path(&lower)?;
    tree.check_path(upper)?;
    let mut walk =
        Walk { tree, from_page, path: Vec::new(), elements: Vec::new(), runs: Vec::new(), next: None };
    walk.node(tree.head.root, lower.get(1..), upper.get(1..))?;
    let Walk { elements, runs, next, .. } = walk;
    Ok(Response::Found { elements: Blob(elements), runs, next })
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
            (Some(page), None) if lower.is_some() => self.buffer(node, page)?,
            _ => self.buffer(node, 0)?,
        }
        if self.next.is_none() && node.is_inner() {
            let page = self.tree.child(node)?;
            let place = |child: Node| page.place(child).ok_or_else(|| damaged("a path that was checked"));
            let first = bound(lower).map(place).transpose()?.unwrap_or(0);
            let last = bound(upper).map(place).transpose()?.unwrap_or(page.children.len().saturating_sub(1));
            if first > last {
                return Err(malformed("the upper path lies before the lower one"));
            }
            for (at, &child) in page.children.iter().enumerate().take(last.saturating_add(1)).skip(first) {
                let rest = |path: Option<&'_ [Node]>, end: usize| at == end && bound(path).is_some();
                let lower = if rest(lower, first) { lower.and_then(|path| path.get(1..)) } else { None };
                let upper = if rest(upper, last) { upper.and_then(|path| path.get(1..)) } else { None };
                self.node(child, lower, upper)?;
                if self.next.is_some() {
                    break;
                }
            }
        }
        self.path.pop();
        Ok(())
    }

    /// Adds a node's buffer from page `from` on, as far as the reply may grow.
    fn buffer(&mut self, node: Node, from: u64) -> Result<(), Refusal> {
        let element_bytes = self.tree.head.element_bytes();
        let (elements, runs, next, path) =
            (&mut self.elements, &mut self.runs, &mut self.next, &self.path);
        visit(self.tree, node, from, |number, page| {
            if elements.len() > REPLY_BYTES_SOFT {
                *next = Some(Cursor { path: path.clone(), page: number });
                return ControlFlow::Break(());
            }
            elements.extend_from_slice(page);
            let count = u32::try_from(page.len() / element_bytes).unwrap_or(u32::MAX);
            runs.push(Run { node: node.number(), page: number, count });
            ControlFlow::Continue(())
        })
    }
}
