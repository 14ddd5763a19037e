#![allow(clippy::unwrap_used)]

use super::*;

fn names(fields: &[&str]) -> Vec<String> {
    fields.iter().map(|field| (*field).to_owned()).collect()
}

fn eq(fields: &[&str]) -> PhysicalIndex {
    PhysicalIndex::Eq { fields: names(fields) }
}

fn part_bytes(index: &PhysicalIndex) -> usize {
    index.layout().unwrap().part_bytes
}

fn range(fields: &[&str]) -> PhysicalIndex {
    PhysicalIndex::range(&names(fields), KeyWidth::Bits128, None).unwrap()
}

#[test]
fn long_compound_keys_are_narrowed_then_cut_to_fit() {
    assert_eq!(range(&["a"]).key_bytes(), Some(12));
    let five = range(&["a", "b", "c", "d", "e"]);
    assert_eq!((five.fields().len(), part_bytes(&five)), (5, 12));
    let six = range(&["a", "b", "c", "d", "e", "f"]);
    assert_eq!((six.fields().len(), part_bytes(&six)), (6, 8));
    let nine = range(&["a", "b", "c", "d", "e", "f", "g", "h", "i"]);
    assert_eq!((nine.fields().len(), part_bytes(&nine)), (7, 8));
    for index in [five, six, nine] {
        assert!(index.key_bytes().unwrap() + TIE_BREAK_BYTES <= KEY_BYTES_MAX);
    }
    assert_eq!(PhysicalIndex::range(&[], KeyWidth::Bits64, None), None);
}

#[test]
fn only_what_serves_as_much_stands_for_another() {
    assert!(range(&["a", "b"]).implies(&range(&["a"])));
    assert!(!range(&["a"]).implies(&range(&["a", "b"])));
    assert!(!range(&["b", "a"]).implies(&range(&["a"])));
    assert!(!eq(&["a", "b"]).implies(&eq(&["a"])) && !eq(&["a"]).implies(&eq(&["a", "b"])));
    assert!(eq(&["a", "b"]).implies(&eq(&["b", "a"])));
    assert!(!range(&["a"]).implies(&eq(&["a"])), "equality is not left to ArxRange");
    let unique = PhysicalIndex::Unique { fields: names(&["a"]) };
    assert!(unique.implies(&eq(&["a"])) && !eq(&["a"]).implies(&unique));
    let summing =
        |sums: &[&str]| PhysicalIndex::range(&names(&["a"]), KeyWidth::Bits128, Some(names(sums))).unwrap();
    assert!(summing(&[]).implies(&range(&["a"])) && !range(&["a"]).implies(&summing(&[])));
    assert!(summing(&["x", "y"]).implies(&summing(&["y"])) && !summing(&["x"]).implies(&summing(&["y"])));
    let narrow = PhysicalIndex::range(&names(&["a"]), KeyWidth::Bits64, None).unwrap();
    assert!(range(&["a"]).implies(&narrow) && !narrow.implies(&range(&["a"])));
}

#[test]
fn minimising_keeps_one_of_each_chain() {
    let all =
        vec![range(&["a"]), eq(&["a"]), range(&["a", "b"]), eq(&["a"]), eq(&["a", "b"]), range(&["a", "b"])];
    assert_eq!(minimise(all), [eq(&["a"]), range(&["a", "b"]), eq(&["a", "b"])]);
}
