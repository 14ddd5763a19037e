//! How writes are cut, beside what documents really come to.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::index::tests::{eq_of, range_of, unique_of};
use crate::terms;
use crate::tests::{document, randomly};
use arras_documents::limits::Measured;
use arras_protocol::RowId;
use arras_records::{IndexTerms, OpenDocument};
use rand::RngExt;
use rand::rngs::StdRng;

fn parts() -> Vec<Arc<IndexPart>> {
    let kinds = [
        unique_of(&["a"]),
        eq_of(&["a", "b.a"]),
        range_of(&["a.b"]),
        range_of(&["a.b", "a.c"]),
        range_of(&["c", "a.a", "a.b"]),
    ];
    (1..).zip(kinds).map(|(name, physical)| IndexPart::of_test(name, physical)).collect()
}

fn revision(rng: &mut StdRng, sequence: u64) -> Revision {
    let old = OpenDocument {
        row: RowId([1; 16]),
        version: [0; 8],
        sequence,
        terms: IndexTerms::default(),
        document: document(rng, 1),
        bytes: 100,
    };
    let new = Measured::new(document(rng, 1)).unwrap();
    let (old, new) = match rng.random_range(0..3) {
        0 => (Some(old), None),
        1 => (None, Some(new)),
        _ => (Some(old), Some(new)),
    };
    Revision { row: RowId([1; 16]), sequence, old, new }
}

#[test]
fn a_document_comes_to_no_more_than_it_is_taken_for() {
    let (mut rng, parts) = (randomly(), parts());
    let mut arrays = 0;
    for _ in 0..4_000 {
        let document = document(&mut rng, 3);
        let mut entries = 0;
        for part in &parts {
            // One that an index cannot hold is refused before it is counted.
            let Ok(found) = terms::of(part, &document) else { continue };
            arrays += usize::from(found.terms.len() > 1);
            entries += found.terms.len() * part.half.entry_bytes();
            let most = document_bytes(std::slice::from_ref(part), &document, 0);
            assert!(found.terms.len() * part.half.entry_bytes() <= most, "{document} in {}", part.physical);
        }
        assert!(document_bytes(&parts, &document, 77) >= entries + 77);
    }
    assert!(arrays > 500, "{arrays}");
    let plain = bson::doc! { "a": 1, "b": 2 };
    let [one] = [&parts[0]].map(|part| document_bytes(std::slice::from_ref(part), &plain, 10));
    assert_eq!(one, 10 + parts[0].half.entry_bytes(), "one entry is taken for one");
}

#[test]
fn writes_leave_nothing_out_and_end_where_they_are_full() {
    let (mut rng, parts) = (randomly(), parts());
    for write_bytes in [1, 500, 3_000, 100_000] {
        let count = 200;
        let mut revisions: Vec<Revision> = (0..count).map(|number| revision(&mut rng, number)).collect();
        let sizes: Vec<usize> = revisions.iter().map(|revision| revision_bytes(&parts, revision)).collect();
        let mut revisions = revisions.drain(..);
        let mut met = 0_usize;
        loop {
            let write = next_write(&parts, &mut revisions, write_bytes);
            if write.is_empty() {
                break;
            }
            for revision in &write {
                assert_eq!(revision.sequence, met as u64, "in their order, each once");
                met += 1;
            }
            let of_write = &sizes[met - write.len()..met];
            let bytes: usize = of_write.iter().sum();
            let before_last = bytes - of_write.last().unwrap();
            assert!(before_last < write_bytes, "it was full before");
            assert!(bytes >= write_bytes || met as u64 == count, "there was room for more");
        }
        assert_eq!(met as u64, count);
    }
}

#[test]
fn a_write_that_is_just_full_takes_no_more() {
    let (mut rng, parts) = (randomly(), parts());
    for full in 1..20 {
        let revisions: Vec<Revision> = (0..20).map(|number| revision(&mut rng, number)).collect();
        let bytes = revisions[..full].iter().map(|revision| revision_bytes(&parts, revision)).sum();
        assert_eq!(next_write(&parts, &mut revisions.into_iter(), bytes).len(), full);
    }
}

#[test]
fn what_goes_counts_like_what_comes_and_no_write_has_more_documents_than_it_may() {
    let (mut rng, parts) = (randomly(), parts());
    let mut revision = revision(&mut rng, 0);
    let document = bson::doc! { "a": [1, 2, 3] };
    let old = revision.old.take();
    revision.new = None;
    revision.old = old.or_else(|| {
        let (row, terms) = (RowId([1; 16]), IndexTerms::default());
        Some(OpenDocument { row, version: [0; 8], sequence: 0, terms, document: document.clone(), bytes: 0 })
    });
    revision.old.as_mut().unwrap().document = document.clone();
    let bytes = revision_bytes(&parts[..1], &revision);
    assert_eq!(bytes, 3 * parts[0].half.entry_bytes());
    revision.new = Some(Measured::new(document).unwrap());
    assert!(revision_bytes(&parts[..1], &revision) > 2 * bytes, "its own bytes besides");
    let empty = || Revision { row: RowId([1; 16]), sequence: 0, old: None, new: None };
    let mut many = std::iter::repeat_with(empty).take(DOCUMENTS_MAX + 1);
    assert_eq!(next_write(&parts, &mut many, usize::MAX).len(), DOCUMENTS_MAX);
    assert_eq!(next_write(&parts, &mut many, usize::MAX).len(), 1);
}
