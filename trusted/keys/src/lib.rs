//! The only place where secret types are defined: keys, the tree they are derived along, the keyring file
//! that holds the roots, and what unlocks it.
//!
//! *Absences.* No type here has `Clone`, `Copy`, `Serialize`, `Deref` or `PartialEq`, none prints its content,
//! all are wiped when dropped. A key becomes bytes in one way only, by a method whose name begins with
//! `expose`, so the crossings can be listed with `grep`. Nothing here knows a protocol or opens a socket.
#![forbid(unsafe_code)]

#[cfg(feature = "keyring")]
mod error;
#[cfg(feature = "keyring")]
mod files;
mod key;
#[cfg(feature = "keyring")]
pub mod keyring;
mod purpose;
#[cfg(feature = "keyring")]
mod recovery;
#[cfg(feature = "keyring")]
mod unlock;

#[cfg(feature = "keyring")]
pub use error::KeyringError;
pub use key::Key;
#[cfg(feature = "keyring")]
pub use keyring::Keyring;
pub use purpose::Purpose;
#[cfg(feature = "keyring")]
pub use recovery::{Recovery, RecoveryCode};
#[cfg(feature = "keyring")]
pub use unlock::{Cost, Passphrase, Unlock, create_key_file};
