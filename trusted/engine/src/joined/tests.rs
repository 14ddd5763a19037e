//! Which of the writes that wait are joined.
#![allow(clippy::unwrap_used)]

use super::*;
use bson::doc;

fn waiting(row: u8, bytes: usize) -> Waiting {
    let (done, _nobody) = oneshot::channel();
    let single = Single::Insert(Measured::known(doc! {}, bytes));
    Waiting { ticket: u64::from(row), row: RowId([row; RowId::BYTES]), single, done }
}

fn rows(writes: &[Waiting]) -> Vec<u8> {
    writes.iter().map(|write| write.row.0[0]).collect()
}

#[test]
fn each_rows_first_write_is_taken_and_its_later_ones_keep_their_order() {
    let joining = Joining::default();
    joining.waiting().extend([1, 2, 1, 3, 2, 1].map(|row| waiting(row, 1)));
    assert_eq!(rows(&joining.take()), [1, 2, 3]);
    joining.waiting().push_back(waiting(4, 1));
    let second = joining.take();
    assert_eq!(rows(&second), [1, 2, 4]);
    // Some that could not be dealt with come first again, before what was left.
    joining.put_back(second);
    assert_eq!(rows(joining.waiting().make_contiguous()), [1, 2, 4, 1]);
    assert_eq!(rows(&joining.take()), [1, 2, 4]);
    assert_eq!(rows(&joining.take()), [1]);
    assert!(joining.take().is_empty());
}

#[test]
fn joined_writes_are_bounded_in_number_and_bytes() {
    let joining = Joining::default();
    joining.waiting().extend((0..=JOINED_MAX as u8).map(|row| waiting(row, 1)));
    assert_eq!(joining.take().len(), JOINED_MAX);
    assert_eq!(rows(&joining.take()), [JOINED_MAX as u8]);
    joining.waiting().extend([1, 2, 3].map(|row| waiting(row, BYTES_MAX / 2 + 1)));
    assert_eq!(rows(&joining.take()), [1, 2]);
    assert_eq!(rows(&joining.take()), [3]);
}

#[test]
fn a_write_is_withdrawn_unless_somebody_has_taken_it_up() {
    let joining = Joining::default();
    joining.waiting().extend([1, 2, 3].map(|row| waiting(row, 1)));
    assert!(joining.withdraw(2));
    assert!(!joining.withdraw(2));
    assert_eq!(rows(&joining.take()), [1, 3]);
    assert!(!joining.withdraw(3));
}
