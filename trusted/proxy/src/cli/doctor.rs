//! `arras doctor`: one line a check, in the order in which a start needs them.

use super::{DoctorArguments, Failure, plan, unlock};
use crate::configuration::Configuration;
use crate::connection::tls::{CertificatePaths, client_config};
use crate::connection::{Connection, Settings};
use crate::engine::OpenError;
use crate::engine::inspection::{Inspected, inspect};
use crate::engine::local::LocalStore;
use crate::history::History;
use arras_keys::Keyring;
use arras_storage::Embedded;
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

pub(super) fn run(arguments: &DoctorArguments) -> Result<(), Failure> {
    let path = arguments.config.as_path();
    let mut bad = 0;
    let read = Configuration::read(path).map_err(Failure::from);
    let read = read.map(|configuration| (configuration, path.display().to_string()));
    if let Some(configuration) = report("configuration", read, &mut bad) {
        let schema = check_schema(&configuration);
        report("schema", schema, &mut bad);
        let keyring = report("keyring", open_keyring(&configuration), &mut bad);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let connection = report("server", runtime.block_on(connect(&configuration)), &mut bad);
        if let Some(keyring) = keyring {
            let data = open_data(&configuration, &keyring, arguments.deep);
            let local = report("data directory", data, &mut bad).flatten();
            if let (Some(connection), Some(local), true) = (connection, local, arguments.deep) {
                let top_nodes = configuration.range_indexes.top_nodes;
                let connection = Arc::new(connection);
                let inspected = inspect(&local, &keyring, &connection, top_nodes);
                report_inspected(runtime.block_on(inspected), &mut bad);
            }
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

async fn connect(configuration: &Configuration) -> Result<(Connection, String), Failure> {
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
    Ok((connection, detail))
}

/// What `--deep` found of each collection, a line each, and a line for each thing that is wrong.
fn report_inspected(inspected: Result<Vec<Inspected>, OpenError>, bad: &mut usize) {
    let all = match inspected {
        Ok(all) => all,
        Err(error) => {
            report::<()>("indexes", Err(Failure::Engine(error)), bad);
            return;
        }
    };
    for found in all {
        let name = format!("collection {}", found.name);
        for wrong in &found.wrong {
            report::<()>(&name, Err(Failure::Check(wrong.clone())), bad);
        }
        if found.wrong.is_empty() {
            let detail = format!("{} documents agree with {} indexes", found.documents, found.indexes);
            report(&name, Ok(((), detail)), bad);
        }
    }
}

fn open_data(
    configuration: &Configuration,
    keyring: &Keyring,
    deep: bool,
) -> Result<(Option<LocalStore<Embedded>>, String), Failure> {
    let path = &configuration.data_dir;
    if !path.exists() {
        return Ok((None, format!("{}: not there yet, the first start makes it", path.display())));
    }
    let failed = |error| Failure::data(path.clone(), error);
    let mut store = Embedded::open(path).map_err(failed)?;
    if deep {
        store.verify().map_err(failed)?;
    }
    let (oldest, _) = keyring.versions().next().unwrap_or_default();
    let root = keyring.root(oldest).unwrap_or(keyring.current().1);
    let local = LocalStore::open(store, root).map_err(|error| Failure::Engine(error.into()))?;
    Ok((Some(local), format!("{} opens under this keyring", path.display())))
}
