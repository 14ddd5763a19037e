//! The part of a tree that one operation has read, all of one version, and the ways to read more of it.
//!
//! A node's *path* is the slots from the root down to it, 8 bits each: of two nodes of a level the one with the lesser keys
//! has the lesser path, and a parent's path is its child's without the last slot.

use super::cipher::lower_bound;
use super::inner::Inner;
use super::node::{Body, Tag};
use super::tags::root_tag;
use super::{Miss, Tree};
use crate::error::IndexError;
use arras_primitives::light_mac::Sum;
use arras_protocol::Blob;
use arras_protocol::mope::{Fetch, Fetched, Head, Label, Node, TreeStore};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

/// See the module.
pub(super) type Path = u64;

/// Bits of a slot in a path.
const SLOT_BITS: u32 = 8;

/// Bytes of nodes that one round asks for, at most.
const FETCH_BYTES_MAX: usize = 8 << 20;

/// Values of a leaf from which on it is opened as a whole, where its values are not opened side by side.
const VALUES_MANY: usize = 16;

/// A level that is not known yet: the root's.
const UNKNOWN: u8 = u8::MAX;

/// A leaf that was read.
pub(super) struct Leaf {
    pub(super) node: Node,
    pub(super) body: Body,
    pub(super) changed: bool,
}

/// A node to be read.
#[derive(Clone, Copy)]
struct Wanted {
    path: Path,
    level: u8,
    node: Node,
    tag: Tag,
}

/// A leaf and which of the sorted values belong to it.
pub(super) struct Landing {
    pub(super) path: Path,
    pub(super) values: Range<usize>,
}

/// To which side of a leaf.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// The first key of a leaf, as the nodes above know it.
pub(super) struct First<'a> {
    pub(super) ciphertext: &'a [u8],
    pub(super) label: Label,
}

/// See the module.
pub(super) struct Work<'t, S> {
    pub(super) tree: &'t Tree<S>,
    pub(super) head: Head,
    /// The root's level.
    pub(super) height: u8,
    pub(super) inners: BTreeMap<(u8, Path), (Node, Arc<Inner>)>,
    pub(super) leaves: BTreeMap<Path, Leaf>,
    /// What came before it was wanted.
    spare: HashMap<Node, Blob>,
    /// The next node's number.
    pub(super) next: Node,
    /// What it leads to is applied at this version or not at all: leaves may be of a while ago.
    changes: bool,
}

/// The path of a child.
pub(super) fn child(path: Path, slot: usize) -> Path {
    path << SLOT_BITS | slot as Path
}

/// The path of a node so many levels above.
fn above(path: Path, levels: u8) -> Path {
    path.checked_shr(SLOT_BITS * u32::from(levels)).unwrap_or(0)
}

/// The path of a parent.
pub(super) fn parent(path: Path) -> Path {
    above(path, 1)
}

/// A node's place in its parent.
pub(super) fn slot(path: Path) -> usize {
    (path & ((1 << SLOT_BITS) - 1)) as usize
}

const NOT_READ: IndexError =
    IndexError::Peer("a node of an order-preserving tree is not where its parent says");

impl<'t, S: TreeStore> Work<'t, S> {
    /// Begins at the newest acknowledged state; or, where others changed the tree meanwhile, at the one that it is in now:
    /// `again` are the nodes that were read last, most of which are still the right ones.
    pub(super) async fn start(tree: &'t Tree<S>, again: Option<Vec<Node>>) -> Result<Self, IndexError> {
        let known = if again.is_none() { tree.shared.cache().start() } else { None };
        let (head, spare) = match known {
            Some(head) => (head, HashMap::new()),
            None => tree.ask(again.unwrap_or_default()).await?,
        };
        let (inners, leaves) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { tree, head, height: 0, inners, leaves, spare, next: head.next, changes: false })
    }

    /// It is for a change.
    pub(super) fn for_change(mut self) -> Self {
        self.changes = true;
        self
    }

    /// A leaf that the store has kept, if it is the one that its parent says.
    fn recent(&self, wanted: &Wanted) -> Option<Blob> {
        let tags = self.tree.tags.as_ref().filter(|_| self.changes && wanted.level == 0)?;
        let bytes = self.tree.store.recent(wanted.node)?;
        tags.open(bytes.as_slice(), &wanted.tag).map(|_| bytes)
    }

    /// What was read, for another try.
    pub(super) fn seen(&self) -> Vec<Node> {
        let inners = self.inners.values().map(|(node, _)| *node);
        inners.chain(self.leaves.values().map(|leaf| leaf.node)).collect()
    }

    /// A number for a new node.
    pub(super) fn allocate(&mut self) -> Node {
        self.next += 1;
        self.next - 1
    }

    /// Reads the root, unless it was; in a tree without a value makes it.
    pub(super) async fn load_root(&mut self) -> Result<(), Miss> {
        if self.leaves.contains_key(&0) || !self.inners.is_empty() {
            return Ok(());
        }
        if self.head.values == 0 {
            let node = self.allocate();
            self.leaves.insert(0, Leaf { node, body: Body::default(), changed: false });
            return Ok(());
        }
        let root = Wanted { path: 0, level: UNKNOWN, node: self.head.root, tag: root_tag(&self.head) };
        self.load(vec![root]).await
    }

    /// Reads down to the leaves of `count` sorted, distinct values: a round a level at most, those in memory aside.
    pub(super) async fn descend(&mut self, plains: &[u8], count: usize) -> Result<Vec<Landing>, Miss> {
        self.load_root().await?;
        let mut landings = vec![Landing { path: 0, values: 0..count }];
        for level in (1..=self.height).rev() {
            let (mut below, mut wanted) = (Vec::with_capacity(landings.len()), Vec::new());
            for landing in landings {
                self.partition(level, landing, plains, &mut |landing, child| {
                    below.push(landing);
                    wanted.push(child);
                })?;
            }
            self.load(wanted).await?;
            landings = below;
        }
        for landing in &landings {
            if landing.values.len() >= VALUES_MANY
                && let Some(leaf) = self.leaves.get_mut(&landing.path)
            {
                leaf.body.open(&self.tree.cipher)?;
            }
        }
        Ok(landings)
    }

    /// Shares the values that belong under an inner node out among its children.
    fn partition(
        &self,
        level: u8,
        landing: Landing,
        plains: &[u8],
        each: &mut dyn FnMut(Landing, Wanted),
    ) -> Result<(), IndexError> {
        let bytes = self.tree.layout.plain_bytes;
        let inner = self.inner(level, landing.path)?.body();
        let mut from = landing.values.start;
        while from < landing.values.end {
            let value = &plains[from * bytes..(from + 1) * bytes];
            let mut at = lower_bound(&inner.plains, bytes, value);
            // Below the least key of all goes to the first child, which is told by no key.
            if at == inner.len() || inner.plain(at, &self.tree.layout) != value {
                at = at.saturating_sub(1);
            }
            let rest = &plains[(from + 1) * bytes..landing.values.end * bytes];
            let until = if at + 1 == inner.len() {
                landing.values.end
            } else if rest.is_empty() {
                from + 1
            } else {
                from + 1 + lower_bound(rest, bytes, inner.plain(at + 1, &self.tree.layout))
            };
            each(
                Landing { path: child(landing.path, at), values: from..until },
                self.wanted(level, landing.path, at)?,
            );
            from = until;
        }
        Ok(())
    }

    /// The child of a slot of an inner node.
    fn wanted(&self, level: u8, path: Path, at: usize) -> Result<Wanted, IndexError> {
        let inner = self.inner(level, path)?;
        let entry = inner.entry(at, &self.tree.layout);
        Ok(Wanted { path: child(path, at), level: level - 1, node: entry.child, tag: entry.tag })
    }

    /// The leaf to whose keys a label belongs, which is not read, by the way to it, which is.
    pub(super) async fn way_to(&mut self, label: Label) -> Result<Path, Miss> {
        self.load_root().await?;
        let mut path = 0;
        for level in (1..=self.height).rev() {
            if level < self.height {
                self.load_at(level, &[path]).await?;
            }
            let firsts = &self.inner(level, path)?.body().labels;
            path = child(path, firsts.partition_point(|first| *first <= label).saturating_sub(1));
        }
        Ok(path)
    }

    /// The first key of a leaf, as the node above knows it.
    pub(super) fn first_of(&self, path: Path) -> Result<First<'_>, IndexError> {
        let (inner, at) = (self.inner(1, parent(path))?.body(), slot(path));
        let label = inner.labels.get(at).copied().ok_or(NOT_READ)?;
        Ok(First { ciphertext: inner.ciphertext(at, &self.tree.layout), label })
    }

    /// An inner node that was read.
    pub(super) fn inner(&self, level: u8, path: Path) -> Result<&Inner, IndexError> {
        self.inners.get(&(level, path)).map(|(_, inner)| &**inner).ok_or(NOT_READ)
    }

    /// A leaf that was read.
    pub(super) fn leaf(&self, path: Path) -> Result<&Leaf, IndexError> {
        self.leaves.get(&path).ok_or(NOT_READ)
    }

    /// The same, to be changed.
    pub(super) fn leaf_mut(&mut self, path: Path) -> Result<&mut Leaf, IndexError> {
        self.leaves.get_mut(&path).ok_or(NOT_READ)
    }

    /// Reads nodes of a level whose parents were read, those that are read already aside.
    pub(super) async fn load_at(&mut self, level: u8, paths: &[Path]) -> Result<(), Miss> {
        let mut wanted = Vec::new();
        for path in paths {
            let read = match level {
                0 => self.leaves.contains_key(path),
                _ => self.inners.contains_key(&(level, *path)),
            };
            if !read {
                wanted.push(self.wanted(level + 1, parent(*path), slot(*path))?);
            }
        }
        self.load(wanted).await
    }

    /// Reads nodes: from memory, from what came unasked, and the rest from the store in one round (in several if they are too
    /// many bytes).
    async fn load(&mut self, wanted: Vec<Wanted>) -> Result<(), Miss> {
        let verified = self.tree.tags.is_some();
        let mut missing = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            let cached = match wanted.level {
                0 => None,
                _ => self.tree.shared.cache().node(self.head.version, wanted.node, &wanted.tag, verified),
            };
            if let Some(inner) = cached {
                self.place_inner(wanted, inner)?;
            } else if let Some(bytes) = self.spare.remove(&wanted.node) {
                self.accept(wanted, &bytes)?;
            } else if let Some(bytes) = self.recent(&wanted) {
                self.accept(wanted, &bytes)?;
            } else {
                missing.push(wanted);
            }
        }
        for part in missing.chunks(self.tree.nodes_per_fetch()) {
            let nodes = part.iter().map(|wanted| wanted.node).collect();
            let fetched = self.tree.round(Fetch { nodes, ..Fetch::default() }).await?;
            self.is_same_version(&fetched.head)?;
            for (wanted, bytes) in part.iter().zip(fetched.nodes) {
                self.accept(*wanted, &bytes.ok_or(NOT_READ)?)?;
            }
        }
        Ok(())
    }

    pub(super) fn is_same_version(&self, head: &Head) -> Result<(), Miss> {
        if *head == self.head {
            return Ok(());
        }
        follows(&self.head, head)?;
        Err(Miss::Moved)
    }

    /// Takes in a node's bytes.
    fn accept(&mut self, wanted: Wanted, bytes: &Blob) -> Result<(), IndexError> {
        let mut sum = Sum::default();
        if let Some(tags) = &self.tree.tags {
            const OTHER: IndexError =
                IndexError::Contradicted("a node of an order-preserving tree is not what was stored");
            sum = tags.open(bytes.as_slice(), &wanted.tag).ok_or(OTHER)?;
        }
        let mut body = self.tree.layout.decode(bytes.as_slice())?;
        if wanted.level != UNKNOWN && body.level != wanted.level {
            return Err(NOT_READ);
        }
        if body.level == 0 {
            if self.tree.cipher.opens_nodes() {
                body.open(&self.tree.cipher)?;
            }
            self.leaves.insert(wanted.path, Leaf { node: wanted.node, body, changed: false });
            return Ok(());
        }
        body.open(&self.tree.cipher)?;
        let inner = Arc::new(Inner::new(body, bytes.as_slice(), (sum, wanted.tag)));
        self.tree.shared.keep(self.head.version, wanted.node, &inner);
        self.place_inner(wanted, inner)
    }

    fn place_inner(&mut self, wanted: Wanted, inner: Arc<Inner>) -> Result<(), IndexError> {
        let level = inner.body().level;
        if wanted.level == UNKNOWN {
            self.height = level;
        } else if level != wanted.level {
            return Err(NOT_READ);
        }
        self.inners.insert((level, wanted.path), (wanted.node, inner));
        Ok(())
    }

    /// The leaf beside one, whether it was read or not; none at the end of the tree.
    pub(super) async fn beside(&mut self, path: Path, side: Side) -> Result<Option<Path>, Miss> {
        self.beside_at(0, path, side).await
    }

    /// The node of a level beside one, whether it was read or not; its parent was. None at the end of the tree.
    pub(super) async fn beside_at(
        &mut self,
        height: u8,
        path: Path,
        side: Side,
    ) -> Result<Option<Path>, Miss> {
        for level in height + 1..=self.height {
            let (node, at) = (above(path, level - height), slot(above(path, level - height - 1)));
            let next = match side {
                Side::Left => at.checked_sub(1),
                Side::Right => Some(at + 1)
                    .filter(|next| self.inner(level, node).is_ok_and(|inner| *next < inner.body().len())),
            };
            let Some(next) = next else { continue };
            let mut path = child(node, next);
            for level in (height + 1..level).rev() {
                self.load_at(level, &[path]).await?;
                let last = self.inner(level, path)?.body().len() - 1;
                path = child(path, if side == Side::Left { last } else { 0 });
            }
            return Ok(Some(path));
        }
        Ok(None)
    }

    /// The first key of the next leaf, as the nodes above this one's know it; none at the end of the tree.
    pub(super) fn next_first(&self, path: Path) -> Result<Option<First<'_>>, IndexError> {
        for level in 1..=self.height {
            let inner = self.inner(level, above(path, level))?.body();
            let next = slot(above(path, level - 1)) + 1;
            if next < inner.len() {
                let ciphertext = inner.ciphertext(next, &self.tree.layout);
                return Ok(Some(First { ciphertext, label: inner.labels[next] }));
            }
        }
        Ok(None)
    }
}

impl<S: TreeStore> Tree<S> {
    /// Nodes that one round asks for, at most.
    fn nodes_per_fetch(&self) -> usize {
        (FETCH_BYTES_MAX / self.layout.node_bytes_max()).max(1)
    }

    /// One round, whose reply has as much as was asked for.
    pub(super) async fn round(&self, fetch: Fetch) -> Result<Fetched, IndexError> {
        let asked = fetch.nodes.len() + usize::from(fetch.root);
        let fetched = self.store.fetch(fetch).await?;
        if fetched.nodes.len() != asked {
            return Err(IndexError::Peer("the answer has not the nodes that were asked for"));
        }
        Ok(fetched)
    }

    /// The state that the tree is in now, its root and some nodes.
    pub(super) async fn ask(&self, mut nodes: Vec<Node>) -> Result<(Head, HashMap<Node, Blob>), IndexError> {
        nodes.truncate(self.nodes_per_fetch());
        // What must be newer than this was acknowledged before it was asked for.
        let (known, doubts) = {
            let cache = self.shared.cache();
            (cache.head, cache.doubts())
        };
        let fetched = self.round(Fetch { nodes: nodes.clone(), root: true, ciphertexts: Vec::new() }).await?;
        if let Some(known) = known {
            follows(&known, &fetched.head)?;
        }
        if let Some(tags) = &self.tags {
            tags.check(&fetched.head)?;
            if self.shared.cache().is_refused(&fetched.head) {
                const DENIED: &str = "the keeper of an order-preserving tree denied a change that it applied";
                return Err(IndexError::Contradicted(DENIED));
            }
        }
        self.shared.adopt(fetched.head, doubts, self.tags.is_some());
        nodes.push(fetched.head.root);
        let nodes = nodes.into_iter().zip(fetched.nodes);
        Ok((fetched.head, nodes.filter_map(|(node, bytes)| Some((node, bytes?))).collect()))
    }

    /// The place of a value in a leaf, or the one that it would have.
    pub(super) fn locate(&self, leaf: &Body, plain: &[u8]) -> Result<Result<usize, usize>, IndexError> {
        if leaf.plains.is_empty() {
            return self.probe(leaf, plain);
        }
        let at = lower_bound(&leaf.plains, self.layout.plain_bytes, plain);
        let found = at < leaf.len() && leaf.plain(at, &self.layout) == plain;
        Ok(if found { Ok(at) } else { Err(at) })
    }

    /// The same, opening only what is on the way.
    fn probe(&self, leaf: &Body, plain: &[u8]) -> Result<Result<usize, usize>, IndexError> {
        let mut probe = arras_primitives::wipe::Wiped::with_capacity(self.layout.plain_bytes);
        let (mut from, mut until) = (0, leaf.len());
        while from < until {
            let middle = from.midpoint(until);
            probe.clear();
            self.cipher.open_each(leaf.ciphertext(middle, &self.layout), &mut probe)?;
            match probe.as_slice().cmp(plain) {
                std::cmp::Ordering::Less => from = middle + 1,
                std::cmp::Ordering::Equal => return Ok(Ok(middle)),
                std::cmp::Ordering::Greater => until = middle,
            }
        }
        Ok(Err(from))
    }
}

/// Checks that a state may come after one that was acknowledged.
fn follows(known: &Head, head: &Head) -> Result<(), IndexError> {
    if head.version < known.version {
        return Err(IndexError::Contradicted("an order-preserving tree was set back to an older version"));
    }
    if head.version == known.version && head != known {
        return Err(IndexError::Contradicted("an order-preserving tree has two states at one version"));
    }
    Ok(())
}
