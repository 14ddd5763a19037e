//! Why a keyring could not be made, opened or changed.

use std::path::PathBuf;

/// One line each that a person can act on. None says anything about a secret.
#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    /// Somebody else changed the file after it was opened.
    #[error(
        "{path}: the keyring was changed by another process since it was opened; open it again and repeat"
    )]
    Changed {
        /// The keyring.
        path: PathBuf,
    },
    /// A recovery code cannot be one.
    #[error("{path}: this opens with a recovery code: {groups} groups of {letters} letters and digits")]
    Code {
        /// The backup.
        path: PathBuf,
        /// How many groups a code has.
        groups: usize,
        /// How many characters a group has.
        letters: usize,
    },
    /// The passphrase's cost parameters are not acceptable.
    #[error("the passphrase cost parameters are not usable: {0}")]
    Cost(String),
    /// The bytes are not those of a keyring.
    #[error("{path}: the keyring file is damaged ({what}); restore it from a backup")]
    Damaged {
        /// The keyring.
        path: PathBuf,
        /// Where it stopped making sense.
        what: &'static str,
    },
    /// The file would be overwritten.
    #[error("{path}: there is already a file; it is never overwritten: move it away or choose another path")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The environment failed.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system says.
        source: std::io::Error,
    },
    /// The key file is not one.
    #[error("{path}: not a key file (one line of 64 hexadecimal digits expected)")]
    KeyFile {
        /// The key file.
        path: PathBuf,
    },
    /// The keyring does not open.
    #[error("{path}: the keyring does not open with this passphrase or key file")]
    Locked {
        /// The keyring.
        path: PathBuf,
    },
    /// A backup does not hold every root.
    #[error(
        "{path}: this backup lacks {lacking} of the keyring's roots (it is older than the last rotation); make a new one: \
         arras key backup"
    )]
    Incomplete {
        /// The backup.
        path: PathBuf,
        /// How many roots it lacks.
        lacking: usize,
    },
    /// A backup is of another keyring.
    #[error("{path}: this is a backup of another deployment's keyring; it does not open this one's data")]
    OtherDeployment {
        /// The backup.
        path: PathBuf,
    },
    /// Others than the owner may read or change the file.
    #[error("{path}: mode {mode:04o} lets others in; run: chmod 600 {path}")]
    Permissions {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A keyring of a later (or unknown) format.
    #[error(
        "{path}: keyring format {found} is not known to this version (it knows {known}); use a newer arras"
    )]
    UnknownFormat {
        /// The keyring.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The format known.
        known: u32,
    },
    /// The keyring is unlocked in another way than was tried.
    #[error("{path}: this keyring is unlocked by {needed}, not by {given}")]
    WrongKind {
        /// The keyring.
        path: PathBuf,
        /// What it needs.
        needed: &'static str,
        /// What was tried.
        given: &'static str,
    },
}
