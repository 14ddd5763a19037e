//! `arras key`.

use super::unlock::{self, NEW_PASSPHRASE, RECOVERY};
use super::{BackupArguments, Failure, KeyCommand, PassphraseArguments, VerifyArguments};
use crate::configuration::Configuration;
use arras_keys::{Cost, Keyring, Recovery, RecoveryCode, Unlock};
use std::path::Path;

fn open(config: &Path) -> Result<(Configuration, Keyring), Failure> {
    let configuration = Configuration::read(config)?;
    let unlock = unlock::existing(configuration.keyring.key_file.clone())?;
    let keyring = Keyring::open(&configuration.keyring.path, unlock)?;
    Ok((configuration, keyring))
}

pub(super) fn run(command: KeyCommand) -> Result<(), Failure> {
    match command {
        KeyCommand::Backup(arguments) => backup(&arguments),
        KeyCommand::Passphrase(arguments) => passphrase(arguments),
        KeyCommand::Verify(arguments) => verify(&arguments),
    }
}

#[allow(clippy::print_stdout, reason = "what the command is for")]
fn passphrase(arguments: PassphraseArguments) -> Result<(), Failure> {
    let (configuration, mut keyring) = open(&arguments.config)?;
    let path = configuration.keyring.path.display();
    let had_key_file = configuration.keyring.key_file.as_deref();
    let unlock = match arguments.remove {
        Some(file) => {
            // The configuration's relative paths are relative to itself, the command line's are not.
            unlock::by_key_file(std::path::absolute(file)?)?
        }
        None => Unlock::Passphrase(unlock::chosen(NEW_PASSPHRASE, "New passphrase of the keyring: ")?),
    };
    let key_file = match &unlock {
        Unlock::KeyFile(file) => Some(file.clone()),
        Unlock::Passphrase(_) => None,
    };
    keyring.change_unlock(unlock, Cost::DEFAULT)?;
    println!("{path} is sealed anew; backups and copies made before open with what opened them then.");
    let config = arguments.config.display();
    match (&key_file, had_key_file) {
        (Some(file), had) if had != Some(file.as_path()) => {
            println!("Next: in {config}, under [keyring]: key_file = {:?}", file.display().to_string());
        }
        (None, Some(file)) => println!(
            "Next: in {config}, take out key_file under [keyring]; {} does not open it any more.",
            file.display()
        ),
        (Some(_), _) | (None, None) => {}
    }
    Ok(())
}

#[allow(clippy::print_stdout, reason = "what the command is for")]
fn backup(arguments: &BackupArguments) -> Result<(), Failure> {
    let (_, keyring) = open(&arguments.config)?;
    let (to, config) = (arguments.to.as_path(), arguments.config.display());
    let exists = |_| arras_keys::KeyringError::Exists { path: to.to_path_buf() };
    // Before anything is asked or printed; what comes between is refused when it is written.
    std::fs::symlink_metadata(to).map_or(Ok(()), |found| Err(exists(found)))?;
    let recovery = match arguments.code {
        true => Recovery::Code(RecoveryCode::generate()),
        false => Recovery::Passphrase(unlock::chosen(RECOVERY, "Recovery passphrase for the backup: ")?),
    };
    keyring.backup(to, &recovery, Cost::DEFAULT)?;
    println!("{}: all {} roots of the keyring, sealed", to.display(), keyring.versions().count());
    if let Recovery::Code(code) = &recovery {
        println!("\n  {}\n", code.expose_groups().as_str());
        println!(
            "This code opens it and is shown this once: write it down, and keep it apart from the backup."
        );
    }
    println!("Check it with: arras key verify --config {config} --backup {}", to.display());
    println!("After a loss: put it in the keyring's place, and start with what opens it as the passphrase.");
    Ok(())
}

#[allow(clippy::print_stdout, reason = "what the command is for")]
fn verify(arguments: &VerifyArguments) -> Result<(), Failure> {
    let (_, keyring) = open(&arguments.config)?;
    let typed = unlock::known(RECOVERY, "Recovery passphrase or code of the backup: ")?;
    keyring.verify_backup(&arguments.backup, typed, Cost::MINIMUM)?;
    let (backup, roots) = (arguments.backup.display(), keyring.versions().count());
    println!("{backup} opens, is of this deployment, and holds all {roots} roots of its keyring");
    Ok(())
}
