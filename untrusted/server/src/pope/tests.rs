#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::buffer::buffer_prefix;
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
    Request::CreateIndex { index: INDEX, page_bytes, element_bytes, supersede: false }
}

/// Stands for the version of now.
const NOW: u64 = u64::MAX;

/// Answers in the server's first start.
fn answer(store: &Memory, mut request: Request) -> Result<Response, Refusal> {
    match &mut request {
        Request::Push { version: asked, .. }
        | Request::Split { version: asked, .. }
        | Request::Collect { version: asked, .. }
        | Request::Purge { version: asked, .. }
        | Request::Look { nodes: Some((asked, _)), .. }
            if *asked == NOW =>
        {
            *asked = version(store);
        }
        _ => {}
    }
    super::answer(store, 1, request)
}

fn version(store: &Memory) -> u64 {
    Tree::open(&store.read().unwrap(), INDEX).map_or(0, |tree| tree.head.version)
}

fn insert(elements: Blob) -> Request {
    Request::Insert { index: INDEX, epoch: 1, elements }
}

fn index_of(count: u8) -> Memory {
    let store = Memory::new();
    answer(&store, create(PAGE_BYTES, ELEMENT_BYTES as u16)).unwrap();
    for number in 0..count {
        answer(&store, insert(elements([number]))).unwrap();
    }
    store
}

fn root_view(store: &Memory) -> (Node, View) {
    let look = Request::Look { index: INDEX, nodes: None, pages_max: 2, seed: [1; 16] };
    let Response::Looked { mut views, .. } = answer(store, look).unwrap() else { panic!("a view") };
    views.remove(0)
}

fn everything(store: &Memory) -> Vec<u8> {
    // As a continuation, which does not mind large leaves.
    let root = vec![root_view(store).0];
    let resume = Some(Cursor { path: root.clone(), page: 0 });
    let collect = Request::Collect {
        index: INDEX,
        version: NOW,
        lower: Vec::new(),
        upper: root,
        resume,
        seed: [1; 16],
    };
    let Response::Found { elements, next: None, runs } = answer(store, collect).unwrap() else {
        panic!("all")
    };
    assert_eq!(runs.iter().map(|run| run.count as usize).sum::<usize>(), numbers(&elements).len());
    numbers(&elements)
}

fn split(path: Vec<Node>, labels: impl IntoIterator<Item = u8>) -> Request {
    Request::Split { index: INDEX, version: NOW, path, labels: elements(labels), pages_max: 1 }
}

fn push(path: Vec<Node>, children: Vec<u8>) -> Request {
    Request::Push { index: INDEX, version: NOW, path, children: Blob(children), pages_max: 1 }
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
        response = answer(store, push(path.clone(), children)).unwrap();
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
        insert(elements([1])),
        Request::Look { index: INDEX, nodes: None, pages_max: 1, seed: [0; 16] },
        Request::Collect {
            index: INDEX,
            version: NOW,
            lower: node.clone(),
            upper: node.clone(),
            resume: None,
            seed: [1; 16],
        },
        Request::Purge { index: INDEX, version: NOW, elements: Vec::new() },
        push(node.clone(), vec![0]),
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
        answer(
            &store,
            Request::Collect { index: INDEX, version: NOW, lower, upper, resume: None, seed: [1; 16] },
        )
        .unwrap()
    };
    assert_eq!(collect(&path), Response::Looked { version: version(&store), views: vec![root_view(&store)] });
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
        version: NOW,
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
    let done = answer(&store, push(vec![nodes[0], nodes[2].inner()], vec![0, 1, 2])).unwrap();
    assert_eq!(done, Response::Pushed { version: version(&store), next: None, restructured: true });
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
    answer(&store, insert(elements([20]))).unwrap();
    let path = vec![nodes[0], nodes[2].inner()];
    let done = answer(&store, push(path.clone(), vec![0, 1, 2])).unwrap();
    assert_eq!(done, Response::Pushed { version: version(&store), next: None, restructured: false });
    assert_eq!(everything(&store).len(), 13);
}

#[test]
fn wrong_requests_change_nothing() {
    let store = index_of(12);
    let nodes = split_root(&store);
    let leaf = vec![nodes[0], nodes[2]];
    for request in [
        insert(Blob(vec![0; ELEMENT_BYTES + 1])),
        push(vec![nodes[0]], vec![0]),
        push(leaf.clone(), vec![0, 0, 0]),
        push(Vec::new(), vec![0]),
        split(leaf.clone(), []),
        split(leaf.clone(), [1, 2, 3, 4, 5]),
        split(vec![nodes[0]], [1]),
        split(vec![nodes[2]], [1]),
        split(vec![nodes[0], Node::leaf(99)], [1]),
        Request::Collect {
            index: INDEX,
            version: NOW,
            lower: vec![nodes[0], nodes[3]],
            upper: leaf.clone(),
            resume: None,
            seed: [1; 16],
        },
        Request::Collect {
            index: INDEX,
            version: NOW,
            lower: leaf.clone(),
            upper: leaf.clone(),
            resume: Some(Cursor { path: vec![nodes[4]], page: 0 }),
            seed: [1; 16],
        },
        Request::Look {
            index: INDEX,
            nodes: Some((NOW, vec![Node::leaf(99).inner()])),
            pages_max: 1,
            seed: [0; 16],
        },
        purge([(nodes[2].number(), vec![3])]),
        purge([(nodes[2].number(), element(1))]),
        purge([(nodes[2].number(), element(4)), (nodes[2].number(), element(4))]),
    ] {
        let result = answer(&store, request.clone());
        assert!(is_malformed(&result), "{request:?}: {result:?}");
    }
    answer(&store, insert(elements([50, 51]))).unwrap();
    for children in [vec![0, 0, 0], vec![0, 4], vec![]] {
        assert!(is_malformed(&answer(&store, push(vec![nodes[0]], children))));
    }
    assert_eq!(everything(&store).len(), 14);
}

fn purge(elements: impl IntoIterator<Item = (u64, Vec<u8>)>) -> Request {
    let located = |(node, element)| Located { node, element: Blob(element) };
    Request::Purge { index: INDEX, version: NOW, elements: elements.into_iter().map(located).collect() }
}

#[test]
fn a_purge_takes_what_it_names_or_nothing() {
    let store = index_of(12);
    let done = answer(&store, purge([2, 11, 10, 5].map(|number| (0, element(number))))).unwrap();
    assert_eq!(done, Response::Done);
    assert_eq!(everything(&store), [0, 1, 3, 4, 6, 7, 8, 9]);
    assert!(is_malformed(&answer(&store, purge([(0, element(3)), (0, element(5))]))));
    answer(&store, insert(elements([30, 30, 30]))).unwrap();
    assert_eq!(everything(&store).len(), 11);
    answer(&store, purge([(0, element(30)), (0, element(30))])).unwrap();
    assert_eq!(everything(&store), [0, 1, 3, 4, 6, 7, 8, 9, 30], "a copy for each time it is named");
}

#[test]
fn what_names_another_version_changes_nothing() {
    let store = index_of(12);
    let seen = version(&store);
    let nodes = split_root(&store);
    answer(&store, insert(elements([50, 51]))).unwrap();
    let (lower, upper) = (vec![nodes[0], nodes[1]], vec![nodes[0], nodes[4]]);
    let now = version(&store);
    assert!(now > seen);
    for version in [seen, now - 1, now + 1] {
        let (path, children, labels) = (vec![nodes[0]], Blob(vec![0, 0]), elements([1]));
        for request in [
            Request::Push { index: INDEX, version, path, children, pages_max: 1 },
            Request::Split { index: INDEX, version, path: lower.clone(), labels, pages_max: 1 },
            Request::Purge { index: INDEX, version, elements: Vec::new() },
            Request::Look {
                index: INDEX,
                nodes: Some((version, nodes.clone())),
                pages_max: 1,
                seed: [1; 16],
            },
            Request::Collect {
                index: INDEX,
                version,
                lower: lower.clone(),
                upper: upper.clone(),
                resume: None,
                seed: [1; 16],
            },
        ] {
            assert_eq!(answer(&store, request), Ok(Response::Changed));
        }
    }
    assert_eq!((version(&store), everything(&store).len()), (now, 14));
}

#[test]
fn elements_appended_to_a_page_that_was_shown_stay_in_it() {
    let store = index_of(12);
    let root = root_view(&store).0;
    let Response::Pushed { next: Some(chunk), .. } = answer(&store, split(vec![root], [3, 6, 9])).unwrap()
    else {
        panic!("a chunk")
    };
    // Pages of 5: the last has room for 3, and is shown with 2.
    let first = answer(&store, push(vec![root.inner()], vec![0; numbers(&chunk.elements).len()])).unwrap();
    let Response::Pushed { next: Some(_), .. } = first else { panic!("a chunk") };
    let second = answer(&store, push(vec![root.inner()], vec![1; 5])).unwrap();
    let Response::Pushed { next: Some(last), version: seen, .. } = second else { panic!("a chunk") };
    answer(&store, insert(elements([40, 41, 42, 43]))).unwrap();
    let shown = numbers(&last.elements);
    assert_eq!((shown.len(), version(&store)), (2, seen), "insertions leave the version");
    answer(&store, push(vec![root.inner()], vec![3; 2])).unwrap();
    let (_, View::Inner { buffered: Some(left), .. }) = root_view(&store) else { panic!("a buffer") };
    assert_eq!(numbers(&left.elements), [40, 41, 42, 43]);
    assert_eq!(pages_of(&store, root.number()).len(), 2, "the page is as it was, without its first two");
    assert_eq!(everything(&store).len(), 16);
}

/// Names of the pages of a node's buffer.
fn pages_of(store: &Memory, node: u64) -> Vec<u64> {
    let reader = store.read().unwrap();
    let tree = Tree::open(&reader, INDEX).unwrap();
    let mut pages = Vec::new();
    buffer::visit(&tree, Node::leaf(node), 0, |number, _| {
        pages.push(number);
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    pages
}

#[test]
fn page_numbers_never_come_again() {
    let store = index_of(12);
    let root = root_view(&store).0;
    let mut seen = std::collections::BTreeSet::new();
    seen.extend(pages_of(&store, root.number()));
    split_root(&store);
    for round in 0..20_u8 {
        answer(&store, insert(elements((0..11).map(|number| 100 + number)))).unwrap();
        for page in pages_of(&store, root.number()) {
            assert!(seen.insert(page), "page {page} again");
        }
        // The last page first, whose number would be the next one's.
        answer(&store, purge([(0, element(110))])).unwrap();
        answer(&store, insert(elements([120 + round]))).unwrap();
        if let Some(last) = pages_of(&store, root.number()).last() {
            assert!(seen.insert(*last), "page {last} again");
        }
        for count in [5, 5, 1] {
            answer(&store, push(vec![root.inner()], vec![1; count])).unwrap();
        }
        assert!(pages_of(&store, root.number()).is_empty());
    }
}

#[test]
fn no_version_comes_again_after_a_restart() {
    let mut told = std::collections::BTreeSet::new();
    // Each start's split is lost by a crash: the next finds the store as it was before.
    for incarnation in 1..5 {
        let store = index_of(12);
        let (path, labels) = (vec![root_view(&store).0], elements([1]));
        let request = Request::Split { index: INDEX, version: version(&store), path, labels, pages_max: 1 };
        super::answer(&store, incarnation, request).unwrap();
        assert!(told.insert(version(&store)), "what was made for a lost split finds another version");
    }
}

#[test]
fn insertions_of_an_epoch_that_was_superseded_are_refused() {
    let store = index_of(3);
    let open = |supersede| {
        let element_bytes = ELEMENT_BYTES as u16;
        let open = Request::CreateIndex { index: INDEX, page_bytes: PAGE_BYTES, element_bytes, supersede };
        let Response::Epoch(epoch) = answer(&store, open).unwrap() else { panic!("an epoch") };
        epoch
    };
    let insert = |epoch| answer(&store, Request::Insert { index: INDEX, epoch, elements: elements([9]) });
    assert_eq!((open(false), insert(1)), (2, Ok(Response::Epoch(2))));
    assert_eq!((open(true), insert(2), insert(3)), (3, Ok(Response::Superseded), Ok(Response::Epoch(3))));
    assert_eq!(everything(&store).len(), 5);
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
            version: NOW,
            lower: vec![nodes[0]],
            upper: vec![nodes[0]],
            resume: None,
            seed: [1; 16],
        };
        answer(&store, all)
    };
    let mut name = buffer_prefix(INDEX, nodes[3].number());
    name.extend_from_slice(&pages_of(&store, nodes[3].number())[0].to_be_bytes());
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
        let collect = Request::Collect { index: INDEX, version: NOW, lower, upper, resume, seed: [1; 16] };
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
    answer(&store, insert(blob(&all))).unwrap();
    let root = root_view(&store).0;
    assert_eq!(collected(&store, &[root], BYTES), (all.clone(), 2), "cut within a buffer");

    let labels = blob(&[40, 80, 120, 160, 200]);
    let request = Request::Split { index: INDEX, version: NOW, path: vec![root], labels, pages_max: 64 };
    let Response::Pushed { next: Some(_), .. } = answer(&store, request).unwrap() else { panic!("a chunk") };
    let children = all.iter().map(|number| number.saturating_sub(1) / 40).map(|child| child.min(5)).collect();
    answer(&store, push(vec![root.inner()], children)).unwrap();
    answer(&store, insert(blob(&[255]))).unwrap();
    let with_root: Vec<u8> = std::iter::once(255).chain(all).collect();
    assert_eq!(collected(&store, &[root.inner()], BYTES), (with_root, 2), "cut between leaves");
}
