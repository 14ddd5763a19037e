//! What entering a value, or making room, comes to: nodes, and where everything of them goes.

use super::shape::{
    CHILDREN_MAX, End, MALFORMED, PathChild, PathEntry, Shape, labels_below, root_prefix, spelled, spread,
};
use crate::error::IndexError;
use arras_protocol::Blob;
use arras_protocol::mope::{Head, Label, Move, Node, Summary, TreeChange};
use std::collections::BTreeMap;

/// A node that was read, and the place where the way goes on or the value would be.
pub(super) struct Visit {
    pub(super) node: Node,
    pub(super) shape: Shape,
    pub(super) prefix: Label,
    pub(super) place: usize,
}

/// At which end of the tree a way ends.
fn end(visits: &[Visit]) -> Option<End> {
    if visits.iter().all(|visit| visit.place == visit.shape.keys.len()) {
        return Some(End::Last);
    }
    visits.iter().all(|visit| visit.place == 0).then_some(End::First)
}

/// What entering a value comes to whose place a walk has found, and its encoding; none if that takes more levels than there
/// may be.
pub(super) fn insertion(
    head: &Head,
    mut visits: Vec<Visit>,
    ciphertext: &[u8],
    levels: u32,
) -> Result<Option<(TreeChange, Label)>, IndexError> {
    let end = end(&visits);
    let mut after = Head { version: head.version + 1, values: head.values + 1, ..*head };
    let mut shapes: BTreeMap<Node, Shape> = BTreeMap::new();
    if visits.is_empty() {
        after.root = after.next;
        after.next += 1;
        let (node, prefix) = (after.root, root_prefix(0));
        visits.push(Visit { node, shape: Shape::leaf(), prefix, place: 0 });
    }
    // What goes up: a key, and on one side of it a node that left another.
    let mut rising = Some((PathEntry { ciphertext: ciphertext.to_vec(), was: None }, None));
    let mut top = (after.root, 0);
    while let Some((key, other)) = rising.take()
        && let Some(mut visit) = visits.pop()
    {
        let half = visit.shape.enter(visit.place, key, other, end);
        let level = visit.shape.level;
        top = (visit.node, visit.prefix);
        shapes.insert(visit.node, visit.shape);
        let Some(half) = half else { break };
        let other = after.next;
        after.next += 1;
        let left = half.left;
        if !visits.is_empty() {
            shapes.insert(other, half.shape);
            rising = Some((half.between, Some((other, left))));
        } else if level + 1 == levels {
            return Ok(None);
        } else {
            after.root = after.next;
            after.next += 1;
            let root = Shape::root(level + 1, visit.node, (other, left), half.between, end);
            shapes.insert(other, half.shape);
            shapes.insert(after.root, root);
            top = (after.root, root_prefix(level + 1));
        }
    }
    let mut paths = Paths { shapes: &shapes, moves: Vec::new(), entered: 0 };
    paths.compare(top.0, top.1)?;
    let label = paths.entered;
    let mut change = paths.change(head.version, after);
    change.entered.push((Blob(ciphertext.to_vec()), label));
    Ok(Some((change, label)))
}

/// Into how many nodes, two at least, siblings can be joined: none if not into fewer. Of each the keys and one are told,
/// since between two leaves there is a key as between two children.
pub(super) fn fewer(sizes: impl ExactSizeIterator<Item = usize>) -> Option<usize> {
    let siblings = sizes.len();
    let nodes = sizes.sum::<usize>().div_ceil(CHILDREN_MAX).max(2);
    (nodes < siblings).then_some(nodes)
}

/// The children of a node as fewer ones. The entries are shared out evenly.
pub(super) fn join(head: &Head, mut parent: Visit, children: Vec<Shape>) -> Result<TreeChange, IndexError> {
    let sizes = children.iter().map(|child| child.keys.len() + 1);
    let size: usize = sizes.clone().sum();
    let nodes = fewer(sizes).unwrap_or(children.len());
    let level = parent.shape.level - 1;
    let (mut keys, mut below) = (Vec::new(), Vec::new());
    let mut between = std::mem::take(&mut parent.shape.keys).into_iter();
    for child in children {
        keys.extend(child.keys);
        keys.extend(between.next());
        below.extend(child.children);
    }
    let (mut keys, mut below) = (keys.into_iter(), below.into_iter());
    let old = std::mem::take(&mut parent.shape.children);
    parent.shape.digits = spread(nodes, level + 1, None);
    let mut shapes: BTreeMap<Node, Shape> = BTreeMap::new();
    for (at, child) in (0..nodes).zip(&old) {
        let size = (at + 1) * size / nodes - at * size / nodes;
        let shape = Shape {
            level,
            keys: keys.by_ref().take(size - 1).collect(),
            children: below.by_ref().take(size).collect(),
            digits: spread(if level == 0 { size - 1 } else { size }, level, None),
        };
        parent.shape.keys.extend(keys.next());
        parent.shape.children.push(PathChild { node: child.node, was: None });
        shapes.insert(child.node, shape);
    }
    shapes.insert(parent.node, parent.shape);
    let mut paths = Paths { shapes: &shapes, moves: Vec::new(), entered: 0 };
    paths.compare(parent.node, parent.prefix)?;
    let mut change = paths.change(head.version, Head { version: head.version + 1, ..*head });
    change.nodes.extend(old.iter().skip(nodes).map(|child| (child.node, None)));
    Ok(change)
}

/// Where everything of some nodes was and is.
struct Paths<'a> {
    shapes: &'a BTreeMap<Node, Shape>,
    moves: Vec<Move>,
    /// The new key's encoding.
    entered: Label,
}

impl Paths<'_> {
    fn compare(&mut self, node: Node, prefix: Label) -> Result<(), IndexError> {
        let shape = self.shapes.get(&node).ok_or(MALFORMED)?;
        for (at, key) in shape.keys.iter().enumerate() {
            let is = spelled(prefix, shape.level, shape.key_digit(at));
            match key.was {
                None => self.entered = is,
                Some(was) => self.moved(was, was, is),
            }
        }
        for (child, digit) in shape.children.iter().zip(&shape.digits) {
            let is = spelled(prefix, shape.level, *digit);
            match child.was {
                // Encodings below a node begin after its path's own, which is the key's to its left.
                Some(was) => self.moved(was + 1, was + labels_below(shape.level), is + 1),
                None => self.compare(child.node, is)?,
            }
        }
        Ok(())
    }

    fn moved(&mut self, low: Label, high: Label, start: Label) {
        if low != start {
            self.moves.push(Move { low, high, start, down: 0 });
        }
    }

    /// Of nodes as they become; moves side by side by the same distance are one.
    fn change(mut self, expected: u64, head: Head) -> TreeChange {
        self.moves.sort_unstable_by_key(|step| step.low);
        let mut moves: Vec<Move> = Vec::with_capacity(self.moves.len());
        for step in self.moves {
            match moves.last_mut() {
                Some(last)
                    if last.high + 1 == step.low
                        && step.start.wrapping_sub(last.start) == step.low - last.low =>
                {
                    last.high = step.high;
                }
                Some(_) | None => moves.push(step),
            }
        }
        let summaries = if moves.is_empty() { Vec::new() } else { vec![Summary::Moves(moves)] };
        let nodes = self.shapes.iter().map(|(node, shape)| (*node, Some(Blob(shape.encode())))).collect();
        TreeChange { expected, head, nodes, left: Vec::new(), summaries, entered: Vec::new() }
    }
}
