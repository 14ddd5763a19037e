//! `arras doctor`: one line a check, in the order in which a start needs them.

use super::{Failure, plan, unlock};
use crate::configuration::Configuration;
use crate::connection::tls::{CertificatePaths, client_config};
use crate::connection::{Connection, Settings};
use crate::engine::local::LocalStore;
use crate::history::History;
use arras_keys::Keyring;
use arras_storage::Embedded;
use std::path::Path;
use std::sync::Arc;

#[allow(clippy::print_stdout, reason = "what the command is for")]
fn report<T>(name: &str, found: Result<(T, String), Failure>, bad: &mut usize) -> Option<T> {
    match found {
        Ok((value, detail)) => {
            println!("ok    {name}: {detail}");
            Some(value)
        }
        Err(failure) => {
            println!("FAIL  {name}: {failure}");
            *bad += 1;
            None
        }
    }
}

pub(super) fn run(path: &Path) -> Result<(), Failure> {
    let mut bad = 0;
    let read = Configuration::read(path).map_err(Failure::from);
    let read = read.map(|configuration| (configuration, path.display().to_string()));
    if let Some(configuration) = report("configuration", read, &mut bad) {
        let schema = check_schema(&configuration);
        report("schema", schema, &mut bad);
        let keyring = report("keyring", open_keyring(&configuration), &mut bad);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        report("server", runtime.block_on(connect(&configuration)), &mut bad);
        if let Some(keyring) = keyring {
            report("data directory", open_data(&configuration, &keyring), &mut bad);
        }
    }
    match bad {
        0 => Ok(()),
        1 => Err(Failure::Check("one check failed".into())),
        more => Err(Failure::Check(format!("{more} checks failed"))),
    }
}

fn check_schema(configuration: &Configuration) -> Result<((), String), Failure> {
    let Some(path) = &configuration.schema else {
        return Ok(((), "none: every field is sensitive, createIndexes makes the indexes".into()));
    };
    let schema = plan::read_schema(path)?;
    Ok(((), format!("{}, {} collections", path.display(), schema.collections.len())))
}

fn open_keyring(configuration: &Configuration) -> Result<(Keyring, String), Failure> {
    let keyring = Keyring::open(
        &configuration.keyring.path,
        unlock::existing(configuration.keyring.key_file.clone())?,
    )?;
    let (version, _) = keyring.current();
    Ok((keyring, format!("{}, root version {version}", configuration.keyring.path.display())))
}

async fn connect(configuration: &Configuration) -> Result<((), String), Failure> {
    let tls = client_config(&CertificatePaths::in_directory(&configuration.server.certificates))?;
    // A proxy that runs keeps what it holds.
    let history = Arc::new(History::observer());
    let settings = Settings { history, ..Settings::new(configuration.server.address.clone(), tls) };
    let connection = Connection::open(settings).await?;
    let server = connection.server();
    let detail = format!(
        "{}, protocol {}, {}, started {} times",
        configuration.server.address, server.protocol_version, server.engine, server.incarnation
    );
    Ok(((), detail))
}

fn open_data(configuration: &Configuration, keyring: &Keyring) -> Result<((), String), Failure> {
    let path = &configuration.data_dir;
    if !path.exists() {
        return Ok(((), format!("{}: not there yet, the first start makes it", path.display())));
    }
    let store = Embedded::open(path).map_err(|error| Failure::data(path.clone(), error))?;
    let (oldest, _) = keyring.versions().next().unwrap_or_default();
    let root = keyring.root(oldest).unwrap_or(keyring.current().1);
    LocalStore::open(store, root).map_err(|error| Failure::Engine(error.into()))?;
    Ok(((), format!("{} opens under this keyring", path.display())))
}
