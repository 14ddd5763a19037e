//! Tokens, labels and searches; what tests of the half stand on.

pub(super) mod world;

use super::*;

fn occurrences(count: u32) -> Occurrences {
    let mut occurrences = Occurrences::new(&mut rand::rng());
    (0..count).for_each(|_| assert!(occurrences.take().is_some()));
    occurrences
}

#[test]
fn tokens_are_logarithmic_and_name_no_later_entry() {
    let index = ArxEq::new(IndexId([1; 8]), &Key::generate());
    for count in [0_u32, 1, 2, 3, 7, 8, 100, 1000] {
        let tokens = index.tokens(b"flu", &occurrences(count));
        assert_eq!(tokens.len(), count.count_ones() as usize);
        assert_eq!(covered(&tokens), u64::from(count));
    }
}

#[test]
fn tokens_cover_the_runs_and_nothing_else() {
    let index = ArxEq::new(IndexId([1; 8]), &Key::generate());
    let mut occurrences = occurrences(1000);
    (0..300).chain([500, 999]).for_each(|counter| assert!(occurrences.release(counter)));
    let found: Vec<Label> = index
        .tokens(b"flu", &occurrences)
        .iter()
        .flat_map(|token| ggm::expand(&token.node, token.height, 1 << token.height))
        .map(|leaf| Label(ggm::leaf_label(&leaf)))
        .collect();
    let label = |counter| match index.insert(b"flu", occurrences.salt(), counter, RowId([0; 16])) {
        Change::Insert { label, .. } => label,
        other => unreachable!("insert makes an insert: {other:?}"),
    };
    let expected: Vec<Label> = (300..500).chain(501..999).map(label).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_value_of_many_occurrences_is_searched_in_parts() {
    let index = ArxEq::new(IndexId([1; 8]), &Key::generate());
    let values: Vec<Occurrences> = [2_600_000_u32, 1, 0, 999_999, 700_000].map(occurrences).into();
    let tokens: Vec<Vec<SearchToken>> =
        values.iter().map(|occurrences| index.tokens(b"flu", occurrences)).collect();
    for (occurrences, tokens) in values.iter().zip(&tokens).filter(|(value, _)| value.live() > 0) {
        let ends = [(tokens.first(), 0), (tokens.last(), occurrences.next() - 1)];
        for (token, counter) in ends {
            let token = token.expect("there are tokens");
            let mut leaves = ggm::expand(&token.node, token.height, 1 << token.height);
            let leaf = if counter == 0 { leaves.next() } else { leaves.last() }.expect("covers a leaf");
            let Change::Insert { label, .. } =
                index.insert(b"flu", occurrences.salt(), counter, RowId([0; 16]))
            else {
                unreachable!("insert makes an insert");
            };
            assert_eq!(label, Label(ggm::leaf_label(&leaf)));
        }
    }
    let searches = searches(tokens.clone());
    for search in &searches {
        let all: u64 = search.iter().map(|tokens| covered(tokens)).sum();
        assert!(all > 0 && all <= STEPS_MAX as u64);
    }
    assert_eq!(searches.concat().concat(), tokens.concat());
    assert!(searches.len() >= 5, "4.3 million counters");
}

#[test]
fn every_occurrence_has_its_own_label_and_removal_finds_it() {
    let index = ArxEq::new(IndexId([1; 8]), &Key::generate());
    let mut labels = std::collections::BTreeSet::new();
    // A value that comes back has another salt: it shares no label with what it was.
    for (value, salt) in [(b"flu".as_slice(), Salt([1; 8])), (b"gout", Salt([1; 8])), (b"flu", Salt([2; 8]))]
    {
        for counter in 0..50 {
            let Change::Insert { label, .. } = index.insert(value, salt, counter, RowId([0; 16])) else {
                unreachable!("insert makes an insert");
            };
            assert!(labels.insert(label));
            let removal = Change::Remove { index: IndexId([1; 8]), label };
            assert_eq!(index.remove(value, salt, counter), removal);
        }
    }
}
