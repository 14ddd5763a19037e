//! CLOZ through the body of all schemes, and its calls. Its leakage is tested beside it.

use crate::body::{Subject, WIDTHS, index_key, test_body};
use arras_primitives::meter::{self, Primitive};
use arras_primitives::prg::Prg;
use arras_protocol::ore::Width;
use arras_schemes::ore::OrderScheme;
use arras_schemes::ore::cloz::Cloz;
use arras_server::ore::compare;

// Few values: a comparison takes tens of milliseconds.
const SUBJECT: Subject = Subject {
    make: |index, width| Box::new(Cloz::new(index, width)),
    widths: WIDTHS,
    values_max: 3,
    hides_equality: false,
};

test_body!(SUBJECT);

/// The paper's table 4: 32 PRF, 32 hashes and 1 permutation an encryption; 1,046 tests a comparison on average. Here
/// both sides of a hash are made apart, so hashes and permutations are twice as many; and equal plaintexts, which
/// take all 2 * 32 * 32 tests, show how many there are.
#[test]
fn calls_are_those_of_the_table() {
    let (mut scheme, mut prg) = (Cloz::new(&index_key(1), Width::Bits32), Prg::new(&[1; 16]));
    let before = meter::reading();
    let made = scheme.encrypt(7, &mut prg).expect("in the domain");
    let calls = meter::reading() - before;
    assert_eq!(calls.of(Primitive::Prf), 32);
    assert_eq!(calls.of(Primitive::PphHash), 2 * 32);
    assert_eq!(calls.of(Primitive::Prp), 2);
    assert_eq!(calls.of(Primitive::Symmetric), 1);
    let before = meter::reading();
    compare(scheme.scheme(), &made.query, &made.stored).expect("made by the scheme");
    assert_eq!((meter::reading() - before).of(Primitive::PphTest), 2 * 32 * 32);
}
