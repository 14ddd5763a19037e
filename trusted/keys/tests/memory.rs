//! How often a secret is found in the memory of a process that has opened a keyring: where it is held, and nowhere else.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use argon2::{Algorithm, Argon2, Params, Version};
use arras_keys::{Cost, Key, Keyring, Passphrase, Unlock, create_key_file};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

/// Set in the process that holds a keyring: the directory with it.
const PLACE: &str = "ARRAS_TEST_KEYRING";

/// Set there as well, where a passphrase opens it: how long the passphrase is. The words themselves are in a file.
const PASSPHRASE_BYTES: &str = "ARRAS_TEST_PASSPHRASE_BYTES";

/// A little more than the least.
const COST: Cost = Cost { memory_kib: 19 * 1024, passes: 2, lanes: 1 };

/// What the child does: opens the keyring as a program would, hands it about, and holds it.
fn hold(place: &Path) {
    let unlock = match std::env::var(PASSPHRASE_BYTES) {
        Err(_) => Unlock::KeyFile(place.join("unlock.key")),
        Ok(bytes) => {
            // Exactly its room, as what asks a terminal gives it.
            let mut words = String::with_capacity(bytes.parse().unwrap());
            let mut file = File::open(place.join("passphrase")).unwrap();
            file.read_to_string(&mut words).unwrap();
            Unlock::Passphrase(Passphrase::new(words))
        }
    };
    let keyring = Keyring::open(&place.join("keyring.json"), unlock).unwrap();
    let keyring = std::thread::spawn(move || {
        let moved = Box::new(keyring);
        *moved
    });
    let keyring = keyring.join().unwrap();
    let held = [keyring];
    println!("holding");
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
    assert_eq!(held[0].versions().count(), 1);
}

/// A process that holds the keyring of a directory.
struct Holder {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Holder {
    fn start(place: &Path, passphrase: Option<&str>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "secrets_are_held_once", "--nocapture", "--test-threads", "1"]);
        command.env(PLACE, place).stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(words) = passphrase {
            command.env(PASSPHRASE_BYTES, words.len().to_string());
        }
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        let ready = lines.map_while(Result::ok).any(|line| line.ends_with("holding"));
        let holder = Self { child, stdin };
        assert!(ready, "it does not hold the keyring");
        holder
    }

    /// How often each of some strings is in memory that the process can write.
    fn count(&self, wanted: &[&[u8]]) -> Vec<usize> {
        let id = self.child.id();
        let maps = std::fs::read_to_string(format!("/proc/{id}/maps")).unwrap();
        let memory = File::open(format!("/proc/{id}/mem")).unwrap();
        let mut counts = vec![0; wanted.len()];
        for line in maps.lines().filter(|line| line.contains(" rw")) {
            let (range, _) = line.split_once(' ').unwrap();
            let (from, until) = range.split_once('-').unwrap();
            let [from, until] = [from, until].map(|address| u64::from_str_radix(address, 16).unwrap());
            let mut bytes = vec![0; usize::try_from(until - from).unwrap()];
            // Guard pages and the like cannot be read.
            if memory.read_exact_at(&mut bytes, from).is_err() {
                continue;
            }
            for (count, wanted) in counts.iter_mut().zip(wanted) {
                *count += bytes.windows(wanted.len()).filter(|window| window == wanted).count();
            }
        }
        counts
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digits).collect()
}

/// The salt in a keyring's header.
fn salt(place: &Path) -> Vec<u8> {
    let file: serde_json::Value =
        serde_json::from_slice(&std::fs::read(place.join("keyring.json")).unwrap()).unwrap();
    from_hex(file["header"]["unlock"]["salt"].as_str().unwrap())
}

/// Opened by a key file: the key file's text, its bytes, the lock and the root.
fn by_key_file(place: &Path) -> Vec<usize> {
    let file: PathBuf = place.join("unlock.key");
    create_key_file(&file).unwrap();
    let keyring = Keyring::create(&place.join("keyring.json"), Unlock::KeyFile(file.clone()), 1).unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let material = from_hex(text.trim());
    let mut taken = <[u8; 32]>::try_from(material.as_slice()).unwrap();
    let lock = Key::take_from(&mut taken).derive(&[b"keyring seal", &salt(place)]);
    let holder = Holder::start(place, None);
    holder.count(&[text.trim().as_bytes(), &material, lock.expose(), keyring.current().1.expose()])
}

/// Opened by a passphrase: the passphrase, the lock and the root.
fn by_passphrase(place: &Path) -> Vec<usize> {
    let words = "a passphrase that is found nowhere else";
    std::fs::write(place.join("passphrase"), words).unwrap();
    let unlock = Unlock::Passphrase(Passphrase::new(words.to_owned()));
    let keyring = Keyring::create_with_cost(&place.join("keyring.json"), unlock, COST, 1).unwrap();
    let params = Params::new(COST.memory_kib, COST.passes, COST.lanes, Some(Key::BYTES)).unwrap();
    let mut lock = [0; Key::BYTES];
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    argon2.hash_password_into(words.as_bytes(), &salt(place), &mut lock).unwrap();
    let holder = Holder::start(place, Some(words));
    holder.count(&[words.as_bytes(), &lock, keyring.current().1.expose()])
}

#[test]
fn secrets_are_held_once() {
    if let Some(place) = std::env::var_os(PLACE) {
        return hold(Path::new(&place));
    }
    let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let found = (by_key_file(first.path()), by_passphrase(second.path()));
    assert_eq!(
        found,
        (vec![0, 0, 1, 1], vec![0, 1, 1]),
        "key file, its bytes, lock, root; words, lock, root"
    );
}
