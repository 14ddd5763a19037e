#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use arras_protocol::Order;
use arras_protocol::mope::index::{Bound, SealedRow, Search, Side, Update};
use arras_protocol::mope::{Head, Label, Move, Summary, TreeChange};
use arras_storage::Memory;
use std::collections::BTreeMap;

const INDEX: IndexId = IndexId([7; 8]);

/// Ciphertexts are 16 bytes; their order says nothing of the labels'.
fn ciphertext(number: u32) -> Blob {
    let mixed = number.wrapping_mul(0x9E37_79B1);
    Blob([mixed.to_be_bytes(), [0; 4], number.to_be_bytes(), [0; 4]].concat())
}

fn listed(number: u32, row: u8) -> Listed {
    Listed { ciphertext: ciphertext(number), sealed: SealedRow([row; 32]) }
}

fn send(store: &Memory, change: Change) -> Result<(), Refusal> {
    answer(store, Request::Change(change)).map(drop)
}

fn update(store: &Memory, update: Update) -> Result<(), Refusal> {
    send(store, Change::Update { index: INDEX, update })
}

fn head(store: &Memory) -> Head {
    Index::open(&store.read().unwrap(), INDEX).unwrap().head
}

/// A change from the version of now, which counts what comes and goes.
fn change(
    store: &Memory,
    left: Vec<Blob>,
    summaries: Vec<Summary>,
    entered: Vec<(Blob, Label)>,
) -> TreeChange {
    let now = head(store);
    let values = now.values + entered.len() as u64 - left.len() as u64;
    let head = Head { version: now.version + 1, values, ..now };
    TreeChange { expected: now.version, head, nodes: Vec::new(), left, summaries, entered }
}

fn tree(change: TreeChange) -> Update {
    Update { tree: Some(Box::new(change)), ..Update::default() }
}

fn created() -> Memory {
    let store = Memory::new();
    send(&store, Change::CreateIndex { index: INDEX, ciphertext_bytes: 16 }).unwrap();
    store
}

/// Values 1, 2, ... at ten times their number, each with two entries.
fn filled(values: u32) -> Memory {
    let store = created();
    let entered = (1..=values).map(|number| (ciphertext(number), Label::from(number) * 10)).collect();
    let mut update_all = tree(change(&store, Vec::new(), Vec::new(), entered));
    update_all.added = (1..=values).flat_map(|number| [listed(number, 2), listed(number, 1)]).collect();
    update(&store, update_all).unwrap();
    store
}

fn search(store: &Memory, search: Search) -> Result<(Vec<(u32, u8)>, bool), Refusal> {
    let Response::Found { groups, more } = answer(store, Request::Search { index: INDEX, search })? else {
        panic!("a search")
    };
    let entries = groups.iter().flat_map(|group| {
        let number = u32::from_be_bytes(group.ciphertext.as_slice()[8..12].try_into().unwrap());
        assert!(!group.sealed.is_empty());
        group.sealed.as_slice().chunks_exact(32).map(move |name| (number, name[0]))
    });
    Ok((entries.collect(), more))
}

fn bound(number: u32, side: Side) -> Option<Bound> {
    Some(Bound { ciphertext: ciphertext(number), side })
}

fn labels(store: &Memory) -> BTreeMap<Label, u32> {
    let numbers: Vec<u32> = (0..5000).collect();
    let mut found = BTreeMap::new();
    for some in numbers.chunks(ASKED_MAX) {
        let fetch = Fetch {
            ciphertexts: some.iter().map(|number| ciphertext(*number)).collect(),
            ..Fetch::default()
        };
        let Response::Fetched(fetched) = answer(store, Request::Fetch { index: INDEX, fetch }).unwrap()
        else {
            panic!("a fetch")
        };
        for (number, label) in some.iter().zip(fetched.labels) {
            if let Some(label) = label {
                assert!(found.insert(label, *number).is_none(), "a label of two ciphertexts");
            }
        }
    }
    found
}

/// What the table says the other way round, in the order of labels.
fn by_label(store: &Memory) -> Vec<u32> {
    let all = Search { lower: None, upper: None, order: Order::Ascending, limit: None };
    let mut numbers: Vec<u32> = search(store, all).unwrap().0.iter().map(|(number, _)| *number).collect();
    numbers.dedup();
    numbers
}

fn is_malformed(result: &Result<(), Refusal>) -> bool {
    matches!(result, Err(Refusal::Malformed(_)))
}

#[test]
fn a_range_is_between_its_bounds_in_either_order() {
    let store = filled(4);
    let range = |lower, upper, order| search(&store, Search { lower, upper, order, limit: None }).unwrap().0;
    use Order::{Ascending, Descending};
    assert_eq!(range(None, bound(2, Side::With), Ascending), [(1, 1), (1, 2), (2, 1), (2, 2)]);
    assert_eq!(range(bound(2, Side::Beyond), bound(4, Side::Beyond), Ascending), [(3, 1), (3, 2)]);
    assert_eq!(range(bound(3, Side::With), None, Descending), [(4, 2), (4, 1), (3, 2), (3, 1)]);
    let after = |number, row| bound(number, Side::After(SealedRow([row; 32])));
    assert_eq!(range(after(3, 1), None, Ascending), [(3, 2), (4, 1), (4, 2)]);
    assert_eq!(range(after(3, 2), None, Ascending), [(4, 1), (4, 2)]);
    assert_eq!(range(None, after(2, 2), Descending), [(2, 1), (1, 2), (1, 1)]);
    // Bounds that meet or cross.
    assert_eq!(range(bound(3, Side::Beyond), bound(3, Side::Beyond), Ascending), []);
    assert_eq!(range(bound(4, Side::With), bound(2, Side::With), Descending), []);
}

#[test]
fn a_search_goes_on_behind_the_last_entry() {
    let store = filled(30);
    for order in [Order::Ascending, Order::Descending] {
        let whole = search(&store, Search { lower: None, upper: None, order, limit: None }).unwrap().0;
        assert_eq!(whole.len(), 60);
        let (mut found, mut last) = (Vec::new(), None);
        loop {
            let (lower, upper) = match order {
                Order::Ascending => (last.take(), None),
                Order::Descending => (None, last.take()),
            };
            let (page, more) = search(&store, Search { lower, upper, order, limit: Some(7) }).unwrap();
            // The limit ended it, not the reply's room.
            assert!(!more);
            let Some((number, row)) = page.last().copied() else { break };
            last = bound(number, Side::After(SealedRow([row; 32])));
            found.extend(page);
        }
        assert_eq!(found, whole);
    }
}

#[test]
fn a_reply_ends_where_it_is_full_and_says_so() {
    let store = created();
    let entered = vec![(ciphertext(1), 10), (ciphertext(2), 20)];
    update(&store, tree(change(&store, Vec::new(), Vec::new(), entered))).unwrap();
    let count = (REPLY_BYTES_SOFT / SealedRow::BYTES + 5) as u64;
    let name = |number: u64| {
        let mut name = [0; 32];
        name[..8].copy_from_slice(&number.to_be_bytes());
        SealedRow(name)
    };
    let numbers: Vec<u64> = (0..count).collect();
    for some in numbers.chunks(arras_protocol::mope::index::ENTRIES_MAX) {
        let entry = |number: &u64| Listed { ciphertext: ciphertext(1), sealed: name(*number) };
        update(&store, Update { added: some.iter().map(entry).collect(), ..Update::default() }).unwrap();
    }
    update(&store, Update { added: vec![listed(2, 9)], ..Update::default() }).unwrap();
    let mut seen = 0;
    let mut lower = None;
    for is_last in [false, true] {
        let search = Search { lower: lower.take(), upper: None, order: Order::Ascending, limit: None };
        let Response::Found { groups, more } =
            answer(&store, Request::Search { index: INDEX, search }).unwrap()
        else {
            panic!("a search")
        };
        assert_eq!(more, !is_last);
        seen += groups.iter().map(|group| group.sealed.len() / SealedRow::BYTES).sum::<usize>();
        let last = groups.last().unwrap();
        let sealed = *last.sealed.as_slice().last_chunk().unwrap();
        lower = Some(Bound { ciphertext: last.ciphertext.clone(), side: Side::After(SealedRow(sealed)) });
    }
    assert_eq!(seen as u64, count + 1);
}

#[test]
fn a_spread_gives_labels_in_their_order_wherever_it_goes() {
    // (range, start, step): downwards, upwards, both ways at once, over pages.
    let spreads = [
        ((10, 30_000), 1, 1),
        ((10, 30_000), 29_000, 9),
        ((10, 30_000), 5_000, 5),
        ((1_000, 20_000), 995, 10),
        ((995, 20_004), 1_000, 9),
        ((7, 7), 3, 1),
        ((15_000, u64::MAX), 14_995, 1 << 40),
    ];
    for ((low, high), start, step) in spreads {
        let store = filled(3_000);
        let before = labels(&store);
        update(
            &store,
            tree(change(&store, Vec::new(), vec![Summary::Spread { low, high, start, step }], Vec::new())),
        )
        .unwrap();
        let mut expected = BTreeMap::new();
        let mut next = start;
        for (label, number) in before {
            if (low..=high).contains(&label) {
                expected.insert(next, number);
                next += step;
            } else {
                expected.insert(label, number);
            }
        }
        assert_eq!(labels(&store), expected, "{low}..={high} from {start} by {step}");
        assert_eq!(by_label(&store), expected.into_values().collect::<Vec<_>>());
    }
}

#[test]
fn a_spread_that_does_not_fit_changes_nothing() {
    let store = filled(20);
    let before = labels(&store);
    let spreads = [
        // Over its neighbours, beyond the numbers, onto an end, without a step or a range.
        (50, 100, 40, 5),
        (50, 100, 60, 10),
        (10, 200, u64::MAX - 5, 1),
        (10, 200, u64::MAX - 19, 1),
        (10, 200, 5, u64::MAX),
        (10, 200, 0, 1),
        (10, 200, 5, 0),
        (200, 10, 5, 1),
    ];
    for (low, high, start, step) in spreads {
        let spread = Summary::Spread { low, high, start, step };
        let result = update(&store, tree(change(&store, Vec::new(), vec![spread], Vec::new())));
        assert!(is_malformed(&result), "{low}..={high} from {start} by {step}: {result:?}");
        assert_eq!(labels(&store), before);
    }
}

#[test]
fn moves_are_made_at_the_same_time() {
    let store = filled(4);
    let step = |low, high, start, down| Move { low, high, start, down };
    let moved =
        |moves| update(&store, tree(change(&store, Vec::new(), vec![Summary::Moves(moves)], Vec::new())));
    // Two runs change places, and one of them is stretched by a bit.
    moved(vec![step(10, 20, 35, 0), step(30, 40, 5, -1)]).unwrap();
    assert_eq!(labels(&store), BTreeMap::from([(5, 3), (25, 4), (35, 1), (45, 2)]));
    assert_eq!(by_label(&store), [3, 4, 1, 2]);
    assert!(is_malformed(&moved(vec![step(5, 5, 25, 0)])));
    assert_eq!(by_label(&store), [3, 4, 1, 2]);
}

#[test]
fn what_is_of_another_version_is_refused_with_the_version() {
    let store = filled(3);
    let late = change(&store, Vec::new(), Vec::new(), vec![(ciphertext(9), 90)]);
    update(&store, tree(late.clone())).unwrap();
    let other = Err(Refusal::OtherVersion { version: 2 });
    assert_eq!(update(&store, tree(late)), other);
    // Entries and bounds of ciphertexts that are not in the table.
    assert_eq!(update(&store, Update { added: vec![listed(50, 1)], ..Update::default() }), other);
    let gone = Search { lower: bound(50, Side::With), upper: None, order: Order::Ascending, limit: None };
    assert_eq!(search(&store, gone).map(drop), other);
    let mut same = change(&store, Vec::new(), Vec::new(), Vec::new());
    same.head.version = same.expected;
    assert!(is_malformed(&update(&store, tree(same))));
}

#[test]
fn a_ciphertext_leaves_once_it_has_no_entries() {
    let store = filled(3);
    let mut leaving = tree(change(&store, vec![ciphertext(2)], Vec::new(), Vec::new()));
    leaving.removed = vec![listed(2, 1)];
    assert!(is_malformed(&update(&store, leaving.clone())));
    assert_eq!(by_label(&store), [1, 2, 3]);
    leaving.removed.push(listed(2, 2));
    update(&store, leaving).unwrap();
    assert_eq!(labels(&store), BTreeMap::from([(10, 1), (30, 3)]));
    assert!(is_malformed(&update(&store, tree(change(&store, vec![ciphertext(2)], Vec::new(), Vec::new())))));
}

#[test]
fn what_a_change_enters_is_checked() {
    let store = filled(3);
    let short = Blob(vec![0; 15]);
    for (bytes, label) in [
        (ciphertext(3), 35),
        (ciphertext(9), 30),
        (ciphertext(9), 0),
        (ciphertext(9), u64::MAX),
        (short.clone(), 35),
    ] {
        let result = update(&store, tree(change(&store, Vec::new(), Vec::new(), vec![(bytes, label)])));
        assert!(is_malformed(&result), "{label}");
    }
    let mut uncounted = change(&store, Vec::new(), Vec::new(), vec![(ciphertext(9), 35)]);
    uncounted.head.values += 1;
    assert!(is_malformed(&update(&store, tree(uncounted))));
    let long = Blob(vec![0; arras_protocol::mope::index::NODE_BYTES_MAX + 1]);
    let mut large = change(&store, Vec::new(), Vec::new(), Vec::new());
    large.nodes.push((1, Some(long)));
    assert!(matches!(update(&store, tree(large)), Err(Refusal::Limit(_))));
    let added = vec![Listed { ciphertext: short, sealed: SealedRow([1; 32]) }];
    assert!(is_malformed(&update(&store, Update { added, ..Update::default() })));
    assert_eq!(labels(&store).len(), 3);
}

#[test]
fn nodes_are_kept_as_they_come() {
    let store = created();
    let mut made = change(&store, Vec::new(), Vec::new(), Vec::new());
    (made.head.root, made.head.next) = (2, 3);
    made.nodes = vec![(1, Some(Blob(vec![1; 9]))), (2, Some(Blob(vec![2; 9])))];
    update(&store, tree(made)).unwrap();
    let fetch = Fetch { nodes: vec![1, 5], root: true, ciphertexts: vec![ciphertext(1)] };
    let Response::Fetched(fetched) =
        answer(&store, Request::Fetch { index: INDEX, fetch: fetch.clone() }).unwrap()
    else {
        panic!("a fetch")
    };
    assert_eq!(fetched.nodes, [Some(Blob(vec![1; 9])), None, Some(Blob(vec![2; 9]))]);
    assert_eq!((fetched.labels, fetched.head), (vec![None], head(&store)));
    let mut gone = change(&store, Vec::new(), Vec::new(), Vec::new());
    gone.nodes = vec![(1, None)];
    update(&store, tree(gone)).unwrap();
    let Response::Fetched(fetched) = answer(&store, Request::Fetch { index: INDEX, fetch }).unwrap() else {
        panic!("a fetch")
    };
    assert_eq!(fetched.nodes[0], None);
    let many = Fetch { nodes: vec![1; ASKED_MAX + 1], ..Fetch::default() };
    let refused = answer(&store, Request::Fetch { index: INDEX, fetch: many });
    assert!(matches!(refused, Err(Refusal::Limit(_))));
}

#[test]
fn entries_that_are_there_or_not_are_none_the_worse() {
    let store = filled(2);
    let again = Update { removed: vec![listed(1, 9)], added: vec![listed(1, 1)], ..Update::default() };
    update(&store, again).unwrap();
    let look = Request::Look { index: INDEX, entries: vec![listed(1, 1), listed(1, 9), listed(9, 1)] };
    assert_eq!(answer(&store, look), Ok(Response::There(vec![true, false, false])));
    assert_eq!(by_label(&store), [1, 2]);
}

#[test]
fn an_index_that_is_dropped_leaves_nothing() {
    let store = filled(5);
    let create = |ciphertext_bytes| Change::CreateIndex { index: INDEX, ciphertext_bytes };
    send(&store, create(16)).unwrap();
    assert_eq!(by_label(&store).len(), 5);
    assert!(is_malformed(&send(&store, create(8))));
    send(&store, Change::DropIndex { index: INDEX }).unwrap();
    let fetch = Request::Fetch { index: INDEX, fetch: Fetch::default() };
    assert_eq!(answer(&store, fetch), Err(Refusal::UnknownIndex));
    send(&store, create(16)).unwrap();
    assert_eq!((by_label(&store), head(&store)), (Vec::new(), Head::default()));
    assert!(is_malformed(&send(&Memory::new(), create(0))));
}
