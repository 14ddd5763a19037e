//! Changes: computed here, applied by the server as part of one atomic write.
//!
//! One or two places are found by a walk, like a search's bounds. For more, the trees concerned are loaded, and
//! no circuit is opened.

use super::aggregate::{Aggregate, PART_BYTES};
use super::directory::{Directory, Gap, InHand, Readiness, Top, TreeLock};
use super::entry::{Entry, RangeEntry};
use super::epoch::Generation;
use super::garbling::Repair;
use super::load::{Wanted, within};
use super::locate::{Bounds, LockedTree, stub};
use super::secrets::{Place, place_before};
use super::treap::{Link, Node};
use super::{ArxRange, Held};
use crate::error::IndexError;
use arras_protocol::arx_range::{ArxRange as Protocol, FoundBucket, Order};
use arras_protocol::write::{Step, Write};
use arras_protocol::{Channel, NodeId, RowId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;

/// Places that are walked to; more are loaded.
const WALKED_PLACES: usize = 2;

/// Nodes of trees that are held between changes, so that the next need not load them: about 20 MB an index. Enough
/// for a million entries; in larger indexes part of the trees is loaded each time.
const HELD_NODES_MAX: usize = 1 << 16;

/// A change that is ready to be written. Holds the index alone until it is committed or dropped.
pub struct Staged {
    /// The steps, for the caller's write. Empty if nothing changes.
    pub steps: Vec<Step>,
    finish: Box<dyn FnOnce() -> Repair + Send>,
}

impl std::fmt::Debug for Staged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Staged({} steps)", self.steps.len())
    }
}

impl Staged {
    /// To be called when the server has acknowledged the write of [`Self::steps`]. Dropping instead means that
    /// nothing was applied, or that the outcome is unknown: the directory is then loaded anew before the index is
    /// next used. A write of unknown outcome must be settled before this is dropped (by putting it again under
    /// its operation id): arriving later, it would change the index behind the client's back.
    pub fn commit(self) -> Repair {
        (self.finish)()
    }
}

/// A bucket in hand.
pub(super) struct BucketInHand {
    pub(super) entries: Vec<Entry>,
    pub(super) next: Option<NodeId>,
    /// Its follower as the server has it; `None` if the server does not have the bucket.
    pub(super) stored_next: Option<Option<NodeId>>,
    pub(super) changed: bool,
}

/// What is to change: entries to remove, then entries to insert, in order of place.
pub(super) struct Batch {
    pub(super) remove: BTreeSet<(Place, RowId)>,
    /// True if an entry of that place and row is to be replaced (its sums may differ).
    pub(super) insert: BTreeMap<(Place, RowId), (Entry, bool)>,
}

/// A change under way.
pub(super) struct Changing<'a, C> {
    pub(super) index: &'a ArxRange<C>,
    pub(super) directory: &'a mut Directory,
    pub(super) buckets: BTreeMap<NodeId, BucketInHand>,
    pub(super) removed: Vec<NodeId>,
    pub(super) levels_changed: bool,
    /// True for a change of few places, which walks: trees that come to be are given circuits at once.
    pub(super) walks: bool,
    /// Entries that go beside their buckets.
    pub(super) added: Vec<(NodeId, Vec<Entry>)>,
}

/// The lock of a tree nobody else can hold: the index is held alone.
pub(super) fn lock(tree: &TreeLock) -> Result<OwnedMutexGuard<Readiness>, IndexError> {
    let locked = Arc::clone(tree).try_lock_owned();
    locked.map_err(|_| IndexError::State("a tree is held by an operation that has ended".into()))
}

impl<C: Channel<Protocol> + Channel<Write> + 'static> ArxRange<C> {
    /// Stages the removal of some entries and the insertion of others, as one change. Removing an entry that is not
    /// there and inserting one that is (same key and row) change nothing; an entry in both lists is replaced.
    ///
    /// Waits for all repairs under way.
    ///
    /// # Errors
    /// [`IndexError::Caller`] if an entry is not of the index's form; else [`IndexError`] if the server cannot be
    /// reached or breaks the protocol. Nothing has changed then.
    pub async fn stage(
        self: &Arc<Self>,
        insert: Vec<RangeEntry>,
        remove: Vec<RangeEntry>,
    ) -> Result<Staged, IndexError> {
        let held = self.hold().await;
        self.stage_held(held, insert, remove).await
    }

    /// The same, for an index that is held already.
    ///
    /// # Errors
    /// Those of [`Self::stage`].
    pub async fn stage_held(
        self: &Arc<Self>,
        held: Held,
        insert: Vec<RangeEntry>,
        remove: Vec<RangeEntry>,
    ) -> Result<Staged, IndexError> {
        let mut batch = self.batch(insert, remove)?;
        let mut directory = self.loaded(held).await?;
        let generation = self.generation();
        let mut points = self.points(&batch);
        if points.is_empty() {
            return Ok(Staged { steps: Vec::new(), finish: Box::new(Repair::none) });
        }
        let walks = points.len() <= WALKED_PLACES;
        let added = if walks { Vec::new() } else { self.take_addable(&mut directory, &mut batch)? };
        if !added.is_empty() {
            points = self.points(&batch);
        }
        let (trees, found) = if walks {
            self.walk(&directory, &generation, &points).await?
        } else {
            self.load(&mut directory, &points).await?
        };
        let buckets = self.in_hand(found)?;
        directory.valid = false;
        for LockedTree { gap, guard, link, opened } in trees {
            directory.gap_mut(gap).in_hand = Some(InHand { link, guard, opened });
        }
        let mut changing = Changing {
            index: self,
            directory: &mut directory,
            buckets,
            removed: Vec::new(),
            levels_changed: false,
            walks,
            added,
        };
        for (place, row) in &batch.remove {
            changing.remove(place, *row)?;
        }
        for (_, (entry, replace)) in batch.insert {
            changing.insert(entry, replace)?;
        }
        changing.relevel(&generation).await?;
        let (steps, jobs) = changing.emit(&generation)?;
        directory.bound_held(HELD_NODES_MAX);
        directory.valid = steps.is_empty();
        let (channel, index) = (Arc::clone(&self.channel), self.index());
        let finish = Box::new(move || {
            directory.valid = true;
            Repair::new(channel, index, generation, jobs, directory.downgrade())
        });
        Ok(Staged { steps, finish })
    }

    fn batch(&self, insert: Vec<RangeEntry>, remove: Vec<RangeEntry>) -> Result<Batch, IndexError> {
        let mut batch = Batch { remove: BTreeSet::new(), insert: BTreeMap::new() };
        for entry in &remove {
            self.check_value(&entry.value)?;
            batch.remove.insert((self.secrets.place(&entry.value, entry.row), entry.row));
        }
        for entry in insert {
            self.check_value(&entry.value)?;
            if entry.sums.len() != self.parameters().sums {
                return Err(IndexError::Caller("an entry with another number of sums than the index's"));
            }
            if entry.sums.iter().any(|sum| sum.to_bytes().len() > PART_BYTES) {
                return Err(IndexError::Caller("a document's part of a sum is more than one number"));
            }
            let (place, row) = (self.secrets.place(&entry.value, entry.row), entry.row);
            let name = (place.clone(), row);
            let replace = batch.remove.remove(&name);
            let entry = Entry { place, row, sums: entry.sums };
            batch.insert.entry(name).or_insert((entry, replace));
        }
        Ok(batch)
    }

    /// The places whose buckets and paths a batch needs, in order. To take out a separator, the bucket before it
    /// is needed too.
    fn points(&self, batch: &Batch) -> Vec<Place> {
        let mut points = BTreeSet::new();
        for (place, _) in &batch.remove {
            if self.secrets.is_separator(place) {
                points.extend(place_before(place));
            }
            points.insert(place.clone());
        }
        points.extend(batch.insert.keys().map(|(place, _)| place.clone()));
        points.into_iter().collect()
    }

    /// Finds one or two places like the bounds of a range.
    async fn walk(
        &self,
        directory: &Directory,
        generation: &Generation,
        points: &[Place],
    ) -> Result<(Vec<LockedTree>, Vec<FoundBucket>), IndexError> {
        let [lower, rest @ ..] = points else {
            return Ok((Vec::new(), Vec::new()));
        };
        let upper = rest.first().map(|upper| &**upper);
        let bounds = Bounds { lower, upper, order: Order::Ascending, buckets_max: 0, change: true };
        let located = self.locate(directory, generation, &bounds).await?;
        let mut ends = vec![located.lower_bucket, located.upper_bucket];
        ends.dedup();
        if located.buckets.iter().map(|bucket| bucket.node).ne(ends) {
            return Err(IndexError::Peer("not the buckets the bounds fall in"));
        }
        Ok((located.trees, located.buckets))
    }

    /// Loads the buckets of many places, and those of their trees that are not held.
    async fn load(
        &self,
        directory: &mut Directory,
        points: &[Place],
    ) -> Result<(Vec<LockedTree>, Vec<FoundBucket>), IndexError> {
        let mut gaps: Vec<usize> = points.iter().map(|place| directory.gap_of(place)).collect();
        gaps.dedup();
        let mut trees = Vec::new();
        for gap in gaps {
            if directory.gap(gap).root.is_some() {
                let guard = lock(&directory.gap(gap).tree)?;
                let held = directory.gap_mut(gap).held.take();
                let link = held.unwrap_or_else(|| stub(directory, gap, [None; 2]));
                trees.push(LockedTree { gap, guard, link, opened: false });
            }
        }
        let directory = &*directory;
        let mut links: Vec<_> =
            trees.iter_mut().map(|tree| (&mut tree.link, within(directory, tree.gap))).collect();
        self.load_trees(&mut links, Wanted::Whole).await?;
        let mut names = Vec::new();
        for place in points {
            let gap = directory.gap_of(place);
            let tree =
                trees.binary_search_by_key(&gap, |tree| tree.gap).ok().and_then(|tree| trees.get(tree));
            let floor = tree.map(|tree| tree.link.floor(place)).transpose()?.flatten();
            names.push(floor.map_or(directory.before(gap), |node| node.node));
        }
        names.dedup();
        Ok((trees, self.load_buckets(names).await?))
    }

    fn in_hand(&self, found: Vec<FoundBucket>) -> Result<BTreeMap<NodeId, BucketInHand>, IndexError> {
        let open = |found: FoundBucket| {
            let entries = self.open_bucket(&found)?;
            let next = found.bucket.next;
            Ok((found.node, BucketInHand { entries, next, stored_next: Some(next), changed: false }))
        };
        found.into_iter().map(open).collect()
    }
}

/// What must be in hand for a change is not.
fn not_in_hand() -> IndexError {
    IndexError::Peer("a bucket that a change needs is not where it must be")
}

impl<C> Changing<'_, C> {
    /// The bucket a place falls in: its gap, name, and separator (none for the head).
    fn bucket_of(&self, place: &[u8]) -> Result<(usize, NodeId, Option<Place>), IndexError> {
        let gap = self.directory.gap_of(place);
        let in_hand = self.directory.gap(gap).in_hand.as_ref();
        if let Some(node) = in_hand.map(|tree| tree.link.floor(place)).transpose()?.flatten() {
            return Ok((gap, node.node, Some(node.separator.clone())));
        }
        let separator = gap.checked_sub(1).map(|top| self.directory.tops[top].separator.clone());
        Ok((gap, self.directory.before(gap), separator))
    }

    fn bucket(&mut self, node: NodeId) -> Result<&mut BucketInHand, IndexError> {
        self.buckets.get_mut(&node).ok_or_else(not_in_hand)
    }

    /// Applies a change to a gap's tree.
    fn change_tree(
        &mut self,
        gap: usize,
        change: impl FnOnce(Link) -> Result<Link, IndexError>,
    ) -> Result<(), IndexError> {
        let opened = self.walks;
        let gap = self.directory.gap_mut(gap);
        if gap.in_hand.is_none() {
            if gap.root.is_some() {
                return Err(not_in_hand());
            }
            gap.in_hand = Some(InHand { link: Link::Empty, guard: lock(&gap.tree)?, opened });
        }
        if let Some(in_hand) = &mut gap.in_hand {
            in_hand.link = change(in_hand.link.take())?;
        }
        Ok(())
    }

    fn insert(&mut self, entry: Entry, replace: bool) -> Result<(), IndexError> {
        let (gap, name, separator) = self.bucket_of(&entry.place)?;
        if self.index.secrets.is_separator(&entry.place) && separator.as_ref() != Some(&entry.place) {
            return self.split(gap, name, entry);
        }
        let bucket = self.bucket(name)?;
        match bucket.entries.binary_search_by(|other| other.rank().cmp(&entry.rank())) {
            Err(position) => bucket.entries.insert(position, entry),
            Ok(position) if replace => bucket.entries[position] = entry,
            Ok(_) => return Ok(()),
        }
        bucket.changed = true;
        Ok(())
    }

    /// Inserts an entry that begins a bucket of its own.
    fn split(&mut self, gap: usize, name: NodeId, entry: Entry) -> Result<(), IndexError> {
        let node = self.new_name();
        let separator = entry.place.clone();
        let bucket = self.bucket(name)?;
        let at = bucket.entries.partition_point(|other| *other.place < *separator);
        let mut entries = vec![entry];
        entries.extend(bucket.entries.drain(at..));
        let new = BucketInHand { entries, next: bucket.next, stored_next: None, changed: true };
        bucket.next = Some(node);
        bucket.changed = true;
        self.buckets.insert(node, new);
        let priority = self.index.secrets.priority(&separator);
        self.directory.levels.add(priority);
        self.levels_changed = true;
        let zero = Aggregate::zero(self.index.parameters());
        if self.directory.is_top(priority) {
            return self.insert_top(gap, node, separator, priority, zero);
        }
        let node = Box::new(Node {
            node,
            separator,
            priority,
            own: zero.clone(),
            left: Link::Empty,
            right: Link::Empty,
            left_total: zero.clone(),
            right_total: zero,
            stored: None,
            aggregate_changed: true,
            nonces: [None; 2],
        });
        self.change_tree(gap, |link| link.insert(node))
    }

    fn insert_top(
        &mut self,
        gap: usize,
        node: NodeId,
        separator: Place,
        priority: u64,
        zero: Aggregate,
    ) -> Result<(), IndexError> {
        let mut above = Link::Empty;
        let opened = self.directory.gap(gap).in_hand.as_ref().map_or(self.walks, |in_hand| in_hand.opened);
        self.change_tree(gap, |link| {
            let (below, rest) = link.split(&separator)?;
            above = rest;
            Ok(below)
        })?;
        let mut new = Gap::new(None, zero.clone(), zero);
        new.in_hand = Some(InHand { link: above, guard: lock(&new.tree)?, opened });
        new.changed = true;
        self.directory.tops.insert(gap, Top { node, separator, priority, gap: new });
        Ok(())
    }

    fn new_name(&self) -> NodeId {
        loop {
            let name = NodeId(self.index.random_bytes());
            if name != NodeId::HEAD && !self.buckets.contains_key(&name) {
                return name;
            }
        }
    }

    fn remove(&mut self, place: &Place, row: RowId) -> Result<(), IndexError> {
        let (gap, name, separator) = self.bucket_of(place)?;
        let bucket = self.bucket(name)?;
        let Ok(position) = bucket.entries.binary_search_by(|other| other.rank().cmp(&(place, row))) else {
            return Ok(());
        };
        bucket.entries.remove(position);
        bucket.changed = true;
        let vanishes = separator.as_ref() == Some(place)
            && bucket.entries.first().is_none_or(|first| first.place != *place);
        if vanishes { self.merge(gap, name, place) } else { Ok(()) }
    }

    /// Takes out a separator: its bucket's entries go to the bucket before.
    fn merge(&mut self, gap: usize, name: NodeId, separator: &Place) -> Result<(), IndexError> {
        let bucket = self.buckets.remove(&name).ok_or_else(not_in_hand)?;
        if bucket.stored_next.is_some() {
            self.removed.push(name);
        }
        let priority = self.index.secrets.priority(separator);
        self.directory.levels.subtract(priority);
        self.levels_changed = true;
        let before = place_before(separator).ok_or_else(not_in_hand)?;
        let (_, before, _) = self.bucket_of(&before)?;
        let before = self.bucket(before)?;
        before.entries.extend(bucket.entries);
        before.next = bucket.next;
        before.changed = true;
        let top = gap.checked_sub(1).filter(|top| self.directory.tops[*top].separator == *separator);
        let Some(top) = top else {
            return self.change_tree(gap, |link| link.remove(separator));
        };
        let removed = self.directory.tops.remove(top).gap;
        let after = match (removed.in_hand, removed.root) {
            (Some(in_hand), _) => in_hand.link,
            (None, None) => Link::Empty,
            (None, Some(_)) => return Err(not_in_hand()),
        };
        if matches!(after, Link::Empty) && self.directory.gap(top).in_hand.is_none() {
            return Ok(());
        }
        self.change_tree(top, |link| link.join(after))
    }
}
