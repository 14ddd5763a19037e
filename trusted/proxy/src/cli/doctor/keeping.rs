//! What `doctor` finds of what a deployment stands on: its keyring, its certificates, its data directory. Each finding names
//! the next step.

use super::{Report, oldest_root};
use crate::certificates;
use crate::cli::{Failure, unlock};
use crate::configuration::{Configuration, KeyringFile};
use crate::connection::Connection;
use crate::connection::tls::{CertificatePaths, require_acceptable};
use crate::running::Running;
use arras_certificates::{Certificate, WARNING_DAYS, date, ending, now};
use arras_engine::history::Halt;
use arras_engine::local::LocalStore;
use arras_engine::standing;
use arras_engine::witness::Witness;
use arras_keys::{Keyring, KeyringError};
use arras_protocol::hello;
use arras_storage::{Embedded, StorageError};
use std::io;
use std::path::Path;

/// Opens the keyring, or says what to do so that it opens.
pub(super) fn open_keyring(file: &KeyringFile) -> Result<(Keyring, String), Failure> {
    let (path, key_file) = (&file.path, file.key_file.as_deref());
    let lacking = |path: &Path, what: &str| Failure::Unlock(format!("{}: {what}", path.display()));
    if !path.exists() {
        let what = "the keyring is not there; put a backup in its place (one made by `arras key backup` opens with its \
                    recovery passphrase or code), and check keyring.path in the configuration";
        return Err(lacking(path, what));
    }
    if let Some(file) = key_file.filter(|file| !file.exists()) {
        let what = "the key file that unlocks the keyring is not there; mount or restore it, or use a backup made by \
                    `arras key backup` in the keyring's place";
        return Err(lacking(file, what));
    }
    let opened = unlock::existing(file.key_file.clone()).and_then(|unlock| Ok(Keyring::open(path, unlock)?));
    let keyring = opened.map_err(|failure| next_step(failure, key_file.is_some()))?;
    let (version, _) = keyring.current();
    Ok((keyring, format!("{}, root version {version}", path.display())))
}

fn next_step(failure: Failure, by_key_file: bool) -> Failure {
    let step = match &failure {
        Failure::Keyring(KeyringError::WrongKind { .. }) if by_key_file => {
            "take key_file out of the configuration's [keyring]"
        }
        Failure::Keyring(KeyringError::WrongKind { .. }) => {
            "name the key file in the configuration: key_file under [keyring]"
        }
        Failure::Keyring(KeyringError::Locked { .. }) if by_key_file => {
            "put the key file in its place that was made with this keyring, or use a backup made by `arras key backup`"
        }
        Failure::Keyring(KeyringError::Locked { .. }) => {
            "try the right passphrase, or use a backup made by `arras key backup` in the keyring's place"
        }
        _ => return failure,
    };
    Failure::Unlock(format!("{failure}; {step}"))
}

/// Looks at the certificates of both sides, and at the one that the server showed.
pub(super) fn check_certificates(
    configuration: &Configuration,
    config: &Path,
    shown: Option<&Certificate>,
    report: &mut Report,
) {
    let directory = &configuration.server.certificates;
    let beside = config.parent().unwrap_or(Path::new("")).join("server");
    let paths = CertificatePaths::in_directory(directory);
    let now = now();
    let listed = certificates::list(directory, &beside, now).map_err(certificates::CertificateError::from);
    let listed = listed.map_err(Failure::from).and_then(|listed| {
        require_acceptable(&paths).map_err(|error| {
            Failure::Unlock(format!("{error}; run arras certificates renew --config {}", config.display()))
        })?;
        Ok(listed)
    });
    let first = listed.map(|listed| {
        let until = listed.iter().map(|listed| listed.until_seconds).min().unwrap_or(0);
        ((), format!("{}, the first to end does on {}", directory.display(), date(until)))
    });
    if report.add("certificates", first).is_none() {
        return;
    }
    let renewed =
        Certificate::read_all(&beside.join("server.pem")).ok().and_then(|all| all.into_iter().next());
    for line in ending(&paths.public(), now) {
        report.warn("certificates", &line);
    }
    let Some(shown) = shown else { return };
    if renewed.is_some_and(|renewed| renewed.from > shown.from && renewed.serial != shown.serial) {
        let place = beside.display();
        report
            .warn("certificates", &format!("the server does not have its new one yet: carry {place} to it"));
    } else if shown.days_left(now) < WARNING_DAYS {
        let until = date(shown.until);
        let line = format!(
            "the server's ends on {until}: run arras certificates renew --config {} and carry its files to it",
            config.display()
        );
        report.warn("certificates", &line);
    }
}

/// Opens the data directory, or asks the note of the proxy that has it open; compares with what the server said.
pub(super) fn open_data(
    configuration: &Configuration,
    keyring: &Keyring,
    connection: Option<&Connection>,
    deep: bool,
) -> Result<(Option<LocalStore<Embedded>>, String), Failure> {
    let path = &configuration.data_dir;
    let server = connection.map(Connection::server);
    let failed = |error| Failure::data(path.clone(), error);
    if !Embedded::exists(path).map_err(failed)? {
        return missing(path, server.as_ref());
    }
    let mut store = match Embedded::open(path) {
        Err(StorageError::InUse) => {
            return in_use(path, keyring, server.as_ref(), deep).map(|detail| (None, detail));
        }
        opened => opened.map_err(failed)?,
    };
    if deep {
        store.verify().map_err(failed)?;
    }
    let local =
        LocalStore::open(store, oldest_root(keyring)).map_err(|error| Failure::Engine(error.into()))?;
    let mut detail = format!("{} opens under this keyring", path.display());
    if let Some(server) = &server {
        let witness = configuration.witness.as_deref().filter(|witness| witness.exists());
        let witness =
            witness.map(Witness::open).transpose().map_err(|error| Failure::Engine(error.into()))?;
        match standing::compare(&local, server, witness.as_ref())? {
            Some(_) => detail += "; a restore is declared, which the next start deals with",
            None => detail += " and belongs to the server's database",
        }
    }
    Ok((Some(local), detail))
}

/// There is no data directory: right before the first start, a loss afterwards.
fn missing(
    path: &Path,
    server: Option<&hello::Response>,
) -> Result<(Option<LocalStore<Embedded>>, String), Failure> {
    if server.is_some_and(|server| server.commits > 0) {
        let what = "there is no proxy's data here, but the server holds a database that belongs to some: correct data_dir \
                    in the configuration, or restore both sides from one backup and run `arras restore`, or give the \
                    server an empty data directory";
        return Err(Failure::Data { path: path.to_path_buf(), what: what.into() });
    }
    Ok((None, format!("{}: not there yet, the first start makes it", path.display())))
}

/// What a proxy that runs says of itself, and whether that fits the rest.
fn in_use(
    path: &Path,
    keyring: &Keyring,
    server: Option<&hello::Response>,
    deep: bool,
) -> Result<String, Failure> {
    let failed = |what: String| Failure::Data { path: path.to_path_buf(), what };
    let Some(running) = Running::read(path) else {
        let what = "a process has this data directory open and does not say that it serves: a proxy that is starting (see its \
                    log), or another command; wait for it, or stop it";
        return Err(failed(what.into()));
    };
    let process = running.process;
    if let Some(halted) = &running.halted {
        return Err(failed(format!("the running proxy (process {process}) has halted: {halted}")));
    }
    if !running.goes_by(keyring) {
        return Err(failed(format!(
            "the running proxy (process {process}) goes by another keyring than the configuration names, with which it would \
             not start again: put the right one in its place before it is stopped"
        )));
    }
    if server.is_some_and(|server| server.database != running.database) {
        return Err(failed(format!(
            "{} (the running proxy, process {process}, is at {})",
            Halt::OtherDatabase,
            running.server
        )));
    }
    std::net::TcpStream::connect(&running.listen).map_err(|error: io::Error| {
        failed(format!(
            "the running proxy (process {process}) does not take connections on {}: {error}; see its log",
            running.listen
        ))
    })?;
    if deep {
        return Err(failed(format!(
            "--deep compares what must not change meanwhile: stop the proxy (process {process}) first"
        )));
    }
    Ok(format!(
        "{} is open in a running proxy (process {process}), which takes connections on {}",
        path.display(),
        running.listen
    ))
}
