#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use clap::CommandFactory;

fn parsed(flags: &[&str]) -> Result<Configuration, ConfigurationError> {
    let flags = std::iter::once("arras-server").chain(flags.iter().copied());
    Configuration::new(Arguments::try_parse_from(flags).unwrap())
}

#[test]
fn the_command_line_is_consistent() {
    Arguments::command().debug_assert();
}

#[test]
fn flags_alone_suffice() {
    let configuration = parsed(&["--data-dir", "d", "--certificates", "c"]).unwrap();
    assert_eq!(configuration.data_dir, Path::new("d"));
    assert_eq!(configuration.listen, DEFAULT_LISTEN);
    assert_eq!(configuration.certificates.private, Path::new("c/server.key"));
    assert_eq!(configuration.log_format, LogFormat::Text);
}

#[test]
fn flags_win_over_the_file_and_its_paths_are_relative_to_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("server.toml");
    std::fs::write(&path, "data_dir = 'd'\nlisten = '[::1]:1'\ncertificates = '/c'\nlog_format = 'json'\n")
        .unwrap();
    let configuration = parsed(&["--config", path.to_str().unwrap(), "--listen", "0.0.0.0:2"]).unwrap();
    assert_eq!(configuration.data_dir, directory.path().join("d"));
    assert_eq!(configuration.listen, "0.0.0.0:2");
    assert_eq!(configuration.certificates.authority, Path::new("/c/ca.pem"));
    assert_eq!(configuration.log_format, LogFormat::Json);
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    let missing = parsed(&["--certificates", "c"]).unwrap_err().to_string();
    assert!(missing.contains("--data-dir"), "{missing}");
    let missing = parsed(&["--data-dir", "d"]).unwrap_err().to_string();
    assert!(missing.contains("--certificates"), "{missing}");
    let missing = parsed(&["--config", "/nowhere/x.toml"]).unwrap_err().to_string();
    assert!(missing.contains("/nowhere/x.toml"), "{missing}");

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("server.toml");
    std::fs::write(&path, "data_directory = 'd'\n").unwrap();
    let unknown = parsed(&["--config", path.to_str().unwrap()]).unwrap_err().to_string();
    assert!(unknown.contains("data_directory"), "{unknown}");
}

#[test]
fn certificates_in_both_ways_are_refused() {
    let flags = ["arras-server", "--certificates", "c", "--ca", "a", "--cert", "b", "--key", "k"];
    assert!(Arguments::try_parse_from(flags).is_err());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("server.toml");
    std::fs::write(&path, "data_dir = 'd'\ncertificates = 'c'\nca = 'a'\n").unwrap();
    assert!(matches!(parsed(&["--config", path.to_str().unwrap()]), Err(ConfigurationError::Twice)));
}

#[test]
fn the_budget_for_memory_is_in_mebibytes_and_not_too_small() {
    let flags = |memory| ["--data-dir", "d", "--certificates", "c", "--memory", memory];
    assert_eq!(parsed(&flags("16")).unwrap().memory, Some(16));
    assert!(matches!(parsed(&flags("15")), Err(ConfigurationError::LittleMemory(15))));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("server.toml");
    std::fs::write(&path, "data_dir = 'd'\ncertificates = 'c'\nmemory = 64\n").unwrap();
    let path = path.to_str().unwrap();
    assert_eq!(parsed(&["--config", path]).unwrap().memory, Some(64));
    assert_eq!(parsed(&["--config", path, "--memory", "32"]).unwrap().memory, Some(32));
}

#[test]
fn the_stores_cache_is_in_mebibytes_and_not_too_small() {
    let flags = |cache| ["--data-dir", "d", "--certificates", "c", "--cache", cache];
    assert_eq!(parsed(&flags("16")).unwrap().cache, 16);
    assert!(matches!(parsed(&flags("15")), Err(ConfigurationError::Cache(15))));
    assert!(matches!(parsed(&flags("536870912")), Err(ConfigurationError::Cache(536_870_912))));
    assert_eq!(parsed(&["--data-dir", "d", "--certificates", "c"]).unwrap().cache, CACHE_DEFAULT);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("server.toml");
    std::fs::write(&path, "data_dir = 'd'\ncertificates = 'c'\ncache = 64\n").unwrap();
    let path = path.to_str().unwrap();
    assert_eq!(parsed(&["--config", path]).unwrap().cache, 64);
    assert_eq!(parsed(&["--config", path, "--cache", "32"]).unwrap().cache, 32);
}
