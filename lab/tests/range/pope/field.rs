//! POPE as the index of a field: changes are steps of writes, searches go by the one contract, nothing is kept.

use crate::body::{Subject, Tampering};
use crate::field::{pages, row_changes};
use crate::world::{INDEX, Wire, embedded, key, memory, prg, run};
use arras_protocol::Order;
use arras_protocol::ore::Width;
use arras_protocol::pope::{Pope as Protocol, Response};
use arras_protocol::write::{self, Step, Write};
use arras_protocol::{Channel, ChannelError, OperationId, RowId, codec};
use arras_schemes::IndexError;
use arras_schemes::arx_range::RangeEntry;
use arras_schemes::contract::{EncryptedIndex, RangeQuery, RangeSearch, RowChange, State};
use arras_schemes::pope::{Keyed, Pope};
use arras_schemes::traits::RangeIndex;
use arras_server::Backend;
use arras_storage::{Embedded, Storage};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// No client state: POPE has none.
struct Stateless;

impl State for Stateless {
    fn read(&self, _name: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        panic!("POPE reads no state")
    }

    fn each(&self, _beginning: &[u8], _visit: &mut dyn FnMut(&[u8], Vec<u8>)) -> Result<(), IndexError> {
        Ok(())
    }
}

/// An index and the writes of its documents. Searches page by page.
struct Field<C> {
    half: Arc<Pope<C>>,
    channel: C,
    epoch: u64,
    sequence: AtomicU64,
    page_entries: Option<usize>,
}

impl<C: Channel<Protocol> + Channel<Write> + Clone + 'static> Field<C> {
    fn open(channel: C, width: Width, epoch: u64, page_entries: Option<usize>) -> Self {
        let key = key();
        let keyed = Keyed { index: INDEX, key: &key, width };
        let half = Pope::open(channel.clone(), keyed, epoch, prg(epoch)).expect("an early epoch");
        Self { half: Arc::new(half), channel, epoch, sequence: AtomicU64::new(0), page_entries }
    }

    async fn create(channel: C, width: Width, page_bytes: u32) -> Result<Self, IndexError> {
        let field = Self::open(channel, width, 1, Some(40));
        field.write(Pope::create(INDEX, width, page_bytes)?).await?;
        Ok(field)
    }

    fn request(&self, steps: Vec<Step>) -> write::Request {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        let operation = OperationId { epoch: self.epoch, sequence };
        let finished_below = OperationId { epoch: 0, sequence: 0 };
        write::Request { operation: Some(operation), finished_below, acknowledged: 0, steps }
    }

    async fn write(&self, steps: Vec<Step>) -> Result<(), IndexError> {
        Channel::<Write>::call(&self.channel, self.request(steps)).await?;
        Ok(())
    }

    async fn stage(&self, changes: Vec<RowChange>) -> Result<Vec<Step>, IndexError> {
        let half: Arc<dyn EncryptedIndex> = self.half.clone();
        let place = half.clone().place().await;
        let staged = half.stage(place, changes, Arc::new(Stateless)).await?;
        assert!(staged.state.is_empty(), "nothing is kept");
        Ok(staged.steps.entries)
    }

    async fn change(&self, entries: Vec<RangeEntry>, is_insertion: bool) -> Result<(), IndexError> {
        let steps = self.stage(row_changes(entries, is_insertion)).await?;
        if steps.is_empty() { Ok(()) } else { self.write(steps).await }
    }
}

impl<C: Channel<Protocol> + Channel<Write> + Clone + 'static> RangeIndex for Field<C> {
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
        pages(self.half.clone(), RangeQuery { lower, upper, order, limit }, self.page_entries).await
    }
}

/// A width and bytes of a page.
struct FieldOf(Width, u32);

impl Subject for FieldOf {
    type Index<S: Storage> = Field<Wire<S>>;

    fn width(&self) -> Width {
        self.0
    }

    async fn open<S: Storage>(&self, wire: Wire<S>) -> Result<Self::Index<S>, IndexError> {
        Field::create(wire, self.0, self.1).await
    }

    /// Where elements lie is the server's word.
    fn tampering(&self) -> Tampering {
        Tampering::Bounded
    }
}

range_tests!(of_32_bits, FieldOf(Width::Bits32, 4096));
range_tests!(of_64_bits, FieldOf(Width::Bits64, 512));
range_tests!(of_three_labels, FieldOf(Width::Bits32, 230));

fn row(number: u64) -> RowId {
    RowId(u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060).to_be_bytes())
}

fn entries(pairs: impl IntoIterator<Item = (u64, RowId)>) -> Vec<RangeEntry> {
    let entry = |(value, row)| RangeEntry { value: Width::Bits64.key(value), row, sums: Vec::new() };
    pairs.into_iter().map(entry).collect()
}

async fn found<I: RangeIndex>(index: &I, (lower, upper): (u64, u64), order: Order) -> Vec<(u64, RowId)> {
    let [low, high] = [lower, upper].map(|value| Width::Bits64.key(value));
    let found = index.search(low, high, order, None).await.expect("searches");
    found.into_iter().map(|(key, row)| (Width::Bits64.plaintext(&key).expect("8 bytes"), row)).collect()
}

#[test]
fn a_half_opened_afresh_answers_like_the_one_before() {
    let directory = tempfile::tempdir().expect("a directory");
    run(async {
        let mut expected: BTreeSet<(u64, RowId)> = BTreeSet::new();
        for epoch in 1..6_u64 {
            let world = embedded(directory.path());
            let field = Field::open(world.wire.clone(), Width::Bits64, epoch, None);
            field
                .write(Pope::create(INDEX, Width::Bits64, 512).expect("a page"))
                .await
                .expect("made or there");
            let all = found(&field, (0, u64::MAX), Order::Ascending).await;
            assert_eq!(all, expected.iter().copied().collect::<Vec<_>>(), "epoch {epoch}");
            // Some go that an earlier epoch inserted, and some that it removed come back.
            let again: Vec<_> = (0..40).map(|number| (number % 7, row(number))).collect();
            let gone: Vec<_> = expected.iter().step_by(3).copied().collect();
            field.remove(entries(gone.iter().copied())).await.expect("removes");
            expected.retain(|pair| !gone.contains(pair));
            field.insert(entries(again.iter().copied())).await.expect("inserts");
            expected.extend(again);
            let new: Vec<_> = (0..60).map(|number| (number * epoch, row(1000 * epoch + number))).collect();
            field.insert(entries(new.iter().copied())).await.expect("inserts");
            expected.extend(new);
            if epoch % 2 == 0 {
                found(&field, (3, 90), Order::Descending).await;
            }
        }
    });
}

#[test]
fn a_write_sent_again_is_applied_once_and_not_at_all_if_refused() {
    run(async {
        let world = memory();
        let field = Field::create(world.wire.clone(), Width::Bits64, 512).await.expect("made");
        field.insert(entries([(5, row(1)), (6, row(2))])).await.expect("inserts");
        let pair = RowChange {
            row: row(1),
            old: BTreeMap::from([(Width::Bits64.key(5), Vec::new())]),
            new: BTreeMap::from([(Width::Bits64.key(9), Vec::new())]),
            held: Vec::new(),
        };
        let update = field.request(field.stage(vec![pair]).await.expect("staged"));
        for sent in 0..3 {
            let reply = Channel::<Write>::call(&world.wire, update.clone()).await.expect("applied");
            assert_eq!(reply.applied, sent == 0);
            assert_eq!(found(&field, (0, 10), Order::Ascending).await, [(6, row(2)), (9, row(1))]);
        }
        // A write that is refused in its last step has left nothing of the ones before.
        let mut steps = field.half.steps(&entries([(7, row(3))]), &[]).expect("steps");
        steps.push(Step::Pope(arras_protocol::pope::Change::Append {
            index: INDEX,
            elements: arras_protocol::Blob(vec![1]),
        }));
        assert!(field.write(steps).await.is_err());
        assert_eq!(found(&field, (0, 10), Order::Descending).await, [(9, row(1)), (6, row(2))]);
        // Dropped without being written, a change has not happened.
        drop(field.half.steps(&[], &entries([(6, row(2))])).expect("steps"));
        assert_eq!(found(&field, (0, 10), Order::Ascending).await.len(), 2);
        field.write(vec![Pope::drop_step(INDEX)]).await.expect("dropped");
        assert!(field.insert(entries([(1, row(1))])).await.is_err());
    });
}

#[test]
fn a_page_goes_on_behind_the_last_entry_whatever_was_written_in_between() {
    run(async {
        for order in [Order::Ascending, Order::Descending] {
            let world = memory();
            let field = Field::create(world.wire.clone(), Width::Bits64, 512).await.expect("made");
            let stays: Vec<_> = (0..90).map(|number| (number / 30, row(number))).collect();
            field.insert(entries(stays.iter().copied())).await.expect("inserts");
            let query = RangeQuery {
                lower: Width::Bits64.key(0),
                upper: Width::Bits64.key(9),
                order,
                limit: Some(4),
            };
            let mut page = field.half.clone().search(query).await.expect("searches");
            let mut seen = BTreeSet::new();
            let mut next = 1000;
            loop {
                for (key, row) in &page.entries {
                    assert!(seen.insert((Width::Bits64.plaintext(key).expect("8 bytes"), *row)), "twice");
                }
                let Some(more) = page.more else { break };
                // New entries of every value, before and behind; some of those that came go.
                if next < 1060 {
                    field
                        .insert(entries((0..3).map(|value| (value, row(next + value)))))
                        .await
                        .expect("inserts");
                    next += 3;
                }
                page = more.next(Some(4)).await.expect("goes on");
            }
            assert!(stays.iter().all(|pair| seen.contains(pair)));
        }
    });
}

/// Bytes of a sealed element of a 64-bit value: value, tie, row, nonce and tag.
const ELEMENT_BYTES: usize = 8 + 8 + 16 + 32;

/// A server whose replies bring their elements in another order, and some twice.
struct Mixing<S>(Wire<S>);

impl<S> Clone for Mixing<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: Storage> Channel<Write> for Mixing<S> {
    async fn call(&self, request: write::Request) -> Result<write::Response, ChannelError> {
        Channel::<Write>::call(&self.0, request).await
    }
}

impl<S: Storage> Channel<Protocol> for Mixing<S> {
    async fn call(&self, request: arras_protocol::pope::Request) -> Result<Response, ChannelError> {
        let mut response = Channel::<Protocol>::call(&self.0, request).await?;
        if let Response::Found { elements, runs, next: None } = &mut response
            && let Some(run) = runs.first_mut()
        {
            let bytes = ELEMENT_BYTES;
            let mut mixed: Vec<Vec<u8>> =
                elements.as_slice().chunks_exact(bytes).map(<[u8]>::to_vec).collect();
            mixed.reverse();
            mixed.push(mixed[0].clone());
            run.count += 1;
            *elements = arras_protocol::Blob(mixed.concat());
        }
        Ok(response)
    }
}

#[test]
fn elements_in_another_order_or_twice_change_no_answer() {
    run(async {
        let world = memory();
        let field = Field::create(Mixing(world.wire.clone()), Width::Bits64, 512).await.expect("made");
        let all: Vec<_> = (0..300).map(|number| (number * 7 % 100, row(number))).collect();
        field.insert(entries(all.iter().copied())).await.expect("inserts");
        field.remove(entries(all.iter().step_by(5).copied())).await.expect("removes");
        let mut left: Vec<_> =
            all.iter().enumerate().filter(|(place, _)| place % 5 != 0).map(|(_, it)| *it).collect();
        left.sort_unstable();
        for range in [(0, 200), (10, 20), (50, 50)] {
            let expected: Vec<_> =
                left.iter().filter(|(value, _)| (range.0..=range.1).contains(value)).copied().collect();
            assert_eq!(found(&field, range, Order::Ascending).await, expected);
        }
    });
}

/// A server on several threads.
#[derive(Clone)]
struct SharedServer(Arc<Backend<Embedded>>);

impl<P: arras_protocol::Protocol> Channel<P> for SharedServer {
    async fn call(&self, request: P::Request) -> Result<P::Response, ChannelError> {
        let (backend, body) = (Arc::clone(&self.0), codec::encode(&request));
        let reply = tokio::task::spawn_blocking(move || backend.handle(P::ID, &body)).await;
        let reply = reply.expect("the server does not panic")?;
        codec::decode(&reply).map_err(|_| ChannelError::Malformed(P::NAME.into()))
    }
}

#[test]
fn many_searches_beside_a_writer_find_what_is_there() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = Embedded::open(directory.path()).expect("the directory is ours");
    let channel = SharedServer(Arc::new(Backend::open(store, [1; 16]).expect("an empty store")));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().expect("a runtime");
    runtime.block_on(async {
        let field = Arc::new(Field::create(channel, Width::Bits64, 512).await.expect("made"));
        // Even values stay; odd ones come and go.
        let stays: BTreeSet<_> = (0..600).map(|number| (number * 2 % 400, row(number))).collect();
        field.insert(entries(stays.iter().copied())).await.expect("inserts");
        let writer = tokio::spawn({
            let field = Arc::clone(&field);
            async move {
                for turn in 0..150_u64 {
                    let pairs = [(turn * 26 % 400 + 1, row(5000 + turn)), (turn % 40 * 10 + 1, row(turn))];
                    field.insert(entries(pairs)).await.expect("inserts");
                    if turn % 3 != 0 {
                        field.remove(entries([pairs[0]])).await.expect("removes");
                    }
                }
            }
        });
        let searchers: Vec<_> = (0..6_u64)
            .map(|seed| {
                let (field, stays) = (Arc::clone(&field), stays.clone());
                tokio::spawn(async move {
                    let mut random = prg(seed);
                    for _ in 0..60 {
                        let lower = random.next_u64() % 400;
                        let range = (lower, lower + random.next_u64() % 60);
                        let order = if seed % 2 == 0 { Order::Ascending } else { Order::Descending };
                        let all = found(&*field, range, order).await;
                        let even: BTreeSet<_> =
                            all.iter().filter(|(value, _)| value % 2 == 0).copied().collect();
                        let right = stays.iter().filter(|(value, _)| (range.0..=range.1).contains(value));
                        assert_eq!(even, right.copied().collect());
                        assert!(all.windows(2).all(|two| two[0] != two[1]));
                    }
                })
            })
            .collect();
        writer.await.expect("writes");
        for searcher in searchers {
            searcher.await.expect("searches");
        }
        let mut expected = stays;
        for turn in 0..150_u64 {
            expected.insert((turn % 40 * 10 + 1, row(turn)));
            if turn % 3 == 0 {
                expected.insert((turn * 26 % 400 + 1, row(5000 + turn)));
            }
        }
        let all = found(&*field, (0, u64::MAX), Order::Ascending).await;
        assert_eq!(all, expected.into_iter().collect::<Vec<_>>());
    });
}
