//! Moving the line between top nodes and tree nodes, when their number crosses its bound.

use super::ArxRange;
use super::aggregate::Aggregate;
use super::directory::{Gap, InHand, Readiness, Top, level};
use super::epoch::Generation;
use super::load::{Wanted, within};
use super::locate::{stub, stub_of};
use super::stage::{Changing, lock};
use super::treap::{Link, Node};
use crate::error::IndexError;
use arras_protocol::Channel;
use arras_protocol::arx_range::ArxRange as Protocol;
use std::cmp::Ordering;
use std::mem::{replace, take};

impl<C: Channel<Protocol>> Changing<'_, C> {
    /// Brings the threshold to what the set asks for.
    pub(super) async fn relevel(&mut self, generation: &Generation) -> Result<(), IndexError> {
        let old = self.directory.threshold;
        let new = self.directory.levels.threshold(self.index.parameters().top_nodes);
        self.directory.threshold = new;
        match new.cmp(&old) {
            Ordering::Less => self.promote().await,
            Ordering::Equal => Ok(()),
            Ordering::Greater => self.demote(generation),
        }
    }

    /// Top nodes below the threshold become tree nodes: roots over the trees around them. Those trees stay as they
    /// are, and so do their circuits.
    fn demote(&mut self, generation: &Generation) -> Result<(), IndexError> {
        let tops = take(&mut self.directory.tops);
        let mut last = take_tree(&mut self.directory.head, generation);
        let mut parts = Vec::new();
        for mut top in tops {
            let before = replace(&mut last, take_tree(&mut top.gap, generation));
            if self.directory.is_top(top.priority) {
                self.put_assembled(take(&mut parts), before)?;
                self.directory.tops.push(top);
            } else {
                parts.push((before, demoted(self.index, top)));
            }
        }
        self.put_assembled(parts, last)
    }

    /// Gives the last gap so far its tree. A tree that was not in hand and gets no new root stays as it is.
    fn put_assembled(&mut self, parts: Vec<(Link, Box<Node>)>, last: Link) -> Result<(), IndexError> {
        let gap = self.directory.tops.len();
        if parts.is_empty() && self.directory.gap(gap).in_hand.is_none() {
            return Ok(());
        }
        put_tree(self.directory.gap_mut(gap), Link::assemble(parts, last), self.walks)
    }

    /// Tree nodes that reach the threshold become top nodes.
    async fn promote(&mut self) -> Result<(), IndexError> {
        let threshold = self.directory.threshold;
        let mut links = Vec::with_capacity(self.directory.gap_count());
        for gap in 0..self.directory.gap_count() {
            links.push(match &mut self.directory.gap_mut(gap).in_hand {
                Some(in_hand) => in_hand.link.take(),
                None => stub(self.directory, gap, [None; 2]),
            });
        }
        let directory = &*self.directory;
        let mut wanted: Vec<_> =
            links.iter_mut().enumerate().map(|(gap, link)| (link, within(directory, gap))).collect();
        self.index.load_trees(&mut wanted, Wanted::Level(threshold)).await?;
        let mut tops = take(&mut self.directory.tops).into_iter();
        for link in links {
            self.part_tree(link, threshold)?;
            self.directory.tops.extend(tops.next());
        }
        Ok(())
    }

    /// Parts the tree of the last gap so far at its nodes of the threshold or above.
    fn part_tree(&mut self, link: Link, threshold: usize) -> Result<(), IndexError> {
        let mut parts = Vec::new();
        let last = link.part(&|priority| level(priority) >= threshold, &mut parts)?;
        let gap = self.directory.tops.len();
        if parts.is_empty() && self.directory.gap(gap).in_hand.is_none() {
            return Ok(());
        }
        let (mut trees, nodes): (Vec<Link>, Vec<Box<Node>>) = parts.into_iter().unzip();
        trees.push(last);
        let mut trees = trees.into_iter();
        put_tree(self.directory.gap_mut(gap), trees.next().unwrap_or(Link::Empty), self.walks)?;
        for (node, link) in nodes.into_iter().zip(trees) {
            let Node { node, separator, priority, own, .. } = *node;
            let mut gap = Gap::new(None, own, Aggregate::zero(self.index.parameters()));
            gap.changed = true;
            put_tree(&mut gap, link, self.walks)?;
            self.directory.tops.push(Top { node, separator, priority, gap });
        }
        Ok(())
    }
}

/// Takes a gap's tree, by name if it is not in hand; the garblings of its root, if they are unused.
fn take_tree(gap: &mut Gap, generation: &Generation) -> Link {
    if let Some(in_hand) = &mut gap.in_hand {
        return in_hand.link.take();
    }
    let readiness: Readiness = gap.tree.try_lock().ok().and_then(|ready| *ready);
    let ready = readiness.filter(|ready| ready.generation == generation.number);
    stub_of(gap, ready.map_or([None; 2], |ready| ready.nonces.map(Some)))
}

fn put_tree(gap: &mut Gap, link: Link, opened: bool) -> Result<(), IndexError> {
    match &mut gap.in_hand {
        Some(in_hand) => in_hand.link = link,
        None => gap.in_hand = Some(InHand { link, guard: lock(&gap.tree)?, opened }),
    }
    Ok(())
}

fn demoted<C>(index: &ArxRange<C>, top: Top) -> Box<Node> {
    let zero = Aggregate::zero(index.parameters());
    Box::new(Node {
        node: top.node,
        separator: top.separator,
        priority: top.priority,
        own: top.gap.own,
        left: Link::Empty,
        right: Link::Empty,
        left_total: zero.clone(),
        right_total: zero,
        stored: None,
        aggregate_changed: true,
        nonces: [None; 2],
    })
}
