//! What a change of a stateful scheme's tree comes to: found out on the tree, which is then as it was before.

use super::names::Names;
use super::present::{self, Present};
use super::refused;
use crate::contract::StateChange;
use crate::error::IndexError;
use crate::ore::{Encrypted, StatefulScheme};
use arras_primitives::prg::Prg;
use arras_protocol::bplus::{Placed, Revision, SealedEntry};
use arras_protocol::{Blob, IndexId, RowId};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Ciphertexts that one revision moves, at most, if nothing else is said: 64 KiB of them. More go before, in revisions of their own.
pub(super) const MOVES_MAX: usize = 4096;

/// The name of the record of the version, behind the index's.
pub(crate) const VERSION: &[u8] = b"v";

/// What the name of a ciphertext's record begins with, behind the index's; a pseudorandom name follows. It holds the ciphertext
/// and its value.
pub(crate) const CIPHERTEXT: u8 = b'c';

/// What the name of an entry's record begins with, behind the index's; the first block of the entry's own name follows.
pub(crate) const ENTRY: u8 = b'e';

/// An entry, and the ciphertext it has or gets.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) value: u64,
    pub(super) ciphertext: u64,
    pub(super) sealed: SealedEntry,
}

/// A ciphertext that gets another number.
#[derive(Clone)]
struct Move {
    value: u64,
    old: u64,
    new: u64,
}

/// One step from a version to another.
#[derive(Clone, Default)]
pub(super) struct Step {
    pub(super) from: u64,
    pub(super) to: u64,
    moves: Vec<Move>,
    removed: Vec<Entry>,
    inserted: Vec<Entry>,
}

fn number(stored: &[u8]) -> u64 {
    stored.try_into().map_or(0, u64::from_be_bytes)
}

impl Step {
    /// What the server is told.
    pub(super) fn revision(&self) -> Revision {
        let bytes = |number: u64| number.to_be_bytes();
        let moves: Vec<u8> =
            self.moves.iter().flat_map(|it| [bytes(it.old), bytes(it.new)]).flatten().collect();
        let placed =
            |entry: &Entry| Placed { stored: Blob(bytes(entry.ciphertext).to_vec()), sealed: entry.sealed };
        Revision {
            from: self.from,
            to: self.to,
            moves: moves.into(),
            removed: self.removed.iter().map(placed).collect(),
            inserted: self.inserted.iter().map(placed).collect(),
        }
    }

    /// What is to be saved with it: a record of each ciphertext and its value, one of each entry, and one of the version. Their
    /// names begin with the index's.
    pub(super) fn state(&self, index: IndexId, names: &Names) -> Vec<StateChange> {
        let mut now: BTreeMap<u64, Option<u64>> = self.moves.iter().map(|it| (it.old, None)).collect();
        now.extend(self.moves.iter().map(|it| (it.new, Some(it.value))));
        let mut before: BTreeMap<u64, u64> = self.moves.iter().map(|it| (it.old, it.value)).collect();
        for entry in &self.removed {
            if now.insert(entry.ciphertext, None).is_none() {
                before.insert(entry.ciphertext, entry.value);
            }
        }
        now.extend(self.inserted.iter().map(|entry| (entry.ciphertext, Some(entry.value))));
        let record = |number: u64| number.to_be_bytes().to_vec();
        let name = |parts: [&[u8]; 2]| [index.as_bytes(), parts[0], parts[1]].concat();
        let changes = now.into_iter().map(|(ciphertext, value)| {
            let of = |value: u64| [ciphertext.to_be_bytes(), value.to_be_bytes()].concat();
            StateChange {
                name: name([&[CIPHERTEXT], &names.record(ciphertext)]),
                now: value.map(of),
                otherwise: before.get(&ciphertext).copied().map(of),
            }
        });
        let entry = |entry: &Entry, comes: bool| StateChange {
            name: name([&[ENTRY], &present::block(&entry.sealed)]),
            now: comes.then(Vec::new),
            otherwise: (!comes).then(Vec::new),
        };
        let gone = self.removed.iter().map(|gone| entry(gone, false));
        let entries = gone.chain(self.inserted.iter().map(|come| entry(come, true)));
        let version = StateChange {
            name: name([VERSION, &[]]),
            now: Some(record(self.to)),
            otherwise: Some(record(self.from)),
        };
        changes.chain(entries).chain([version]).collect()
    }

    /// Makes it on the tree and the entries; false if the tree is not the one it was found out on.
    pub(super) fn apply(&self, scheme: &mut impl StatefulScheme, entries: &mut Present) -> bool {
        self.removed.iter().for_each(|entry| entries.remove(&entry.sealed));
        self.inserted.iter().for_each(|entry| entries.insert(&entry.sealed));
        let moves: Vec<_> = self.moves.iter().map(|it| (it.old, it.new)).collect();
        let moved = scheme.rename(&moves);
        self.removed.iter().for_each(|entry| scheme.forget(&entry.ciphertext.to_be_bytes()));
        moved && self.inserted.iter().all(|entry| scheme.restore(entry.value, entry.ciphertext))
    }
}

/// Where a ciphertext of a tree under change comes from.
#[derive(Clone, Copy)]
enum Origin {
    /// The server has it, under this number.
    Stored(u64),
    /// It is the one of this new entry.
    New(usize),
}

/// Ciphertexts that are not as the server has them, by their numbers now.
#[derive(Default)]
struct Drawn(BTreeMap<u64, Origin>);

impl Drawn {
    fn take(&mut self, new: usize, encrypted: &Encrypted) {
        let moved: Vec<_> = encrypted.replaced.iter().map(|(old, new)| (number(old), number(new))).collect();
        let origin =
            |old: &u64, drawn: &mut BTreeMap<u64, Origin>| drawn.remove(old).unwrap_or(Origin::Stored(*old));
        // All leave their places before any takes its new one.
        let origins: Vec<_> = moved.iter().map(|(old, _)| origin(old, &mut self.0)).collect();
        self.0.extend(moved.into_iter().map(|(_, new)| new).zip(origins));
        self.0.insert(number(&encrypted.stored), Origin::New(new));
    }

    /// Takes all of it back.
    fn undo(&self, scheme: &mut impl StatefulScheme) {
        let mut back = Vec::new();
        for (now, origin) in &self.0 {
            match origin {
                Origin::Stored(old) => back.push((*now, *old)),
                Origin::New(_) => scheme.forget(&now.to_be_bytes()),
            }
        }
        scheme.rename(&back);
    }
}

/// What is to change.
pub(super) struct Wish<'w> {
    /// Values and rows that come; no two alike, and none that is there.
    pub(super) insert: &'w [(u64, RowId)],
    /// Entries that go.
    pub(super) remove: Vec<Entry>,
}

/// Finds out what a change comes to, one step or several. `versions`: the one it begins at, and the next that no step had.
pub(super) fn steps<S: StatefulScheme>(
    scheme: &mut S,
    names: &Names,
    mut wish: Wish<'_>,
    (version, next): (u64, &mut u64),
    moves_max: usize,
    random: &mut Prg,
) -> Result<VecDeque<Step>, IndexError> {
    let mut drawn = Drawn::default();
    for (place, (value, _)) in wish.insert.iter().enumerate() {
        match scheme.encrypt(*value, random) {
            Ok(encrypted) => drawn.take(place, &encrypted),
            Err(error) => {
                drawn.undo(scheme);
                return Err(refused(error));
            }
        }
    }
    let (mut moves, mut inserted) = (Vec::new(), Vec::new());
    // By where they are now: one that moves to where another was does not move on with that one.
    let leaving: HashMap<u64, usize> =
        wish.remove.iter().enumerate().map(|(place, entry)| (entry.ciphertext, place)).collect();
    for (now, origin) in &drawn.0 {
        match origin {
            Origin::Stored(old) => {
                let value = scheme.value(*now).unwrap_or_default();
                if let Some(entry) = leaving.get(old).and_then(|place| wish.remove.get_mut(*place)) {
                    entry.ciphertext = *now;
                }
                moves.push(Move { value, old: *old, new: *now });
            }
            Origin::New(place) => {
                let (value, row) = wish.insert[*place];
                inserted.push(Entry { value, ciphertext: *now, sealed: names.seal(value, row) });
            }
        }
    }
    drawn.undo(scheme);
    moves.retain(|it| it.old != it.new);
    let mut steps: VecDeque<Step> =
        bounded(moves, moves_max).into_iter().map(|moves| Step { moves, ..Step::default() }).collect();
    if let Some(last) = steps.back_mut() {
        (last.removed, last.inserted) = (wish.remove, inserted);
    }
    steps.retain(|step| !(step.moves.is_empty() && step.removed.is_empty() && step.inserted.is_empty()));
    let mut from = version;
    for step in &mut steps {
        (step.from, step.to) = (from, *next);
        from = *next;
        *next += 1;
    }
    Ok(steps)
}

/// Moves in parts of at most so many, at least one part, after each of which all ciphertexts are in order: what goes
/// up goes from the top, then what goes down from the bottom.
fn bounded(moves: Vec<Move>, most: usize) -> Vec<Vec<Move>> {
    if moves.len() <= most {
        return vec![moves];
    }
    let (up, down): (Vec<_>, Vec<_>) = moves.into_iter().partition(|it| it.new > it.old);
    let up = up.rchunks(most).map(<[Move]>::to_vec);
    let down = down.chunks(most).map(<[Move]>::to_vec);
    up.chain(down).collect()
}
