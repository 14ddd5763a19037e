//! FH-OPE's index under the one contract of indexes: its changes are steps of writes, its state is records beside them.

use crate::world::{INDEX, Wire, World, key, memory, prg, run};
use arras_protocol::Order;
use arras_protocol::ore::{Scheme, Width};
use arras_protocol::write::{Request, Response, Step, Write};
use arras_protocol::{Channel, ChannelError, IndexId, OperationId, RowId, codec, unique};
use arras_schemes::IndexError;
use arras_schemes::bplus::{self, StatefulBPlus};
use arras_schemes::contract::{
    EncryptedIndex, KeysAndRows, RangeQuery, RangeSearch, RowChange, Staged, State, StateChange,
};
use arras_schemes::ore::domain::plaintext_key;
use arras_schemes::ore::fh_ope::FhOpe;
use arras_storage::{Failing, Faults, Memory};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const WIDTH: Width = Width::Bits64;
const OTHER: IndexId = IndexId([8; 8]);

type Server = Wire<Failing<Memory>>;
type Tree = StatefulBPlus<FhOpe, Server>;

/// The caller's durable records.
#[derive(Default)]
struct Records(Mutex<BTreeMap<Vec<u8>, Vec<u8>>>);

impl State for Records {
    fn read(&self, name: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        Ok(self.0.lock().expect("no test panicked here").get(name).cloned())
    }

    fn each(&self, beginning: &[u8], visit: &mut dyn FnMut(&[u8], Vec<u8>)) -> Result<(), IndexError> {
        let records = self.0.lock().expect("no test panicked here");
        let those = records.range(beginning.to_vec()..).take_while(|(name, _)| name.starts_with(beginning));
        those.for_each(|(name, record)| visit(name, record.clone()));
        Ok(())
    }
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Acknowledged,
    /// The server made it; the client learns so only after it has let go of the change.
    ReplyLost,
    /// It never came to the server.
    RequestLost,
    /// Another step of it was refused.
    Refused,
}

/// A caller who writes as the engine does, and the set that the index should be.
struct Caller {
    server: Server,
    faults: Faults,
    records: Arc<Records>,
    tree: Arc<Tree>,
    next: AtomicU64,
    set: Mutex<BTreeSet<(u64, RowId)>>,
}

fn opened(server: &Server, records: &Records) -> Arc<Tree> {
    let (scheme, version, present) = FhOpe::new(WIDTH).saved(INDEX, records).expect("records of one tree");
    let tree = StatefulBPlus::new(server.clone(), INDEX, &key(), scheme, prg(version));
    Arc::new(tree.taken_up(version, present))
}

impl Caller {
    async fn new() -> Self {
        let World { wire: server, faults } = memory();
        let records = Arc::new(Records::default());
        let caller = Self {
            tree: opened(&server, &records),
            server,
            faults,
            records,
            next: AtomicU64::new(0),
            set: Mutex::default(),
        };
        let taken = unique::Change::Insert { index: OTHER, label: unique::Label([1; 16]), row: row(0) };
        let steps = vec![
            bplus::create(INDEX, Scheme::FhOpe(WIDTH), 1 << 10),
            Step::Unique(unique::Change::CreateIndex { index: OTHER }),
            Step::Unique(taken),
        ];
        caller.write(steps).await.expect("creates");
        caller
    }

    async fn write(&self, steps: Vec<Step>) -> Result<Response, ChannelError> {
        let sequence = self.next.fetch_add(1, Ordering::SeqCst);
        let operation = OperationId { epoch: 1, sequence };
        let request =
            Request { operation: Some(operation), finished_below: operation, acknowledged: 0, steps };
        Channel::<Write>::call(&self.server, request).await
    }

    async fn stage(&self, changes: &[(RowId, Option<u64>, Option<u64>)]) -> Staged {
        let terms = |value: &Option<u64>| {
            value.iter().map(|value| (plaintext_key(WIDTH, *value), Vec::new())).collect::<BTreeMap<_, _>>()
        };
        let change = |(row, old, new): &(RowId, Option<u64>, Option<u64>)| RowChange {
            row: *row,
            old: terms(old),
            new: terms(new),
            held: Vec::new(),
        };
        let place = Arc::clone(&self.tree).place().await;
        let changes = changes.iter().map(change).collect();
        Arc::clone(&self.tree).stage(place, changes, self.records.clone()).await.expect("stages")
    }

    fn record(&self, changes: Vec<StateChange>, applied: bool) {
        let mut records = self.records.0.lock().expect("no test panicked here");
        for StateChange { name, now, otherwise } in changes {
            match if applied { now } else { otherwise } {
                Some(record) => drop(records.insert(name, record)),
                None => drop(records.remove(&name)),
            }
        }
    }

    /// Writes what goes before a change, so many of it; how many steps the largest of these writes had.
    async fn precede(&self, staged: &mut Staged, most: usize) -> usize {
        let Some(mut preceding) = staged.preceding.take() else { return 0 };
        let mut largest = 0;
        for _ in 0..most {
            let Some((steps, state)) = preceding.next() else { break };
            largest = largest.max(steps.ordered.len());
            self.write(steps.ordered).await.expect("moves");
            self.record(state, true);
            preceding.acknowledged().expect("a change of the tree");
        }
        largest
    }

    async fn change(&self, changes: &[(RowId, Option<u64>, Option<u64>)], fate: Fate) {
        let mut staged = self.stage(changes).await;
        self.precede(&mut staged, usize::MAX).await;
        let mut steps = std::mem::take(&mut staged.steps.ordered);
        if fate == Fate::Refused {
            let taken = unique::Change::Insert { index: OTHER, label: unique::Label([1; 16]), row: row(1) };
            steps.push(Step::Unique(taken));
        }
        let state = std::mem::take(&mut staged.state);
        let applied = fate != Fate::RequestLost && self.write(steps).await.is_ok();
        assert_eq!(applied, matches!(fate, Fate::Acknowledged | Fate::ReplyLost));
        if fate == Fate::Acknowledged {
            drop(staged.commit());
        } else {
            drop(staged);
        }
        self.record(state, applied);
        let mut set = self.set.lock().expect("no test panicked here");
        for (row, old, new) in changes.iter().filter(|_| applied) {
            if let Some(value) = old {
                set.remove(&(*value, *row));
            }
            set.extend(new.map(|value| (value, *row)));
        }
    }

    fn expected(&self) -> BTreeSet<(u64, RowId)> {
        self.set.lock().expect("no test panicked here").clone()
    }
}

fn row(number: u64) -> RowId {
    let mut bytes = [0x5a; RowId::BYTES];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    RowId(bytes)
}

/// All pages of a range.
async fn pages(
    tree: &Arc<Tree>,
    (lower, upper): (u64, u64),
    order: Order,
    limit: Option<usize>,
) -> KeysAndRows {
    let [lower, upper] = [lower, upper].map(|value| plaintext_key(WIDTH, value));
    let query = RangeQuery { lower, upper, order, limit };
    let mut page = RangeSearch::search(Arc::clone(tree), query).await.expect("searches");
    let mut found = std::mem::take(&mut page.entries);
    while let Some(more) = page.more {
        page = more.next(limit).await.expect("goes on");
        assert!(limit.is_none_or(|limit| page.entries.len() <= limit), "a page within its limit");
        found.append(&mut page.entries);
    }
    found
}

fn entries(found: &KeysAndRows) -> Vec<(u64, RowId)> {
    let value = |key: &[u8]| u64::from_be_bytes(key.try_into().expect("8 bytes"));
    found.iter().map(|(key, row)| (value(key), *row)).collect()
}

async fn check(caller: &Caller, tree: &Arc<Tree>) {
    check_by_pages(caller, tree, [3, 5]).await;
}

async fn check_by_pages(caller: &Caller, tree: &Arc<Tree>, [few, more]: [usize; 2]) {
    let expected = caller.expected();
    for (order, limit) in
        [(Order::Ascending, None), (Order::Ascending, Some(few)), (Order::Descending, Some(more))]
    {
        let found = entries(&pages(tree, (0, u64::MAX), order, limit).await);
        assert_eq!(found.len(), expected.len(), "each once");
        assert_eq!(found.iter().copied().collect::<BTreeSet<_>>(), expected);
        let mut values: Vec<_> = found.iter().map(|(value, _)| *value).collect();
        if order == Order::Descending {
            values.reverse();
        }
        assert!(values.is_sorted());
    }
    assert_eq!(Arc::clone(tree).inspect().await.expect("as the tree says").len(), expected.len());
}

/// Inserts, updates and removals of every fate, and a client that starts anew in between.
#[test]
fn whatever_becomes_of_a_write_the_tree_follows() {
    run(async {
        let caller = Caller::new().await;
        let mut caller = caller;
        let mut random = prg(17);
        for turn in 0..400_u64 {
            let fate = match random.next_u64() % 8 {
                0 => Fate::ReplyLost,
                1 => Fate::RequestLost,
                2 => Fate::Refused,
                _ => Fate::Acknowledged,
            };
            let known: Vec<_> = caller.expected().into_iter().collect();
            let changes: Vec<_> = (0..1 + random.next_u64() % 4)
                .map(|number| {
                    // Ascending, so that ciphertexts give way, with some that are equal.
                    let value = turn / 2 * 10 + random.next_u64() % 3;
                    let picked = known.get(random.next_u64() as usize % (2 * known.len() + 1));
                    match (picked, random.next_u64() % 3) {
                        (Some((old, row)), 0) => (*row, Some(*old), None),
                        (Some((old, row)), _) => (*row, Some(*old), Some(value)),
                        (None, _) => (row(turn * 16 + number), None, Some(value)),
                    }
                })
                .collect();
            let distinct: BTreeMap<_, _> = changes.into_iter().map(|change| (change.0, change)).collect();
            caller.change(&distinct.into_values().collect::<Vec<_>>(), fate).await;
            if turn % 40 == 7 {
                check(&caller, &caller.tree).await;
                caller.tree = opened(&caller.server, &caller.records);
                check(&caller, &caller.tree).await;
            }
        }
        check(&caller, &caller.tree).await;
        assert!(caller.expected().len() > 150);
    });
}

/// The moves of an ascending load are steps of bounded size, and a write holds few of them: what is more goes before it, in
/// writes after each of which all is in order.
#[test]
fn large_moves_go_in_steps_of_bounded_size_and_in_writes_of_few() {
    run(async {
        const PAGES: [usize; 2] = [3000, 5000];
        let mut caller = Caller::new().await;
        let (mut most, mut largest) = (0, 0);
        for part in 0..40_u64 {
            let changes: Vec<_> = (0..1000)
                .map(|number| (row(part * 1000 + number), None, Some(part * 1000 + number)))
                .collect();
            let mut staged = caller.stage(&changes).await;
            most = most.max(staged.steps.ordered.len());
            for step in &staged.steps.ordered {
                assert!(codec::encode(step).len() < 160 << 10);
            }
            // Cut off in between, and begun anew by a client that starts anew.
            let written = caller.precede(&mut staged, 1).await;
            drop(staged);
            if written > 0 {
                largest = largest.max(written);
                check_by_pages(&caller, &caller.tree, PAGES).await;
                caller.tree = opened(&caller.server, &caller.records);
            }
            caller.change(&changes, Fate::Acknowledged).await;
        }
        assert!(most > 1, "there were moves of more than one step");
        assert!(largest > 1 && largest.max(most) <= 4, "{largest}");
        check_by_pages(&caller, &caller.tree, PAGES).await;
        check_by_pages(&caller, &opened(&caller.server, &caller.records), PAGES).await;
    });
}

/// A state that is older than the server's index is found out, not searched with.
#[test]
fn an_older_state_is_found_out() {
    run(async {
        let caller = Caller::new().await;
        caller.change(&[(row(1), None, Some(5))], Fate::Acknowledged).await;
        let older = opened(&caller.server, &caller.records);
        caller.change(&[(row(2), None, Some(6))], Fate::Acknowledged).await;
        let [lower, upper] = [0, 9].map(|value| plaintext_key(WIDTH, value));
        let query = RangeQuery { lower, upper, order: Order::Ascending, limit: None };
        let error = RangeSearch::search(older, query).await.expect_err("of another version");
        assert!(matches!(error, IndexError::Peer(_)), "{error}");
    });
}

/// Searches beside a writer: what was written before one began is in its answer, each entry once and in order.
#[test]
fn searches_beside_a_writer_find_what_was_there() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).build().expect("a runtime");
    runtime.block_on(async {
        let caller = Arc::new(Caller::new().await);
        let done = Arc::new(AtomicBool::new(false));
        let searchers: Vec<_> = (0..3)
            .map(|number| {
                let (caller, done) = (caller.clone(), done.clone());
                tokio::spawn(async move {
                    let mut searches = 0;
                    while !done.load(Ordering::SeqCst) || searches == 0 {
                        let before = caller.expected();
                        let (order, limit) = match number {
                            0 => (Order::Ascending, None),
                            1 => (Order::Ascending, Some(9)),
                            _ => (Order::Descending, Some(9)),
                        };
                        let found = entries(&pages(&caller.tree, (0, u64::MAX), order, limit).await);
                        let distinct: BTreeSet<_> = found.iter().copied().collect();
                        assert_eq!(distinct.len(), found.len(), "each once");
                        assert!(before.is_subset(&distinct), "what was there");
                        searches += 1;
                        tokio::task::yield_now().await;
                    }
                })
            })
            .collect();
        for number in 0..300_u64 {
            caller.change(&[(row(number), None, Some(number / 3))], Fate::Acknowledged).await;
            tokio::task::yield_now().await;
        }
        done.store(true, Ordering::SeqCst);
        for searcher in searchers {
            searcher.await.expect("no searcher panicked");
        }
        check(&caller, &caller.tree).await;
    });
}

/// Each entry is put in without a look at the others of its value: what a write takes of the server's store grows as the tree's
/// height does, not as the entries do.
#[test]
fn entries_of_one_value_take_no_more_as_they_become_many() {
    run(async {
        let caller = Caller::new().await;
        let mut taken = Vec::new();
        for write in 0..40_u8 {
            let rows = (0..100).map(|number| row(u64::from(write) * 100 + number));
            let changes: Vec<_> = rows.map(|row| (row, None, Some(7))).collect();
            let before = caller.faults.operations();
            caller.change(&changes, Fate::Acknowledged).await;
            taken.push(caller.faults.operations() - before);
        }
        let [few, many] = [&taken[4..8], &taken[36..]].map(|some| some.iter().sum::<u64>());
        assert!(many < 2 * few, "{few} operations beside 500 entries, {many} beside 4,000");
        check(&caller, &caller.tree).await;
    });
}

/// What the caller keeps is named by nothing that one without keys can read, and an entry is named once.
#[test]
fn records_are_named_by_nothing_that_a_ciphertext_tells() {
    run(async {
        let caller = Caller::new().await;
        let changes: Vec<_> = (0..50).map(|number| (row(number), None, Some(number))).collect();
        caller.change(&changes, Fate::Acknowledged).await;
        let records = caller.records.0.lock().expect("no test panicked here").clone();
        let ciphertexts: Vec<[u8; 8]> = records
            .values()
            .filter_map(|record| record.first_chunk().copied().filter(|_| record.len() == 16))
            .collect();
        assert_eq!(ciphertexts.len(), 50);
        for name in records.keys() {
            let shown = name.windows(8).any(|bytes| ciphertexts.iter().any(|ciphertext| bytes == ciphertext));
            assert!(!shown, "{name:?}");
        }
    });
}
