//! Entries of documents beside what filters, orders and sums say of the documents themselves.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::index::tests::{eq_of, range_of, unique_of};
use crate::tests::{document, randomly, scalar, value};
use arras_documents::filter::Filter;
use arras_documents::order;
use bson::{Bson, doc};
use rand::RngExt;

#[test]
fn a_document_has_the_entry_of_a_value_if_a_filter_for_the_value_matches_it() {
    let mut rng = randomly();
    let mut matched = 0;
    for field in ["a", "a.b", "b.c.a"] {
        let parts = [eq_of(&[field]), unique_of(&[field])].map(|physical| IndexPart::of_test(1, physical));
        for _ in 0..2_000 {
            let document = document(&mut rng, 3);
            let sought = match value(&mut rng, 1) {
                Bson::Array(_) => scalar(&mut rng),
                sought => sought,
            };
            let matches = Filter::parse(&doc! { field: { "$eq": sought.clone() } })
                .unwrap()
                .matches(&document)
                .unwrap();
            matched += usize::from(matches);
            for part in &parts {
                let held = of(part, &document).unwrap().terms;
                let has = held.contains_key(&equality_bytes(std::slice::from_ref(&sought)));
                assert!(has || !matches, "{document} has no entry for {sought}");
                // Null stands for absent fields, too, which a filter looks for in its own way.
                assert!(matches || !has || sought == Bson::Null, "{document} has an entry for {sought}");
                assert!(!held.is_empty(), "{document}");
            }
        }
    }
    assert!(matched > 100, "{matched}");
}

#[test]
fn entries_of_several_fields_are_those_of_all_of_them_together() {
    let mut rng = randomly();
    let part = IndexPart::of_test(1, eq_of(&["a", "b"]));
    let alone = ["a", "b"].map(|field| IndexPart::of_test(1, eq_of(&[field])));
    for _ in 0..2_000 {
        let document = document(&mut rng, 1);
        let [of_a, of_b] = alone.each_ref().map(|part| of(part, &document).unwrap());
        match of(&part, &document) {
            Ok(both) => {
                let pairs = of_a
                    .terms
                    .keys()
                    .flat_map(|a| of_b.terms.keys().map(move |b| [a.as_slice(), b].concat()));
                assert_eq!(both.terms.into_keys().collect::<Vec<_>>(), {
                    let mut pairs: Vec<_> = pairs.collect();
                    pairs.sort();
                    pairs
                });
                assert_eq!(both.multikey, of_a.multikey || of_b.multikey);
            }
            Err(TooManyTerms::ParallelArrays { .. }) => {
                assert!(of_a.multikey && of_b.multikey, "{document}");
            }
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn keys_are_as_long_as_their_index_says_and_never_against_the_order_of_values() {
    let mut rng = randomly();
    let part = IndexPart::of_test(1, range_of(&["a"]));
    let mut compared = 0;
    for _ in 0..3_000 {
        let [left, right] = [0, 1].map(|_| scalar(&mut rng));
        let [of_left, of_right] =
            [&left, &right].map(|value| of(&part, &doc! { "a": value.clone() }).unwrap());
        for found in [&of_left, &of_right] {
            assert!(!found.multikey && found.terms.len() == 1);
            assert!(found.terms.keys().all(|key| Some(key.len()) == part.physical.key_bytes()));
        }
        let keys = of_left.terms.keys().cmp(of_right.terms.keys());
        let values = order::compare(&left, &right);
        assert!(keys == values || keys.is_eq(), "{left} {right}");
        // Where both are exact, keys tell values apart.
        let exact = !of_left.inexact && !of_right.inexact;
        assert!(keys == values || !exact, "{left} {right}");
        compared += usize::from(exact && values.is_ne());
    }
    assert!(compared > 1_000, "{compared}");
}

#[test]
fn what_has_several_entries_or_may_have_is_said_to() {
    let mut rng = randomly();
    for part in [eq_of(&["a"]), range_of(&["a"]), range_of(&["a.b"]), range_of(&["a.b", "a.c"])] {
        let part = IndexPart::of_test(1, part);
        for _ in 0..1_000 {
            let document = document(&mut rng, 3);
            // Arrays of two fields that are not within one are refused.
            let Ok(found) = of(&part, &document) else { continue };
            assert!(found.multikey || found.terms.len() == 1, "{document} in {}", part.physical);
        }
    }
}

#[test]
fn a_sparse_index_lacks_the_documents_without_its_fields_and_no_others() {
    let mut rng = randomly();
    for fields in [&["a"][..], &["a", "b"]] {
        let [whole, sparse] =
            [IndexPart::of_test(1, range_of(fields)), IndexPart::of_test(1, range_of(fields)).sparse()];
        for _ in 0..500 {
            let document = document(&mut rng, 0);
            let absent = fields.iter().all(|field| document.get(field).is_none());
            let (whole, sparse) = (of(&whole, &document).unwrap(), of(&sparse, &document).unwrap());
            assert!(!whole.terms.is_empty());
            assert_eq!(sparse.terms, if absent { Terms::new() } else { whole.terms }, "{document}");
        }
    }
}

#[test]
fn each_entry_carries_the_numbers_of_its_document_and_their_sum_is_that_of_all() {
    let mut rng = randomly();
    let PhysicalIndex::Range { protocol, equal, range, width, typed, .. } = range_of(&["a"]) else {
        unreachable!()
    };
    let aggregates = Some(vec!["b".to_owned(), "c.a".to_owned()]);
    let part =
        IndexPart::of_test(1, PhysicalIndex::Range { protocol, equal, range, width, typed, aggregates });
    let (mut sums, mut expected) = (vec![NumberSum::default(); 2], [0_f64; 2]);
    for _ in 0..1_000 {
        let document = document(&mut rng, 2);
        let found = of(&part, &document).unwrap();
        for (place, path) in [&["b"][..], &["c", "a"]].into_iter().enumerate() {
            let number = match path::exact(&document, path) {
                Some(Bson::Int32(number)) => f64::from(*number),
                Some(Bson::Int64(number)) => *number as f64,
                Some(Bson::Double(number)) => *number,
                _ => 0.0,
            };
            expected[place] += number;
        }
        assert!(found.terms.values().all(|summed| Some(summed) == found.terms.values().next()));
        let one = found.terms.into_values().next().unwrap();
        assert_eq!(one.len(), 2);
        sums.iter_mut().zip(&one).for_each(|(sum, one)| sum.merge(one));
    }
    let found: Vec<f64> = sums.iter().map(|sum| sum.finish().as_f64()).collect();
    assert_eq!(found, expected);
    let without = IndexPart::of_test(1, range_of(&["a"]));
    assert!(
        of(&without, &doc! { "a": rng.random::<i32>(), "b": 1 }).unwrap().terms.values().all(Vec::is_empty)
    );
}
