//! `arras postgres`: trying encrypted columns out.

use super::{Failure, PostgresCommand, PostgresDevArguments, logging, proxy};
use crate::configuration::{LogFormat, default_connections_max, default_memory};
use crate::postgres::{Listening, Postgres};
use arras_certificates::now;
use arras_keys::{Keyring, Unlock};
use arras_storage::private;
use std::path::Path;

pub(super) fn run(command: PostgresCommand) -> Result<(), Failure> {
    match command {
        #[cfg(feature = "demo")]
        PostgresCommand::Demo(arguments) => crate::demo::postgres::run(&arguments),
        PostgresCommand::Dev(arguments) => dev(arguments),
    }
}

/// Runs a proxy whose keys are in a directory, made on the first start.
fn dev(arguments: PostgresDevArguments) -> Result<(), Failure> {
    logging::start(LogFormat::Text, "info");
    let PostgresDevArguments { data_dir, upstream, schema, listen, search } = arguments;
    let search = search.host()?;
    let directory = std::path::absolute(&data_dir)?;
    let keyring = keyring(&directory)?;
    let postgres = Postgres::for_development(listen, upstream, schema, &directory);
    proxy::runtime()?.block_on(async {
        let stop = proxy::stop_signal()?;
        let limits = (default_connections_max(), default_memory());
        let listening = Listening::open(&postgres, limits, Some(&keyring), search.as_ref()).await?;
        listening.serve(stop).await;
        tracing::info!("stopped");
        Ok(())
    })
}

/// The directory's keyring, made if there is none.
fn keyring(directory: &Path) -> Result<Keyring, Failure> {
    private::make_directory(directory).map_err(|source| Failure::Io { path: directory.into(), source })?;
    let (path, key_file) = (directory.join("keyring"), directory.join("keyring.key"));
    if !key_file.exists() {
        arras_keys::create_key_file(&key_file)?;
    }
    let unlock = Unlock::KeyFile(key_file);
    Ok(if path.exists() { Keyring::open(&path, unlock)? } else { Keyring::create(&path, unlock, now())? })
}
