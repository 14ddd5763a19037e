//! Logarithmic-BRC: the test body, and what only it does.

use crate::body::{Pair, Subject, entries};
use crate::world::{INDEX, Reply, Tamper, Wire, World, embedded, key, memory, prg, run};
use arras_primitives::meter::{self, Primitive};
use arras_primitives::prg;
use arras_protocol::Order;
use arras_protocol::leakage::Pattern;
use arras_protocol::leakage::logarithmic_brc::LOGARITHMIC_BRC;
use arras_protocol::logarithmic_brc::cjjjkrs::Shape;
use arras_protocol::logarithmic_brc::cjjkrs::{Label, SearchToken, mask_records};
use arras_protocol::logarithmic_brc::{
    Asked, Bin, InstanceId, LogarithmicBrc as Protocol, Others, RECORDS_MAX, Request, Response,
};
use arras_protocol::ore::Width;
use arras_protocol::{Blob, Channel, ChannelError, Refusal, codec};
use arras_schemes::IndexError;
use arras_schemes::logarithmic_brc::{Cover, LogarithmicBrc, Node, Packing, Padding, Parameters};
use arras_schemes::ore::domain::plaintext_key;
use arras_schemes::traits::RangeIndex;
use arras_storage::{Direction, Read, Storage, Table};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

mod denied;

type Index<S> = LogarithmicBrc<Wire<S>>;

impl Subject for Parameters {
    type Index<S: Storage> = Index<S>;

    fn width(&self) -> Width {
        self.width
    }

    async fn open<S: Storage>(&self, wire: Wire<S>) -> Result<Index<S>, IndexError> {
        LogarithmicBrc::new(INDEX, *self, &key(), Arc::new(wire), prg(1))
    }
}

/// Pages so small that there are many instances, with long lists.
fn small(width: Width) -> Parameters {
    Parameters { page_bytes: 256, ..Parameters::new(width) }
}

range_tests!(of_32_bits, Parameters::new(Width::Bits32));
range_tests!(of_64_bits, Parameters::new(Width::Bits64));
range_tests!(of_small_pages, small(Width::Bits32));
range_tests!(
    of_basic_packing,
    Parameters {
        packing: Packing::Basic,
        cover: Cover::Uniform,
        padding: Padding::None,
        ..small(Width::Bits32)
    }
);
range_tests!(of_worst_padding, Parameters { padding: Padding::Worst, ..small(Width::Bits64) });

/// Tables of the server half.
const TABLES: [Table; 3] =
    [Table("logarithmic_brc_instances"), Table("logarithmic_brc_bins"), Table("logarithmic_brc_blocks")];

/// Keys' and values' lengths of a table.
fn stored<S: Storage>(world: &World<S>, table: Table) -> Vec<(Vec<u8>, usize)> {
    let mut found = Vec::new();
    let reader = world.wire.backend().store().read().expect("no fault is planned");
    reader
        .scan(table, (Bound::Unbounded, Bound::Unbounded), Direction::Ascending, &mut |key, value| {
            found.push((key.to_vec(), value.len()));
            ControlFlow::Continue(())
        })
        .expect("no fault is planned");
    found
}

/// Some items with long runs of equal keys.
fn items(count: u64) -> Vec<(u64, u8)> {
    (0..count).map(|number| (number * number % 1000 / (1 + number % 3), number as u8)).collect()
}

async fn loaded<S: Storage>(parameters: Parameters, world: &World<S>, items: &[(u64, u8)]) -> Pair<Index<S>> {
    let pair = Pair::open(&parameters, world).await;
    pair.index.bulk_load(entries(parameters.width, items)).await.expect("loads");
    pair.list.insert(entries(parameters.width, items)).await.expect("a list does not fail");
    pair
}

async fn check_ranges<S: Storage>(pair: &Pair<Index<S>>) {
    for (lower, upper) in [(0, 0), (0, 1023), (1, 998), (17, 17), (300, 700), (511, 512), (999, 5000), (7, 3)]
    {
        pair.check(lower, upper, Order::Ascending, None).await;
        pair.check(lower, upper, Order::Descending, Some(5)).await;
    }
    pair.check_all().await;
}

#[test]
fn a_static_index_answers_from_one_instance_in_memory_and_on_the_disk() {
    let directory = tempfile::tempdir().expect("a directory");
    run(async {
        for packing in [Packing::Basic, Packing::Packed] {
            let parameters = Parameters { packing, domain_bits: 10, ..small(Width::Bits32) };
            let world = memory();
            let pair = loaded(parameters, &world, &items(2000)).await;
            check_ranges(&pair).await;
            assert_eq!(pair.index.instance_count().await, 1);
            world.wire.set_tamper(None);
            pair.check(3, 700, Order::Ascending, None).await;
            assert_eq!(world.wire.calls(), 1, "one request and one response");
            let again = pair.index.bulk_load(entries(Width::Bits32, &[(1, 1)])).await;
            assert!(matches!(again, Err(IndexError::Caller(_))));
            let beyond = pair.index.insert(entries(Width::Bits32, &[(1024, 1)])).await;
            assert!(matches!(beyond, Err(IndexError::Caller(_))), "beyond the domain");
        }
        let disk = embedded(directory.path());
        check_ranges(&loaded(small(Width::Bits64), &disk, &items(500)).await).await;
    });
}

#[test]
fn a_reply_over_the_limit_is_continued() {
    run(async {
        let world = memory();
        // Twice 8 MiB of records in the root's list; few levels, as only long lists matter here.
        let parameters = Parameters { domain_bits: 4, ..Parameters::new(Width::Bits64) };
        let index = parameters.open(world.wire.clone()).await.expect("an empty index");
        let list: Vec<_> = (0..700_000_u64)
            .map(|number| arras_schemes::arx_range::RangeEntry {
                value: plaintext_key(Width::Bits64, number % 16),
                row: arras_protocol::RowId(u128::from(number).to_be_bytes()),
                sums: Vec::new(),
            })
            .collect();
        index.bulk_load(list).await.expect("loads");
        world.wire.set_tamper(None);
        let [low, high] = [0, 15].map(|value| plaintext_key(Width::Bits64, value));
        let found = index.search(low, high, Order::Ascending, None).await.expect("searches");
        assert_eq!(found.len(), 700_000);
        assert_eq!(world.wire.calls(), 3);
        let distinct: std::collections::BTreeSet<_> = found.iter().map(|(_, row)| row).collect();
        assert_eq!(distinct.len(), 700_000);
    });
}

#[test]
fn instances_double_and_what_is_removed_goes() {
    run(async {
        let world = memory();
        let pair = Pair::open(&small(Width::Bits32), &world).await;
        for number in 0..200_u64 {
            pair.insert(&[(number * 7 % 211, number as u8)]).await;
        }
        let count = pair.index.instance_count().await;
        assert!((2..=6).contains(&count), "{count} instances");
        for number in 0..200_u64 {
            pair.remove(&[(number * 7 % 211, number as u8)]).await;
            pair.remove(&[(number, 250)]).await;
        }
        pair.check_all().await;
        pair.index.collect().await.expect("drops what is not needed");
        let count = pair.index.instance_count().await;
        assert_eq!(stored(&world, TABLES[0]).len(), count, "the server keeps what the client knows");
    });
}

#[test]
fn a_client_goes_on_from_its_state() {
    run(async {
        let world = memory();
        let parameters = small(Width::Bits32);
        let pair = Pair::open(&parameters, &world).await;
        pair.insert(&items(100)).await;
        pair.insert(&[(3, 7), (4, 8)]).await;
        let state = pair.index.state().await;
        let reopen = |state: &[u8], seed| {
            LogarithmicBrc::with_state(
                INDEX,
                parameters,
                &key(),
                Arc::new(world.wire.clone()),
                prg(seed),
                state,
            )
        };
        // One write that the state does not know of does no harm.
        pair.index.insert(entries(Width::Bits32, &[(9, 9)])).await.expect("inserts");
        let index = reopen(&state, 2).expect("a state");
        let pair = Pair { index, list: std::mem::take(&mut { pair.list }), width: Width::Bits32 };
        pair.check_all().await;
        pair.index.collect().await.expect("drops the write that is not known");
        pair.insert(&[(5, 5)]).await;
        pair.remove(&[(3, 7)]).await;
        pair.check_all().await;
        for broken in [&state[..state.len() - 1], &[], &[9]] {
            assert!(matches!(reopen(broken, 3), Err(IndexError::State(_))));
        }
        // A server that has lost an instance is noticed.
        let other = LogarithmicBrc::new(INDEX, parameters, &key(), Arc::new(world.wire.clone()), prg(4));
        other.expect("an empty index").collect().await.expect("drops all");
        let [low, high] = [0, 9].map(|value| plaintext_key(Width::Bits32, value));
        assert!(pair.index.search(low, high, Order::Ascending, None).await.is_err());
    });
}

/// Changes the lists of each reply.
fn lying(mut lie: impl FnMut(&mut Vec<u32>, &mut Vec<u8>) + Send + 'static) -> Option<Tamper> {
    Some(Box::new(move |reply| {
        let Ok(Response::Found { mut records, sealed: Blob(mut sealed) }) = codec::decode(&reply) else {
            return Reply::Bytes(reply);
        };
        lie(&mut records, &mut sealed);
        Reply::Bytes(codec::encode(&Response::Found { records, sealed: sealed.into() }))
    }))
}

#[test]
fn parts_left_out_exchanged_or_cut_off_are_errors() {
    run(async {
        let world = memory();
        let parameters = Parameters { padding: Padding::None, ..small(Width::Bits32) };
        // One list: 2 records in a cell, 10 in a block, 3 more in two cells; cells come first.
        let pair = loaded(parameters, &world, &(0..23).map(|row| (8, row)).collect::<Vec<_>>()).await;
        let point = plaintext_key(Width::Bits32, 8);
        let search = async || pair.index.search(point.clone(), point.clone(), Order::Ascending, None).await;
        assert_eq!(search().await.expect("searches").len(), 23);
        let cell = 16 + 2 * 4 + 2 * 21;
        let lies: Vec<(&str, Option<Tamper>)> = vec![
            ("a shorter list", lying(|records, _| records[0] -= 1)),
            ("a longer list", lying(|records, _| records[0] += 1)),
            ("a list beyond all limits", lying(|records, _| records[0] = u32::MAX)),
            ("the first cell is gone", lying(move |_, sealed| drop(sealed.drain(..cell)))),
            ("the list ends early, again and again", lying(move |_, sealed| sealed.truncate(cell))),
            ("a byte less", lying(|_, sealed| sealed.truncate(sealed.len() - 1))),
            ("a byte more", lying(|_, sealed| sealed.push(0))),
            ("no parts", lying(|_, sealed| sealed.clear())),
            ("no lists", lying(|records, _| records.clear())),
            ("the list twice", lying(|records, _| records.push(records[0]))),
            ("cells change places", lying(move |_, sealed| sealed[..3 * cell].rotate_left(cell))),
            ("a cell twice", lying(move |_, sealed| sealed.copy_within(..cell, cell))),
        ];
        for (what, lie) in lies {
            world.wire.set_tamper(lie);
            let found = search().await;
            assert!(matches!(found, Err(IndexError::Peer(_) | IndexError::Open(_))), "{what}: {found:?}");
        }
        // Of the whole domain the client knows the length.
        let [low, high] = [0, u64::from(u32::MAX)].map(|value| plaintext_key(Width::Bits32, value));
        world.wire.set_tamper(lying(|records, sealed| {
            records.fill(0);
            sealed.clear();
        }));
        assert!(matches!(
            pair.index.search(low, high, Order::Ascending, None).await,
            Err(IndexError::Peer(_))
        ));
    });
}

#[test]
fn stores_of_as_many_records_look_alike() {
    run(async {
        for (packing, padding) in [(Packing::Basic, Padding::None), (Packing::Packed, Padding::Worst)] {
            let parameters =
                Parameters { packing, padding, domain_bits: 12, ..Parameters::new(Width::Bits32) };
            let spread: Vec<_> = (0..400).map(|number| (number * 10, 1)).collect();
            let heaped: Vec<_> = (0..400).map(|number| (number / 200, number as u8)).collect();
            let mut sizes = Vec::new();
            for items in [spread, heaped] {
                let world = memory();
                let _index = loaded(parameters, &world, &items).await;
                let totals = TABLES.map(|table| {
                    let entries = stored(&world, table);
                    (table, entries.iter().map(|(_, bytes)| bytes).sum::<usize>())
                });
                let blocks = stored(&world, TABLES[2]);
                assert!(blocks.iter().all(|(_, bytes)| *bytes == blocks[0].1), "blocks are of one length");
                sizes.push((totals, blocks.len(), stored(&world, TABLES[1]).len()));
            }
            assert_eq!(sizes[0], sizes[1]);
        }
    });
}

/// What a search shows, made from its leakage alone: the numbers of records of the lists it asked for, and if these have none,
/// of those beside its range.
#[test]
fn replies_are_as_long_as_the_volumes_say() {
    run(async {
        let parameters = Parameters { domain_bits: 10, padding: Padding::None, ..small(Width::Bits32) };
        let shape = Shape::packed(256, 21).and_then(|shape| shape.fenced(256, 4));
        let shape = shape.expect("the page is large enough");
        for seed in 0..4 {
            let items: Vec<_> =
                (0..300).map(|number| (number * (seed * 2 + 1) % 1024, number as u8)).collect();
            let world = memory();
            let pair = loaded(parameters, &world, &items).await;
            let volume = |node: &Node| items.iter().filter(|(value, _)| node.covers(*value)).count() as u32;
            for (lower, upper) in [(0_u64, 1023_u64), (1, 700), (5, 5), (100, 611), (901, 903)] {
                let cover = Cover::Best.of(lower, upper);
                let lists: Vec<u32> = cover.iter().map(volume).collect();
                let layouts =
                    lists.iter().filter(|records| **records > 0).map(|records| shape.layout(*records));
                let bytes = layouts.map(|layout| layout.expect("few")).map(|layout| {
                    layout.cells as usize * shape.sealed_cell_bytes()
                        + layout.blocks as usize * shape.sealed_block_bytes()
                });
                let mut simulated = vec![(lists.clone(), bytes.sum::<usize>())];
                if lists.iter().all(|records| *records == 0) {
                    let path = (cover[0].level..10).map(|level| Node::above(lower, level));
                    let beside = path.map(|node| Node { prefix: node.prefix ^ 1, ..node });
                    let heads: Vec<u32> =
                        beside.filter(|node| !cover.contains(node)).map(|node| volume(&node)).collect();
                    let there = heads.iter().filter(|records| **records > 0).count();
                    simulated.push((heads, there * shape.sealed_cell_bytes()));
                }
                let calls = simulated.len() as u64;
                let mut simulated = simulated.into_iter();
                world.wire.set_tamper(lying(move |records, sealed| {
                    let (mut shown, next) = (records.clone(), simulated.next());
                    let (mut volumes, bytes) = next.expect("no more requests than the volumes say");
                    shown.sort_unstable();
                    volumes.sort_unstable();
                    assert_eq!((shown, sealed.len()), (volumes, bytes));
                }));
                pair.check(lower, upper, Order::Ascending, None).await;
                assert_eq!(world.wire.calls(), calls);
            }
        }
    });
}

/// A client may store a list that says it is as long as can be, and ask for its end.
#[test]
fn the_end_of_a_list_costs_no_more_than_its_beginning() {
    let world = memory();
    let (instance, token) = (InstanceId([1; 16]), SearchToken([2; 16]));
    let shape = Shape::basic(4096, 21).expect("the page is large enough");
    let mut stream = [[0; 16]; 2];
    prg::stream(&token.0, &mut stream);
    let header = mask_records(&stream[0], RECORDS_MAX).to_le_bytes();
    let mut cells = [&stream[1][..], &header].concat();
    cells.resize(shape.cell_bytes(), 0);
    let call = |request| run(Channel::<Protocol>::call(&world.wire, request));
    let bins = vec![Bin { place: Label(stream[1]).bin(shape.bins), cells: cells.into() }];
    let others = Some(Others::default());
    let built = call(Request::Build { index: INDEX, instance, shape, bins, blocks: Vec::new(), others });
    assert_eq!(built.expect("builds"), Response::Done);
    for skip in [1, RECORDS_MAX / 2, RECORDS_MAX - 1] {
        let before = meter::reading();
        let asked = vec![Asked { instance, tokens: vec![token] }];
        let found = call(Request::Search { index: INDEX, asked, skip });
        assert!(matches!(found, Err(ChannelError::Refused(Refusal::Damaged(_)))), "{found:?}");
        let blocks = (meter::reading() - before).of(Primitive::AesBlock);
        assert!(blocks < 1 << 20, "{blocks} blocks of labels");
    }
}

#[test]
fn a_client_without_the_state_of_an_index_drops_nothing_of_it() {
    run(async {
        let world = memory();
        let parameters = small(Width::Bits32);
        let pair = Pair::open(&parameters, &world).await;
        for batch in items(60).chunks(7) {
            pair.insert(batch).await;
        }
        let state = pair.index.state().await;
        let stranger = parameters.open(world.wire.clone()).await.expect("an index that it takes for empty");
        let refused = stranger.insert(entries(Width::Bits32, &[(1, 1)])).await;
        assert!(refused.is_err(), "the state is missing");
        pair.check_all().await;
        // Neither does one whose state was set back.
        pair.insert(&[(77, 1)]).await;
        pair.insert(&[(78, 1)]).await;
        let old = LogarithmicBrc::with_state(
            INDEX,
            parameters,
            &key(),
            Arc::new(world.wire.clone()),
            prg(9),
            &state,
        );
        assert!(old.expect("a state").insert(entries(Width::Bits32, &[(2, 1)])).await.is_err());
        pair.check_all().await;
    });
}

/// What is stated of changes is there to be seen: by how many records the buffer has, whether some were about the entries of others.
#[test]
fn changes_show_whether_they_are_about_the_entries_of_those_before() {
    run(async {
        let last: Vec<(u64, u8)> = (0..40).map(|number| (5000 + number, 1)).collect();
        let written = async |removed: &[(u64, u8)]| {
            let world = memory();
            let pair = loaded(small(Width::Bits32), &world, &items(300)).await;
            pair.insert(&last).await;
            world.wire.listen();
            pair.remove(removed).await;
            world.wire.heard().iter().map(Vec::len).sum::<usize>()
        };
        let (of_them, of_others) = (written(&last).await, written(&items(300)[..40]).await);
        assert_ne!(of_them, of_others);
        let stated = LOGARITHMIC_BRC.update;
        assert!(stated.contains(&Pattern::SearchPattern) && stated.contains(&Pattern::Size));
    });
}
