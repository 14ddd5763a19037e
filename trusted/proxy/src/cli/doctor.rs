//! `arras doctor`: one line a check, in the order in which a start needs them. It works beside a running proxy, but for
//! `--deep`, and changes nothing.

mod catalog;
mod keeping;
mod postgres;

use super::{DoctorArguments, Failure, plan};
use crate::configuration::Configuration;
use crate::connection::tls::{CertificatePaths, client_config};
use crate::connection::{Connection, Settings};
use crate::postgres::Alone;
use arras_engine::OpenError;
use arras_engine::history::History;
use arras_engine::inspection::{Inspected, inspect};
use arras_keys::{Key, Keyring};
use std::sync::Arc;

/// The lines printed so far.
#[derive(Default)]
struct Report {
    bad: usize,
}

#[allow(clippy::print_stdout, reason = "what the command is for")]
impl Report {
    /// Prints what a check found.
    fn add<T>(&mut self, name: &str, found: Result<(T, String), Failure>) -> Option<T> {
        match found {
            Ok((value, detail)) => {
                println!("ok    {name}: {detail}");
                Some(value)
            }
            Err(failure) => {
                println!("FAIL  {name}: {failure}");
                self.bad += 1;
                None
            }
        }
    }

    /// Prints what is well today and will not stay so.
    fn warn(&mut self, name: &str, line: &str) {
        println!("warn  {name}: {line}");
    }
}

/// The proxy's own store is sealed under the oldest root.
fn oldest_root(keyring: &Keyring) -> &Key {
    let (oldest, _) = keyring.versions().next().unwrap_or_default();
    keyring.root(oldest).unwrap_or(keyring.current().1)
}

pub(super) fn run(arguments: &DoctorArguments) -> Result<(), Failure> {
    let path = arguments.config.as_path();
    let mut report = Report::default();
    match Alone::read(path) {
        Ok(Some(alone)) => postgres::alone(&alone, path, arguments.deep, &mut report)?,
        // What is wrong with the file is told below.
        Ok(None) | Err(_) => whole(arguments, &mut report)?,
    }
    match report.bad {
        0 => Ok(()),
        1 => Err(Failure::Check("one check failed".into())),
        more => Err(Failure::Check(format!("{more} checks failed"))),
    }
}

/// Checks a proxy that serves MongoDB, and PostgreSQL beside if it does.
fn whole(arguments: &DoctorArguments, report: &mut Report) -> Result<(), Failure> {
    let path = arguments.config.as_path();
    let read = Configuration::read(path).map_err(Failure::from);
    let read = read.map(|configuration| (configuration, path.display().to_string()));
    if let Some(configuration) = report.add("configuration", read) {
        report.add("schema", check_schema(&configuration));
        let keyring = report.add("keyring", keeping::open_keyring(&configuration.keyring));
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let connection = report.add("server", runtime.block_on(connect(&configuration)));
        let shown = connection.as_ref().and_then(Connection::certificate);
        keeping::check_certificates(&configuration, path, shown.as_ref(), report);
        if let Some(keyring) = keyring {
            let data = keeping::open_data(&configuration, &keyring, connection.as_ref(), arguments.deep);
            let local = report.add("data directory", data).flatten();
            catalog::compare(&configuration, path, local.as_ref(), report);
            if let (Some(connection), Some(local), true) = (connection, local, arguments.deep) {
                let range = configuration.range_indexes;
                let connection = Arc::new(connection);
                let inspected = inspect(&local, &keyring, &connection, range);
                report_inspected(runtime.block_on(inspected), report);
            }
            if let Some(postgres) = &configuration.postgres {
                runtime.block_on(postgres::check(postgres, &keyring, arguments.deep, report));
            }
        }
    }
    Ok(())
}

fn check_schema(configuration: &Configuration) -> Result<((), String), Failure> {
    let Some(path) = &configuration.schema else {
        return Ok(((), "none: every field is sensitive, createIndexes makes the indexes".into()));
    };
    let schema = plan::read_schema(path)?;
    Ok(((), format!("{}, {} collections", path.display(), schema.collections.len())))
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
fn report_inspected(inspected: Result<Vec<Inspected>, OpenError>, report: &mut Report) {
    let all = match inspected {
        Ok(all) => all,
        Err(error) => {
            report.add::<()>("indexes", Err(Failure::Engine(error)));
            return;
        }
    };
    for found in all {
        let name = format!("collection {}", found.name);
        for wrong in &found.wrong {
            report.add::<()>(&name, Err(Failure::Check(wrong.clone())));
        }
        if found.wrong.is_empty() {
            let detail = format!("{} documents agree with {} indexes", found.documents, found.indexes);
            report.add(&name, Ok(((), detail)));
        }
    }
}
