#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::configuration::{Configuration, LogFormat};
use crate::connection::tls::{CertificatePaths, client_config};
use arras_keys::create_key_file;
use std::os::unix::fs::PermissionsExt;

/// Some day in 2026.
const NOW: u64 = 1_780_000_000;

fn choices(key_file: &Path) -> Choices {
    Choices {
        unlock: Unlock::KeyFile(key_file.to_path_buf()),
        listen: "127.0.0.1:27017".into(),
        server: "db\"internal\":7411".into(),
        data_dir: "state".into(),
    }
}

#[test]
fn what_init_makes_can_be_used() {
    let place = tempfile::tempdir().unwrap();
    let key_file = place.path().join("unlock.key");
    create_key_file(&key_file).unwrap();
    let directory = place.path().join("new").join("arras");
    let layout = init(&directory, choices(&key_file), NOW).unwrap();

    let read = Configuration::read(&layout.configuration).unwrap();
    assert_eq!(read.listen, "127.0.0.1:27017");
    assert_eq!(read.server.address, "db\"internal\":7411");
    assert_eq!(read.server.certificates, layout.certificates);
    assert_eq!(read.server.deadline_seconds, 30);
    assert_eq!(read.data_dir, directory.join("state"));
    assert_eq!(read.keyring.path, layout.keyring);
    assert_eq!(read.keyring.key_file, Some(key_file));
    assert_eq!((read.schema, read.log_format), (None, LogFormat::Text));

    let unlock = Unlock::KeyFile(read.keyring.key_file.unwrap());
    assert_eq!(Keyring::open(&read.keyring.path, unlock).unwrap().current().0, 1);
    client_config(&CertificatePaths::in_directory(&read.server.certificates)).unwrap();
    assert!(layout.server.join("server.key").exists());
    let mode = fs::metadata(&directory).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o700);
}

#[test]
fn a_directory_with_something_in_it_is_left_alone() {
    let place = tempfile::tempdir().unwrap();
    let key_file = place.path().join("unlock.key");
    create_key_file(&key_file).unwrap();
    let tried = init(place.path(), choices(&key_file), NOW);
    assert!(matches!(tried, Err(InitError::NotEmpty(_))));
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
}

#[test]
fn an_open_directory_is_closed() {
    let place = tempfile::tempdir().unwrap();
    let key_file = place.path().join("unlock.key");
    create_key_file(&key_file).unwrap();
    let directory = place.path().join("arras");
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
    let layout = init(&directory, choices(&key_file), NOW).unwrap();
    for made in [&directory, &layout.certificates, &layout.server] {
        assert_eq!(fs::metadata(made).unwrap().permissions().mode() & 0o777, 0o700, "{}", made.display());
    }
}

#[test]
fn a_key_that_others_may_read_is_refused_with_the_command_to_run() {
    let place = tempfile::tempdir().unwrap();
    let key_file = place.path().join("unlock.key");
    create_key_file(&key_file).unwrap();
    let layout = init(&place.path().join("arras"), choices(&key_file), NOW).unwrap();
    let private = layout.certificates.join("proxy.key");
    fs::set_permissions(&private, fs::Permissions::from_mode(0o640)).unwrap();
    let refused = client_config(&CertificatePaths::in_directory(&layout.certificates)).unwrap_err();
    assert!(refused.to_string().contains(&format!("chmod 600 {}", private.display())), "{refused}");
}

#[test]
fn a_failed_init_leaves_nothing_behind() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("arras");
    let tried = init(&directory, choices(&place.path().join("no such key file")), NOW);
    assert!(matches!(tried, Err(InitError::Keyring(_))), "{tried:?}");
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
}

#[test]
fn an_unknown_setting_is_named() {
    let place = tempfile::tempdir().unwrap();
    let key_file = place.path().join("unlock.key");
    create_key_file(&key_file).unwrap();
    let layout = init(&place.path().join("arras"), choices(&key_file), NOW).unwrap();
    let text = fs::read_to_string(&layout.configuration).unwrap();
    fs::write(&layout.configuration, format!("lisen = 1\n{text}")).unwrap();
    let error = Configuration::read(&layout.configuration).unwrap_err().to_string();
    assert!(error.contains("lisen") && error.contains("arras.toml"), "{error}");
}
