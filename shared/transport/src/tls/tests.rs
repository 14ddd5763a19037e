#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use super::*;
use rcgen::{CertificateParams, KeyPair};
use std::fs;

/// A file with so many certificates and, if it is asked for, a key behind them.
fn file(place: &Path, certificates: usize, with_key: bool) -> PathBuf {
    let path = place.join(format!("{certificates}-{with_key}.pem"));
    let key = KeyPair::generate().unwrap();
    let mut text = String::new();
    for number in 0..certificates {
        let params = CertificateParams::new(vec![format!("name-{number}")]).unwrap();
        text.push_str(&params.self_signed(&key).unwrap().pem());
    }
    if with_key {
        text.push_str(&key.serialize_pem());
    }
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn all_certificates_of_a_file_are_read_in_their_order() {
    let place = tempfile::tempdir().unwrap();
    for with_key in [false, true] {
        let path = file(place.path(), 3, with_key);
        let read = certificates(&path).unwrap();
        let names: Vec<bool> = (0..3)
            .map(|at| {
                let name = format!("name-{at}").into_bytes();
                read[at].windows(name.len()).any(|part| part == name)
            })
            .collect();
        assert_eq!(names, [true; 3]);
        assert_eq!(authorities(&path).unwrap().len(), 3);
    }
    private_key(&file(place.path(), 1, true)).unwrap();
}

#[test]
fn a_file_without_what_it_should_hold_is_named() {
    let place = tempfile::tempdir().unwrap();
    let none = place.path().join("none.pem");
    let no_certificate = file(place.path(), 0, true);
    let no_key = file(place.path(), 1, false);
    let garbled = place.path().join("garbled.pem");
    fs::write(&garbled, "-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n").unwrap();
    let no_authority = place.path().join("no-authority.pem");
    fs::write(&no_authority, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    let failures = [
        (&none, certificates(&none).unwrap_err()),
        (&garbled, certificates(&garbled).unwrap_err()),
        (&no_certificate, certificates(&no_certificate).unwrap_err()),
        (&no_authority, authorities(&no_authority).unwrap_err()),
        (&none, private_key(&none).unwrap_err()),
        (&no_key, private_key(&no_key).unwrap_err()),
    ];
    for (path, error) in failures {
        assert_eq!(&error.path, path);
        let said = error.to_string();
        assert!(said.starts_with(&format!("{}: ", path.display())) && said.len() > 10, "{said}");
    }
    assert!(certificates(&no_certificate).unwrap_err().what.contains("no certificate"));
}
