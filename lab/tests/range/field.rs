//! Every protocol as a field's index, through the body of all range indexes: made and opened by the engine's own table, changed by
//! the steps that it stages, in writes with what it records, and searched page by page under the one contract.

use crate::body::{Effort, Subject, Tampering};
use crate::world::{INDEX, Wire, key};
use arras_engine::catalog::{IndexPartRecord, IndexRecord};
use arras_engine::index::{Opening, RangeSettings, create_steps};
use arras_planner::kinds::OrderProtocol;
use arras_planner::physical::{KeyWidth, PhysicalIndex};
use arras_protocol::ore::Width;
use arras_protocol::write::{self, Step, Write};
use arras_protocol::{Channel, OperationId, Order, RowId};
use arras_schemes::IndexError;
use arras_schemes::contract::{
    EncryptedIndex, Epochs, KeysAndRows, RangeEntry, RangeQuery, RangeSearch, RowChange, State, StateChange,
    Steps, Terms,
};
use arras_schemes::random::Randomness;
use arras_schemes::traits::RangeIndex;
use arras_service::store::IndexDefinition;
use arras_storage::Storage;
use bson::{Document, doc};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The proxy's records.
struct Records {
    kept: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    randomness: Randomness,
}

impl Records {
    fn apply(&self, changes: Vec<StateChange>) {
        let mut kept = self.kept.lock().expect("no test panicked here");
        for StateChange { name, now, .. } in changes {
            match now {
                Some(record) => kept.insert(name, record),
                None => kept.remove(&name),
            };
        }
    }
}

impl State for Records {
    fn read(&self, name: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        Ok(self.kept.lock().expect("no test panicked here").get(name).cloned())
    }

    fn each(&self, beginning: &[u8], visit: &mut dyn FnMut(&[u8], Vec<u8>)) -> Result<(), IndexError> {
        let kept = self.kept.lock().expect("no test panicked here");
        let named = kept.iter().filter(|(name, _)| name.starts_with(beginning));
        named.for_each(|(name, record)| visit(name, record.clone()));
        Ok(())
    }

    fn randomness(&self) -> &Randomness {
        &self.randomness
    }
}

/// An index, the writes of its documents and what they record.
struct Field<S> {
    half: Arc<dyn EncryptedIndex>,
    wire: Wire<S>,
    records: Arc<Records>,
    sequence: AtomicU64,
}

/// Most entries of a page.
const PAGE_ENTRIES: usize = 40;

/// Entries that come or go, as changes of their documents.
pub(crate) fn row_changes(entries: Vec<RangeEntry>, is_insertion: bool) -> Vec<RowChange> {
    let change = |entry: RangeEntry| {
        let terms = BTreeMap::from([(entry.value, entry.sums)]);
        let (old, new) = if is_insertion { (Terms::new(), terms) } else { (terms, Terms::new()) };
        RowChange { row: entry.row, old, new, held: Vec::new() }
    };
    entries.into_iter().map(change).collect()
}

/// All of a range, page by page.
pub(crate) async fn pages(
    index: Arc<dyn RangeSearch>,
    range: RangeQuery,
    page_entries: Option<usize>,
) -> Result<KeysAndRows, IndexError> {
    let limit = range.limit;
    let of_page = |found: usize| limit.map(|limit| limit - found).into_iter().chain(page_entries).min();
    let mut page = index.search(RangeQuery { limit: of_page(0), ..range }).await?;
    let mut found = Vec::new();
    loop {
        found.append(&mut page.entries);
        // One that fails leaves nothing wrong.
        let _ = page.repair.run().await;
        match page.more {
            Some(more) if limit.is_none_or(|limit| found.len() < limit) => {
                page = more.next(of_page(found.len())).await?;
            }
            _ => return Ok(found),
        }
    }
}

/// Times that a write is sent whose outcome is not known, before it is given up.
const SENT_MAX: usize = 3;

impl<S: Storage> Field<S> {
    /// Sends a write until it is known what became of it, as the engine does.
    async fn write(&self, steps: Steps, changes: Vec<StateChange>) -> Result<(), IndexError> {
        let Steps { freed, entries, ordered, removed } = steps;
        let steps = [freed, entries, ordered, removed].concat();
        if steps.is_empty() {
            self.records.apply(changes);
            return Ok(());
        }
        let request = self.request(steps);
        let mut sent = Channel::<Write>::call(&self.wire, request.clone()).await;
        for _ in 1..SENT_MAX {
            if sent.is_ok() {
                break;
            }
            sent = Channel::<Write>::call(&self.wire, request.clone()).await;
        }
        sent?;
        self.records.apply(changes);
        Ok(())
    }

    fn request(&self, steps: Vec<Step>) -> write::Request {
        let operation = OperationId { epoch: 1, sequence: self.sequence.fetch_add(1, Ordering::Relaxed) };
        let finished_below = OperationId { epoch: 0, sequence: 0 };
        write::Request { operation: Some(operation), finished_below, acknowledged: 0, steps }
    }

    async fn change(&self, entries: Vec<RangeEntry>, is_insertion: bool) -> Result<(), IndexError> {
        let changes = row_changes(entries, is_insertion);
        let place = Arc::clone(&self.half).place().await;
        let state: Arc<dyn State> = self.records.clone();
        let mut staged = Arc::clone(&self.half).stage(place, changes, state).await?;
        if let Some(mut preceding) = staged.preceding.take() {
            while let Some((steps, state)) = preceding.next() {
                self.write(steps, state).await?;
                preceding.acknowledged()?;
            }
        }
        let (steps, state) = (std::mem::take(&mut staged.steps), std::mem::take(&mut staged.state));
        self.write(steps, state).await?;
        // A repair that fails leaves nothing wrong.
        let _ = staged.commit().run().await;
        Ok(())
    }
}

impl<S: Storage> RangeIndex for Field<S> {
    async fn insert(&self, entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        self.change(entries, true).await
    }

    async fn remove(&self, entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        self.change(entries, false).await
    }

    async fn search(
        &self,
        lower: Vec<u8>,
        upper: Vec<u8>,
        order: Order,
        limit: Option<usize>,
    ) -> Result<Vec<(Vec<u8>, RowId)>, IndexError> {
        let range = Arc::clone(&self.half).range().expect("an order answers ranges");
        pages(range, RangeQuery { lower, upper, order, limit }, Some(PAGE_ENTRIES)).await
    }
}

/// A protocol by its name, a width, and whether its trees are small (those of FH-OPE are not: they would be full).
struct Of(&'static str, Width, bool);

impl Subject for Of {
    type Index<S: Storage> = Field<S>;

    fn width(&self) -> Width {
        self.1
    }

    async fn open<S: Storage>(&self, wire: Wire<S>) -> Result<Self::Index<S>, IndexError> {
        let Self(name, width, small_trees) = *self;
        let width = match width {
            Width::Bits32 => KeyWidth::Bits32,
            Width::Bits64 => KeyWidth::Bits64,
        };
        let physical = PhysicalIndex::Range {
            protocol: OrderProtocol::named(name).expect("a protocol of this build"),
            equal: Vec::new(),
            range: "v".into(),
            width,
            typed: None,
            aggregates: None,
        };
        let settings = RangeSettings { bucket_factor: 4, top_nodes: 8, small_trees };
        let part =
            IndexPartRecord { id: INDEX, physical, sparse: false, bucket_factor: settings.bucket_factor };
        let records = Arc::new(Records { kept: Mutex::default(), randomness: Randomness::seeded(7) });
        let steps = create_steps::<Wire<S>>(&part, &key(), settings, &records.randomness)?;
        let operation = Some(OperationId { epoch: 0, sequence: 0 });
        let finished_below = OperationId { epoch: 0, sequence: 0 };
        Channel::<Write>::call(&wire, write::Request { operation, finished_below, acknowledged: 0, steps })
            .await?;
        let (channel, epochs) = (Arc::new(wire.clone()), Arc::new(Epochs::new(1)));
        let opening =
            Opening { channel: &channel, epochs: &epochs, range: settings, state: &*records, starts: 1 };
        let request = IndexDefinition {
            name: "v_1".into(),
            key: doc! { "v": 1 },
            unique: false,
            sparse: false,
            options: Document::new(),
        };
        let live = opening.open(&IndexRecord::new(&request, vec![part]), request, &key()).await?;
        let half = Arc::clone(&live.parts[0].half);
        Ok(Field { half, wire, records, sequence: AtomicU64::new(0) })
    }

    /// What most do not authenticate is the order of what the server finds.
    fn tampering(&self) -> Tampering {
        if self.0 == "arx_range" { Tampering::Detected } else { Tampering::Bounded }
    }

    fn effort(&self) -> Effort {
        if self.0 == "bplus_cloz" { Effort::Few } else { Effort::Full }
    }
}

range_tests!(arx_range_64, Of("arx_range", Width::Bits64, false));
range_tests!(bplus_bclo_64, Of("bplus_bclo", Width::Bits64, true));
range_tests!(bplus_clww_32, Of("bplus_clww", Width::Bits32, true));
range_tests!(bplus_clww_64, Of("bplus_clww", Width::Bits64, false));
range_tests!(bplus_lewi_wu_32, Of("bplus_lewi_wu", Width::Bits32, true));
range_tests!(bplus_fh_ope_32, Of("bplus_fh_ope", Width::Bits32, false));
range_tests!(bplus_fh_ope_64, Of("bplus_fh_ope", Width::Bits64, false));
range_tests!(pope_32, Of("pope", Width::Bits32, true));
range_tests!(pope_64, Of("pope", Width::Bits64, false));
range_tests!(mope_32, Of("mope", Width::Bits32, true));
range_tests!(mope_64, Of("mope", Width::Bits64, false));
range_tests!(stope_32, Of("stope", Width::Bits32, true));
range_tests!(stope_64, Of("stope", Width::Bits64, false));
