#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use arras_protocol::pope::Cursor;
use arras_storage::Memory;

const INDEX: IndexId = IndexId([7; 8]);
/// Elements of the tests are numbers of one byte in 30.
const ELEMENT_BYTES: usize = 30;
/// Room for 4 labels.
const PAGE_BYTES: u32 = 162;

fn element(number: u8) -> Vec<u8> {
    vec![number; ELEMENT_BYTES]
}

fn elements(numbers: impl IntoIterator<Item = u8>) -> Blob {
    Blob(numbers.into_iter().flat_map(element).collect())
}

fn numbers(blob: &Blob) -> Vec<u8> {
    blob.as_slice().chunks_exact(ELEMENT_BYTES).map(|element| element[0]).collect()
}

fn create(page_bytes: u32, element_bytes: u16) -> Request {
    Request::CreateIndex { index: INDEX, page_bytes, element_bytes }
}

fn index_of(count: u8) -> Memory {
    let store = Memory::new();
    answer(&store, create(PAGE_BYTES, ELEMENT_BYTES as u16)).unwrap();
    for number in 0..count {
        answer(&store, Request::Insert { index: INDEX, elements: elements([number]) }).unwrap();
    }
    store
}

fn root_view(store: &Memory) -> (Node, View) {
    let look = Request::Look { index: INDEX, nodes: Vec::new(), pages_max: 2, seed: [1; 16] };
    let Response::Looked(mut views) = answer(store, look).unwrap() else { panic!("a view") };
    views.remove(0)
}

fn everything(store: &Memory) -> Vec<u8> {
    // As a continuation, which does not mind large leaves.
    let root = vec![root_view(store).0];
    let resume = Some(Cursor { path: root.clone(), page: 0 });
    let collect = Request::Collect { index: INDEX, lower: Vec::new(), upper: root, resume, seed: [1; 16] };
    let Response::Found { elements, next: None, runs } = answer(store, collect).unwrap() else {
        panic!("all")
    };
    assert_eq!(runs.iter().map(|run| run.count as usize).sum::<usize>(), numbers(&elements).len());
    numbers(&elements)
}

fn split(path: Vec<Node>, labels: impl IntoIterator<Item = u8>) -> Request {
    Request::Split { index: INDEX, path, labels: elements(labels), pages_max: 1 }
}

fn push(path: Vec<Node>, page: u64, children: Vec<u8>) -> Request {
    Request::Push { index: INDEX, path, page, children: Blob(children), pages_max: 1 }
}

fn is_malformed(result: &Result<Response, Refusal>) -> bool {
    matches!(result, Err(Refusal::Malformed(_)))
}

/// Splits the root by the labels 3, 6, 9 and pushes all down; the nodes from the root on.
fn split_root(store: &Memory) -> Vec<Node> {
    let root = root_view(store).0;
    let path = vec![root.inner()];
    let mut response = answer(store, split(vec![root], [3, 6, 9])).unwrap();
    while let Response::Pushed { next: Some(chunk), .. } = response {
        let children = numbers(&chunk.elements).iter().map(|number| u8::min(number / 3, 3)).collect();
        response = answer(store, push(path.clone(), chunk.page, children)).unwrap();
    }
    let (root, View::Inner { children, buffered: None, .. }) = root_view(store) else {
        panic!("an inner root")
    };
    std::iter::once(root).chain(children).collect()
}

#[test]
fn an_insertion_fills_the_last_page() {
    let store = index_of(12);
    let reader = store.read().unwrap();
    let mut pages = Vec::new();
    let mut take = |_: &[u8], page: &[u8]| {
        pages.push(page.len());
        std::ops::ControlFlow::Continue(())
    };
    let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    reader.scan(BUFFERS, all, arras_storage::Direction::Ascending, &mut take).unwrap();
    assert_eq!(pages, [150, 150, 60], "5 elements a page");
    assert_eq!(everything(&store), (0..12).collect::<Vec<_>>());
}

#[test]
fn parameters_are_checked_and_kept() {
    let store = Memory::new();
    assert!(matches!(answer(&store, create(120, 30)), Err(Refusal::Limit(_))), "2 labels");
    assert!(matches!(answer(&store, create(4096, 0)), Err(Refusal::Limit(_))));
    assert!(matches!(answer(&store, create(u32::MAX, 30)), Err(Refusal::Limit(_))));
    answer(&store, create(4096, 30)).unwrap();
    answer(&store, create(4096, 30)).unwrap();
    assert!(is_malformed(&answer(&store, create(4096, 31))));
    answer(&store, Request::DropIndex { index: INDEX }).unwrap();
    answer(&store, create(4096, 31)).unwrap();
}

#[test]
fn an_index_that_is_not_there_is_unknown() {
    let store = Memory::new();
    let node = vec![Node::leaf(0)];
    for request in [
        Request::Insert { index: INDEX, elements: elements([1]) },
        Request::Look { index: INDEX, nodes: Vec::new(), pages_max: 1, seed: [0; 16] },
        Request::Collect {
            index: INDEX,
            lower: node.clone(),
            upper: node.clone(),
            resume: None,
            seed: [1; 16],
        },
        Request::Remove { index: INDEX, elements: Vec::new() },
        push(node.clone(), 0, vec![0]),
        split(node, [1]),
    ] {
        assert_eq!(answer(&store, request), Err(Refusal::UnknownIndex));
    }
}

#[test]
fn a_large_leaf_shows_a_sample_and_a_small_one_none() {
    let View::Oversized { sample } = root_view(&index_of(12)).1 else { panic!("12 elements are above 4") };
    let mut drawn = numbers(&sample);
    drawn.sort_unstable();
    drawn.dedup();
    assert_eq!(drawn.len(), 4, "as many labels as fit, all different");
    let View::Oversized { sample } = root_view(&index_of(5)).1 else { panic!("5 are above 4") };
    assert_eq!(numbers(&sample).len(), 2, "three leaves of 2");
    assert_eq!(root_view(&index_of(4)).1, View::Leaf);
}

#[test]
fn a_range_that_ends_in_a_large_leaf_shows_its_sample_instead() {
    let store = index_of(12);
    let path = vec![root_view(&store).0];
    let collect = |path: &[Node]| {
        let (lower, upper) = (path.to_vec(), path.to_vec());
        answer(&store, Request::Collect { index: INDEX, lower, upper, resume: None, seed: [1; 16] }).unwrap()
    };
    assert_eq!(collect(&path), Response::Looked(vec![root_view(&store)]));
    let nodes = split_root(&store);
    assert!(matches!(collect(&[nodes[0], nodes[2]]), Response::Found { .. }));
}

#[test]
fn elements_move_to_the_children_said() {
    let store = index_of(12);
    let nodes = split_root(&store);
    assert_eq!(everything(&store), (0..12).collect::<Vec<_>>());
    let collect = Request::Collect {
        index: INDEX,
        lower: vec![nodes[0], nodes[2]],
        upper: vec![nodes[0], nodes[3]],
        resume: None,
        seed: [1; 16],
    };
    let Response::Found { elements, .. } = answer(&store, collect).unwrap() else { panic!("elements") };
    assert_eq!(numbers(&elements), (3..9).collect::<Vec<_>>());
}

#[test]
fn a_full_parent_is_split_when_a_child_dissolves() {
    let store = index_of(12);
    let nodes = split_root(&store);
    let path = vec![nodes[0], nodes[2]];
    let Response::Pushed { next: Some(chunk), .. } = answer(&store, split(path, [3, 4])).unwrap() else {
        panic!("a chunk")
    };
    assert_eq!(numbers(&chunk.elements), [3, 4, 5]);
    assert_eq!(everything(&store).len(), 12, "complete while a leaf is under split");
    let done = answer(&store, push(vec![nodes[0], nodes[2].inner()], chunk.page, vec![0, 1, 2])).unwrap();
    assert_eq!(done, Response::Pushed { next: None, restructured: true });
    // 3 and 2 labels are above 4: a new root with the middle one.
    let (_, View::Inner { labels, children, .. }) = root_view(&store) else { panic!("an inner root") };
    assert_eq!((numbers(&labels), children.len()), (vec![4], 2));
    assert_eq!(everything(&store), (0..12).collect::<Vec<_>>());
}

#[test]
fn an_ancestor_with_a_buffer_is_not_split() {
    let store = index_of(12);
    let nodes = split_root(&store);
    answer(&store, split(vec![nodes[0], nodes[2]], [3, 4])).unwrap();
    answer(&store, Request::Insert { index: INDEX, elements: elements([20]) }).unwrap();
    let path = vec![nodes[0], nodes[2].inner()];
    let done = answer(&store, push(path.clone(), 0, vec![0, 1, 2])).unwrap();
    assert_eq!(done, Response::Pushed { next: None, restructured: false });
    assert_eq!(everything(&store).len(), 13);
}

#[test]
fn wrong_requests_change_nothing() {
    let store = index_of(12);
    let nodes = split_root(&store);
    let leaf = vec![nodes[0], nodes[2]];
    for request in [
        Request::Insert { index: INDEX, elements: Blob(vec![0; ELEMENT_BYTES + 1]) },
        push(vec![nodes[0]], 0, vec![0]),
        push(leaf.clone(), 0, vec![0, 0, 0]),
        push(Vec::new(), 0, vec![0]),
        split(leaf.clone(), []),
        split(leaf.clone(), [1, 2, 3, 4, 5]),
        split(vec![nodes[0]], [1]),
        split(vec![nodes[2]], [1]),
        split(vec![nodes[0], Node::leaf(99)], [1]),
        Request::Collect {
            index: INDEX,
            lower: vec![nodes[0], nodes[3]],
            upper: leaf.clone(),
            resume: None,
            seed: [1; 16],
        },
        Request::Collect {
            index: INDEX,
            lower: leaf.clone(),
            upper: leaf.clone(),
            resume: Some(Cursor { path: vec![nodes[4]], page: 0 }),
            seed: [1; 16],
        },
        Request::Look { index: INDEX, nodes: vec![Node::leaf(99).inner()], pages_max: 1, seed: [0; 16] },
        Request::Remove {
            index: INDEX,
            elements: vec![Located { node: nodes[2].number(), page: 0, element: Blob(vec![3]) }],
        },
    ] {
        let result = answer(&store, request.clone());
        assert!(is_malformed(&result), "{request:?}: {result:?}");
    }
    answer(&store, Request::Insert { index: INDEX, elements: elements([50, 51]) }).unwrap();
    for (page, children) in [(1, vec![0, 0]), (0, vec![0]), (0, vec![0, 0, 0]), (0, vec![0, 4]), (0, vec![])]
    {
        assert!(is_malformed(&answer(&store, push(vec![nodes[0]], page, children))));
    }
    assert_eq!(everything(&store).len(), 14);
}

#[test]
fn a_removal_takes_what_it_names() {
    let store = index_of(12);
    let located = |number: u8, page: u64| Located { node: 0, page, element: Blob(element(number)) };
    let removed = vec![located(2, 0), located(11, 2), located(10, 2), located(5, 0), located(1, 9)];
    answer(&store, Request::Remove { index: INDEX, elements: removed }).unwrap();
    assert_eq!(everything(&store), [0, 1, 3, 4, 5, 6, 7, 8, 9]);
    answer(&store, Request::Insert { index: INDEX, elements: elements([30]) }).unwrap();
    assert_eq!(everything(&store).len(), 10);
}

#[test]
fn a_damaged_store_is_named() {
    let store = index_of(12);
    let nodes = split_root(&store);
    let damage = |table: Table, name: Vec<u8>, value: &[u8]| {
        let mut writer = store.write().unwrap();
        writer.put(table, &name, value).unwrap();
        writer.commit(Durability::Relaxed).unwrap();
    };
    let collect = || {
        let all = Request::Collect {
            index: INDEX,
            lower: vec![nodes[0]],
            upper: vec![nodes[0]],
            resume: None,
            seed: [1; 16],
        };
        answer(&store, all)
    };
    let mut name = buffer_prefix(INDEX, nodes[3].number());
    name.extend_from_slice(&0_u64.to_be_bytes());
    damage(BUFFERS, name, &[1; 7]);
    assert!(matches!(collect(), Err(Refusal::Damaged(_))));
    for page in [&[0, 3][..], &[2, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[0; 9], &[]] {
        damage(node::NODES, buffer_prefix(INDEX, nodes[0].number()), page);
        assert!(collect().is_err());
    }
    // A node that is its own child.
    let mut page = vec![0, 0];
    page.extend_from_slice(&nodes[0].0.to_be_bytes());
    damage(node::NODES, buffer_prefix(INDEX, nodes[0].number()), &page);
    assert!(matches!(collect(), Err(Refusal::Damaged(_))));
}

/// Collects all, reply by reply: the first byte of each element, and the number of replies.
fn collected(store: &Memory, path: &[Node], element_bytes: usize) -> (Vec<u8>, usize) {
    let (mut found, mut replies) = (Vec::new(), 0);
    let mut resume = Some(Cursor { path: path.to_vec(), page: 0 });
    loop {
        let (lower, upper) = (path.to_vec(), path.to_vec());
        let collect = Request::Collect { index: INDEX, lower, upper, resume, seed: [1; 16] };
        let Response::Found { elements, next, .. } = answer(store, collect).unwrap() else {
            panic!("elements")
        };
        assert!(elements.len() < 2 * arras_protocol::limits::REPLY_BYTES_SOFT);
        found.extend(elements.as_slice().chunks_exact(element_bytes).map(|element| element[0]));
        replies += 1;
        match next {
            Some(cursor) => resume = Some(cursor),
            None => return (found, replies),
        }
    }
}

#[test]
fn a_long_answer_goes_on_where_it_was_cut() {
    const BYTES: usize = 60_000;
    let all: Vec<u8> = (0..250).collect();
    let blob = |numbers: &[u8]| Blob(numbers.iter().flat_map(|number| vec![*number; BYTES]).collect());
    let store = Memory::new();
    answer(&store, create(1 << 20, BYTES as u16)).unwrap();
    answer(&store, Request::Insert { index: INDEX, elements: blob(&all) }).unwrap();
    let root = root_view(&store).0;
    assert_eq!(collected(&store, &[root], BYTES), (all.clone(), 2), "cut within a buffer");

    let labels = blob(&[40, 80, 120, 160, 200]);
    let request = Request::Split { index: INDEX, path: vec![root], labels, pages_max: 64 };
    let Response::Pushed { next: Some(chunk), .. } = answer(&store, request).unwrap() else {
        panic!("a chunk")
    };
    let children = all.iter().map(|number| number.saturating_sub(1) / 40).map(|child| child.min(5)).collect();
    answer(&store, push(vec![root.inner()], chunk.page, children)).unwrap();
    answer(&store, Request::Insert { index: INDEX, elements: blob(&[255]) }).unwrap();
    let with_root: Vec<u8> = std::iter::once(255).chain(all).collect();
    assert_eq!(collected(&store, &[root.inner()], BYTES), (with_root, 2), "cut between leaves");
}
