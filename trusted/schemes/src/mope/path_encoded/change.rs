//! What entering a value, or making room, comes to: nodes, and where everything of them goes.

use super::shape::{CHILDREN_MAX, End, MALFORMED, PathEntry, Shape, labels_below, root_prefix, spelled};
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

/// True if a value that is entered where a walk has ended makes the tree higher.
pub(super) fn grows(visits: &[Visit]) -> bool {
    !visits.is_empty() && visits.iter().all(|visit| visit.shape.keys.len() + 1 == CHILDREN_MAX)
}

/// What entering a value comes to whose place a walk has found, and its encoding.
pub(super) fn insertion(
    head: &Head,
    mut visits: Vec<Visit>,
    ciphertext: &[u8],
) -> Result<(TreeChange, Label), IndexError> {
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
        } else {
            after.root = after.next;
            after.next += 1;
            let root = Shape::root(level + 1, visit.node, (other, left), half.between, end);
            shapes.insert(other, half.shape);
            shapes.insert(after.root, root);
            top = (after.root, root_prefix(level + 1));
        }
    }
    let mut paths = Paths::new(&shapes);
    paths.compare(top.0, top.1)?;
    Ok(paths.change(head.version, after, ciphertext))
}

/// Where everything of some nodes was and is.
pub(super) struct Paths<'a> {
    shapes: &'a BTreeMap<Node, Shape>,
    moves: Vec<Move>,
    /// The new key's encoding.
    entered: Label,
}

impl<'a> Paths<'a> {
    pub(super) fn new(shapes: &'a BTreeMap<Node, Shape>) -> Self {
        Self { shapes, moves: Vec::new(), entered: 0 }
    }

    /// Finds what is elsewhere below a node, which is now under a path.
    pub(super) fn compare(&mut self, node: Node, prefix: Label) -> Result<(), IndexError> {
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

    /// Of nodes as they become and a value that is entered, and its encoding. Moves side by side by the same distance are one.
    pub(super) fn change(mut self, expected: u64, head: Head, ciphertext: &[u8]) -> (TreeChange, Label) {
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
        let entered = vec![(Blob(ciphertext.to_vec()), self.entered)];
        (TreeChange { expected, head, nodes, left: Vec::new(), summaries, entered }, self.entered)
    }
}
