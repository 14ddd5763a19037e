//! Keyring files: whatever is in the file, opening it ends in an error, never in a panic. (A file that opens would
//! need the key.)
#![no_main]

use arras_fuzz::seed;
use arras_keys::{Keyring, Unlock, create_key_file};
use libfuzzer_sys::fuzz_target;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::LazyLock;

/// A folder of this process with a key file in it.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = std::env::temp_dir().join(format!("arras-fuzz-keyring-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a temporary folder can be made");
    let _ = fs::remove_file(folder.join("key"));
    create_key_file(&folder.join("key")).expect("a key file can be made");
    folder
});

fn seeds() -> Vec<Vec<u8>> {
    let path = FOLDER.join("seed");
    let _ = fs::remove_file(&path);
    let mut keyring =
        Keyring::create(&path, Unlock::KeyFile(FOLDER.join("key")), 1).expect("a keyring can be made");
    let first = fs::read(&path).expect("it can be read");
    keyring.rotate(2).expect("it can be rotated");
    let second = fs::read(&path).expect("it can be read");
    fs::remove_dir_all(&*FOLDER).expect("the temporary folder can be removed");
    vec![first, second]
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    let path = FOLDER.join("keyring");
    let mut file = OpenOptions::new();
    let mut file = file.write(true).create(true).truncate(true).mode(0o600).open(&path).expect("a file can be made");
    file.write_all(bytes).expect("a file can be written");
    assert!(Keyring::open(&path, Unlock::KeyFile(FOLDER.join("key"))).is_err());
});
