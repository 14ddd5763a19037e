//! What the callers of a tree share: the newest acknowledged state, and inner nodes.

use super::inner::Inner;
use super::labels::Last;
use super::node::Tag;
use super::tend::Tending;
use arras_protocol::mope::{Head, Node};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Most inner nodes that are kept: those of some 30 million values. Where there are more, the lowest go first.
const NODES_MAX: usize = 4096;

/// See the module.
pub(super) struct Cache {
    /// The newest state that is known to be this column's.
    pub(super) head: Option<Head>,
    /// How often it became doubtful what the head is.
    doubts: u64,
    /// How many of these doubts are answered: fewer than there were, and the head is to be asked for before it is relied on.
    answered: u64,
    /// What the tree becomes by a change that is being applied.
    pending: Option<Head>,
    /// What it would have become by one that the keeper said it did not apply.
    refused: Option<Head>,
    /// Of the version of `head`; in a verified tree perhaps of others, which their tags tell.
    nodes: HashMap<Node, Arc<Inner>>,
    /// The label inserted last.
    pub(super) last: Option<Last>,
    /// Labels that are to change before there is no room.
    pub(super) tending: Tending,
    /// Changes until that is tried again, and that many if others then hold the labels still.
    pause: (u32, u32),
}

/// Most changes that go by until it is tried again to change labels that others held.
const PAUSE_MAX: u32 = 64;

/// The lock is held for a few memory accesses, never across a round.
pub(super) struct SharedCache(RwLock<Cache>);

impl SharedCache {
    pub(super) fn new(head: Option<Head>) -> Self {
        let nodes = HashMap::new();
        let (doubts, answered, pending, refused, last) = Default::default();
        let (tending, pause) = (Tending::default(), (0, 1));
        Self(RwLock::new(Cache { head, doubts, answered, pending, refused, nodes, last, tending, pause }))
    }

    pub(super) fn cache(&self) -> RwLockReadGuard<'_, Cache> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Cache> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A change may or may not have been applied, or another was.
    pub(super) fn doubt(&self) {
        self.write().doubts += 1;
    }

    /// The keeper says that it did not apply a change.
    pub(super) fn refuse(&self, head: Head) {
        let mut cache = self.write();
        cache.doubts += 1;
        cache.refused = Some(head);
    }

    /// Takes over an authentic state, which was asked for when there were so many doubts: it says nothing of later ones. One that
    /// is being applied from here is left to whoever applies it.
    pub(super) fn adopt(&self, head: Head, doubts: u64, verified: bool) {
        let mut cache = self.write();
        if cache.pending == Some(head) {
            return;
        }
        match cache.head {
            Some(known) if known.version > head.version => {}
            Some(known) if known.version == head.version => cache.answered = cache.answered.max(doubts),
            Some(_) | None => {
                cache.head = Some(head);
                cache.answered = cache.answered.max(doubts);
                if !verified {
                    cache.nodes.clear();
                }
            }
        }
    }

    /// Keeps an inner node of a version.
    pub(super) fn keep(&self, version: u64, node: Node, inner: &Arc<Inner>) {
        let mut cache = self.write();
        if cache.head.is_some_and(|head| head.version == version) {
            cache.keep(node, inner);
        }
    }

    pub(super) fn expect(&self, head: Option<Head>) {
        self.write().pending = head;
    }

    /// What is to be done to labels, if it is time.
    pub(super) fn due(&self) -> Option<Tending> {
        if self.cache().tending.is_done() {
            return None;
        }
        let mut cache = self.write();
        cache.pause.0 = cache.pause.0.saturating_sub(1);
        (cache.pause.0 == 0).then(|| cache.tending.clone())
    }

    /// There turned out to be something else to do, or nothing.
    pub(super) fn tend(&self, tending: Tending) {
        self.write().tending = tending;
    }

    /// Others hold the labels that were to change.
    pub(super) fn postpone(&self) {
        let mut cache = self.write();
        cache.pending = None;
        let pause = cache.pause.1;
        cache.pause = (pause, (pause * 2).min(PAUSE_MAX));
    }

    /// A change of ours was applied.
    pub(super) fn finish(&self, after: After) {
        let mut cache = self.write();
        cache.pending = None;
        if cache.head.is_some_and(|head| head.version > after.head.version) {
            return;
        }
        cache.head = Some(after.head);
        cache.answered = cache.doubts;
        cache.last = after.last;
        cache.tending = after.tending;
        if after.tended {
            cache.pause = (0, 1);
        }
        for node in after.gone {
            cache.nodes.remove(&node);
        }
        for (node, inner) in after.inners {
            cache.keep(node, &inner);
        }
    }
}

/// What is known once a change is applied.
#[derive(Default)]
pub(super) struct After {
    pub(super) head: Head,
    pub(super) last: Option<Last>,
    pub(super) tending: Tending,
    /// True if the change was of labels alone.
    pub(super) tended: bool,
    /// Inner nodes as they are then.
    pub(super) inners: Vec<(Node, Arc<Inner>)>,
    /// Nodes that are there no more.
    pub(super) gone: Vec<Node>,
}

impl Cache {
    /// True of the state that a change leads to which the keeper said it did not apply.
    pub(super) fn is_refused(&self, head: &Head) -> bool {
        self.refused.as_ref() == Some(head)
    }

    /// How often it became doubtful what the head is.
    pub(super) fn doubts(&self) -> u64 {
        self.doubts
    }

    /// The state to start from; none if it must be asked for.
    pub(super) fn start(&self) -> Option<Head> {
        self.head.filter(|_| self.answered == self.doubts)
    }

    /// An inner node of a version, with the tag that it must have.
    pub(super) fn node(&self, version: u64, node: Node, tag: &Tag, verified: bool) -> Option<Arc<Inner>> {
        let inner = self.nodes.get(&node)?;
        let right =
            if verified { inner.tag == *tag } else { self.head.is_some_and(|head| head.version == version) };
        right.then(|| Arc::clone(inner))
    }

    fn keep(&mut self, node: Node, inner: &Arc<Inner>) {
        if self.nodes.len() >= NODES_MAX {
            let lowest = self.nodes.values().map(|inner| inner.body().level).min();
            self.nodes.retain(|_, inner| Some(inner.body().level) != lowest);
        }
        self.nodes.insert(node, Arc::clone(inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_settles_no_doubt_that_came_after_the_question() {
        let head = Head { version: 1, ..Head::default() };
        let shared = SharedCache::new(Some(head));
        shared.doubt();
        let asked = shared.cache().doubts();
        shared.doubt();
        shared.adopt(head, asked, true);
        assert_eq!(shared.cache().start(), None);
        let asked = shared.cache().doubts();
        shared.adopt(head, asked, true);
        assert_eq!(shared.cache().start(), Some(head));
    }
}
