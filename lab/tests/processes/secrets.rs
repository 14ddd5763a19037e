//! What of the keyring is in a running proxy's memory, read as its user could (`/proc/PID/mem`).

use super::system::{Making, System};
use arras_keys::{Keyring, Unlock};
use bson::doc;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes read at a time; neighbouring reads overlap by what is looked for.
const CHUNK_BYTES: usize = 1 << 20;

/// How often each of some byte strings is in the memory of a process that may be written to. Names and code that are
/// mapped from files are left out.
fn copies(process: u32, wanted: &[&[u8]]) -> io::Result<Vec<usize>> {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps"))?;
    let memory = File::open(format!("/proc/{process}/mem"))?;
    let longest = wanted.iter().map(|wanted| wanted.len()).max().unwrap_or(1);
    let mut counts = vec![0; wanted.len()];
    let nothing = vec![0; CHUNK_BYTES + longest - 1];
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let (Some(range), Some(permissions)) = (words.next(), words.next()) else { continue };
        let Some((from, to)) = range.split_once('-') else { continue };
        let [from, to] = [from, to].map(|address| u64::from_str_radix(address, 16).unwrap());
        if !permissions.starts_with("rw") {
            continue;
        }
        let mut chunk = vec![0; CHUNK_BYTES + longest - 1];
        for at in (from..to).step_by(CHUNK_BYTES) {
            let length = usize::try_from(to - at).unwrap().min(chunk.len());
            // A region may go while it is read.
            if memory.read_exact_at(&mut chunk[..length], at).is_err() {
                continue;
            }
            // Most of what an allocator reserves was never written to.
            if chunk[..length] == nothing[..length] {
                continue;
            }
            for (count, wanted) in counts.iter_mut().zip(wanted) {
                let begins = length.saturating_sub(wanted.len() - 1).min(CHUNK_BYTES);
                let begin = |begin: &usize| chunk[*begin] == wanted[0] && chunk[*begin..].starts_with(wanted);
                *count += (0..begins).filter(begin).count();
            }
        }
    }
    Ok(counts)
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&hexadecimal[at..at + 2], 16).unwrap();
    (0..hexadecimal.len()).step_by(2).map(byte).collect()
}

#[test]
fn a_running_proxy_holds_the_root_once_and_nothing_that_opens_the_keyring() {
    let system = System::start(Making::default());
    let mut client = system.client();
    let index = doc! { "key": { "a": 1 }, "name": "a" };
    client.command(&doc! { "createIndexes": "t", "indexes": [index], "$db": "test" }).unwrap();
    let documents: Vec<_> = (0..50).map(|id| doc! { "_id": id, "a": id % 5 }).collect();
    client.command(&doc! { "insert": "t", "documents": documents, "$db": "test" }).unwrap();
    assert_eq!(client.query(&doc! { "find": "t", "filter": { "a": 3 }, "$db": "test" }).unwrap().len(), 10);
    let key_file = system.path("keyring.key");
    let digits = std::fs::read_to_string(&key_file).unwrap().trim().to_owned();
    let lock = bytes(&digits);
    let keyring = Keyring::open(&system.path("config/keyring.json"), Unlock::KeyFile(key_file)).unwrap();
    let (_, root) = keyring.current();
    let process = system.proxy.as_ref().unwrap().id();
    match copies(process, &[root.expose(), &lock, digits.as_bytes()]) {
        Ok(found) => {
            assert_eq!(found, [1, 0, 0], "copies of the root, of the lock, and of the lock's digits")
        }
        Err(refused) => eprintln!("SKIPPED: another process's memory cannot be read here: {refused}"),
    }
}
