#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::connection::tls::{CertificatePaths, TlsError, client_config};
use arras_certificates::Certificate;
use arras_transport::tls::FileError;
use std::os::unix::fs::PermissionsExt;

/// Some day in 2026.
const NOW: u64 = 1_780_000_000;

fn files(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn each_side_gets_its_files_and_only_those() {
    let directory = tempfile::tempdir().unwrap();
    let (proxy, server) = (directory.path().join("p"), directory.path().join("s"));
    create(&proxy, &server, NOW).unwrap();
    assert_eq!(files(&proxy), ["ca.key", "ca.pem", "proxy.key", "proxy.pem"]);
    assert_eq!(files(&server), ["ca.pem", "server.key", "server.pem"]);
    for path in [proxy.join("ca.key"), proxy.join("proxy.key"), server.join("server.key")] {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    client_config(&CertificatePaths::in_directory(&proxy)).unwrap();
}

#[test]
fn nothing_is_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let (proxy, server) = (directory.path().join("p"), directory.path().join("s"));
    create(&proxy, &server, NOW).unwrap();
    let before = fs::read(proxy.join("ca.key")).unwrap();
    assert!(matches!(create(&proxy, &server, NOW), Err(CertificateError::Exists(_))));
    assert_eq!(fs::read(proxy.join("ca.key")).unwrap(), before);
}

#[test]
fn renewal_keeps_the_authority_and_changes_the_rest() {
    let directory = tempfile::tempdir().unwrap();
    let (proxy, server) = (directory.path().join("p"), directory.path().join("s"));
    create(&proxy, &server, NOW).unwrap();
    let read = |path: &Path| fs::read(path).unwrap();
    let kept = [proxy.join("ca.pem"), proxy.join("ca.key"), server.join("ca.pem")];
    let renewed = [
        proxy.join("proxy.pem"),
        proxy.join("proxy.key"),
        server.join("server.pem"),
        server.join("server.key"),
    ];
    let before: Vec<_> = kept.iter().chain(&renewed).map(|path| read(path)).collect();
    renew(&proxy, &server, Wish::Renew, NOW + 1).unwrap();
    let after: Vec<_> = kept.iter().chain(&renewed).map(|path| read(path)).collect();
    assert_eq!(before[..3], after[..3]);
    for (before, after) in before[3..].iter().zip(&after[3..]) {
        assert_ne!(before, after);
    }
    assert_eq!(files(&server).len(), 3, "nothing temporary is left");
}

#[test]
fn renewal_without_the_authority_names_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let (proxy, server) = (directory.path().join("p"), directory.path().join("s"));
    create(&proxy, &server, NOW).unwrap();
    fs::write(proxy.join("ca.key"), "not a key").unwrap();
    let error = renew(&proxy, &server, Wish::Renew, NOW).unwrap_err().to_string();
    assert!(error.contains("ca.key"), "{error}");
}

#[test]
fn broken_files_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let (proxy, server) = (directory.path().join("p"), directory.path().join("s"));
    create(&proxy, &server, NOW).unwrap();
    let paths = CertificatePaths::in_directory(&proxy);
    for path in [&paths.authority, &paths.certificate, &paths.private] {
        let before = fs::read(path).unwrap();
        for content in ["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            fs::write(path, content).unwrap();
            let error = client_config(&paths).unwrap_err();
            let named = match &error {
                TlsError::File(FileError { path: named, .. }) => named == path,
                TlsError::Unfit(_) => *path == paths.certificate,
            };
            assert!(named, "{error}");
        }
        fs::write(path, before).unwrap();
    }
    client_config(&paths).unwrap();
}

#[test]
fn a_certificate_with_anothers_key_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (proxy, server) = (directory.path().join("p"), directory.path().join("s"));
    create(&proxy, &server, NOW).unwrap();
    fs::copy(server.join("server.key"), proxy.join("proxy.key")).unwrap();
    let error = client_config(&CertificatePaths::in_directory(&proxy)).unwrap_err();
    assert!(matches!(error, TlsError::Unfit(_)), "{error}");
}

/// Copies of files; none of one that is not there.
fn copies(paths: &[PathBuf]) -> Vec<Option<Vec<u8>>> {
    paths.iter().map(|path| fs::read(path).ok()).collect()
}

fn put_back(path: &Path, copy: Option<&Vec<u8>>) {
    let _ = fs::remove_file(path);
    if let Some(copy) = copy {
        fs::write(path, copy).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }
}

/// After each file that it writes, in turn.
#[test]
fn a_new_authority_that_was_interrupted_is_completed_by_asking_for_it_again() {
    let directory = tempfile::tempdir().unwrap();
    let (proxy, server) = (directory.path().join("p"), directory.path().join("s"));
    create(&proxy, &server, NOW).unwrap();
    let of_proxy = ["proxy.former.key", "proxy.former.pem", "ca.pem", "ca.key"].map(|name| proxy.join(name));
    let of_server = ["ca.pem", "server.key", "server.pem"].map(|name| server.join(name));
    let last = ["proxy.key", "proxy.pem"].map(|name| proxy.join(name));
    let written: Vec<PathBuf> = of_proxy.into_iter().chain(of_server).chain(last).collect();
    let before = copies(&written);
    renew(&proxy, &server, Wish::NewAuthority, NOW).unwrap();
    let after = copies(&written);
    assert!(before.iter().zip(&after).all(|(before, after)| before != after), "it writes each of them");
    for interrupted in 0..=written.len() {
        for (at, path) in written.iter().enumerate() {
            put_back(path, if at < interrupted { after[at].as_ref() } else { before[at].as_ref() });
        }
        let complete = interrupted == written.len();
        if (2..written.len()).contains(&interrupted) {
            let outcome = renew(&proxy, &server, Wish::Finish, NOW);
            assert!(matches!(outcome, Err(CertificateError::Authority { .. })), "{interrupted}: {outcome:?}");
        }
        let outcome = renew(&proxy, &server, Wish::NewAuthority, NOW);
        match outcome {
            Err(CertificateError::Overlap(_)) => assert!(complete, "after {interrupted} files"),
            outcome => assert!(outcome.is_ok() && !complete, "after {interrupted} files: {outcome:?}"),
        }
        client_config(&CertificatePaths::in_directory(&proxy)).unwrap();
        let own = Certificate::read_all(&proxy.join("proxy.pem")).unwrap().remove(0);
        let newest = Certificate::read_all(&proxy.join("ca.pem")).unwrap().remove(0);
        assert_eq!(own.issuer_name, newest.subject_name, "after {interrupted} files");
        // The end needs no key of an authority.
        fs::remove_file(proxy.join("ca.key")).unwrap();
        renew(&proxy, &server, Wish::Finish, NOW).unwrap();
        assert_eq!(Certificate::read_all(&proxy.join("ca.pem")).unwrap().len(), 1);
        assert!(!proxy.join("proxy.former.pem").exists());
        client_config(&CertificatePaths::in_directory(&proxy)).unwrap();
    }
}
