use super::super::server::{Fault, Server, run};
use super::*;
use crate::traits::SortedList;
use proptest::prelude::*;

/// Leaves of 4 or 5 records of 17 bytes, inner nodes of 4 or 5 children.
fn parameters(oram_levels: usize, block_bytes: usize) -> OramTreeParameters {
    let oram = OramParameters { cached_levels: 2, ..OramParameters::of_blocks(block_bytes) };
    OramTreeParameters { key_bytes: 1, oram_levels, oram }
}

fn create(server: &Server, parameters: OramTreeParameters, seed: u8) -> OramTree<Server> {
    let key = Key::take_from(&mut [3; 32]);
    run(OramTree::create(server.clone(), IndexId([1; 8]), &key, parameters, Prg::new(&[seed; 16])))
        .expect("no fault is planned")
}

fn entry(key: u8, row: u8) -> RangeEntry {
    RangeEntry { value: vec![key], row: RowId([row; 16]), sums: Vec::new() }
}

impl Tree<Server> {
    /// Checks a subtree; its records.
    fn check(&mut self, level: usize, name: NodeName, nodes: &mut usize) -> Vec<Vec<u8>> {
        run(self.fetch(level, &[name])).expect("no fault is planned");
        *nodes += usize::from(self.in_oram(level));
        let is_root = level == self.root_level;
        let node = self.node(level, name).expect("a node").to_vec();
        self.oram.release();
        if level == 0 {
            let records: Vec<_> =
                self.layout.records(&node).chunks(self.layout.record_bytes).map(<[u8]>::to_vec).collect();
            assert!(is_root || records.len() >= self.layout.leaf_min());
            return records;
        }
        let inner = self.layout.inner(&node);
        assert!(inner.children.len() >= if is_root { 2 } else { self.layout.children_min() });
        let mut records: Vec<Vec<u8>> = Vec::new();
        for (at, child) in inner.children.iter().enumerate() {
            let part = self.check(level - 1, *child, nodes);
            if at > 0 {
                let separator = inner.separator(at - 1);
                assert!(records.last().is_some_and(|left| left.as_slice() < separator));
                assert!(part.first().is_some_and(|right| right.as_slice() >= separator));
            }
            records.extend(part);
        }
        records
    }
}

fn check(tree: &OramTree<Server>) -> usize {
    let mut tree = tree.tree.try_lock().expect("nobody else");
    let mut nodes = 0;
    let (level, root) = (tree.root_level, tree.root);
    let records = tree.check(level, root, &mut nodes);
    assert!(records.is_sorted());
    assert_eq!(nodes, tree.oram.len(), "no block is left behind");
    records.len()
}

#[derive(Clone, Debug)]
enum Step {
    Fail(bool),
    Insert(Vec<(u8, u8)>),
    Remove(Vec<(u8, u8)>),
    Search(u8, u8, bool, Option<usize>),
}

fn step() -> impl Strategy<Value = Step> {
    let some = |most| prop::collection::vec((0..60_u8, 0..3_u8), 1..most);
    prop_oneof![
        1 => any::<bool>().prop_map(Step::Fail),
        6 => some(12).prop_map(Step::Insert),
        5 => some(12).prop_map(Step::Remove),
        3 => (0..62_u8, 0..62_u8, any::<bool>(), prop::option::of(0..20_usize))
            .prop_map(|(lower, upper, descending, limit)| Step::Search(lower, upper, descending, limit)),
    ]
}

fn entries(pairs: &[(u8, u8)]) -> Vec<RangeEntry> {
    pairs.iter().map(|(key, row)| entry(*key, *row)).collect()
}

/// Does something again if it fails; the fault is over then.
async fn insistently<R>(server: &Server, mut work: impl AsyncFnMut() -> Result<R, IndexError>) -> R {
    if let Ok(result) = work().await {
        return result;
    }
    server.state().fault = None;
    work().await.expect("no fault is planned")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_is_a_sorted_list_whatever_gets_lost(
        oram_levels in 1..5_usize,
        block_bytes in prop::sample::select(vec![82_usize, 90, 130]),
        seed: u8,
        loaded in prop::collection::vec((0..60_u8, 0..3_u8), 0..100),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let server = Server::default();
        let (tree, list) = (create(&server, parameters(oram_levels, block_bytes), seed), SortedList::default());
        run(tree.insert(entries(&loaded))).expect("no fault");
        run(list.insert(entries(&loaded))).expect("a list");
        check(&tree);
        for step in steps {
            match step {
                Step::Fail(request) => {
                    let fault = if request { Fault::LostRequest } else { Fault::LostReply };
                    server.state().fault = Some(fault);
                    continue;
                }
                Step::Insert(pairs) => {
                    run(insistently(&server, async || tree.insert(entries(&pairs)).await));
                    run(list.insert(entries(&pairs))).expect("a list");
                }
                Step::Remove(pairs) => {
                    run(insistently(&server, async || tree.remove(entries(&pairs)).await));
                    run(list.remove(entries(&pairs))).expect("a list");
                }
                Step::Search(lower, upper, descending, limit) => {
                    let order = if descending { Order::Descending } else { Order::Ascending };
                    let asked = async || tree.search(vec![lower], vec![upper], order, limit).await;
                    let found = run(insistently(&server, asked));
                    let expected = run(list.search(vec![lower], vec![upper], order, limit)).expect("a list");
                    prop_assert_eq!(found, expected);
                }
            }
            if server.state().fault.is_none() {
                check(&tree);
            }
        }
    }
}

#[test]
fn changes_of_one_height_look_alike() {
    for oram_levels in 1..4 {
        let server = Server::default();
        let tree = create(&server, parameters(oram_levels, 90), 5);
        let mut by_height = HashMap::new();
        for key in 0..200_u8 {
            let height = run(tree.height());
            let before = server.state().reads.len();
            run(tree.insert(vec![entry(key.wrapping_mul(77), 1)])).expect("no fault");
            let mut state = server.state();
            // Growth writes back first, without reading.
            let rounds: Vec<usize> =
                state.reads.drain(before..).map(|read| read.len()).filter(|paths| *paths > 0).collect();
            assert_eq!(by_height.entry(height).or_insert_with(|| rounds.clone()), &rounds, "{key}");
        }
        assert!(by_height.len() >= 3);
        by_height.clear();
        for key in (0..200_u8).chain(0..10) {
            let height = run(tree.height());
            let before = server.state().reads.len();
            run(tree.remove(vec![entry(key.wrapping_mul(77), 1)])).expect("no fault");
            let rounds: Vec<usize> = server.state().reads.drain(before..).map(|read| read.len()).collect();
            assert_eq!(by_height.entry(height).or_insert_with(|| rounds.clone()), &rounds, "{key}");
        }
        assert_eq!(check(&tree), 0);
    }
}

#[test]
fn a_search_reads_what_it_returns_and_little_more() {
    let server = Server::default();
    let tree = create(&server, parameters(1, 90), 5);
    run(tree.insert((0..250_u8).map(|key| entry(key, 1)).collect())).expect("no fault");
    let paths = |lower, upper, limit| {
        let before = server.state().reads.len();
        run(tree.search(vec![lower], vec![upper], Order::Ascending, limit)).expect("no fault");
        server.state().reads[before..].iter().map(Vec::len).sum::<usize>()
    };
    assert_eq!(paths(7, 6, None), 0);
    assert_eq!(paths(0, 255, Some(0)), 0);
    assert!(paths(0, 255, Some(10)) <= 4);
    assert!((25..=40).contains(&paths(0, 99, None)));
    assert_eq!(paths(100, 100, None), 1);
}

#[test]
fn nodes_that_do_not_fit_and_keys_of_another_length_are_refused() {
    let server = Server::default();
    let key = Key::take_from(&mut [3; 32]);
    for parameters in
        [parameters(1, 60), parameters(0, 90), OramTreeParameters { key_bytes: 0, ..parameters(1, 90) }]
    {
        let made = OramTree::create(server.clone(), IndexId([1; 8]), &key, parameters, Prg::new(&[1; 16]));
        assert!(matches!(run(made), Err(IndexError::Caller(_))));
    }
    let tree = create(&server, parameters(1, 90), 5);
    let mut wide = entry(1, 1);
    wide.value.push(0);
    assert!(matches!(run(tree.insert(vec![wide.clone()])), Err(IndexError::Caller(_))));
    assert!(matches!(run(tree.remove(vec![wide])), Err(IndexError::Caller(_))));
    let search = tree.search(vec![1, 2], vec![3], Order::Ascending, None);
    assert!(matches!(run(search), Err(IndexError::Caller(_))));
}
