//! What unlocks the keyring: a key file, or a passphrase from the environment or the terminal.

mod terminal;

use super::Failure;
use arras_keys::{Passphrase, Unlock};
use std::path::PathBuf;
use zeroize::Zeroizing;

/// Environment variable with the passphrase. Handed on to no other process.
pub(crate) const PASSPHRASE: &str = "ARRAS_PASSPHRASE";

/// Environment variable with the passphrase that takes the place of that one.
pub(super) const NEW_PASSPHRASE: &str = "ARRAS_NEW_PASSPHRASE";

/// Environment variable with what opens a backup of the keyring.
pub(super) const RECOVERY: &str = "ARRAS_RECOVERY_PASSPHRASE";

fn from_environment(variable: &str) -> Option<Zeroizing<String>> {
    std::env::var(variable).ok().map(Zeroizing::new)
}

fn passphrase(mut words: Zeroizing<String>) -> Passphrase {
    Passphrase::new(std::mem::take(&mut words))
}

/// A passphrase that is there already, from `variable` or typed.
pub(super) fn known(variable: &str, prompt: &str) -> Result<Passphrase, Failure> {
    let words = match from_environment(variable) {
        Some(words) => words,
        None => terminal::ask(prompt, variable)?,
    };
    Ok(passphrase(words))
}

/// A new passphrase, from `variable`, or typed twice.
pub(super) fn chosen(variable: &str, prompt: &str) -> Result<Passphrase, Failure> {
    chosen_by(from_environment(variable), prompt, |prompt| terminal::ask(prompt, variable))
}

fn chosen_by(
    given: Option<Zeroizing<String>>,
    prompt: &str,
    mut ask: impl FnMut(&str) -> Result<Zeroizing<String>, Failure>,
) -> Result<Passphrase, Failure> {
    let words = match given {
        Some(words) => words,
        None => {
            let words = ask(prompt)?;
            let again = ask("The same again: ")?;
            if words != again {
                return Err(Failure::Unlock("the two passphrases differ; nothing was changed".into()));
            }
            words
        }
    };
    if words.is_empty() {
        return Err(Failure::Unlock("an empty passphrase protects nothing; nothing was changed".into()));
    }
    Ok(passphrase(words))
}

/// Unlocks an existing keyring.
pub(super) fn existing(key_file: Option<PathBuf>) -> Result<Unlock, Failure> {
    match key_file {
        Some(path) => Ok(Unlock::KeyFile(path)),
        None => known(PASSPHRASE, "Passphrase of the keyring: ").map(Unlock::Passphrase),
    }
}

/// Chooses what will unlock a new keyring. A key file is made if it does not exist.
pub(super) fn new(key_file: Option<PathBuf>) -> Result<Unlock, Failure> {
    match key_file {
        Some(path) => by_key_file(path),
        None => chosen(PASSPHRASE, "Passphrase for the new keyring: ").map(Unlock::Passphrase),
    }
}

/// A key file, made if it does not exist.
pub(super) fn by_key_file(path: PathBuf) -> Result<Unlock, Failure> {
    if !path.exists() {
        arras_keys::create_key_file(&path)?;
    }
    Ok(Unlock::KeyFile(path))
}

#[cfg(test)]
mod tests;
