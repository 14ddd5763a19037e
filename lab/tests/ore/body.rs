//! What every scheme must do, whatever it is made of. [`test_body`] makes a test of each function here.

use arras_keys::Key;
use arras_primitives::prg::Prg;
use arras_protocol::ore::{Scheme, Width};
use arras_schemes::OpenFailed;
use arras_schemes::ore::domain::Domain;
use arras_schemes::ore::{EncryptFailed, End, OrderScheme};
use arras_server::ore::compare;
use std::cmp::Ordering;

/// A scheme under test.
pub(crate) struct Subject {
    /// A new client half under an index's key, without state.
    pub(crate) make: fn(&Key, Width) -> Box<dyn OrderScheme>,
    /// Widths to test.
    pub(crate) widths: &'static [Width],
    /// Values in a test, at least 3: fewer for a slow scheme. Comparisons grow with its square.
    pub(crate) values_max: usize,
    /// Whether equal values get different ciphertexts, which only the client's state can open.
    pub(crate) hides_equality: bool,
}

/// Both widths.
pub(crate) const WIDTHS: &[Width] = &[Width::Bits32, Width::Bits64];

/// The tests of a scheme: `test_body!(SUBJECT);` in its module.
macro_rules! test_body {
    ($subject:expr) => {
        crate::body::test_body!($subject;
            order_is_that_of_the_values equality_and_repetition decryption_gives_the_values
            bounds_enclose_what_they_should the_domain_has_ends signed_numbers_keep_their_order
            another_key_opens_nothing lengths_are_checked altered_ciphertexts_do_not_pass_for_themselves
            runs_replay_from_a_seed forgetting_disturbs_nothing);
    };
    ($subject:expr; $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                crate::body::$name(&$subject);
            }
        )*
    };
}
pub(crate) use test_body;

/// An index's key, of the lab's own.
pub(crate) fn index_key(byte: u8) -> Key {
    Key::take_from(&mut [byte; Key::BYTES])
}

/// A client half and what it has stored, as an index would keep it.
struct Stored {
    client: Box<dyn OrderScheme>,
    scheme: Scheme,
    prg: Prg,
    /// Value and ciphertext.
    entries: Vec<(u64, Vec<u8>)>,
}

impl Stored {
    fn new(subject: &Subject, width: Width) -> Self {
        let client = (subject.make)(&index_key(1), width);
        let scheme = client.scheme();
        assert_eq!(scheme.width(), width);
        Self { client, scheme, prg: Prg::new(&[2; 16]), entries: Vec::new() }
    }

    fn with(subject: &Subject, width: Width, values: &[u64]) -> Self {
        let mut stored = Self::new(subject, width);
        for value in values {
            stored.insert(*value);
        }
        stored
    }

    /// Encrypts and stores a value; returns the query ciphertext that came with it.
    fn insert(&mut self, value: u64) -> Vec<u8> {
        let made = self.client.encrypt(value, &mut self.prg).expect("within the domain");
        for (old, new) in made.replaced {
            let entry = self.entries.iter_mut().find(|(_, stored)| *stored == old).expect("was stored");
            entry.1 = new;
        }
        assert_eq!(Some(made.stored.len()), self.scheme.stored_bytes());
        assert_eq!(Some(made.query.len()), self.scheme.query_bytes());
        self.entries.push((value, made.stored));
        made.query
    }

    fn compare(&self, query: &[u8], stored: &[u8]) -> Ordering {
        compare(self.scheme, query, stored).expect("made by the scheme")
    }
}

/// Values at the ends and the middle of the domain, neighbours, pairs that differ in one bit, and random ones; not
/// in order.
pub(crate) fn values(width: Width, values_max: usize) -> Vec<u64> {
    let greatest = width.greatest();
    let mut values = vec![greatest / 2 + 1, greatest, 0, greatest / 2, 1, greatest - 1, greatest / 3];
    values.extend((0..width.bits()).step_by(3).map(|bit| (greatest / 3) ^ (1 << bit)));
    let mut prg = Prg::new(&[3; 16]);
    values.extend((0..values_max).map(|_| prg.next_u64() & greatest));
    values.truncate(values_max);
    values
}

/// A query compares with all that is stored as the values do.
pub(crate) fn order_is_that_of_the_values(subject: &Subject) {
    for width in subject.widths {
        let mut stored = Stored::new(subject, *width);
        for value in values(*width, subject.values_max) {
            let query = stored.insert(value);
            for (other, ciphertext) in &stored.entries {
                if value != *other || !subject.hides_equality {
                    assert_eq!(stored.compare(&query, ciphertext), value.cmp(other), "{value} and {other}");
                }
            }
        }
    }
}

/// Equal values compare as equal; or, where equality is hidden, their ciphertexts differ and both open.
pub(crate) fn equality_and_repetition(subject: &Subject) {
    for width in subject.widths {
        let some = &values(*width, subject.values_max.min(8))[..3];
        let mut stored = Stored::with(subject, *width, some);
        for value in some {
            let query = stored.insert(*value);
            let of_value = |(other, _): &&(u64, Vec<u8>)| other == value;
            let twins: Vec<&Vec<u8>> = stored.entries.iter().filter(of_value).map(|(_, twin)| twin).collect();
            assert_eq!(twins.len(), 2);
            for twin in &twins {
                assert_eq!(stored.client.decrypt(twin), Ok(*value));
            }
            if subject.hides_equality {
                assert_ne!(twins[0], twins[1]);
            } else {
                assert_eq!(stored.compare(&query, twins[0]), Ordering::Equal);
            }
        }
    }
}

/// What is stored decrypts.
pub(crate) fn decryption_gives_the_values(subject: &Subject) {
    for width in subject.widths {
        let stored = Stored::with(subject, *width, &values(*width, subject.values_max));
        for (value, ciphertext) in &stored.entries {
            assert_eq!(stored.client.decrypt(ciphertext), Ok(*value));
        }
    }
}

/// Both ends of a range, at stored values (twice each) and beside them.
pub(crate) fn bounds_enclose_what_they_should(subject: &Subject) {
    for width in subject.widths {
        let some = values(*width, subject.values_max.min(12));
        let twice: Vec<u64> = if subject.values_max < 12 { some.clone() } else { some.repeat(2) };
        let mut stored = Stored::with(subject, *width, &twice);
        let beside = some.iter().map(|value| value.wrapping_add(5) & width.greatest());
        let asked: Vec<u64> = some.iter().copied().chain(beside).take(subject.values_max.max(4)).collect();
        for value in asked {
            let mut bound =
                |end| stored.client.bound(value, end, &mut stored.prg).expect("within the domain");
            let (lower, upper) = (bound(End::Lower), bound(End::Upper));
            assert_eq!(Some(lower.len()), stored.scheme.query_bytes());
            for (other, ciphertext) in &stored.entries {
                let is_from = stored.compare(&lower, ciphertext) != Ordering::Greater;
                assert_eq!(is_from, *other >= value, "lower bound {value} and {other}");
                let is_until = stored.compare(&upper, ciphertext) != Ordering::Less;
                assert_eq!(is_until, *other <= value, "upper bound {value} and {other}");
            }
        }
    }
}

/// The smallest and the greatest value are encrypted, those beyond are refused.
pub(crate) fn the_domain_has_ends(subject: &Subject) {
    for width in subject.widths {
        let mut stored = Stored::with(subject, *width, &[width.greatest(), 0]);
        for (value, ciphertext) in &stored.entries {
            assert_eq!(stored.client.decrypt(ciphertext), Ok(*value));
        }
        if *width == Width::Bits32 {
            for value in [1 << 32, u64::MAX] {
                let refused = Err(EncryptFailed::OutsideDomain);
                assert_eq!(stored.client.encrypt(value, &mut stored.prg), refused);
                for end in [End::Lower, End::Upper] {
                    assert_eq!(
                        stored.client.bound(value, end, &mut stored.prg),
                        Err(EncryptFailed::OutsideDomain)
                    );
                }
            }
        }
    }
}

/// Negative numbers come before positive ones.
pub(crate) fn signed_numbers_keep_their_order(subject: &Subject) {
    for (domain, numbers) in [
        (Domain::I32, [-1, 0, i32::MIN.into(), i32::MAX.into(), -5, 1]),
        (Domain::I64, [-1, 0, i64::MIN.into(), i64::MAX.into(), -5, 1]),
    ] {
        if !subject.widths.contains(&domain.width) {
            continue;
        }
        let mut stored = Stored::new(subject, domain.width);
        let number = |value| domain.number(value).expect("within the domain");
        for signed in &numbers[..subject.values_max.min(6)] {
            let query = stored.insert(domain.plaintext(*signed).expect("within the domain"));
            for (other, ciphertext) in &stored.entries {
                if number(*other) != *signed {
                    assert_eq!(stored.compare(&query, ciphertext), signed.cmp(&number(*other)));
                }
                assert_eq!(stored.client.decrypt(ciphertext).map(number), Ok(number(*other)));
            }
        }
    }
}

/// Another index's key opens nothing.
pub(crate) fn another_key_opens_nothing(subject: &Subject) {
    for width in subject.widths {
        let stored = Stored::with(subject, *width, &values(*width, subject.values_max.min(20)));
        let other = (subject.make)(&index_key(9), *width);
        for (value, ciphertext) in &stored.entries {
            assert_eq!(other.decrypt(ciphertext), Err(OpenFailed), "{value}");
        }
    }
}

/// Too short, too long, empty: refused on both sides.
pub(crate) fn lengths_are_checked(subject: &Subject) {
    for width in subject.widths {
        let mut stored = Stored::new(subject, *width);
        let query = stored.insert(5);
        let (_, ciphertext) = &stored.entries[0];
        let longer = |bytes: &[u8]| [bytes, &[0]].concat();
        for wrong in [&[][..], &ciphertext[1..], &longer(ciphertext)] {
            assert_eq!(stored.client.decrypt(wrong), Err(OpenFailed));
            assert!(compare(stored.scheme, &query, wrong).is_err());
        }
        for wrong in [&[][..], &query[1..], &longer(&query)] {
            assert!(compare(stored.scheme, wrong, ciphertext).is_err());
        }
    }
}

/// A flipped bit never leaves the value as it was, and most flips are noticed. Whatever bytes are compared, there is
/// an answer or an error.
pub(crate) fn altered_ciphertexts_do_not_pass_for_themselves(subject: &Subject) {
    for width in subject.widths {
        let mut stored = Stored::new(subject, *width);
        let value = width.greatest() / 5;
        let query = stored.insert(value);
        let (_, ciphertext) = stored.entries[0].clone();
        let flips = ciphertext.len() * 8;
        let (mut noticed, mut tried) = (0, 0);
        for flip in (0..flips).step_by(flips.div_ceil(16 * subject.values_max)) {
            let mut altered = ciphertext.clone();
            altered[flip / 8] ^= 1 << (flip % 8);
            let opened = stored.client.decrypt(&altered);
            assert_ne!(opened, Ok(value), "bit {flip}");
            noticed += usize::from(opened.is_err());
            tried += 1;
            if tried <= subject.values_max {
                let _ = compare(stored.scheme, &query, &altered);
            }
        }
        assert!(noticed > tried / 2, "{noticed} of {tried}");
        let _ = compare(stored.scheme, &vec![0xff; query.len()], &ciphertext);
        let _ = compare(stored.scheme, &query, &vec![0xff; ciphertext.len()]);
        let _ = compare(stored.scheme, &vec![0; query.len()], &vec![0; ciphertext.len()]);
        assert_ne!(stored.client.decrypt(&vec![0xff; ciphertext.len()]), Ok(value));
    }
}

/// The same key, seed and values give the same ciphertexts.
pub(crate) fn runs_replay_from_a_seed(subject: &Subject) {
    let values = values(subject.widths[0], subject.values_max.min(10));
    let [first, second] = [(); 2].map(|()| Stored::with(subject, subject.widths[0], &values).entries);
    assert_eq!(first, second);
}

/// After one of two equal values is forgotten, the rest opens and keeps its order.
pub(crate) fn forgetting_disturbs_nothing(subject: &Subject) {
    let width = subject.widths[0];
    let mut some = values(width, subject.values_max.min(10));
    some.push(some[0]);
    let mut stored = Stored::with(subject, width, &some);
    let (_, gone) = stored.entries.remove(0);
    stored.client.forget(&gone);
    stored.client.forget(&[0xee; 3]);
    for (value, ciphertext) in &stored.entries {
        assert_eq!(stored.client.decrypt(ciphertext), Ok(*value));
    }
    let query = stored.insert(7);
    for (other, ciphertext) in &stored.entries[..subject.values_max.min(3)] {
        assert_eq!(stored.compare(&query, ciphertext), 7.cmp(other));
    }
}
