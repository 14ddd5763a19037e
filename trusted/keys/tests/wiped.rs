//! What unlocking computes with is not to be found in the process's memory afterwards: Argon2's working memory, and the
//! states of HKDF's hash.
//!
//! A process of its own unlocks, gives up what it got, and looks through what memory it may write. What it looks for comes
//! turned, so that it does not find what it was told; its allocator is told to keep what is given back, since memory that goes
//! back to the system could not be found whatever was left in it.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use argon2::{Algorithm, Argon2, Block, Params, Version};
use arras_keys::{Cost, Key, Keyring, Passphrase, Purpose, Unlock, create_key_file};
use arras_primitives::hash::sha256;
use std::fs::File;
use std::hint::black_box;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

/// Set in the process that unlocks: the directory with the keyring.
const PLACE: &str = "ARRAS_TEST_UNLOCK";

/// Set there as well: what is looked for, turned, in hexadecimal, separated by commas.
const WANTED: &str = "ARRAS_TEST_WANTED";

/// Set there if it shall derive keys from the root, too.
const DERIVES: &str = "ARRAS_TEST_DERIVES";

/// What turns a byte.
const TURNED: u8 = 0x5a;

const COST: Cost = Cost { memory_kib: 19 * 1024, passes: 2, lanes: 1 };

const WORDS: &str = "words that unlock";

/// How often each of some turned byte strings is in this process's memory, turned back.
fn count(wanted: &[Vec<u8>]) -> Vec<usize> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let memory = File::open("/proc/self/mem").unwrap();
    let mut counts = vec![0; wanted.len()];
    // One buffer for all: it is itself looked through, while it holds nothing yet.
    let mut bytes = vec![0; 64 << 20];
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (range, _) = line.split_once(' ').unwrap();
        let (from, until) = range.split_once('-').unwrap();
        let [from, until] = [from, until].map(|address| u64::from_str_radix(address, 16).unwrap());
        let own = bytes.as_ptr().addr() as u64;
        let own = own..own + bytes.len() as u64;
        for at in (from..until).step_by(1 << 20) {
            let length = usize::try_from(until - at).unwrap().min((1 << 20) + 64);
            if memory.read_exact_at(&mut bytes[..length], at).is_err() {
                continue;
            }
            for (count, wanted) in counts.iter_mut().zip(wanted) {
                let first = wanted[0] ^ TURNED;
                for (begin, window) in bytes[..length].windows(wanted.len()).enumerate() {
                    let here = at + begin as u64;
                    let found = window[0] == first
                        && begin < 1 << 20
                        && !own.contains(&here)
                        && window.iter().zip(wanted).all(|(byte, wanted)| *byte == wanted ^ TURNED);
                    *count += usize::from(found);
                }
            }
        }
    }
    counts
}

/// Bytes of the stack that what unlocks lies below what comes after it.
const DEEP: usize = 256 * 1024;

/// Unlocks, and gives up what it got; further down the stack than anything reaches that is called later, so that this does
/// not overwrite by chance what was left there.
#[inline(never)]
fn unlock(place: &Path) {
    let room = [0_u8; DEEP];
    black_box(&room);
    let unlock = match File::open(place.join("passphrase")) {
        Err(_) => Unlock::KeyFile(place.join("unlock.key")),
        Ok(mut file) => {
            let mut words = String::with_capacity(WORDS.len());
            file.read_to_string(&mut words).unwrap();
            Unlock::Passphrase(Passphrase::new(words))
        }
    };
    let keyring = Keyring::open(&place.join("keyring.json"), unlock).unwrap();
    if std::env::var_os(DERIVES).is_some() {
        drop(keyring.current().1.child(Purpose::Index(&[7; 8])));
    }
    drop(keyring);
    black_box(&room);
}

/// What the process does that unlocks.
fn unlock_and_look(place: &Path) {
    unlock(place);
    let wanted: Vec<Vec<u8>> = std::env::var(WANTED).unwrap().split(',').map(from_hex).collect();
    let found = count(&wanted);
    assert!(found.iter().all(|found| *found == 0), "copies left of each: {found:?}");
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digits).collect()
}

fn salt(place: &Path) -> Vec<u8> {
    let file: serde_json::Value =
        serde_json::from_slice(&std::fs::read(place.join("keyring.json")).unwrap()).unwrap();
    from_hex(file["header"]["unlock"]["salt"].as_str().unwrap())
}

/// Runs the test `name` as a process that unlocks and looks for `wanted`.
fn look_for(name: &str, place: &Path, wanted: &[Vec<u8>], derives: bool) {
    let hexadecimal = |bytes: &Vec<u8>| bytes.iter().map(|byte| format!("{:02x}", byte ^ TURNED)).collect();
    let wanted: Vec<String> = wanted.iter().map(hexadecimal).collect();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads", "1"]);
    command.env(PLACE, place).env(WANTED, wanted.join(","));
    if derives {
        command.env(DERIVES, "1");
    }
    // The C library: everything on the heap, and nothing of it given back.
    command
        .env("MALLOC_MMAP_MAX_", "0")
        .env("MALLOC_TRIM_THRESHOLD_", "10000000000")
        .env("MALLOC_ARENA_MAX", "1");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

#[test]
fn argon2s_memory_is_wiped() {
    if let Some(place) = std::env::var_os(PLACE) {
        return unlock_and_look(Path::new(&place));
    }
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("passphrase"), WORDS).unwrap();
    let unlock = Unlock::Passphrase(Passphrase::new(WORDS.to_owned()));
    Keyring::create_with_cost(&place.path().join("keyring.json"), unlock, COST, 1).unwrap();
    let params = Params::new(COST.memory_kib, COST.passes, COST.lanes, Some(Key::BYTES)).unwrap();
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let mut blocks = vec![Block::default(); argon2.params().block_count()];
    let mut lock = [0; Key::BYTES];
    let salt = salt(place.path());
    argon2.hash_password_into_with_memory(WORDS.as_bytes(), &salt, &mut lock, &mut blocks).unwrap();
    // From all over the memory, the last block included, of which the lock is the hash.
    let piece = |at: usize| -> Vec<u8> {
        let words: &[u64] = blocks[at].as_ref();
        words[60..64].iter().flat_map(|word| word.to_le_bytes()).collect()
    };
    let last = blocks.len() - 1;
    look_for(
        "argon2s_memory_is_wiped",
        place.path(),
        &[piece(1), piece(last / 2), piece(last - 1), piece(last)],
        false,
    );
}

/// A key as HMAC pads it (RFC 2104), for its inner and its outer hash.
fn padded(key: &[u8]) -> [[u8; 64]; 2] {
    [0x36, 0x5c].map(|pad| {
        let mut block = [pad; 64];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    })
}

/// HMAC's two states of a key, as they lie in memory: whoever has them derives as whoever has the key.
fn states(key: &[u8]) -> [Vec<u8>; 2] {
    padded(key).map(|block| {
        let mut state = [
            0x6a09_e667,
            0xbb67_ae85,
            0x3c6e_f372,
            0xa54f_f53a,
            0x510e_527f,
            0x9b05_688c,
            0x1f83_d9ab,
            0x5be0_cd19,
        ];
        sha2::block_api::compress256(&mut state, &[block]);
        state.iter().flat_map(|word: &u32| word.to_ne_bytes()).collect()
    })
}

/// What HKDF makes of a key on its way to others (RFC 5869): the pseudorandom key, and the states of its MAC.
fn between(key: &[u8]) -> Vec<Vec<u8>> {
    let [inner, outer] = padded(b"arras key tree 1");
    let extracted = sha256(&[&outer, &sha256(&[&inner, key])]);
    let [inner, outer] = states(&extracted);
    vec![extracted.to_vec(), inner, outer]
}

#[test]
fn hkdfs_states_are_wiped() {
    if let Some(place) = std::env::var_os(PLACE) {
        return unlock_and_look(Path::new(&place));
    }
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("unlock.key");
    create_key_file(&file).unwrap();
    let keyring =
        Keyring::create(&place.path().join("keyring.json"), Unlock::KeyFile(file.clone()), 1).unwrap();
    let material = from_hex(std::fs::read_to_string(&file).unwrap().trim());
    let mut taken = <[u8; 32]>::try_from(material.as_slice()).unwrap();
    let (_, root) = keyring.current();
    // That this is what is computed: by it the keys below come out.
    let mut expected = [0; 32];
    let [inner, outer] = padded(&between(root.expose())[0]);
    let info = [8_u64.to_be_bytes().as_slice(), b"the info"].concat();
    expected.copy_from_slice(&sha256(&[&outer, &sha256(&[&inner, &info, &[1]])]));
    assert_eq!(root.derive(&[b"the info"]).expose(), &expected);
    let lock = Key::take_from(&mut taken).derive(&[b"keyring seal", &salt(place.path())]);
    let unlocking = [between(&material), vec![lock.expose().to_vec()]].concat();
    look_for("hkdfs_states_are_wiped", place.path(), &unlocking, false);
    look_for("hkdfs_states_are_wiped", place.path(), &between(root.expose()), true);
}
