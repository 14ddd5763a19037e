//! Pages of the smallest size, by hand.

use super::{Layout, Page};
use arras_protocol::Refusal;
use arras_protocol::ore::{Scheme, Width};

fn layout() -> Layout {
    Layout::new(Scheme::Plain(Width::Bits32), 11 + 3 * 44).expect("three entries fit")
}

fn entry(value: u32) -> Vec<u8> {
    [value.to_be_bytes().as_slice(), &[u8::try_from(value).unwrap_or(0); 32]].concat()
}

fn leaf(values: &[u32]) -> Page {
    let mut leaf = layout().empty_leaf();
    for value in values {
        leaf.insert(leaf.count(), &entry(*value));
    }
    leaf
}

fn inner(children: &[u64], separators: &[u32]) -> Page {
    let mut page = layout().inner(1, children[0]);
    for (child, separator) in children[1..].iter().zip(separators) {
        page.insert_child(page.count(), &entry(*separator), *child);
    }
    page
}

fn values(page: &Page) -> Vec<u32> {
    let value = |position| {
        let (stored, _) = page.entry(position).expect("an entry");
        u32::from_be_bytes(stored.try_into().expect("4 bytes"))
    };
    (0..page.count()).map(value).collect()
}

fn children(page: &Page) -> Vec<u64> {
    (0..=page.count()).map(|position| page.child(position).expect("a child")).collect()
}

#[test]
fn too_small_and_too_large_a_page_and_strange_parameters_are_refused() {
    let plain = Scheme::Plain(Width::Bits32);
    assert_eq!(Layout::new(plain, 143).expect("fits").inner_max, 3);
    for bytes in [0, 1, 111, 142] {
        let Err(Refusal::Malformed(why)) = Layout::new(plain, bytes) else { panic!("{bytes} bytes") };
        assert!(why.contains("at least 143"), "{why}");
    }
    let odd = Scheme::LewiWu { width: Width::Bits32, block_bits: 3 };
    assert!(matches!(Layout::new(odd, 4096), Err(Refusal::Malformed(_))));
    assert!(Layout::new(plain, u32::MAX).expect("counts are capped").leaf_max < usize::from(u16::MAX));
}

#[test]
fn records_go_in_and_out_at_any_position() {
    let mut page = leaf(&[2, 4]);
    page.insert(1, &entry(3));
    page.insert(0, &entry(1));
    page.insert(4, &entry(5));
    assert_eq!(values(&page), [1, 2, 3, 4, 5]);
    assert_eq!(page.take(1, 3), [entry(2), entry(3)].concat());
    assert_eq!(values(&page), [1, 4, 5]);
    assert_eq!(page.partition(|stored, _| Ok(stored < &4_u32.to_be_bytes()[..])), Ok(1));
    assert!(page.entry(3).is_err());
    assert!(page.child(0).is_err(), "a leaf has no children");
}

#[test]
fn a_leaf_splits_and_merges() {
    let mut left = leaf(&[1, 2, 3, 4]);
    let (separator, right) = left.split(2).expect("splits");
    assert_eq!((values(&left), separator, values(&right)), (vec![1, 2], entry(3), vec![3, 4]));
    left.merge(&entry(3), &right).expect("merges");
    assert_eq!(values(&left), [1, 2, 3, 4]);
}

#[test]
fn an_inner_page_splits_and_merges() {
    let mut left = inner(&[10, 11, 12, 13, 14], &[1, 2, 3, 4]);
    let (separator, right) = left.split(2).expect("splits");
    assert_eq!((values(&left), children(&left)), (vec![1, 2], vec![10, 11, 12]));
    assert_eq!((separator, values(&right), children(&right)), (entry(3), vec![4], vec![13, 14]));
    left.merge(&entry(3), &right).expect("merges");
    assert_eq!((values(&left), children(&left)), (vec![1, 2, 3, 4], vec![10, 11, 12, 13, 14]));
}

#[test]
fn what_is_no_page_is_damage() {
    let good = leaf(&[1, 2]).bytes().to_vec();
    assert!(Page::open(layout(), good.clone(), 0).is_ok());
    assert!(matches!(Page::open(layout(), good.clone(), 1), Err(Refusal::Damaged(_))));
    for length in 0..good.len() {
        assert!(matches!(Page::open(layout(), good[..length].to_vec(), 0), Err(Refusal::Damaged(_))));
    }
    for (place, byte) in [(0, 1), (1, 1), (2, 1), (2, 200)] {
        let mut bad = good.clone();
        bad[place] = byte;
        assert!(matches!(Page::open(layout(), bad, 0), Err(Refusal::Damaged(_))));
    }
    let over = leaf(&[1, 2, 3, 4, 5]).bytes().to_vec();
    assert!(Page::open(layout(), over, 0).is_err(), "more than the layout allows");
}

/// Another build may have made the index.
#[cfg(not(feature = "cloz"))]
#[test]
fn what_this_build_does_not_compare_is_said_to_take_another_one() {
    let scheme = Scheme::Cloz(Width::Bits32);
    let layout = Layout::new(scheme, 1 << 20).expect("three entries fit");
    let bytes = |length: Option<usize>| vec![0; length.expect("parameters of the scheme")];
    let refusal = layout.compare(&bytes(scheme.query_bytes()), &bytes(scheme.stored_bytes())).unwrap_err();
    assert!(refusal.to_string().contains("--features cloz"), "{refusal}");
}
