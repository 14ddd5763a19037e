//! A tree over a keeper in memory, and a check of everything that is kept against the values that should be there.

use crate::mope::memory::MemoryStore;
use crate::mope::node::Body;
use crate::mope::{Form, Kind, Settings, Stored, Tree};
use crate::random::Randomness;
use arras_keys::Key;
use arras_protocol::mope::{Fetch, Fetched, Head, Label, Node, Round, TreeChange, TreeStore};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

pub(super) type Values = BTreeMap<Vec<u8>, u32>;

/// The keeper, counting rounds.
#[derive(Clone, Default)]
pub(super) struct Counted {
    pub(super) store: Arc<MemoryStore>,
    pub(super) rounds: Arc<AtomicUsize>,
    /// What was sent, if that is to be kept.
    pub(super) sent: Option<Arc<Mutex<Vec<Sent>>>>,
}

/// A message to the keeper.
#[derive(Clone, Debug)]
pub(super) enum Sent {
    Fetch(Fetch),
    Commit(TreeChange),
}

impl Counted {
    fn note(&self, sent: impl FnOnce() -> Sent) {
        if let Some(messages) = &self.sent {
            messages.lock().unwrap().push(sent());
        }
    }

    pub(super) fn rounds(&self) -> usize {
        self.rounds.swap(0, Ordering::Relaxed)
    }
}

impl TreeStore for Counted {
    fn fetch(&self, fetch: Fetch) -> Round<'_, Fetched> {
        self.rounds.fetch_add(1, Ordering::Relaxed);
        self.note(|| Sent::Fetch(fetch.clone()));
        self.store.fetch(fetch)
    }

    fn commit(&self, change: TreeChange) -> Round<'_, bool> {
        self.note(|| Sent::Commit(change.clone()));
        self.store.commit(change)
    }
}

pub(in crate::mope) fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(done) => done,
        std::task::Poll::Pending => panic!("a keeper in memory answers at once"),
    }
}

pub(in crate::mope) fn key() -> Key {
    Key::take_from(&mut [7; 32])
}

pub(super) fn settings(kind: Kind, verified: bool) -> Settings {
    Settings { form: Form::Fixed(8), kind, verified }
}

pub(super) fn open(store: &Counted, settings: Settings) -> Tree<Counted> {
    Tree::open(store.clone(), &key(), settings, None, Randomness::default()).unwrap()
}

/// The same, of nodes of few entries.
pub(super) fn open_small(store: &Counted, settings: Settings) -> Tree<Counted> {
    let mut tree = open(store, settings);
    tree.layout.entries_max = 16;
    tree
}

pub(in crate::mope) fn bytes(values: impl IntoIterator<Item = u64>) -> Vec<Vec<u8>> {
    values.into_iter().map(|value| value.to_be_bytes().to_vec()).collect()
}

/// What a tree has, read without its own walks.
pub(super) struct Read<'a> {
    tree: &'a Tree<Counted>,
    head: Head,
    nodes: BTreeMap<Node, Body>,
    found: Vec<(Vec<u8>, Stored, u32)>,
}

impl<'a> Read<'a> {
    fn new(tree: &'a Tree<Counted>) -> Self {
        let kept = tree.store.store.kept();
        let nodes = kept.nodes.iter().map(|(node, bytes)| {
            let mut body = tree.layout.decode(bytes.as_slice()).unwrap();
            body.open(&tree.cipher).unwrap();
            if let Some(tags) = &tree.tags {
                assert!(kept.head.version > 0 && tags.check(&kept.head).is_ok());
            }
            (*node, body)
        });
        Self { tree, head: kept.head, nodes: nodes.collect(), found: Vec::new() }
    }

    /// Visits a node; returns its first key.
    fn visit(&mut self, node: Node, level: u8, least: usize) -> (Vec<u8>, Label) {
        let body = self.nodes.remove(&node).unwrap();
        assert_eq!(body.level, level);
        assert!(
            (least..=self.tree.layout.entries_max).contains(&body.len()),
            "{} entries at level {level}",
            body.len()
        );
        let layout = &self.tree.layout;
        for at in 0..body.len() {
            if level > 0 {
                let first = self.visit(body.children[at], level - 1, self.tree.layout.entries_min());
                assert_eq!(first, (body.ciphertext(at, layout).to_vec(), body.labels[at]));
            } else {
                let ciphertext = body.ciphertext(at, layout).to_vec();
                let stored = Stored { ciphertext: ciphertext.into(), label: body.labels[at] };
                let count = body.counts.get(at).copied().unwrap_or(1);
                self.found.push((body.plain(at, layout).to_vec(), stored, count));
            }
        }
        (body.ciphertext(0, layout).to_vec(), body.labels[0])
    }
}

/// Checks tree, table and labels; returns what the values are stored as, in order.
pub(super) fn check(tree: &Tree<Counted>, values: &Values) -> Vec<Stored> {
    let mut read = Read::new(tree);
    // A key for each value, or for each occurrence.
    let keys_of = |count: u32| if tree.kind == Kind::FrequencyHiding { count as usize } else { 1 };
    let keys = values.values().map(|count| keys_of(*count)).sum::<usize>();
    assert_eq!(read.head.values, keys as u64);
    if let Some(root) = read.nodes.get(&read.head.root).map(|root| root.level) {
        read.visit(read.head.root, root, if root > 0 { 2 } else { 1 });
    }
    assert!(read.nodes.is_empty(), "nodes that nothing leads to");
    let bytes = tree.layout.plain_bytes;
    let found: Vec<(Vec<u8>, u32)> =
        read.found.iter().map(|(plain, _, count)| (plain.clone(), *count)).collect();
    let expected: Vec<(Vec<u8>, u32)> = values
        .iter()
        .flat_map(|(value, count)| {
            let plain = tree.cipher.plains(&[value]).unwrap().to_vec();
            let counted = if tree.layout.counts { *count } else { 1 };
            std::iter::repeat_n((plain, counted), keys_of(*count))
        })
        .collect();
    assert!(found.iter().all(|(plain, _)| plain.len() == bytes));
    assert_eq!(found, expected);
    let kept = tree.store.store.kept();
    assert_eq!((kept.table.len(), kept.order.len()), (keys, keys));
    assert!(kept.head.next > kept.nodes.keys().max().copied().unwrap_or(0) || kept.nodes.is_empty());
    let stored: Vec<Stored> = read.found.into_iter().map(|(_, stored, _)| stored).collect();
    assert!(stored.is_sorted_by(|one, next| one.label < next.label));
    for stored in &stored {
        assert_eq!(kept.table.get(stored.ciphertext.as_slice()), Some(&stored.label));
        assert_eq!(kept.order.get(&stored.label).map(|c| &c[..]), Some(stored.ciphertext.as_slice()));
    }
    stored
}

/// Every kind of tree.
pub(super) fn every() -> impl Iterator<Item = Settings> {
    [Kind::Mope, Kind::Stope]
        .into_iter()
        .flat_map(|kind| [false, true].map(|verified| settings(kind, verified)))
}
