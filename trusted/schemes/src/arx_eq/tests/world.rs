//! A server, its client and the client's state, all out of nothing, with entries of one value.
#![allow(clippy::unwrap_used)]

use crate::arx_eq::occurrences::Occurrences;
use crate::arx_eq::{ArxEqIndex, covered};
use crate::contract::{EqualityAnswer, EqualitySearch, Held, RowChange, Staged, State, StateChange, Terms};
use crate::error::IndexError;
use arras_keys::Key;
use arras_primitives::ggm;
use arras_protocol::arx_eq::{
    ArxEq, Change, Entries, EntriesRequest, EntriesResponse, Label, MaskedRow, Matches, Request, Response,
    SearchToken,
};
use arras_protocol::write::Step;
use arras_protocol::{Channel, ChannelError, IndexId, RowId};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// The value of which everything is.
pub(in crate::arx_eq) const VALUE: &[u8] = b"flu";

/// What comes of something that waits for nothing.
pub(in crate::arx_eq) fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => panic!("it waits"),
    }
}

/// A row of a number.
pub(in crate::arx_eq) fn row(number: u32) -> RowId {
    RowId(u128::from(number).to_be_bytes())
}

/// Records in memory.
#[derive(Default)]
pub(in crate::arx_eq) struct Kept(Mutex<BTreeMap<Vec<u8>, Vec<u8>>>);

impl State for Kept {
    fn read(&self, name: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        Ok(self.0.lock().unwrap().get(name).cloned())
    }

    fn each(&self, _: &[u8], _: &mut dyn FnMut(&[u8], Vec<u8>)) -> Result<(), IndexError> {
        unreachable!("records are read by their names")
    }
}

impl Kept {
    pub(in crate::arx_eq) fn set(&self, name: Vec<u8>, record: Option<Vec<u8>>) {
        match record {
            Some(record) => self.0.lock().unwrap().insert(name, record),
            None => self.0.lock().unwrap().remove(&name),
        };
    }
}

/// What a server says instead of what it would.
pub(in crate::arx_eq) type Lie = Box<dyn Fn(&mut Response) + Send>;

/// The keyless half over a map.
#[derive(Default)]
pub(in crate::arx_eq) struct Server {
    pub(in crate::arx_eq) entries: Mutex<BTreeMap<Label, MaskedRow>>,
    pub(in crate::arx_eq) asked: Mutex<Vec<Request>>,
    pub(in crate::arx_eq) lie: Mutex<Option<Lie>>,
}

impl Server {
    fn find(&self, tokens: &[SearchToken]) -> Matches {
        let entries = self.entries.lock().unwrap();
        let leaves =
            tokens.iter().flat_map(|token| ggm::expand(&token.node, token.height, 1 << token.height));
        let unmasked = |leaf| {
            let MaskedRow(mut row) = *entries.get(&Label(ggm::leaf_label(&leaf)))?;
            row.iter_mut().zip(ggm::leaf_mask(&leaf)).for_each(|(byte, mask)| *byte ^= mask);
            Some(RowId(row))
        };
        let rows: Vec<RowId> = leaves.filter_map(unmasked).collect();
        Matches { missing: covered(tokens) as u32 - rows.len() as u32, rows }
    }

    fn apply(&self, step: Step) {
        let mut entries = self.entries.lock().unwrap();
        match step {
            Step::ArxEq(Change::Insert { label, row, .. }) => {
                assert!(entries.insert(label, row).is_none(), "a counter is taken twice");
            }
            Step::ArxEq(Change::Remove { label, .. }) => assert!(entries.remove(&label).is_some()),
            other => unreachable!("a half makes no such step: {other:?}"),
        }
    }
}

impl Channel<ArxEq> for Server {
    async fn call(&self, request: Request) -> Result<Response, ChannelError> {
        let mut response = Response { values: request.values.iter().map(|value| self.find(value)).collect() };
        self.asked.lock().unwrap().push(request);
        if let Some(lie) = &*self.lie.lock().unwrap() {
            lie(&mut response);
        }
        Ok(response)
    }
}

impl Channel<Entries> for Server {
    async fn call(&self, request: EntriesRequest) -> Result<EntriesResponse, ChannelError> {
        // Pages of three.
        let entries = self.entries.lock().unwrap();
        let rest: Vec<Label> = entries
            .keys()
            .copied()
            .filter(|label| request.after.is_none_or(|after| *label > after))
            .collect();
        let last = rest.get(2).copied().filter(|_| rest.len() > 3);
        Ok(EntriesResponse { entries: rest.len().min(3) as u32, last })
    }
}

/// An index with entries of [`VALUE`].
pub(in crate::arx_eq) struct World {
    pub(in crate::arx_eq) server: Arc<Server>,
    pub(in crate::arx_eq) state: Arc<Kept>,
    pub(in crate::arx_eq) index: Arc<ArxEqIndex<Arc<Server>>>,
    /// What the documents' headers keep.
    pub(in crate::arx_eq) headers: BTreeMap<RowId, Held>,
}

impl World {
    pub(in crate::arx_eq) fn new() -> Self {
        let (server, state) = (Arc::new(Server::default()), Arc::new(Kept::default()));
        let index = Arc::new(ArxEqIndex::new(Arc::clone(&server), IndexId([1; 8]), &Key::generate()));
        Self { server, state, index, headers: BTreeMap::new() }
    }

    pub(in crate::arx_eq) fn perform(&self, staged: Staged) {
        let steps = staged.steps.entries.into_iter().chain(staged.steps.removed);
        steps.for_each(|step| self.server.apply(step));
        for StateChange { name, now, .. } in staged.state {
            self.state.set(name, now);
        }
    }

    fn change(&self, row: RowId, held: Option<Held>) -> Vec<Held> {
        let terms = |is_there| Terms::from_iter(Some((VALUE.to_vec(), Vec::new())).filter(|_| is_there));
        let (old, new) = (terms(held.is_some()), terms(held.is_none()));
        let change = RowChange { row, old, new, held: held.into_iter().collect() };
        let mut staged = self.index.keyed.staged(&[change], &*self.state).unwrap();
        let held = staged.held.remove(0);
        self.perform(staged);
        held
    }

    pub(in crate::arx_eq) fn enter(&mut self, numbers: impl IntoIterator<Item = u32>) {
        for row in numbers.into_iter().map(row) {
            let held = self.change(row, None)[0];
            self.headers.insert(row, held);
        }
    }

    /// Takes rows out; the counters that they were under.
    pub(in crate::arx_eq) fn remove(&mut self, numbers: impl IntoIterator<Item = u32>) -> BTreeSet<u32> {
        let mut released = BTreeSet::new();
        for row in numbers.into_iter().map(row) {
            let held = self.headers.remove(&row).unwrap();
            self.change(row, Some(held));
            released.insert(held.counter);
        }
        released
    }

    pub(in crate::arx_eq) fn name(&self) -> Vec<u8> {
        self.index.keyed.record_name(VALUE)
    }

    pub(in crate::arx_eq) fn occurrences(&self) -> Occurrences {
        Occurrences::decode(&self.state.read(&self.name()).unwrap().unwrap()).unwrap()
    }

    pub(in crate::arx_eq) fn search(&self) -> Result<EqualityAnswer, IndexError> {
        let values = BTreeSet::from([VALUE.to_vec(), b"gout".to_vec()]);
        now(Arc::clone(&self.index).search(&values, &*self.state))
    }

    /// Has the server lie.
    pub(in crate::arx_eq) fn lie(&self, lie: impl Fn(&mut Response) + Send + 'static) {
        *self.server.lie.lock().unwrap() = Some(Box::new(lie));
    }
}
