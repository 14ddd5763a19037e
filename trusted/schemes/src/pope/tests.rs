use super::element::{Elements, Kind, Number, Numbers, after, before};
use super::*;

fn elements(index: u8, key: u8, width: Width) -> Elements {
    Elements::new(IndexId([index; 8]), &Key::take_from(&mut [key; 32]), width)
}

fn seal(
    elements: &Elements,
    entries: &[(u64, RowId)],
    kind: Kind,
    sequence: u64,
) -> Result<Vec<u8>, IndexError> {
    let mut sealed = Vec::new();
    let numbers = Numbers::new(5, sequence, entries.len()).expect("there are more");
    elements.seal(entries, (kind, numbers), &mut Prg::new(&[2; 16]), &mut sealed)?;
    Ok(sealed)
}

#[test]
fn elements_are_ordered_by_value_and_ends_enclose_equal_ones() {
    let elements = elements(1, 1, Width::Bits64);
    let entries: Vec<_> = [3, 3, 3, 9, u64::MAX, 0].map(|value| (value, RowId([value as u8; 16]))).into();
    let sealed = seal(&elements, &entries, Kind::Insertion, 9).expect("in the domain");
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
    let sealed = seal(&elements(1, 1, Width::Bits32), &[(7, RowId([1; 16]))], Kind::Insertion, 1);
    let sealed = sealed.expect("in the domain");
    assert!(elements(1, 1, Width::Bits32).open(&sealed).is_ok());
    for other in [(2, 1, Width::Bits32), (1, 2, Width::Bits32), (1, 1, Width::Bits64)] {
        assert!(elements(other.0, other.1, other.2).open(&sealed).is_err());
    }
    assert!(elements(1, 1, Width::Bits32).open(&sealed[1..]).is_err());
}

#[test]
fn a_value_outside_the_width_is_the_callers_fault() {
    let sealed = seal(&elements(1, 1, Width::Bits32), &[(1 << 32, RowId([1; 16]))], Kind::Insertion, 1);
    assert!(matches!(sealed, Err(IndexError::Caller(_))));
}

#[test]
fn numbers_and_kinds_come_out_as_they_went_in_and_ascend_with_epoch_and_count() {
    let elements = elements(1, 1, Width::Bits32);
    let entries: Vec<_> = (0..40_u8).map(|number| (7, RowId([number; 16]))).collect();
    let mut numbers: Vec<Number> = Vec::new();
    for (kind, sequence) in [(Kind::Insertion, 3), (Kind::Tombstone, 1000)] {
        let opened = elements.open(&seal(&elements, &entries, kind, sequence).expect("in the domain"));
        for plain in opened.expect("as sealed").iter() {
            assert_eq!(plain.is_tombstone(), kind == Kind::Tombstone);
            numbers.push(elements.number(&plain));
        }
    }
    assert!(numbers.is_sorted_by(|one, next| one < next));
    assert!(numbers.iter().all(|number| number.epoch() == 5));
    let beyond = [(1 << 24, 0, 1), (3, (1 << 39) - 1, 1), (3, u64::MAX, 1)];
    assert!(
        beyond.into_iter().all(|(epoch, sequence, count)| Numbers::new(epoch, sequence, count).is_none())
    );
}

#[test]
fn ties_do_not_show_the_order_of_insertion() {
    // Of 1,000 equal values in a row about half stand before the one that came before.
    let elements = elements(1, 1, Width::Bits32);
    let entries: Vec<_> = (0..1000_u32).map(|number| (7, RowId(u128::from(number).to_be_bytes()))).collect();
    let opened = elements.open(&seal(&elements, &entries, Kind::Insertion, 0).expect("in the domain"));
    let ranks = opened.expect("as sealed").ranks();
    let descents = ranks.windows(2).filter(|two| two[0] > two[1]).count();
    assert!((430..570).contains(&descents), "{descents}");
}
