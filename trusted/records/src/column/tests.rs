use super::*;

const ID: [u8; 8] = [7; 8];

fn sealer(root: &Key, id: [u8; 8], padding: Padding) -> ColumnSealer {
    ColumnSealer::new(Declared { id, padding }, [(1, root)]).expect("a root")
}

#[test]
fn a_sealed_value_opens_to_itself_and_never_looks_the_same() {
    let root = Key::generate();
    for padding in [Padding::None, Padding::To(40), Padding::InSteps] {
        let column = sealer(&root, ID, padding);
        for value in [&b""[..], b"x", &[0; 40], &[0x80; 39], &[255; 40]] {
            let sealed = column.seal(value);
            assert_eq!(column.open(&sealed).expect("opens"), value);
            assert_ne!(column.seal(value), sealed);
        }
    }
}

#[test]
fn what_is_altered_moved_or_of_another_key_does_not_open() {
    let root = Key::generate();
    let column = sealer(&root, ID, Padding::To(8));
    let sealed = column.seal(b"secret");
    for at in 0..sealed.len() {
        let mut altered = sealed.clone();
        altered[at] ^= 1;
        assert!(column.open(&altered).is_err(), "byte {at}");
        assert!(column.open(&sealed[..at]).is_err(), "cut at {at}");
    }
    assert!(sealer(&root, [8; 8], Padding::To(8)).open(&sealed).is_err(), "another column");
    assert!(sealer(&Key::generate(), ID, Padding::To(8)).open(&sealed).is_err(), "another root");
}

#[test]
fn lengths_are_those_of_the_type() {
    let root = Key::generate();
    let lengths = |padding, values: std::ops::Range<usize>| {
        let column = sealer(&root, ID, padding);
        values.map(|bytes| column.seal(&vec![1; bytes]).len()).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(lengths(Padding::To(100), 0..101).len(), 1);
    assert_eq!(lengths(Padding::InSteps, 0..256).len(), 8);
    assert_eq!(lengths(Padding::None, 8..9).into_iter().next(), Some(4 + 12 + 16 + 8));
}

#[test]
fn equal_values_share_a_term_in_one_column_and_in_no_other() {
    let root = Key::generate();
    let (column, other) = (sealer(&root, ID, Padding::None), sealer(&root, [8; 8], Padding::None));
    assert_eq!(column.equality(b"a"), sealer(&root, ID, Padding::InSteps).equality(b"a"));
    assert_ne!(column.equality(b"a"), column.equality(b"b"));
    assert_ne!(column.equality(b"a"), other.equality(b"a"));
}

#[test]
fn a_new_root_seals_and_old_ones_open_and_terms_stay() {
    let (old, new) = (Key::generate(), Key::generate());
    let declared = [Declared { id: ID, padding: Padding::InSteps }];
    let before = ColumnSealers::new(declared, &[(1, &old)]).get(ID).expect("declared");
    let after = ColumnSealers::new(declared, &[(1, &old), (2, &new)]).get(ID).expect("declared");
    assert_eq!(after.open(&before.seal(b"value")).expect("opens"), b"value");
    assert!(before.open(&after.seal(b"value")).is_err(), "sealed under the new root");
    assert_eq!(before.equality(b"value"), after.equality(b"value"));
    assert!(ColumnSealers::new(declared, &[(1, &old)]).get([9; 8]).is_none());
}

#[test]
fn what_is_given_for_results_is_no_stored_value_and_opens_in_its_context_alone() {
    let root = Key::generate();
    for padding in [Padding::None, Padding::To(8), Padding::InSteps] {
        let column = sealer(&root, ID, padding);
        let given = column.seal_for(&[1; 32], b"secret");
        assert_eq!(column.open_for(&[1; 32], &given).expect("opens"), b"secret");
        assert_ne!(column.seal_for(&[1; 32], b"secret"), given);
        // Beside each version there might be.
        for sealed in [given.clone(), [&1_u32.to_be_bytes()[..], &given].concat()] {
            assert!(column.open(&sealed).is_err(), "as a stored value");
        }
        let stored = column.seal(b"secret");
        for sealed in [&stored[..], &stored[4..]] {
            assert!(column.open_for(&[1; 32], sealed).is_err(), "a stored value");
        }
        assert!(column.open_for(&[2; 32], &given).is_err(), "another context");
        assert!(sealer(&root, [!7; 8], padding).open_for(&[1; 32], &given).is_err(), "another column");
        assert!(sealer(&root, [!7; 8], padding).open(&given).is_err(), "a column of the id's complement");
        let mut altered = given.clone();
        altered[20] ^= 1;
        assert!(column.open_for(&[1; 32], &altered).is_err());
    }
}

#[test]
fn lengths_of_what_is_given_for_results_show_in_steps() {
    let root = Key::generate();
    let lengths = |padding, values: std::ops::Range<usize>| {
        let column = sealer(&root, ID, padding);
        let length = |bytes| column.seal_for(b"", &vec![1; bytes]).len();
        values.map(length).collect::<std::collections::BTreeSet<_>>().len()
    };
    // Of any type, also beside a column whose values have one length.
    assert_eq!(lengths(Padding::None, 0..256), 8);
    assert_eq!(lengths(Padding::InSteps, 0..256), 8);
    assert_eq!(lengths(Padding::To(100), 0..101), 1);
    assert_eq!(lengths(Padding::To(100), 128..255), 4);
}
