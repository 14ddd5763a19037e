//! Counters beyond the enclave's memory, with host and enclave as processes that are killed.

use crate::client::{Client, addition};
use crate::deployment::Deployment;
use crate::dice::Dice;
use crate::process::Process;
use arras_host::store::{EmbeddedStore, Store};
use arras_protocol::iee::StateName;
use arras_schemes::bisen::message::{Opened, Reply};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// The least memory that an enclave starts with, MiB.
const MEMORY: u32 = 16;

/// Keywords that its tables may hold: half of what is for data, at 68 bytes each (docs/bisen.md).
const TABLES: u64 = 80_956;

/// Documents of a call, and words of each.
const DOCUMENTS: u64 = 8;
const WORDS: usize = 1000;

/// Kills in the midst of calls, each with searches and a call behind it.
const KILLS: usize = 3;

/// A full piece of keywords is at least as long: 16,384 records of 25 bytes.
const FULL_BYTES: usize = 16_384 * 25;

/// Documents and their words, by number.
#[derive(Default)]
struct Model {
    documents: BTreeMap<u64, BTreeSet<u64>>,
    /// Of both, the first that was never given.
    next_document: u64,
    next_word: u64,
}

/// A call's documents.
type Call = BTreeMap<u64, BTreeSet<u64>>;

fn seed() -> u64 {
    let chosen = std::env::var("ARRAS_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = chosen.unwrap_or(0xa44a5);
    eprintln!("ARRAS_TEST_SEED={seed}");
    seed
}

fn text(word: u64) -> String {
    format!("w{word}")
}

impl Model {
    /// Documents of so many words: new ones, and, by one in `part`, some that were given before. Word 0 is in all of them.
    fn draw(&mut self, part: u64, dice: &mut Dice) -> Call {
        let before = self.next_word;
        let first = self.next_document;
        self.next_document += DOCUMENTS;
        let mut document = |number| {
            let mut words = BTreeSet::from([0]);
            while words.len() < WORDS {
                if before > 0 && dice.below(part) == 0 {
                    words.insert(dice.below(before));
                } else {
                    self.next_word += 1;
                    words.insert(self.next_word);
                }
            }
            (number, words)
        };
        (first..first + DOCUMENTS).map(&mut document).collect()
    }

    /// Those that have all of these words.
    fn with_all(&self, words: &[u64]) -> Vec<u64> {
        let has_all = |there: &BTreeSet<u64>| words.iter().all(|word| there.contains(word));
        self.documents.iter().filter(|(_, there)| has_all(there)).map(|(number, _)| *number).collect()
    }
}

/// Sends a call; whether it was acknowledged.
fn send(client: &mut Client, into: &Opened, call: &Call) -> bool {
    let texts: Vec<(u64, Vec<String>)> =
        call.iter().map(|(number, words)| (*number, words.iter().copied().map(text).collect())).collect();
    let words: Vec<(u64, Vec<&str>)> =
        texts.iter().map(|(number, texts)| (*number, texts.iter().map(String::as_str).collect())).collect();
    let documents: Vec<(u64, &[&str])> =
        words.iter().map(|(number, words)| (*number, words.as_slice())).collect();
    match client.ask(addition(into, &documents)) {
        Ok(reply) => {
            assert!(matches!(reply, Reply::Updated), "{reply:?}");
            true
        }
        Err(_) => false,
    }
}

fn found(client: &mut Client, within: &Opened, words: &[u64]) -> Vec<u64> {
    let texts: Vec<String> = words.iter().copied().map(text).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    client.search(within, &texts)
}

/// Searches that find a document only if every one of many words of its is counted, of one document in `part`, and others of a word or
/// two.
fn compare(client: &mut Client, within: &Opened, model: &Model, part: u64, dice: &mut Dice) {
    let mut agree = |words: &[u64]| {
        assert_eq!(found(client, within, words), model.with_all(words), "{words:?}");
    };
    for words in model.documents.values() {
        if dice.below(part) > 0 {
            continue;
        }
        let first = dice.below(4);
        let every_fourth: Vec<u64> = words.iter().skip(first as usize).step_by(4).copied().collect();
        agree(&every_fourth);
    }
    for _ in 0..8 {
        agree(&[dice.below(model.next_word)]);
        agree(&[0, dice.below(model.next_word)]);
    }
    agree(&[0]);
    agree(&[model.next_word + 1]);
}

/// A call whose acknowledgement did not come is there wholly or not at all; the model takes it if it is.
fn settle(client: &mut Client, within: &Opened, model: &mut Model, in_doubt: Call) {
    let mut is_there = |(number, words): (&u64, &BTreeSet<u64>)| {
        let newest: Vec<u64> = words.iter().rev().take(200).copied().collect();
        found(client, within, &newest) == [*number]
    };
    let there = in_doubt.iter().filter(|document| is_there(*document)).count();
    assert!(there == 0 || there == in_doubt.len(), "{there} of {} documents of one call", in_doubt.len());
    if there > 0 {
        model.documents.extend(in_doubt);
    }
}

/// Lengths of the pieces of the largest checkpoint in the store of a host that has ended, in order. One that was being written may be
/// there, too.
fn checkpoint(data: &Path) -> Vec<usize> {
    let store = EmbeddedStore::open(data).unwrap();
    let pieces = async |generation| {
        let mut lengths = Vec::new();
        for piece in 0.. {
            let state = store.load(StateName::Checkpoint { generation, piece }).await.unwrap();
            let Some(state) = state else { break };
            lengths.push(state.len());
        }
        lengths
    };
    // Checkpoints are named by the log's records, of which there are a few for each call and start.
    let all = async {
        let mut largest = Vec::new();
        for generation in 0..1000 {
            let lengths = pieces(generation).await;
            if lengths.iter().sum::<usize>() > largest.iter().sum() {
                largest = lengths;
            }
        }
        largest
    };
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(all)
}

/// Full pieces behind one that is not, the first aside: of what is spilled, as the tables' and the versions' come before, and what
/// there is of versions here is less than a piece.
fn spilled(pieces: &[usize]) -> usize {
    let behind_first = pieces.iter().skip(1);
    behind_first.skip_while(|bytes| **bytes >= FULL_BYTES).filter(|bytes| **bytes >= FULL_BYTES).count()
}

/// Sends calls until the host is killed at some moment; the one that was not acknowledged.
fn write_until_killed(
    deployment: &Deployment,
    host: Process,
    address: &str,
    model: &mut Model,
    dice: &mut Dice,
) -> Call {
    let mut client = deployment.connect(address, "ada");
    let books = client.create("books");
    let longest = Duration::from_millis(dice.below(1000));
    thread::scope(|scope| {
        scope.spawn(move || {
            thread::sleep(longest);
            host.kill();
        });
        loop {
            let call = model.draw(4, dice);
            if !send(&mut client, &books, &call) {
                return call;
            }
            model.documents.extend(call);
        }
    })
}

#[test]
fn what_is_spilled_is_found_whenever_both_are_killed() {
    let (deployment, mut model, mut dice) = (Deployment::new(), Model::default(), Dice::new(seed()));
    let data = deployment.folder.path().join("data");
    let (mut host, mut address) = deployment.start_in(MEMORY);
    let mut client = deployment.connect(&address, "ada");
    let books = client.create("books");
    // The next call is the one before which counters are spilled.
    while model.next_word + DOCUMENTS * WORDS as u64 <= TABLES {
        let call = model.draw(u64::MAX, &mut dice);
        assert!(send(&mut client, &books, &call));
        model.documents.extend(call);
    }
    for round in 0..KILLS {
        let in_doubt = write_until_killed(&deployment, host, &address, &mut model, &mut dice);
        (host, address) = deployment.start_in(MEMORY);
        let mut client = deployment.connect(&address, "ada");
        settle(&mut client, &books, &mut model, in_doubt);
        compare(&mut client, &books, &model, 12, &mut dice);
        let call = model.draw(4, &mut dice);
        assert!(send(&mut client, &books, &call), "round {round}");
        model.documents.extend(call);
        compare(&mut client, &books, &model, 12, &mut dice);
    }
    host.kill();
    let pieces = checkpoint(&data);
    assert!(spilled(&pieces) > 0, "nothing is spilled: {pieces:?}");
    let (_host, address) = deployment.start_in(MEMORY);
    compare(&mut deployment.connect(&address, "ada"), &books, &model, 2, &mut dice);
}
