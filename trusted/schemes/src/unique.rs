//! EQunique: labels of unique values (Arx §3, §5.1).

use crate::contract::{EncryptedIndex, Pending, Place, RowChange, Serves, Staged, State, UniqueSearch};
use crate::error::IndexError;
use arras_keys::{Key, Purpose};
use arras_primitives::det_aead::DetAead;
use arras_protocol::unique::{Change, Label, Request, Unique as Protocol};
use arras_protocol::write::Step;
use arras_protocol::{Channel, IndexId, RowId};
use std::sync::Arc;

/// Bytes of one entry's steps, about.
const ENTRY_BYTES: usize = 50;

/// Labels values of one index.
pub struct UniqueLabels {
    index: IndexId,
    labels: DetAead,
}

impl std::fmt::Debug for UniqueLabels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UniqueLabels({:?})", self.index)
    }
}

impl UniqueLabels {
    /// Derives the index's cipher from its key.
    #[must_use]
    pub fn new(index: IndexId, key: &Key) -> Self {
        Self { index, labels: DetAead::new(key.child(Purpose::UniqueLabel).expose()) }
    }

    /// The label of a value in canonical form: equal values, equal labels.
    #[must_use]
    pub fn label(&self, canonical: &[u8]) -> Label {
        Label(self.labels.tag(&[self.index.as_bytes()], canonical))
    }
}

/// The client half of one index.
pub struct UniqueIndex<C> {
    channel: C,
    keyed: UniqueLabels,
}

impl<C> std::fmt::Debug for UniqueIndex<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UniqueIndex({:?})", self.keyed.index)
    }
}

impl<C> UniqueIndex<C> {
    /// Takes an index up, which has no state.
    #[must_use]
    pub fn new(channel: C, index: IndexId, key: &Key) -> Self {
        Self { channel, keyed: UniqueLabels::new(index, key) }
    }
}

impl<C: Channel<Protocol> + 'static> EncryptedIndex for UniqueIndex<C> {
    fn index(&self) -> IndexId {
        self.keyed.index
    }

    fn entry_bytes(&self) -> usize {
        ENTRY_BYTES
    }

    fn serves(&self) -> Serves {
        Serves::Unique
    }

    fn unique(self: Arc<Self>) -> Option<Arc<dyn UniqueSearch>> {
        Some(self)
    }

    fn stage(
        self: Arc<Self>,
        _place: Place,
        changes: Vec<RowChange>,
        _state: Arc<dyn State>,
    ) -> Pending<'static, Result<Staged, IndexError>> {
        let mut staged = Staged::default();
        let (index, keyed) = (self.keyed.index, &self.keyed);
        for RowChange { row, old, new, .. } in &changes {
            let gone = old.keys().filter(|value| !new.contains_key(*value));
            let freed = gone.map(|value| Step::Unique(Change::Remove { index, label: keyed.label(value) }));
            staged.steps.freed.extend(freed);
            for value in new.keys().filter(|value| !old.contains_key(*value)) {
                let label = keyed.label(value);
                staged.steps.entries.push(Step::Unique(Change::Insert { index, label, row: *row }));
            }
        }
        Box::pin(std::future::ready(Ok(staged)))
    }
}

impl<C: Channel<Protocol> + 'static> UniqueSearch for UniqueIndex<C> {
    fn holders(
        self: Arc<Self>,
        values: Vec<Vec<u8>>,
    ) -> Pending<'static, Result<Vec<Option<RowId>>, IndexError>> {
        let labels: Vec<Label> = values.iter().map(|value| self.keyed.label(value)).collect();
        Box::pin(async move {
            // In their own order, which is pseudorandom: not in that of their values.
            let mut asked = labels.clone();
            asked.sort_unstable();
            asked.dedup();
            let request = Request { index: self.keyed.index, labels: asked.clone() };
            let reply = self.channel.call(request).await?;
            if reply.rows.len() != asked.len() {
                let what = "a unique index answers more or fewer values than it was asked";
                return Err(IndexError::Peer(what));
            }
            let holder = |label| reply.rows.get(asked.binary_search(label).ok()?).copied().flatten();
            Ok(labels.iter().map(holder).collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arras_protocol::ChannelError;
    use arras_protocol::unique::Response;
    use std::collections::BTreeMap;
    use std::pin::pin;
    use std::sync::Mutex;
    use std::task::{Context, Poll, Waker};

    /// Rows by label; what was asked.
    #[derive(Default)]
    struct Server {
        rows: BTreeMap<Label, RowId>,
        asked: Mutex<Vec<Vec<Label>>>,
        short: bool,
    }

    impl Channel<Protocol> for Server {
        async fn call(&self, request: Request) -> Result<Response, ChannelError> {
            let rows = request.labels.iter().skip(usize::from(self.short));
            let rows = rows.map(|label| self.rows.get(label).copied()).collect();
            self.asked.lock().expect("not poisoned").push(request.labels);
            Ok(Response { rows })
        }
    }

    type Holders = Result<Vec<Option<RowId>>, IndexError>;

    /// What some values have for holders, and what was asked for that.
    fn holders(server: Server, key: &Key) -> (Holders, Vec<Vec<Label>>) {
        let index = Arc::new(UniqueIndex::new(Arc::new(server), IndexId([1; 8]), key));
        let values = [3, 1, 2, 1].map(|value| vec![value]).into();
        let asking = Arc::clone(&index).holders(values);
        let Poll::Ready(found) = pin!(asking).poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("it waits");
        };
        let asked = std::mem::take(&mut *index.channel.asked.lock().expect("not poisoned"));
        (found, asked)
    }

    #[test]
    fn holders_come_in_the_order_of_the_values_and_labels_go_in_their_own_each_once() {
        let key = Key::generate();
        let labels = UniqueLabels::new(IndexId([1; 8]), &key);
        let row = |value: u8| RowId([value; 16]);
        let rows = [1, 3].map(|value| (labels.label(&[value]), row(value))).into();
        let (found, asked) = holders(Server { rows, ..Server::default() }, &key);
        assert_eq!(found.expect("it answers"), [Some(row(3)), Some(row(1)), None, Some(row(1))]);
        let mut sorted: Vec<Label> = [1, 2, 3].map(|value| labels.label(&[value])).into();
        sorted.sort_unstable();
        assert_eq!(asked, [sorted]);
        let (found, _) = holders(Server { short: true, ..Server::default() }, &key);
        assert!(matches!(found, Err(IndexError::Peer(_))));
    }
}
