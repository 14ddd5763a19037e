//! `arras restore`: says that both sides were restored from one backup, or that the server's data is accepted as it is.

use super::{Failure, RestoreArguments, unlock};
use crate::configuration::Configuration;
use arras_engine::local::LocalStore;
use arras_engine::restore::{self, Restored};
use arras_keys::Keyring;
use arras_storage::Embedded;

#[allow(clippy::print_stdout, reason = "what the command is for")]
pub(super) fn run(arguments: &RestoreArguments) -> Result<(), Failure> {
    let configuration = Configuration::read(&arguments.config)?;
    let unlock = unlock::existing(configuration.keyring.key_file.clone())?;
    let keyring = Keyring::open(&configuration.keyring.path, unlock)?;
    let data = &configuration.data_dir;
    if !data.is_dir() {
        let what = "is not there; put the restored data directory in its place first".into();
        return Err(Failure::Data { path: data.clone(), what });
    }
    // The store is sealed under the oldest root.
    let (oldest, _) = keyring.versions().next().unwrap_or_default();
    let root = keyring.root(oldest).unwrap_or(keyring.current().1);
    let store = Embedded::open(data).map_err(|error| Failure::data(data.clone(), error))?;
    let local = LocalStore::open(store, root).map_err(|error| Failure::Engine(error.into()))?;
    let restored = if arguments.accept { Restored::ServerAlone } else { Restored::BothSides };
    restore::declare(&local, restored).map_err(|error| Failure::Engine(error.into()))?;
    println!(
        "noted; {}",
        match restored {
            Restored::BothSides =>
                "restore the server's data directory from the same time, then start both: the proxy makes its equality \
                 indexes anew before it serves",
            Restored::ServerAlone =>
                "when the proxy is started next, what the server has is what there is: every acknowledged write that \
                 the server lacks is lost, and all indexes are made anew from its documents before anything is served",
        }
    );
    Ok(())
}
