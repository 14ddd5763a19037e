//! Requests to the range indexes of the server, several in a row, as `arras_fuzz::framed` writes them.
#![no_main]

use arras_fuzz::{framed, seed, serve};
use arras_primitives::prg;
use arras_protocol::Order;
use arras_protocol::logarithmic_brc::cjjjkrs::Shape;
use arras_protocol::logarithmic_brc::cjjkrs::{Label, SearchToken, mask_records};
use arras_protocol::ore::{Scheme, Width};
use arras_protocol::{Blob, IndexId, bplus, kerschbaum_tueno, logarithmic_brc, mope, path_oram, pope};
use libfuzzer_sys::fuzz_target;

const INDEX: IndexId = IndexId([1; 8]);

fn text(bytes: usize, number: u8) -> Blob {
    Blob([vec![0; bytes - 1], vec![number]].concat())
}

/// A B+ tree of plain values.
fn bplus_seed() -> Vec<u8> {
    use bplus::{Change, Request, SealedEntry};
    let (index, scheme) = (INDEX, Scheme::Plain(Width::Bits32));
    let entries = |numbers: std::ops::Range<u8>| {
        let entry = |number| bplus::NewEntry {
            query: text(4, number),
            stored: text(4, number),
            sealed: SealedEntry([number; 32]),
            tie: None,
        };
        numbers.map(entry).collect()
    };
    let bound = |number, after| bplus::Bound { query: text(4, number), after };
    let target = bplus::Target { query: text(4, 5), sealed: SealedEntry([5; 32]), tie: None };
    let after = bplus::After { sealed: SealedEntry([2; 32]), tie: None };
    let (lower, upper, order) = (bound(2, Some(after)), bound(7, None), Order::Ascending);
    framed::<bplus::BPlus>(&[
        Request::Change(Change::CreateIndex { index, scheme, page_bytes: 200 }),
        Request::Load { index, entries: entries(1..7) },
        Request::Change(Change::Insert { index, entries: entries(3..9) }),
        Request::Change(Change::Remove { index, targets: vec![target] }),
        Request::Search { index, version: 0, lower, upper, order, limit: Some(9) },
        Request::Change(Change::DropIndex { index }),
    ])
}

/// One of ciphertexts of FH-OPE, which change.
fn revised_seed() -> Vec<u8> {
    use bplus::{Change, Placed, Request, Revision, SealedEntry, Wanted};
    let (index, scheme) = (INDEX, Scheme::FhOpe(Width::Bits64));
    let placed = |numbers: std::ops::Range<u8>| {
        let placed = |number| Placed { stored: text(8, number), sealed: SealedEntry([number; 32]) };
        numbers.map(placed).collect()
    };
    let revise = |from, moves, removed, inserted| {
        let revision = Revision { from, to: from + 1, moves, removed, inserted };
        Request::Change(Change::Revise { index, revision })
    };
    let moves = Blob([text(8, 8).0, text(8, 9).0].concat());
    let wanted = vec![Wanted { lower: text(8, 1), upper: text(8, 9), sealed: SealedEntry([4; 32]) }];
    let bound = |number| bplus::Bound { query: text(8, number), after: None };
    let (lower, upper, order) = (bound(2), bound(7), Order::Descending);
    framed::<bplus::BPlus>(&[
        Request::Change(Change::CreateIndex { index, scheme, page_bytes: 200 }),
        revise(0, Blob::default(), Vec::new(), placed(1..9)),
        revise(1, moves, placed(2..4), placed(10..12)),
        Request::Locate { index, version: 2, wanted },
        Request::Search { index, version: 2, lower, upper, order, limit: None },
    ])
}

fn kerschbaum_tueno_seed() -> Vec<u8> {
    use kerschbaum_tueno::Request;
    let index = INDEX;
    let insert =
        |version, position, rotation| Request::Insert { index, version, position, entry: [4; 32], rotation };
    framed::<kerschbaum_tueno::KerschbaumTueno>(&[
        Request::CreateIndex { index, page_bytes: 64 },
        insert(0, 0, 0),
        insert(1, 1, 1),
        insert(2, 0, 2),
        Request::Begin { index },
        Request::Head { index, version: 3, position: 1 },
        Request::Entries { index, version: 3, position: 2, count: 5 },
        Request::Remove { index, version: 3, position: 1, rotation: 1 },
        Request::DropIndex { index },
    ])
}

fn pope_seed() -> Vec<u8> {
    use pope::{Located, Node, Request};
    let (index, pages_max, seed, leaf) = (INDEX, 64, [2; 16], Node::leaf(0));
    let elements = |numbers: std::ops::Range<u8>| Blob(numbers.flat_map(|number| [number; 8]).collect());
    let child = |number| vec![leaf.inner(), Node::leaf(number)];
    let (lower, upper, resume) = (child(1), child(3), None);
    // A push raises the version by its pages as well: 12 elements are two pages of 8.
    let after_split = 1;
    let after_push = after_split + 1 + 2;
    framed::<pope::Pope>(&[
        Request::CreateIndex { index, page_bytes: 64, element_bytes: 8, supersede: false },
        Request::Insert { index, epoch: 1, elements: elements(0..12) },
        Request::Look { index, nodes: None, pages_max, seed },
        Request::Split { index, version: 0, path: vec![leaf], labels: elements(3..5), pages_max },
        Request::Push {
            index,
            version: after_split,
            path: vec![leaf.inner()],
            children: Blob((0..12).map(|at| at / 4).collect()),
            pages_max,
        },
        Request::Look { index, nodes: Some((after_push, child(2))), pages_max, seed },
        Request::Collect { index, version: after_push, lower, upper, resume, seed },
        Request::Purge {
            index,
            version: after_push,
            elements: vec![Located { node: 1, element: elements(3..4) }],
        },
        Request::DropIndex { index },
    ])
}

/// A list of one cell, or one that says it is as long as can be.
fn logarithmic_brc_seed(records: u32) -> Vec<u8> {
    use logarithmic_brc::{Asked, Bin, InstanceId, Others, Request};
    let (index, instance, token) = (INDEX, InstanceId([2; 16]), SearchToken([3; 16]));
    let shape = Shape::basic(256, 21).expect("a page of some cells");
    let mut stream = [[0; 16]; 2];
    prg::stream(&token.0, &mut stream);
    let [mask, label] = stream;
    let mut cells = [&label[..], &mask_records(&mask, records).to_le_bytes()].concat();
    cells.resize(shape.cell_bytes(), 5);
    let bins = vec![Bin { place: Label(label).bin(shape.bins), cells: cells.into() }];
    framed::<logarithmic_brc::LogarithmicBrc>(&[
        Request::Build { index, instance, shape, bins, blocks: Vec::new(), others: Some(Others::default()) },
        Request::Search { index, asked: vec![Asked { instance, tokens: vec![token] }], skip: records - 1 },
        Request::Retain { index, instances: Vec::new() },
    ])
}

fn path_oram_seed() -> Vec<u8> {
    use path_oram::{Request, Shape, WriteBack};
    let (index, shape) = (INDEX, Shape { levels: 2, cached_levels: 1, bucket_bytes: 4 });
    let buckets = |count: usize| Blob(vec![6; 4 * count]);
    let write = Some(WriteBack { leaves: vec![3], buckets: buckets(2) });
    framed::<path_oram::PathOram>(&[
        Request::Create { index, shape },
        Request::Load { index, first: 2, buckets: buckets(6) },
        Request::Access { index, epoch: 0, write: None, read: vec![3, 1], durable: false },
        Request::Access { index, epoch: 1, write, read: vec![0], durable: true },
        Request::Grow { index, levels: 3 },
        Request::Load { index, first: 8, buckets: buckets(8) },
        Request::Drop { index },
    ])
}

fn mope_seed() -> Vec<u8> {
    use mope::index::{Bound, Change, Listed, Request, SealedRow, Search, Side, Update};
    let (index, order, limit) = (INDEX, Order::Ascending, Some(3));
    let listed = |number| Listed { ciphertext: text(16, number), sealed: SealedRow([number; 32]) };
    let change = |expected, values, left, summaries, entered| {
        let head = mope::Head { version: expected + 1, root: 1, next: 2, values, digest: [0; 32] };
        let nodes = vec![(1, Some(text(40, 1))), (0, None)];
        Some(Box::new(mope::TreeChange { expected, head, nodes, left, summaries, entered }))
    };
    let entered = (1..5).map(|number| (text(16, number), u64::from(number) * 10)).collect();
    let spread = mope::Summary::Spread { low: 10, high: 30, start: 5, step: 15 };
    let first = Update {
        tree: change(0, 4, Vec::new(), Vec::new(), entered),
        added: (1..5).map(listed).collect(),
        ..Update::default()
    };
    let second = Update {
        removed: vec![listed(4)],
        tree: change(1, 3, vec![text(16, 4)], vec![spread], Vec::new()),
        added: vec![listed(3)],
    };
    let bound = |number, side| Some(Bound { ciphertext: text(16, number), side });
    let (lower, upper) = (bound(1, Side::After(SealedRow([1; 32]))), bound(3, Side::With));
    framed::<mope::index::Mope>(&[
        Request::Change(Change::CreateIndex { index, ciphertext_bytes: 16 }),
        Request::Change(Change::Update { index, update: first }),
        Request::Change(Change::Update { index, update: second }),
        Request::Fetch {
            index,
            fetch: mope::Fetch { nodes: vec![1], root: true, ciphertexts: vec![text(16, 2)] },
        },
        Request::Look { index, entries: vec![listed(1)] },
        Request::Search { index, search: Search { lower, upper, order, limit } },
        Request::Change(Change::DropIndex { index }),
    ])
}

fn seeds() -> Vec<Vec<u8>> {
    vec![
        bplus_seed(),
        revised_seed(),
        kerschbaum_tueno_seed(),
        pope_seed(),
        logarithmic_brc_seed(1),
        logarithmic_brc_seed(logarithmic_brc::RECORDS_MAX),
        path_oram_seed(),
        mope_seed(),
    ]
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| serve(bytes));
