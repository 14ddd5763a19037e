//! Indexes out of nothing, for tests of who uses them; how each is made, opened and dropped.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::tests::Away;
use arras_planner::kinds::{Availability, of_orders};
use arras_planner::physical::KeyWidth;
use arras_protocol::{CollectionId, Order, RowId, documents};
use arras_schemes::contract::{
    Difference, EqualityAnswer, EqualitySearch, KeysAndRows, Occasion, OnRecord, Pending, Place, RangeCursor,
    RangePage, RangeQuery, RangeSearch, Renumbered, Renumbering, Repair, RowChange, Serves, Staged,
    UniqueSearch,
};
use bson::Document;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Mutex;

/// An index of an order in plain: its entries, of which a page holds so many.
#[derive(Debug)]
pub(crate) struct Plain {
    id: IndexId,
    entries: BTreeSet<(Vec<u8>, RowId)>,
    page: usize,
    asked: Asked,
}

/// How many entries each request of a search asked for.
pub(crate) type Asked = Arc<Mutex<Vec<Option<usize>>>>;

/// The rest of a search.
#[derive(Debug)]
struct Rest {
    entries: KeysAndRows,
    page: usize,
    asked: Asked,
}

impl Rest {
    fn page(mut self, limit: Option<usize>) -> RangePage {
        self.asked.lock().unwrap().push(limit);
        let page = self.page.min(limit.unwrap_or(usize::MAX)).min(self.entries.len());
        let rest = self.entries.split_off(page);
        let entries = std::mem::replace(&mut self.entries, rest);
        let more = (!self.entries.is_empty()).then(|| Box::new(self) as _);
        RangePage { entries, more, repair: Repair::none() }
    }
}

impl RangeCursor for Rest {
    fn next(self: Box<Self>, limit: Option<usize>) -> Pending<'static, Result<RangePage, IndexError>> {
        Box::pin(std::future::ready(Ok(self.page(limit))))
    }
}

impl EncryptedIndex for Plain {
    fn index(&self) -> IndexId {
        self.id
    }

    fn entry_bytes(&self) -> usize {
        100
    }

    fn serves(&self) -> Serves {
        Serves::Range
    }

    fn range(self: Arc<Self>) -> Option<Arc<dyn RangeSearch>> {
        Some(self)
    }

    fn stage(
        self: Arc<Self>,
        _: Place,
        _: Vec<RowChange>,
        _: Arc<dyn State>,
    ) -> Pending<'static, Result<Staged, IndexError>> {
        Box::pin(std::future::ready(Ok(Staged::default())))
    }
}

impl RangeSearch for Plain {
    fn search(self: Arc<Self>, range: RangeQuery) -> Pending<'static, Result<RangePage, IndexError>> {
        let within = |(key, _): &&(Vec<u8>, RowId)| (&range.lower..=&range.upper).contains(&key);
        let mut entries: KeysAndRows = self.entries.iter().filter(within).cloned().collect();
        if range.order == Order::Descending {
            entries.reverse();
        }
        Box::pin(std::future::ready(Ok(
            Rest { entries, page: self.page, asked: Arc::clone(&self.asked) }.page(range.limit)
        )))
    }

    fn inspect(self: Arc<Self>) -> Pending<'static, Result<KeysAndRows, IndexError>> {
        Box::pin(std::future::ready(Ok(self.entries.iter().cloned().collect())))
    }

    fn entries_per_write(&self, write_bytes: usize) -> usize {
        (write_bytes / 100).max(1)
    }
}

/// An index of equality, or of unique values, that gives the answers that it was told, in their order.
#[derive(Debug, Default)]
pub(crate) struct Scripted {
    pub(crate) answers: Mutex<VecDeque<Result<EqualityAnswer, IndexError>>>,
    pub(crate) holders: Mutex<VecDeque<Result<Vec<Option<RowId>>, IndexError>>>,
    pub(crate) is_unique: bool,
    /// What was asked to be numbered anew, which comes to nothing.
    pub(crate) renumbered: Mutex<Vec<(Vec<u8>, Occasion)>>,
}

impl EncryptedIndex for Scripted {
    fn index(&self) -> IndexId {
        IndexId([1; 8])
    }

    fn entry_bytes(&self) -> usize {
        100
    }

    fn serves(&self) -> Serves {
        if self.is_unique { Serves::Unique } else { Serves::Equality }
    }

    fn equality(self: Arc<Self>) -> Option<Arc<dyn EqualitySearch>> {
        (!self.is_unique).then_some(self as _)
    }

    fn unique(self: Arc<Self>) -> Option<Arc<dyn UniqueSearch>> {
        self.is_unique.then_some(self as _)
    }

    fn stage(
        self: Arc<Self>,
        _: Place,
        _: Vec<RowChange>,
        _: Arc<dyn State>,
    ) -> Pending<'static, Result<Staged, IndexError>> {
        Box::pin(std::future::ready(Ok(Staged::default())))
    }
}

impl EqualitySearch for Scripted {
    fn search<'s>(
        self: Arc<Self>,
        _: &'s BTreeSet<Vec<u8>>,
        _: &'s dyn State,
    ) -> Pending<'s, Result<EqualityAnswer, IndexError>> {
        Box::pin(std::future::ready(self.answers.lock().unwrap().pop_front().unwrap()))
    }

    fn on_record(&self, _: &[Vec<u8>], _: &dyn State) -> Result<Vec<OnRecord>, IndexError> {
        Ok(Vec::new())
    }

    fn inspect(
        self: Arc<Self>,
        _: BTreeMap<Vec<u8>, Vec<RowId>>,
        _: &dyn State,
    ) -> Pending<'_, Result<Difference, IndexError>> {
        Box::pin(std::future::ready(Ok(Difference::default())))
    }

    fn renumbering(
        self: Arc<Self>,
        value: Vec<u8>,
        occasion: Occasion,
        _: Arc<dyn State>,
    ) -> Result<Box<dyn Renumbering>, IndexError> {
        self.renumbered.lock().unwrap().push((value, occasion));
        Ok(Box::new(Nothing))
    }
}

impl UniqueSearch for Scripted {
    fn holders(self: Arc<Self>, _: Vec<Vec<u8>>) -> Pending<'static, Result<Vec<Option<RowId>>, IndexError>> {
        Box::pin(std::future::ready(self.holders.lock().unwrap().pop_front().unwrap()))
    }
}

/// Nothing to be numbered anew.
struct Nothing;

impl Renumbering for Nothing {
    fn next(&mut self) -> Pending<'_, Result<Option<Box<dyn Renumbered>>, IndexError>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// An index of an order of some fields, with keys of tagged parts.
pub(crate) fn range_of(fields: &[&str]) -> PhysicalIndex {
    let fields: Vec<String> = fields.iter().map(|field| (*field).to_owned()).collect();
    PhysicalIndex::range(&fields, KeyWidth::Bits128, None).unwrap()
}

pub(crate) fn eq_of(fields: &[&str]) -> PhysicalIndex {
    PhysicalIndex::Eq { fields: fields.iter().map(|field| (*field).to_owned()).collect() }
}

pub(crate) fn unique_of(fields: &[&str]) -> PhysicalIndex {
    PhysicalIndex::Unique { fields: fields.iter().map(|field| (*field).to_owned()).collect() }
}

impl IndexPart {
    /// A part of this name whose range index, if it is one, is in plain and empty.
    pub(crate) fn of_test(name: u8, physical: PhysicalIndex) -> Arc<Self> {
        let id = IndexId([name; 8]);
        let key = Key::generate();
        let half: Arc<dyn EncryptedIndex> = match &physical {
            PhysicalIndex::Unique { .. } => Arc::new(UniqueIndex::new(Arc::new(Away), id, &key)),
            PhysicalIndex::Eq { .. } => Arc::new(ArxEqIndex::new(Arc::new(Away), id, &key)),
            PhysicalIndex::Range { .. } => {
                return Self::plain(name, physical, [], usize::MAX, &Asked::default());
            }
        };
        Self::around(id, physical, half)
    }

    /// A range index in plain with these entries, of which a page holds so many.
    pub(crate) fn plain(
        name: u8,
        physical: PhysicalIndex,
        entries: impl IntoIterator<Item = (Vec<u8>, RowId)>,
        page: usize,
        asked: &Asked,
    ) -> Arc<Self> {
        let (id, entries, asked) = (IndexId([name; 8]), entries.into_iter().collect(), Arc::clone(asked));
        Self::around(id, physical, Arc::new(Plain { id, entries, page, asked }))
    }

    pub(crate) fn around(id: IndexId, physical: PhysicalIndex, half: Arc<dyn EncryptedIndex>) -> Arc<Self> {
        let (facts, sample) = (LiveFacts::default(), LiveSample::default());
        Arc::new(Self { id, physical, sparse: false, facts, sample, bucket_factor: 32, half })
    }

    /// The same part, sparse.
    pub(crate) fn sparse(self: Arc<Self>) -> Arc<Self> {
        let part = Arc::into_inner(self).unwrap();
        Arc::new(Self { sparse: true, ..part })
    }
}

impl LiveIndex {
    /// One that is filled.
    pub(crate) fn of_test(name: &str, key: Document, parts: Vec<Arc<IndexPart>>) -> Self {
        let request = IndexDefinition {
            name: name.into(),
            key,
            unique: false,
            sparse: false,
            options: Document::new(),
        };
        Self { request, parts, text: None, ready: AtomicBool::new(true) }
    }
}

fn part_of(physical: PhysicalIndex) -> IndexPartRecord {
    IndexPartRecord { id: IndexId([5; 8]), physical, sparse: true, bucket_factor: 7 }
}

/// Indexes of every protocol that this build makes, with keys that it takes.
fn every_kind() -> Vec<PhysicalIndex> {
    let mut kinds = vec![unique_of(&["a"]), eq_of(&["a", "b"])];
    for protocol in of_orders() {
        if matches!(protocol.kind().availability, Availability::Refused(_)) {
            continue;
        }
        let PhysicalIndex::Range { equal, range, aggregates, .. } = range_of(&["a"]) else { unreachable!() };
        let typed = arras_planner::schema::FieldType::named("int64");
        let width = KeyWidth::Bits64;
        kinds.push(PhysicalIndex::Range { protocol, equal, range, width, typed, aggregates });
    }
    kinds
}

#[test]
fn an_index_of_every_kind_is_made_and_dropped_by_steps_of_its_name() {
    let root = Key::generate();
    let kinds = every_kind();
    assert!(kinds.len() > 6, "{kinds:?}");
    for physical in kinds {
        let part = part_of(physical);
        for small_trees in [false, true] {
            let range = RangeSettings { small_trees, ..RangeSettings::default() };
            let steps = create_steps::<Away>(&part, &root, range, &Randomness::default()).unwrap();
            assert!(!steps.is_empty());
            assert!(steps.iter().all(|step| step.index() == Some(part.id)), "{}", part.physical);
        }
        let dropped = drop_step(&part).unwrap();
        assert_eq!(dropped.index(), Some(part.id));
        // By the protocol that made it.
        let made =
            create_steps::<Away>(&part, &root, RangeSettings::default(), &Randomness::default()).unwrap();
        assert_eq!(std::mem::discriminant(&made[0]), std::mem::discriminant(&dropped), "{}", part.physical);
    }
}

#[tokio::test]
async fn an_index_is_opened_as_it_was_recorded_and_serves_what_its_kind_says() {
    let local = crate::local::LocalStore::open(arras_storage::Memory::new(), &Key::generate()).unwrap();
    let (channel, epochs, random) =
        (Arc::new(Away), Epochs::with(1, &Randomness::default()), Key::generate());
    let epochs = Arc::new(epochs);
    let opening = Opening {
        channel: &channel,
        epochs: &epochs,
        range: RangeSettings::default(),
        state: &local,
        starts: 1,
    };
    let request = LiveIndex::of_test("one", bson::doc! { "a": 1 }, Vec::new()).request;
    for physical in every_kind() {
        let mut record = IndexRecord::new(&request, vec![part_of(physical.clone())]);
        for ready in [false, true] {
            record.ready = ready;
            let opened = opening.open(&record, request.clone(), &random).await;
            let live = match opened {
                Ok(live) => live,
                // Its top has to be read, and the server is away.
                Err(IndexError::Channel(_)) => continue,
                Err(error) => panic!("{physical}: {error}"),
            };
            assert_eq!((&live.request, live.ready.into_inner()), (&request, ready));
            let [part] = live.parts.as_slice() else { panic!("one part: {}", live.parts.len()) };
            assert_eq!((part.id, part.half.index()), (IndexId([5; 8]), IndexId([5; 8])));
            assert_eq!((&part.physical, part.sparse, part.bucket_factor), (&physical, true, 7));
            let agrees = match part.half.serves() {
                Serves::Unique => matches!(physical, PhysicalIndex::Unique { .. }),
                Serves::Equality => matches!(physical, PhysicalIndex::Eq { .. }),
                Serves::Range => {
                    Arc::clone(&part.half).range().is_some()
                        && matches!(physical, PhysicalIndex::Range { .. })
                }
            };
            assert!(agrees, "{physical}");
        }
    }
}

#[test]
fn steps_of_documents_are_of_no_index() {
    let create = documents::Change::CreateCollection { collection: CollectionId([1; 8]) };
    assert_eq!(Step::Documents(create).index(), None);
}
