//! One search: down to the leaves of both ends, sorting on the way, then the elements between.

use super::element::{Elements, Opened, Rank, after, before};
use super::{IndexError, Protocol};
use arras_primitives::prg::Prg;
use arras_protocol::pope::{Chunk, Cursor, Node, Request, Response, Run, View};
use arras_protocol::{Blob, Channel, IndexId};

/// Most pages of a buffer in one message: 256 KiB at 4 KiB a page.
const CHUNK_PAGES: u32 = 64;

/// Most nodes on a path.
const PATH_MAX: usize = 64;

/// Most messages of one search: an end for what a lying server could spin out.
const CALLS_MAX: u32 = 1 << 20;

/// Most times that a search goes back to the root. It does so for each leaf split at one of its ends, and a split
/// leaves about 30 elements, or one in 30, in the leaf that the end is in then.
const STARTS_MAX: u32 = 256;

/// What a lying server is told that has a search go on beyond these.
const ENDLESS: &str = "a search that does not end";

/// An end of the range, on its way down.
struct End {
    rank: Rank,
    path: Vec<Node>,
    at_leaf: bool,
}

/// One search.
pub(super) struct Search<'a, C> {
    channel: &'a C,
    index: IndexId,
    elements: &'a Elements,
    calls_left: u32,
}

/// A reply's elements and where they are stored.
pub(super) struct Found<'a> {
    pub(super) elements: &'a [u8],
    pub(super) runs: &'a [Run],
}

/// What became of a node that was looked at.
enum Step {
    /// The end is here.
    Leaf,
    /// Sorted ranks of the labels, and the children.
    Inner(Vec<Rank>, Vec<Node>),
    /// Nodes were split or joined: back to the root.
    Restructured,
}

/// The child that an element or end of this rank belongs to.
fn child_of(labels: &[Rank], rank: Rank) -> usize {
    labels.partition_point(|label| *label < rank)
}

impl<'a, C: Channel<Protocol>> Search<'a, C> {
    pub(super) fn new(channel: &'a C, index: IndexId, elements: &'a Elements) -> Self {
        Self { channel, index, elements, calls_left: CALLS_MAX }
    }

    async fn call(&mut self, request: Request) -> Result<Response, IndexError> {
        self.calls_left = self.calls_left.checked_sub(1).ok_or(IndexError::Peer(ENDLESS))?;
        Ok(self.channel.call(request).await?)
    }

    /// The paths to the leaves where the range begins and ends.
    async fn descend(
        &mut self,
        lower: u64,
        upper: u64,
        random: &mut Prg,
    ) -> Result<(Vec<Node>, Vec<Node>), IndexError> {
        let end = |rank| End { rank, path: Vec::new(), at_leaf: false };
        let mut ends = [end(before(lower)), end(after(upper))];
        let mut starts_left = STARTS_MAX;
        while ends.iter().any(|end| !end.at_leaf) {
            if self.level(&mut ends, random).await? {
                starts_left = starts_left.checked_sub(1).ok_or(IndexError::Peer(ENDLESS))?;
                ends.iter_mut().for_each(|end| (end.path, end.at_leaf) = (Vec::new(), false));
            }
            if ends.iter().any(|end| end.path.len() > PATH_MAX) {
                return Err(IndexError::Peer("a path that does not end"));
            }
        }
        let [lower, upper] = ends.map(|end| end.path);
        Ok((lower, upper))
    }

    /// Looks at the nodes the ends have reached and takes each one level down; true if they must start again.
    async fn level(&mut self, ends: &mut [End; 2], random: &mut Prg) -> Result<bool, IndexError> {
        let mut asked: Vec<Node> =
            ends.iter().filter(|end| !end.at_leaf).filter_map(|end| end.path.last().copied()).collect();
        asked.dedup();
        let mut seed = [0; 16];
        random.fill(&mut seed);
        let look = Request::Look { index: self.index, nodes: asked.clone(), pages_max: CHUNK_PAGES, seed };
        let Response::Looked(views) = self.call(look).await? else {
            return Err(IndexError::Peer("a look was answered by something else"));
        };
        if asked.is_empty() {
            let [(root, _)] = &views[..] else { return Err(IndexError::Peer("not one root")) };
            ends.iter_mut().for_each(|end| end.path.push(*root));
        } else if !views.iter().map(|(node, _)| node).eq(&asked) {
            return Err(IndexError::Peer("other nodes than were asked for"));
        }
        for (node, view) in views {
            let mut here = ends.iter().filter(|end| !end.at_leaf && end.path.last() == Some(&node));
            let Some(path) = here.next().map(|end| end.path.clone()) else { continue };
            match self.settle(path, view).await? {
                Step::Restructured => return Ok(true),
                step => advance(ends, node, &step)?,
            }
        }
        Ok(false)
    }

    /// Empties the node's buffer, and splits a leaf before.
    async fn settle(&mut self, mut path: Vec<Node>, view: View) -> Result<Step, IndexError> {
        let (ranks, children, mut next) = match view {
            View::Leaf => return Ok(Step::Leaf),
            View::Inner { labels, children, buffered } => {
                let ranks = self.elements.open(labels.as_slice())?.ranks();
                if !ranks.is_sorted() || children.len() != ranks.len() + 1 {
                    return Err(IndexError::Peer("a node's labels are not in order"));
                }
                (ranks, children, buffered)
            }
            View::Oversized { sample } => {
                let (ranks, labels) = self.sorted(&sample)?;
                let split =
                    Request::Split { index: self.index, path: path.clone(), labels, pages_max: CHUNK_PAGES };
                let (next, _) = self.pushed(split).await?;
                let leaf = path.pop().ok_or(IndexError::Peer("a node without a path"))?;
                path.push(leaf.inner());
                // The children are not known: the ends look at this node again.
                (ranks, Vec::new(), next)
            }
        };
        let split = children.is_empty();
        let mut last_page = None;
        while let Some(chunk) = next {
            if last_page.is_some_and(|last| chunk.page <= last) {
                return Err(IndexError::Peer("a buffer that does not end"));
            }
            last_page = Some(chunk.page);
            let (more, restructured) = self.push(&path, &ranks, chunk).await?;
            if restructured {
                return Ok(Step::Restructured);
            }
            next = more;
        }
        Ok(if split { Step::Restructured } else { Step::Inner(ranks, children) })
    }

    /// Says for each element of a chunk which child it belongs to.
    async fn push(
        &mut self,
        path: &[Node],
        ranks: &[Rank],
        chunk: Chunk,
    ) -> Result<(Option<Chunk>, bool), IndexError> {
        let opened = self.elements.open(chunk.elements.as_slice())?;
        let children = opened
            .iter()
            .map(|plain| u8::try_from(child_of(ranks, plain.rank())))
            .collect::<Result<Vec<u8>, _>>()
            .map_err(|_| IndexError::Peer("a node with too many labels"))?;
        self.pushed(Request::Push {
            index: self.index,
            path: path.to_vec(),
            page: chunk.page,
            children: Blob(children),
            pages_max: CHUNK_PAGES,
        })
        .await
    }

    async fn pushed(&mut self, request: Request) -> Result<(Option<Chunk>, bool), IndexError> {
        match self.call(request).await? {
            Response::Pushed { next, restructured } => Ok((next, restructured)),
            _ => Err(IndexError::Peer("a push was answered by something else")),
        }
    }

    /// The labels drawn, in order.
    fn sorted(&self, sample: &Blob) -> Result<(Vec<Rank>, Blob), IndexError> {
        let opened = self.elements.open(sample.as_slice())?;
        let mut labels: Vec<(Rank, &[u8])> = opened
            .ranks()
            .into_iter()
            .zip(sample.as_slice().chunks_exact(self.elements.sealed_bytes()))
            .collect();
        labels.sort_unstable();
        // Ties are random, so equal ranks are one element shown several times, and would split nothing.
        if labels.is_empty() || labels.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(IndexError::Peer("a sample of one element"));
        }
        let sealed = labels.iter().flat_map(|(_, label)| label.iter().copied()).collect();
        Ok((labels.iter().map(|(rank, _)| *rank).collect(), Blob(sealed)))
    }

    /// Hands all elements of the leaves where the range begins and ends, and of what lies between, to `take`, a
    /// reply at a time.
    pub(super) async fn run(
        &mut self,
        lower: u64,
        upper: u64,
        random: &mut Prg,
        mut take: impl FnMut(&Found<'_>, &Opened) -> Result<(), IndexError>,
    ) -> Result<(), IndexError> {
        for _ in 0..STARTS_MAX {
            let paths = self.descend(lower, upper, random).await?;
            if self.collect(paths, random, &mut take).await? {
                return Ok(());
            }
        }
        Err(IndexError::Peer(ENDLESS))
    }

    /// Hands all elements between two paths to `take`; false, and none, if a leaf had to be split first.
    async fn collect(
        &mut self,
        (lower, upper): (Vec<Node>, Vec<Node>),
        random: &mut Prg,
        take: &mut impl FnMut(&Found<'_>, &Opened) -> Result<(), IndexError>,
    ) -> Result<bool, IndexError> {
        let mut resume: Option<Cursor> = None;
        loop {
            let mut seed = [0; 16];
            random.fill(&mut seed);
            let request = Request::Collect {
                index: self.index,
                lower: lower.clone(),
                upper: upper.clone(),
                resume: resume.clone(),
                seed,
            };
            let (elements, runs, next) = match self.call(request).await? {
                Response::Found { elements, runs, next } => (elements, runs, next),
                Response::Looked(views) if resume.is_none() => {
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
            let opened = self.elements.open(elements.as_slice())?;
            take(&Found { elements: elements.as_slice(), runs: &runs }, &opened)?;
            if next.is_none() {
                return Ok(true);
            }
            if next == resume || elements.is_empty() {
                return Err(IndexError::Peer("a reply that does not go on"));
            }
            resume = next;
        }
    }
}

/// Takes the ends that are at `node` one level down.
fn advance(ends: &mut [End; 2], node: Node, step: &Step) -> Result<(), IndexError> {
    for end in ends.iter_mut().filter(|end| !end.at_leaf && end.path.last() == Some(&node)) {
        match step {
            Step::Inner(ranks, children) => {
                let child = children.get(child_of(ranks, end.rank));
                let child = *child.ok_or(IndexError::Peer("a node without the child"))?;
                end.path.push(child);
                // Whether a leaf must be split is found out with its elements.
                end.at_leaf = !child.is_inner();
            }
            _ => end.at_leaf = true,
        }
    }
    Ok(())
}
