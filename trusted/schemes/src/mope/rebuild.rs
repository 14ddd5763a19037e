//! The tree above changed leaves, made whole again: splits, merges, and the entries of children in their parents, level by
//! level from the leaves up.
//!
//! A node that falls below the least number of entries is joined with a sibling, or, where all siblings go in the same change,
//! with the next node of its level, and what is then too much for one node is shared out evenly: only a root has fewer. An entry
//! of an inner node is the child's first key, its label, number and tag: where one of these is another, the parent has changed,
//! too.

use super::cache::After;
use super::inner::Inner;
use super::node::{Body, Entry, LEVEL_MAX, Layout, Tag};
use super::tags::SALT_BYTES;
use super::work::{Path, Side, Work, parent, slot};
use super::{Miss, Tree};
use crate::error::IndexError;
use arras_primitives::wipe::Wiped;
use arras_protocol::Blob;
use arras_protocol::mope::{DIGEST_BYTES, Head, Node, TreeStore};
use rand::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

const NOT_READ: IndexError = IndexError::Peer("a node was read before its parent");

/// Nodes of a level that change, or that are joined with one that does.
type Level = BTreeMap<Path, (Node, Change)>;

/// Nodes that are joined with the one behind them, and that.
type Bonds = BTreeMap<Path, Path>;

/// What a node becomes.
enum Change {
    Body(Body),
    /// An inner node with nothing but other tags of some children.
    Tags(Vec<(usize, Tag)>),
}

/// What comes of children of a parent: slots, and the nodes that take their places.
type Renewed = (Range<usize>, Vec<Written>);

/// What a change comes to in nodes.
#[derive(Default)]
pub(super) struct Rebuilt {
    /// For the store.
    pub(super) nodes: Vec<(Node, Option<Blob>)>,
    /// Without the label inserted last.
    pub(super) after: After,
}

/// Nodes beside each other that are joined, or a node by itself.
struct Run {
    first: Path,
    last: Path,
    entries: usize,
}

impl Run {
    /// The children of each parent that it takes in.
    fn slots(&self, level: &Level) -> Vec<(Path, Range<usize>)> {
        let mut all: Vec<(Path, Range<usize>)> = Vec::with_capacity(1);
        for path in level.range(self.first..=self.last).map(|(path, _)| *path) {
            match all.last_mut() {
                Some((of, slots)) if *of == parent(path) => slots.end = slot(path) + 1,
                Some(_) | None => all.push((parent(path), slot(path)..slot(path) + 1)),
            }
        }
        all
    }
}

/// A node that was written, as its parent is to know it.
struct Written {
    ciphertext: Vec<u8>,
    plain: Wiped,
    label: u64,
    node: Node,
    tag: Tag,
}

impl Written {
    /// A child that its parent knows.
    fn new(entry: &Entry<'_>) -> Self {
        let plain = Wiped::from(entry.plain.to_vec());
        let Entry { label, child: node, tag, .. } = *entry;
        Self { ciphertext: entry.ciphertext.to_vec(), plain, label, node, tag }
    }

    fn entry(&self) -> Entry<'_> {
        Entry {
            ciphertext: &self.ciphertext,
            plain: &self.plain,
            label: self.label,
            child: self.node,
            tag: self.tag,
        }
    }
}

impl<S: TreeStore> Work<'_, S> {
    /// None if no leaf has changed.
    pub(super) async fn rebuild(&mut self, entered: usize, left: usize) -> Result<Option<Rebuilt>, Miss> {
        let mut level: Level = BTreeMap::new();
        for (path, leaf) in self.leaves.iter_mut().filter(|(_, leaf)| leaf.changed) {
            let mut body = std::mem::take(&mut leaf.body);
            body.plains = Wiped::default();
            level.insert(*path, (leaf.node, Change::Body(body)));
        }
        if level.is_empty() {
            return Ok(None);
        }
        let mut rebuilt = Rebuilt::default();
        let values = (self.head.values + entered as u64).saturating_sub(left as u64);
        let mut root = (self.head.root, [0; 16]);
        for height in 0..=self.height {
            if height == self.height {
                root = match level.remove(&0) {
                    None => root,
                    Some((node, Change::Body(body))) => self.regrow(node, body, &mut rebuilt)?,
                    Some((node, Change::Tags(tags))) => {
                        (node, self.retag(height, 0, (node, &tags), &mut rebuilt)?)
                    }
                };
                break;
            }
            level = self.raise(height, level, &mut rebuilt).await?;
            if level.is_empty() {
                break;
            }
            if let Some(tags) = only_tags(&level) {
                root = self.retag_up(height + 1, tags, &mut rebuilt)?;
                break;
            }
        }
        let (root, tag) = root;
        let version = self.head.version + 1;
        let mut head = Head { version, root, next: self.next, values, digest: [0; DIGEST_BYTES] };
        if let Some(tags) = &self.tree.tags {
            let mut salt = [0; SALT_BYTES];
            self.tree.randomness.rng().fill_bytes(&mut salt);
            head.digest = tags.digest(&head, salt, &tag);
        }
        rebuilt.after.head = head;
        Ok(Some(rebuilt))
    }

    /// Writes the nodes of a level below the root's; returns their parents that change with them.
    async fn raise(&mut self, height: u8, mut level: Level, rebuilt: &mut Rebuilt) -> Result<Level, Miss> {
        let runs = self.join(height, &mut level).await?;
        let layout = self.tree.layout;
        let mut children: BTreeMap<Path, Vec<Renewed>> = BTreeMap::new();
        for run in runs {
            let first = self.inners.get(&(height + 1, parent(run.first))).ok_or(NOT_READ)?;
            let first = Arc::clone(&first.1);
            let slots = run.slots(&level);
            let known = first.entry(slot(run.first), &layout);
            let mut written = self.write_run(height, &run, &mut level, (known, &mut *rebuilt))?;
            for (path, slots) in slots {
                children.entry(path).or_default().push((slots, std::mem::take(&mut written)));
            }
        }
        let mut parents: Level = BTreeMap::new();
        for (path, children) in children {
            let (node, inner) = self.inners.get(&(height + 1, path)).ok_or(NOT_READ)?;
            if let Some(change) = renewed(inner, children, &layout) {
                parents.insert(path, (*node, change));
            }
        }
        Ok(parents)
    }

    /// Finds neighbours for nodes that have too few entries, and reads them.
    async fn join(&mut self, height: u8, level: &mut Level) -> Result<Vec<Run>, Miss> {
        let mut bonds = Bonds::new();
        loop {
            let runs = self.runs(height, level, &bonds)?;
            let mut missing = BTreeSet::new();
            let before = bonds.len();
            for run in runs.iter().filter(|run| run.entries < self.tree.layout.entries_min()) {
                let Some(other) = self.neighbour(height, run).await? else { continue };
                if other > run.last {
                    bonds.insert(run.last, other);
                } else {
                    bonds.insert(other, run.first);
                }
                if !level.contains_key(&other) {
                    missing.insert(other);
                }
            }
            if bonds.len() == before {
                return Ok(runs);
            }
            let missing: Vec<Path> = missing.into_iter().collect();
            self.load_at(height, &missing).await?;
            for path in missing {
                level.insert(path, self.copy(height, path)?);
            }
        }
    }

    /// The node that a run is joined with: a sibling if there is one, else the next one of the level; none if it is all of it.
    async fn neighbour(&mut self, height: u8, run: &Run) -> Result<Option<Path>, Miss> {
        let siblings = self.inner(height + 1, parent(run.last))?.body().len();
        if slot(run.last) + 1 < siblings {
            return Ok(Some(run.last + 1));
        }
        if slot(run.first) > 0 {
            return Ok(Some(run.first - 1));
        }
        match self.beside_at(height, run.last, Side::Right).await? {
            Some(next) => Ok(Some(next)),
            None => self.beside_at(height, run.first, Side::Left).await,
        }
    }

    /// A node that was read and has not changed, to be joined with another.
    fn copy(&self, height: u8, path: Path) -> Result<(Node, Change), IndexError> {
        let layout = &self.tree.layout;
        if height > 0 {
            let node = self.inners.get(&(height, path)).map_or(0, |(node, _)| *node);
            return Ok((node, Change::Tags(Vec::new())));
        }
        let leaf = self.leaf(path)?;
        let mut body = leaf.body.part(0..leaf.body.len(), layout);
        body.plains = Wiped::default();
        Ok((leaf.node, Change::Body(body)))
    }

    /// Writes the nodes that a run, joined and shared out, comes to. `known` is the first of them as their parent knows it.
    fn write_run(
        &mut self,
        height: u8,
        run: &Run,
        level: &mut Level,
        (known, rebuilt): (Entry<'_>, &mut Rebuilt),
    ) -> Result<Vec<Written>, IndexError> {
        let mut joined: Option<Body> = None;
        let mut numbers = Vec::new();
        let paths: Vec<Path> = level.range(run.first..=run.last).map(|(path, _)| *path).collect();
        for path in paths {
            let body = match level.remove(&path) {
                None => continue,
                Some((node, Change::Tags(tags))) if run.first == run.last => {
                    let tag = self.retag(height, path, (node, &tags), rebuilt)?;
                    return Ok(vec![Written::new(&Entry { tag, ..known })]);
                }
                Some((node, change)) => {
                    numbers.push(node);
                    match change {
                        Change::Body(body) => body,
                        Change::Tags(tags) => self.inner(height, path)?.whole(&tags, &self.tree.layout),
                    }
                }
            };
            match &mut joined {
                None => joined = Some(body),
                Some(joined) => joined.append(&body, 0..body.len(), &self.tree.layout),
            }
        }
        self.write(joined.unwrap_or_default(), numbers, Some(known), rebuilt)
    }

    /// Writes an inner node with other tags of some children and the nodes above it, of which each then has the one below's; most
    /// changes come to this from the second level on. Returns the root.
    fn retag_up(
        &self,
        mut height: u8,
        OnlyTags { path, node, tags }: OnlyTags<'_>,
        rebuilt: &mut Rebuilt,
    ) -> Result<(Node, Tag), IndexError> {
        let (mut path, mut node) = (path, node);
        let mut tag = self.retag(height, path, (node, tags), rebuilt)?;
        while height < self.height {
            let below = [(slot(path), tag)];
            (height, path) = (height + 1, parent(path));
            node = self.inners.get(&(height, path)).ok_or(NOT_READ)?.0;
            tag = self.retag(height, path, (node, &below), rebuilt)?;
        }
        Ok((node, tag))
    }

    /// Writes an inner node with other tags of some children; returns its own.
    fn retag(
        &self,
        height: u8,
        path: Path,
        (node, changed): (Node, &[(usize, Tag)]),
        rebuilt: &mut Rebuilt,
    ) -> Result<Tag, IndexError> {
        let Some(tags) = &self.tree.tags else { return Ok([0; 16]) };
        let (inner, bytes) = self.inner(height, path)?.retag(tags, changed);
        let tag = inner.tag;
        rebuilt.nodes.push((node, Some(Blob(bytes))));
        rebuilt.after.inners.push((node, Arc::new(inner)));
        Ok(tag)
    }

    /// The nodes of a level, those that are joined together.
    fn runs(&self, height: u8, level: &Level, bonds: &Bonds) -> Result<Vec<Run>, IndexError> {
        let mut runs: Vec<Run> = Vec::with_capacity(level.len());
        for (path, (_, change)) in level {
            let entries = match change {
                Change::Body(body) => body.len(),
                Change::Tags(_) => self.inner(height, *path)?.body().len(),
            };
            match runs.last_mut() {
                Some(run) if bonds.get(&run.last) == Some(path) => {
                    run.last = *path;
                    run.entries += entries;
                }
                Some(_) | None => runs.push(Run { first: *path, last: *path, entries }),
            }
        }
        Ok(runs)
    }

    /// Writes a body as one node or several, under the numbers that there are and new ones.
    fn write(
        &mut self,
        body: Body,
        numbers: Vec<Node>,
        known: Option<Entry<'_>>,
        rebuilt: &mut Rebuilt,
    ) -> Result<Vec<Written>, IndexError> {
        let mut numbers = numbers.into_iter();
        let entries = body.len();
        let mut written = Vec::new();
        let mut whole = Some(body);
        let shares = self.tree.layout.shares(entries);
        let count = shares.clone().count();
        for share in shares {
            let node = numbers.next().unwrap_or_else(|| self.allocate());
            let part = if count == 1 {
                whole.take()
            } else {
                whole.as_ref().map(|body| body.part(share, &self.tree.layout))
            };
            written.push(self.tree.write_node(node, part.unwrap_or_default(), known.as_ref(), rebuilt)?);
        }
        for node in numbers {
            rebuilt.nodes.push((node, None));
            rebuilt.after.gone.push(node);
        }
        Ok(written)
    }

    /// Writes what was the root, and new roots above it as far as that takes more than one node, or none where all is gone.
    fn regrow(&mut self, node: Node, body: Body, rebuilt: &mut Rebuilt) -> Result<(Node, Tag), IndexError> {
        let (mut node, mut body) = (node, body);
        loop {
            if body.level > 0 && body.len() == 1 {
                return Ok(self.collapse(node, &body, rebuilt));
            }
            let height = body.level;
            let mut written = self.write(body, vec![node], None, rebuilt)?;
            let (Some(only), 0..=1) = (written.last(), written.len()) else {
                if written.is_empty() {
                    return Ok((0, [0; 16]));
                }
                if height == LEVEL_MAX {
                    return Err(IndexError::Caller("an order-preserving tree cannot hold so many values"));
                }
                let layout = self.tree.layout;
                body = Body::with_capacity(height + 1, written.len(), &layout);
                written.drain(..).for_each(|child| body.push(child.entry(), &layout));
                node = self.allocate();
                continue;
            };
            return Ok((only.node, only.tag));
        }
    }

    /// The root has one child: that is the root now.
    fn collapse(&mut self, node: Node, body: &Body, rebuilt: &mut Rebuilt) -> (Node, Tag) {
        rebuilt.nodes.push((node, None));
        rebuilt.after.gone.push(node);
        let mut root = (body.children[0], body.tags.first().copied().unwrap_or_default());
        while let Some(at) = rebuilt
            .after
            .inners
            .iter()
            .position(|(written, inner)| *written == root.0 && inner.body().len() == 1)
        {
            let (gone, inner) = rebuilt.after.inners.swap_remove(at);
            rebuilt.nodes.retain(|(written, _)| *written != gone);
            rebuilt.nodes.push((gone, None));
            rebuilt.after.gone.push(gone);
            let only = inner.entry(0, &self.tree.layout);
            root = (only.child, only.tag);
        }
        root
    }
}

impl<S: TreeStore> Tree<S> {
    /// Writes a node.
    fn write_node(
        &self,
        node: Node,
        body: Body,
        known: Option<&Entry<'_>>,
        rebuilt: &mut Rebuilt,
    ) -> Result<Written, IndexError> {
        let bytes = body.encode(&self.layout);
        let (sum, tag) = self.tags.as_ref().map_or_else(Default::default, |tags| tags.node(&bytes));
        let ciphertext = body.ciphertext(0, &self.layout).to_vec();
        let mut plain = Wiped::with_capacity(self.layout.plain_bytes);
        match known {
            Some(known) if known.ciphertext == ciphertext => plain.extend_from_slice(known.plain),
            Some(_) | None => self.cipher.open_each(&ciphertext, &mut plain)?,
        }
        let written = Written { ciphertext, plain, label: body.labels[0], node, tag };
        if body.level > 0 {
            rebuilt.after.inners.push((node, Arc::new(Inner::new(body, &bytes, (sum, tag)))));
        }
        rebuilt.nodes.push((node, Some(Blob(bytes))));
        Ok(written)
    }
}

/// A level in which one node changes, and of that nothing but tags of children.
struct OnlyTags<'a> {
    path: Path,
    node: Node,
    tags: &'a [(usize, Tag)],
}

fn only_tags(level: &Level) -> Option<OnlyTags<'_>> {
    match level.first_key_value() {
        Some((path, (node, Change::Tags(tags)))) if level.len() == 1 => {
            Some(OnlyTags { path: *path, node: *node, tags })
        }
        Some((_, (_, Change::Tags(_) | Change::Body(_)))) | None => None,
    }
}

/// What a parent becomes of whose children those of some slots were written; none if it knows them already.
fn renewed(inner: &Inner, children: Vec<Renewed>, layout: &Layout) -> Option<Change> {
    let same_but_tag = |slots: &Range<usize>, written: &[Written]| match written {
        [written] if slots.len() == 1 => {
            let known = inner.entry(slots.start, layout);
            let same = (known.ciphertext, known.label, known.child)
                == (written.ciphertext.as_slice(), written.label, written.node);
            same.then_some((slots.start, written.tag, known.tag != written.tag))
        }
        _ => None,
    };
    let same: Option<Vec<(usize, Tag, bool)>> =
        children.iter().map(|(slots, written)| same_but_tag(slots, written)).collect();
    if let Some(same) = same {
        let tags: Vec<(usize, Tag)> =
            same.into_iter().filter(|(_, _, other)| *other).map(|(slot, tag, _)| (slot, tag)).collect();
        return (!tags.is_empty()).then_some(Change::Tags(tags));
    }
    let old = inner.whole(&[], layout);
    let mut body = Body::with_capacity(old.level, old.len() + 1, layout);
    let mut from = 0;
    for (slots, written) in children {
        body.append(&old, from..slots.start, layout);
        written.iter().for_each(|written| body.push(written.entry(), layout));
        from = slots.end;
    }
    body.append(&old, from..old.len(), layout);
    Some(Change::Body(body))
}
