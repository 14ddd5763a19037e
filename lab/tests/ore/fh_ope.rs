//! FH-OPE through the body of all schemes, and its calls. Its leakage and its own behaviour are tested beside it.

use crate::body::{Subject, WIDTHS, test_body};
use arras_primitives::meter::{self, Primitive};
use arras_primitives::prg::Prg;
use arras_protocol::ore::Width;
use arras_schemes::ore::fh_ope::FhOpe;
use arras_schemes::ore::{End, OrderScheme};

const SUBJECT: Subject = Subject {
    make: |_, width| Box::new(FhOpe::new(width)),
    widths: WIDTHS,
    values_max: 60,
    hides_equality: true,
};

test_body!(SUBJECT);

#[test]
fn each_operation_is_one_traversal() {
    let (mut scheme, mut prg) = (FhOpe::new(Width::Bits32), Prg::new(&[1; 16]));
    let traversals = |operation: &mut dyn FnMut()| {
        let before = meter::reading();
        operation();
        (meter::reading() - before).of(Primitive::Traversal)
    };
    let mut stored = Vec::new();
    for _ in 0..100 {
        let mut encrypt = || stored = scheme.encrypt(7, &mut prg).expect("room").stored;
        assert_eq!(traversals(&mut encrypt), 1);
    }
    assert_eq!(traversals(&mut || assert_eq!(scheme.decrypt(&stored), Ok(7))), 1);
    assert_eq!(traversals(&mut || assert!(scheme.bound(7, End::Lower, &mut prg).is_ok())), 1);
}
