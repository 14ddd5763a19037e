//! One search: down to the leaves of both ends, sorting on the way, then the elements between.

use super::element::{Rank, after, before, value_of};
use super::found::{Found, Reply};
use super::{IndexError, Pope, Protocol};
use crate::contract::Order;
use arras_protocol::pope::{Chunk, Cursor, Node, Request, Response, View};
use arras_protocol::{Blob, Channel};
use tokio::sync::MutexGuard;

/// Most pages of a buffer in one message: 256 KiB at 4 KiB a page.
const CHUNK_PAGES: u32 = 64;

/// Most nodes on a path.
const PATH_MAX: usize = 64;

/// Most messages of one search: an end for what a lying server could spin out.
const CALLS_MAX: u32 = 1 << 20;

/// Most times that a search goes back to the root. It does so for each leaf split at one of its ends, and a split
/// leaves about 30 elements, or one in 30, in the leaf that the end is in then; and when another has changed the tree.
const STARTS_MAX: u32 = 1024;

/// Starts that a search tries beside others of this client before it waits for its turn.
const STARTS_BESIDE: u32 = 2;

/// What a lying server is told that has a search go on beyond these.
const ENDLESS: &str = "a search that does not end";

/// An end of the range, on its way down.
struct End {
    rank: Rank,
    path: Vec<Node>,
    at_leaf: bool,
    /// Of each node on the path, its labels and the child that the path goes on with.
    passed: Vec<(Vec<Rank>, usize)>,
}

/// One search.
pub(super) struct Search<'a, C> {
    half: &'a Pope<C>,
    calls_left: u32,
    /// The tree's version, as this search has seen it.
    version: u64,
    /// Held from the first time that the search has to change the tree: of one client's searches one does so at a time, and
    /// the others, which it makes start again, wait for it.
    turn: Option<MutexGuard<'a, ()>>,
}

/// What became of a node that was looked at.
enum Step {
    /// The end is here.
    Leaf,
    /// Sorted ranks of the labels, and the children.
    Inner(Vec<Rank>, Vec<Node>),
    /// The tree is another: back to the root.
    Again,
}

/// What became of a push.
enum Pushed {
    Next(Option<Chunk>),
    Again,
}

/// The child that an element or end of this rank belongs to.
fn child_of(labels: &[Rank], rank: Rank) -> usize {
    labels.partition_point(|label| *label < rank)
}

impl<'a, C: Channel<Protocol>> Search<'a, C> {
    pub(super) fn new(half: &'a Pope<C>) -> Self {
        Self { half, calls_left: CALLS_MAX, version: 0, turn: None }
    }

    /// The version that [`Search::run`] has ended at.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    async fn call(&mut self, request: Request) -> Result<Response, IndexError> {
        self.calls_left = self.calls_left.checked_sub(1).ok_or(IndexError::Peer(ENDLESS))?;
        Ok(self.half.channel.call(request).await?)
    }

    /// Waits for the turn to change the tree; false if another had it, who may have changed what this search has seen.
    async fn take_turn(&mut self) -> bool {
        if self.turn.is_some() {
            return true;
        }
        if let Ok(turn) = self.half.turn.try_lock() {
            self.turn = Some(turn);
            return true;
        }
        self.turn = Some(self.half.turn.lock().await);
        false
    }

    /// The leaves where the range begins and ends; `None` if the search has to start again.
    async fn descend(&mut self, ranks: [Rank; 2]) -> Result<Option<[End; 2]>, IndexError> {
        let mut ends = ranks.map(|rank| End { rank, path: Vec::new(), at_leaf: false, passed: Vec::new() });
        while ends.iter().any(|end| !end.at_leaf) {
            if !self.level(&mut ends).await? {
                return Ok(None);
            }
            if ends.iter().any(|end| end.path.len() > PATH_MAX) {
                return Err(IndexError::Peer("a path that does not end"));
            }
        }
        Ok(Some(ends))
    }

    /// Looks at the nodes the ends have reached and takes each one level down; false if they must start again.
    async fn level(&mut self, ends: &mut [End; 2]) -> Result<bool, IndexError> {
        let mut asked: Vec<Node> =
            ends.iter().filter(|end| !end.at_leaf).filter_map(|end| end.path.last().copied()).collect();
        asked.dedup();
        let nodes = (!asked.is_empty()).then(|| (self.version, asked.clone()));
        let (index, seed) = (self.half.index, self.half.seed());
        let look = Request::Look { index, nodes, pages_max: CHUNK_PAGES, seed };
        let (version, views) = match self.call(look).await? {
            Response::Looked { version, views } => (version, views),
            Response::Changed if !asked.is_empty() => return Ok(false),
            _ => return Err(IndexError::Peer("a look was answered by something else")),
        };
        if asked.is_empty() {
            let [(root, _)] = &views[..] else { return Err(IndexError::Peer("not one root")) };
            ends.iter_mut().for_each(|end| end.path.push(*root));
            self.version = version;
        } else if !views.iter().map(|(node, _)| node).eq(&asked) || version != self.version {
            return Err(IndexError::Peer("other nodes than were asked for"));
        }
        for (node, view) in views {
            let mut here = ends.iter().filter(|end| !end.at_leaf && end.path.last() == Some(&node));
            let Some(path) = here.next().map(|end| end.path.clone()) else { continue };
            match self.settle(path, view).await? {
                Step::Again => return Ok(false),
                step => advance(ends, node, &step)?,
            }
        }
        Ok(true)
    }

    /// Empties the node's buffer, and splits a leaf before.
    async fn settle(&mut self, mut path: Vec<Node>, view: View) -> Result<Step, IndexError> {
        let (ranks, children, mut next) = match view {
            View::Leaf => return Ok(Step::Leaf),
            View::Inner { labels, children, buffered } => {
                let ranks = self.half.elements.open(labels.as_slice())?.ranks();
                if !ranks.is_sorted() || children.len() != ranks.len() + 1 {
                    return Err(IndexError::Peer("a node's labels are not in order"));
                }
                (ranks, children, buffered)
            }
            View::Oversized { sample } => {
                if !self.take_turn().await {
                    return Ok(Step::Again);
                }
                let (ranks, labels) = self.sorted(&sample)?;
                let split = Request::Split {
                    index: self.half.index,
                    version: self.version,
                    path: path.clone(),
                    labels,
                    pages_max: CHUNK_PAGES,
                };
                let Pushed::Next(next) = self.pushed(split).await? else { return Ok(Step::Again) };
                let leaf = path.pop().ok_or(IndexError::Peer("a node without a path"))?;
                path.push(leaf.inner());
                // The children are not known: the ends look at this node again.
                (ranks, Vec::new(), next)
            }
        };
        let split = children.is_empty();
        if next.is_some() && !self.take_turn().await {
            return Ok(Step::Again);
        }
        // What insertions add behind the last chunk stays in the buffer.
        while let Some(chunk) = next {
            let is_last = chunk.is_last;
            let Pushed::Next(more) = self.push(&path, &ranks, chunk).await? else { return Ok(Step::Again) };
            next = more.filter(|_| !is_last);
        }
        Ok(if split { Step::Again } else { Step::Inner(ranks, children) })
    }

    /// Says for each element of a chunk which child it belongs to.
    async fn push(&mut self, path: &[Node], ranks: &[Rank], chunk: Chunk) -> Result<Pushed, IndexError> {
        let opened = self.half.elements.open(chunk.elements.as_slice())?;
        let children = opened
            .iter()
            .map(|plain| u8::try_from(child_of(ranks, plain.rank())))
            .collect::<Result<Vec<u8>, _>>()
            .map_err(|_| IndexError::Peer("a node with too many labels"))?;
        self.pushed(Request::Push {
            index: self.half.index,
            version: self.version,
            path: path.to_vec(),
            children: Blob(children),
            pages_max: if chunk.is_last { 0 } else { CHUNK_PAGES },
        })
        .await
    }

    async fn pushed(&mut self, request: Request) -> Result<Pushed, IndexError> {
        match self.call(request).await? {
            Response::Pushed { version, next, restructured } => {
                if version <= self.version {
                    return Err(IndexError::Peer("a change that leaves the version as it was"));
                }
                self.version = version;
                Ok(if restructured { Pushed::Again } else { Pushed::Next(next) })
            }
            Response::Changed => Ok(Pushed::Again),
            _ => Err(IndexError::Peer("a push was answered by something else")),
        }
    }

    /// The labels drawn, in order.
    fn sorted(&self, sample: &Blob) -> Result<(Vec<Rank>, Blob), IndexError> {
        let opened = self.half.elements.open(sample.as_slice())?;
        let mut labels: Vec<(Rank, &[u8])> = opened
            .ranks()
            .into_iter()
            .zip(sample.as_slice().chunks_exact(self.half.elements.sealed_bytes()))
            .collect();
        labels.sort_unstable();
        let drawn = labels.len();
        // Equal ranks are one element that an insertion delivered again has brought again.
        labels.dedup_by_key(|(rank, _)| *rank);
        if labels.is_empty() || labels.len() == 1 && drawn > 1 {
            return Err(IndexError::Peer("a sample of one element"));
        }
        let sealed = labels.iter().flat_map(|(_, label)| label.iter().copied()).collect();
        Ok((labels.iter().map(|(rank, _)| *rank).collect(), Blob(sealed)))
    }

    /// All elements of the leaves where the range begins and ends, and of what lies between, as far as their values are of it.
    /// If these are more than `most`, some.
    pub(super) async fn run(&mut self, lower: u64, upper: u64, most: usize) -> Result<Found, IndexError> {
        for start in 0..STARTS_MAX {
            self.wait_after(start).await;
            if let Some(ends) = self.descend([before(lower), after(upper)]).await? {
                let mut found = Found::new(lower, upper, most);
                if self.collect(ends.map(|end| end.path), &mut found).await? {
                    return Ok(found);
                }
            }
        }
        Err(IndexError::Peer(ENDLESS))
    }

    /// A value such that, from `from` on towards the end of `order`, about `leaves` leaves' elements come up to it, it included;
    /// `None` if there are not so many.
    pub(super) async fn value_beyond(
        &mut self,
        from: u64,
        order: Order,
        leaves: usize,
    ) -> Result<Option<u64>, IndexError> {
        let rank = match order {
            Order::Ascending => before(from),
            Order::Descending => after(from),
        };
        for start in 0..STARTS_MAX {
            self.wait_after(start).await;
            if let Some([end, _]) = self.descend([rank, rank]).await? {
                return Ok(end.label_beyond(order, leaves).map(value_of));
            }
        }
        Err(IndexError::Peer(ENDLESS))
    }

    async fn wait_after(&mut self, starts: u32) {
        if starts >= STARTS_BESIDE {
            self.take_turn().await;
        }
    }

    /// Takes all elements between two paths; false if the search has to start again.
    async fn collect(
        &mut self,
        [lower, upper]: [Vec<Node>; 2],
        found: &mut Found,
    ) -> Result<bool, IndexError> {
        let mut resume: Option<Cursor> = None;
        loop {
            let request = Request::Collect {
                index: self.half.index,
                version: self.version,
                lower: lower.clone(),
                upper: upper.clone(),
                resume: resume.clone(),
                seed: self.half.seed(),
            };
            let (elements, runs, next) = match self.call(request).await? {
                Response::Found { elements, runs, next } => (elements, runs, next),
                Response::Changed => return Ok(false),
                Response::Looked { views, .. } if resume.is_none() => {
                    // Splitting one may change the path to the other.
                    let Some((leaf, view @ View::Oversized { .. })) = views.into_iter().next() else {
                        return Err(IndexError::Peer("no leaf to split"));
                    };
                    let path = [lower, upper].into_iter().find(|path| path.last() == Some(&leaf));
                    let path = path.ok_or(IndexError::Peer("another leaf than was asked for"))?;
                    self.settle(path, view).await?;
                    return Ok(false);
                }
                _ => return Err(IndexError::Peer("a search was answered by something else")),
            };
            let opened = self.half.elements.open(elements.as_slice())?;
            let is_empty = elements.is_empty();
            found.take(&self.half.elements, Reply { elements, runs }, &opened)?;
            if next.is_none() || found.is_too_many() {
                return Ok(true);
            }
            if next == resume || is_empty {
                return Err(IndexError::Peer("a reply that does not go on"));
            }
            resume = next;
        }
    }
}

impl End {
    /// The label that ends about so many leaves from this one on, towards the end of `order`; `None` if the tree ends before.
    fn label_beyond(&self, order: Order, leaves: usize) -> Option<Rank> {
        let mut leaves = leaves.max(1);
        for (labels, child) in self.passed.iter().rev() {
            let place = match order {
                Order::Ascending => (child + leaves).checked_sub(1),
                Order::Descending => child.checked_sub(leaves),
            };
            if let Some(label) = place.and_then(|place| labels.get(place)) {
                return Some(*label);
            }
            // Above, a label ends a subtree of about as many as this one has.
            leaves = (leaves / (labels.len() + 1)).max(1);
        }
        None
    }
}

/// Takes the ends that are at `node` one level down.
fn advance(ends: &mut [End; 2], node: Node, step: &Step) -> Result<(), IndexError> {
    for end in ends.iter_mut().filter(|end| !end.at_leaf && end.path.last() == Some(&node)) {
        match step {
            Step::Inner(ranks, children) => {
                let place = child_of(ranks, end.rank);
                let child = *children.get(place).ok_or(IndexError::Peer("a node without the child"))?;
                end.path.push(child);
                end.passed.push((ranks.clone(), place));
                // Whether a leaf must be split is found out with its elements.
                end.at_leaf = !child.is_inner();
            }
            Step::Leaf | Step::Again => end.at_leaf = true,
        }
    }
    Ok(())
}
