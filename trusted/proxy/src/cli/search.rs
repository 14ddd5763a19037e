//! `arras search`: becomes `arras-search`, which reads files and mail from anybody and needs none of this executable's keys.

use super::unlock::PASSPHRASE;
use super::{Failure, executable};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// What a host in a checkout is built with where entries are in a database.
pub(super) const STORES: [&str; 3] = ["arras-host/redis", "arras-host/cassandra", "arras-host/postgres"];

pub(super) fn run(arguments: &[OsString]) -> Result<(), Failure> {
    // It starts these two.
    let features: &[&str] = if is_in_database(arguments) { &STORES } else { &[] };
    executable::find("arras-host", "arras-host", features)?;
    executable::find("arras-enclave", "arras-iee", &[])?;
    let program = executable::find("arras-search", "arras-searcher", &[])?;
    // Comes back only if it fails: the search's exit code is this process's.
    let error = Command::new(&program).args(arguments).env_remove(PASSPHRASE).exec();
    Err(Failure::ServerProcess(format!("{}: {error}", program.display())))
}

/// Are the entries of the store that is named in a database, or to be?
fn is_in_database(arguments: &[OsString]) -> bool {
    let named = |option: &str| {
        arguments.iter().enumerate().find_map(|(place, argument)| {
            let text = argument.to_string_lossy();
            let rest = text.strip_prefix(option)?;
            match rest.strip_prefix('=') {
                Some(value) => Some(value.to_owned()),
                None if rest.is_empty() => Some(arguments.get(place + 1)?.to_string_lossy().into_owned()),
                None => None,
            }
        })
    };
    let store = named("--store").map(|store| Path::new(&store).join("client/storage.json"));
    ["--redis", "--cassandra", "--postgres"].iter().any(|option| named(option).is_some())
        || store.is_some_and(|file| file.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_in_a_database_is_known_by_its_options_and_later_by_its_folder() {
        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
        let store = folder.path().to_string_lossy().into_owned();
        let of = |arguments: &[&str]| {
            is_in_database(&arguments.iter().map(OsString::from).collect::<Vec<OsString>>())
        };
        assert!(!of(&["index", "--store", &store, "--redistribute"]));
        assert!(of(&["index", "--store", &store, "--redis", "redis://h"]));
        assert!(of(&["index", "--cassandra=h:9042"]));
        assert!(of(&["index", "--postgres", "postgres://h/d"]));
        let made = std::fs::create_dir(folder.path().join("client"))
            .and_then(|()| std::fs::write(folder.path().join("client/storage.json"), "{}"));
        assert!(made.is_ok());
        assert!(of(&["query", "--store", &store]) && of(&["query", &format!("--store={store}")]));
    }
}
