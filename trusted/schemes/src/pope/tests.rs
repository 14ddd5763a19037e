use super::element::{Elements, after, before};
use super::*;

fn elements(index: u8, key: u8, width: Width) -> Elements {
    Elements::new(IndexId([index; 8]), &Key::take_from(&mut [key; 32]), width)
}

#[test]
fn elements_are_ordered_by_value_and_ends_enclose_equal_ones() {
    let elements = elements(1, 1, Width::Bits64);
    let entries: Vec<_> = [3, 3, 3, 9, u64::MAX, 0].map(|value| (value, RowId([value as u8; 16]))).into();
    let sealed = elements.seal(&entries, &mut Prg::new(&[2; 16])).expect("in the domain");
    assert_eq!(sealed.len(), entries.len() * elements.sealed_bytes());
    let opened = elements.open(&sealed).expect("as sealed");
    let plain: Vec<_> = opened.iter().map(|plain| (plain.value, plain.row)).collect();
    assert_eq!(plain, entries);
    for (rank, (value, _)) in opened.ranks().into_iter().zip(entries) {
        assert!(before(value) <= rank && rank <= after(value));
    }
    let mut ranks = opened.ranks();
    ranks.sort_unstable();
    ranks.dedup();
    assert_eq!(ranks.len(), 6, "equal values have ties of their own");
}

#[test]
fn elements_of_another_index_key_or_width_do_not_open() {
    let sealed = elements(1, 1, Width::Bits32).seal(&[(7, RowId([1; 16]))], &mut Prg::new(&[2; 16]));
    let sealed = sealed.expect("in the domain");
    assert!(elements(1, 1, Width::Bits32).open(&sealed).is_ok());
    for other in [(2, 1, Width::Bits32), (1, 2, Width::Bits32), (1, 1, Width::Bits64)] {
        assert!(elements(other.0, other.1, other.2).open(&sealed).is_err());
    }
    assert!(elements(1, 1, Width::Bits32).open(&sealed[1..]).is_err());
}

#[test]
fn a_value_outside_the_width_is_the_callers_fault() {
    let sealed = elements(1, 1, Width::Bits32).seal(&[(1 << 32, RowId([1; 16]))], &mut Prg::new(&[2; 16]));
    assert!(matches!(sealed, Err(IndexError::Caller(_))));
}
