//! Finding bounds: by walks where trees are ready, by loading the trees where they are not.
//!
//! What comes back from a walk is checked from the root down: the record of each node opens under its name, the
//! direction taken is the one its separator asks for, and the links of its circuit carry the tag of the
//! garbling that the parent's named. So the garblings that a repair goes on to use are unused ones, whatever the
//! server says.

use super::ArxRange;
use super::directory::{Directory, Gap, Readiness, Ready};
use super::epoch::Generation;
use super::garbling::Job;
use super::load::{Arrived, Wanted, within};
use super::treap::{Link, Nonces, Stub, side_index};
use crate::error::IndexError;
use arras_protocol::arx_range::{
    ArxRange as Protocol, Bound, FoundBucket, Order, PathStep, Request, Response, Side, Walk,
};
use arras_protocol::{Channel, ChannelError, NodeId, Refusal};
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;

/// How often a search is put again with trees loaded, after the server found circuits stale.
const ATTEMPTS: usize = 3;

/// What to find.
pub(super) struct Bounds<'a> {
    pub(super) lower: &'a [u8],
    /// None for a point: the bucket of `lower` alone.
    pub(super) upper: Option<&'a [u8]>,
    pub(super) order: Order,
    pub(super) buckets_max: u32,
    /// True if the trees are to be changed.
    pub(super) change: bool,
}

/// A tree in hand, locked.
pub(super) struct LockedTree {
    pub(super) gap: usize,
    pub(super) guard: OwnedMutexGuard<Readiness>,
    pub(super) link: Link,
    /// True if its circuits were opened by this operation; false if it was loaded.
    pub(super) opened: bool,
}

/// What was found.
pub(super) struct Located {
    /// The trees that were walked or loaded, at most two, in order.
    pub(super) trees: Vec<LockedTree>,
    pub(super) lower_gap: usize,
    pub(super) lower_bucket: NodeId,
    pub(super) upper_gap: usize,
    pub(super) upper_bucket: NodeId,
    pub(super) buckets: Vec<FoundBucket>,
    pub(super) next: Option<NodeId>,
}

/// A walk whose labels went out.
struct Opened<'a> {
    side: Side,
    place: &'a [u8],
    ready: Ready,
}

/// Why a reply does not serve.
enum Broken {
    /// The other side's circuits are not those the client knows: a repair was lost.
    Stale,
    Peer(IndexError),
}

impl From<IndexError> for Broken {
    fn from(error: IndexError) -> Self {
        Self::Peer(error)
    }
}

fn peer(what: &'static str) -> Broken {
    Broken::Peer(IndexError::Peer(what))
}

/// A tree as a stub.
pub(super) fn stub(directory: &Directory, gap: usize, nonces: Nonces) -> Link {
    stub_of(directory.gap(gap), nonces)
}

/// A gap's tree as a stub.
pub(super) fn stub_of(gap: &Gap, nonces: Nonces) -> Link {
    gap.root.map_or(Link::Empty, |node| Link::Stub(Box::new(Stub { node, total: gap.total.clone(), nonces })))
}

impl<C: Channel<Protocol>> ArxRange<C> {
    /// Finds bounds.
    pub(super) async fn locate(
        &self,
        directory: &Directory,
        generation: &Generation,
        bounds: &Bounds<'_>,
    ) -> Result<Located, IndexError> {
        let lower_gap = directory.gap_of(bounds.lower);
        let upper_gap = bounds.upper.map_or(lower_gap, |upper| directory.gap_of(upper));
        let mut trees: Vec<LockedTree> = Vec::new();
        for gap in [lower_gap, upper_gap] {
            if directory.gap(gap).root.is_some() && trees.iter().all(|tree| tree.gap != gap) {
                let guard = Arc::clone(&directory.gap(gap).tree).lock_owned().await;
                trees.push(LockedTree { gap, guard, link: Link::Empty, opened: false });
            }
        }
        for _ in 0..ATTEMPTS {
            match self.attempt(directory, generation, bounds, [lower_gap, upper_gap], &mut trees).await {
                Err(Broken::Stale) => {}
                Err(Broken::Peer(error)) => return Err(error),
                Ok(found) => return Ok(Located { trees, ..found }),
            }
        }
        Err(IndexError::Peer("circuits are stale again and again"))
    }

    /// One attempt. Trees whose circuits were opened are marked unready before anything is sent.
    async fn attempt(
        &self,
        directory: &Directory,
        generation: &Generation,
        bounds: &Bounds<'_>,
        gaps: [usize; 2],
        trees: &mut [LockedTree],
    ) -> Result<Located, Broken> {
        let ready = self.ready_or_load(directory, generation, trees).await?;
        let mut opened = [None, None];
        let mut bound = |side: Side, gap: usize, place| {
            let tree = trees.iter().position(|tree| tree.gap == gap);
            let ready = tree.and_then(|tree| *ready.get(tree)?);
            let link = tree.and_then(|tree| trees.get(tree)).map(|tree| &tree.link);
            let (bound, walk) =
                self.bound(directory, generation, bounds.change, side, gap, place, ready, link)?;
            opened[side_index(side)] = walk;
            Ok::<Bound, IndexError>(bound)
        };
        let lower = bound(Side::Lower, gaps[0], bounds.lower)?;
        let upper = bounds.upper.map(|upper| bound(Side::Upper, gaps[1], upper)).transpose()?;
        let known = [&Some(lower.clone()), &upper].map(|bound| match bound {
            Some(Bound::Bucket(bucket)) => Some(*bucket),
            _ => None,
        });
        let index = self.secrets.index;
        let (order, buckets_max) = (bounds.order, bounds.buckets_max);
        let request = Request::Search { index, lower, upper, order, buckets_max };
        let found = match self.ask(request).await {
            Err(IndexError::Channel(ChannelError::Refused(Refusal::Stale { .. }))) => {
                return Err(Broken::Stale);
            }
            other => other?,
        };
        let Response::Found { lower, lower_bucket, upper, upper_bucket, buckets, next } = found else {
            return Err(peer("not the range asked for"));
        };
        self.take_paths(directory, generation, bounds.change, gaps, &opened, [&lower, &upper], trees)?;
        let point = bounds.upper.is_none();
        let places = [bounds.lower, bounds.upper.unwrap_or(bounds.lower)];
        let mut ends = [NodeId::HEAD; 2];
        for side in [0, 1] {
            let tree = trees.iter().find(|tree| tree.gap == gaps[side]);
            let floor = tree.map(|tree| tree.link.floor(places[side])).transpose()?.flatten();
            ends[side] = floor.map_or(directory.before(gaps[side]), |node| node.node);
        }
        let said = [lower_bucket, if point { lower_bucket } else { upper_bucket }];
        if said != ends || known.iter().zip(ends).any(|(known, end)| known.is_some_and(|known| known != end))
        {
            return Err(peer("a walk ends in another bucket than it must"));
        }
        let [lower_gap, upper_gap] = gaps;
        let [lower_bucket, upper_bucket] = ends;
        Ok(Located { trees: Vec::new(), lower_gap, lower_bucket, upper_gap, upper_bucket, buckets, next })
    }

    /// Takes the readiness of each tree, or brings the whole tree in hand.
    async fn ready_or_load(
        &self,
        directory: &Directory,
        generation: &Generation,
        trees: &mut [LockedTree],
    ) -> Result<Vec<Option<Ready>>, IndexError> {
        let mut ready = Vec::with_capacity(trees.len());
        let mut unready = Vec::new();
        for tree in trees.iter_mut() {
            let taken = tree.guard.take().filter(|ready| ready.generation == generation.number);
            tree.opened = taken.is_some();
            if taken.is_none() {
                tree.link = stub(directory, tree.gap, [None; 2]);
                unready.push((&mut tree.link, within(directory, tree.gap)));
            }
            ready.push(taken);
        }
        if !unready.is_empty() {
            self.load_trees(&mut unready, Wanted::Whole).await?;
        }
        Ok(ready)
    }

    /// How to say to the server where a range ends.
    #[allow(clippy::too_many_arguments)]
    fn bound<'a>(
        &self,
        directory: &Directory,
        generation: &Generation,
        both_sides: bool,
        side: Side,
        gap: usize,
        place: &'a [u8],
        ready: Option<Ready>,
        link: Option<&Link>,
    ) -> Result<(Bound, Option<Opened<'a>>), IndexError> {
        let before = directory.before(gap);
        let (Some(root), Some(link)) = (directory.gap(gap).root, link) else {
            return Ok((Bound::Bucket(before), None));
        };
        let Some(ready) = ready else {
            let bucket = link.floor(place)?.map_or(before, |node| node.node);
            return Ok((Bound::Bucket(bucket), None));
        };
        let nonce = ready.nonces[side_index(side)];
        let labels = generation.open(nonce, place);
        let walk = Walk { root, side, nonce, labels, both_sides, before };
        Ok((Bound::Walk(walk), Some(Opened { side, place, ready })))
    }

    /// Checks the paths reported and brings their nodes in hand.
    #[allow(clippy::too_many_arguments)]
    fn take_paths(
        &self,
        directory: &Directory,
        generation: &Generation,
        both_sides: bool,
        gaps: [usize; 2],
        opened: &[Option<Opened<'_>>; 2],
        paths: [&[PathStep]; 2],
        trees: &mut [LockedTree],
    ) -> Result<(), Broken> {
        for tree in trees.iter_mut() {
            let mut arrived = Arrived::new();
            let mut nonces = None;
            for side in [0, 1] {
                let Some(opened) = opened[side].as_ref().filter(|_| gaps[side] == tree.gap) else {
                    continue;
                };
                nonces = Some(opened.ready.nonces.map(Some));
                let root = directory.gap(tree.gap).root;
                self.check_path(generation, root, opened, both_sides, paths[side], &mut arrived)?;
            }
            if let Some(nonces) = nonces {
                tree.link = stub(directory, tree.gap, nonces);
                self.fill(&mut tree.link, &mut arrived, within(directory, tree.gap), 0)?;
                if !arrived.is_empty() {
                    return Err(peer("a node without a place"));
                }
            }
        }
        let walked = opened.each_ref().map(Option::is_some);
        if paths.iter().zip(walked).any(|(path, walked)| !walked && !path.is_empty()) {
            return Err(peer("a path nobody asked for"));
        }
        Ok(())
    }

    /// Checks a path from the root down.
    fn check_path(
        &self,
        generation: &Generation,
        root: Option<NodeId>,
        opened: &Opened<'_>,
        both_sides: bool,
        path: &[PathStep],
        arrived: &mut Arrived,
    ) -> Result<(), Broken> {
        let own = side_index(opened.side);
        let mut expected = root;
        let mut nonces: Nonces = opened.ready.nonces.map(Some);
        for step in path {
            if expected != Some(step.node) {
                return Err(peer("a path leaves its tree"));
            }
            let raw = match arrived.entry(step.node) {
                std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::hash_map::Entry::Vacant(entry) => {
                    entry.insert(self.raw(step.node, &step.record).map_err(IndexError::from)?)
                }
            };
            let right = opened.place >= &*raw.record.separator;
            if step.went_right != right || raw.children != [step.record.left, step.record.right] {
                return Err(peer("a path goes another way than it must"));
            }
            for (side, links) in [(Side::Lower, &step.lower), (Side::Upper, &step.upper)] {
                let number = side_index(side);
                if number != own && !both_sides {
                    continue;
                }
                let links = links.as_ref().filter(|links| {
                    nonces[number] == Some(links.nonce)
                        && generation.authentic(self.secrets.index, step.node, side, links)
                        && [links.left.is_some(), links.right.is_some()] == raw.children.map(|c| c.is_some())
                });
                let Some(links) = links else {
                    return Err(if number == own {
                        peer("a circuit's links are not authentic")
                    } else {
                        Broken::Stale
                    });
                };
                nonces[number] = if right { links.right } else { links.left };
                raw.links[number] = Some(links.clone());
            }
            raw.walked[own] = true;
            expected = raw.children[usize::from(right)];
        }
        if expected.is_some() { Err(peer("a path ends before its tree does")) } else { Ok(()) }
    }

    /// What brings a tree's circuits back; none if part of what it takes is not in hand.
    pub(super) fn job(&self, generation: &Generation, mut tree: LockedTree) -> Option<Job> {
        let mut items = Vec::new();
        let mut renew = |side| tree.link.renew(side, &self.epochs, &mut items).ok().flatten();
        let nonces = [renew(Side::Lower)?, renew(Side::Upper)?];
        Some(Job { guard: tree.guard, items, ready: Ready { generation: generation.number, nonces } })
    }
}
