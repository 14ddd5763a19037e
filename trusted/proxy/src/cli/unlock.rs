//! What unlocks the keyring: a key file, or a passphrase from the environment or the terminal.

use super::Failure;
use arras_keys::{Passphrase, Unlock};
use std::io::IsTerminal;
use std::path::PathBuf;
use zeroize::Zeroizing;

/// Environment variable with the passphrase. Handed on to no other process.
pub(crate) const PASSPHRASE: &str = "ARRAS_PASSPHRASE";

fn typed(prompt: &str) -> Result<Zeroizing<String>, Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::Unlock(format!(
            "no terminal to ask for the passphrase: set {PASSPHRASE}, or use a key file"
        )));
    }
    Ok(Zeroizing::new(rpassword::prompt_password(prompt)?))
}

/// Unlocks an existing keyring.
pub(super) fn existing(key_file: Option<PathBuf>) -> Result<Unlock, Failure> {
    if let Some(path) = key_file {
        return Ok(Unlock::KeyFile(path));
    }
    let mut passphrase = match std::env::var(PASSPHRASE) {
        Ok(passphrase) => Zeroizing::new(passphrase),
        Err(_) => typed("Passphrase of the keyring: ")?,
    };
    Ok(Unlock::Passphrase(Passphrase::new(std::mem::take(&mut passphrase))))
}

/// Chooses what will unlock a new keyring. A key file is made if it does not exist.
pub(super) fn new(key_file: Option<PathBuf>) -> Result<Unlock, Failure> {
    if let Some(path) = key_file {
        if !path.exists() {
            arras_keys::create_key_file(&path)?;
        }
        return Ok(Unlock::KeyFile(path));
    }
    let mut passphrase = match std::env::var(PASSPHRASE) {
        Ok(passphrase) => Zeroizing::new(passphrase),
        Err(_) => {
            let passphrase = typed("Passphrase for the new keyring: ")?;
            if passphrase != typed("The same again: ")? {
                return Err(Failure::Unlock("the two passphrases differ; nothing was made".into()));
            }
            passphrase
        }
    };
    if passphrase.is_empty() {
        return Err(Failure::Unlock("an empty passphrase protects nothing; nothing was made".into()));
    }
    Ok(Unlock::Passphrase(Passphrase::new(std::mem::take(&mut passphrase))))
}
