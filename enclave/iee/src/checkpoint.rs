//! The state in pieces, so that the log before it can be forgotten.
//!
//! Behind the pieces that a start loads are those of counters that are not in tables (the module `spill`).
//!
//! Everything that there is more of with more data takes the same number of bytes whatever it says, so that lengths show numbers alone.

use crate::journal::{Change, Place, Where};
use crate::server::{Core, Enclave};
use crate::table::{Records, SEGMENTS};
use arras_protocol::Blob;
use arras_protocol::iee::{Fault, Outgoing, StateName};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Most records in a piece.
const PIECE_RECORDS: usize = 16_384;

/// Which checkpoint is the newest.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Head {
    /// How far the log is in it.
    pub(crate) place: Place,
    pub(crate) pieces: u32,
    /// Pieces from this one on are of what is spilled.
    pub(crate) loaded: u32,
    /// Names it among all that any run of the enclave made.
    id: [u8; 16],
    /// How often tables were spilled into these: no keyword has more records.
    pub(crate) spills: usize,
    /// What came in its place, which so is held by whoever holds this one.
    #[serde(skip)]
    pub(crate) next: OnceLock<Arc<Self>>,
}

impl Head {
    /// Pieces of what is spilled.
    pub(crate) fn spilled(&self) -> Range<u32> {
        self.loaded..self.pieces
    }

    /// How many records are in them, at most: what the host knows of it.
    pub(crate) fn records_max(&self) -> usize {
        self.spilled().len() * PIECE_RECORDS
    }

    /// Where a piece is sealed.
    fn place_of(&self, piece: u32) -> Vec<u8> {
        [&self.id[..], &piece.to_be_bytes()].concat()
    }

    pub(crate) fn name(&self, piece: u32) -> StateName {
        StateName::Checkpoint { generation: self.place.number, piece }
    }
}

/// Where heads and pieces are sealed.
pub(crate) const HEAD: Where<'_> = (b"head", &[]);
const PIECE: &[u8] = b"piece";

impl Core {
    /// A piece as it was loaded.
    pub(crate) fn open_piece(&self, of: &Head, piece: u32, sealed: Option<Blob>) -> Result<Change, Fault> {
        self.sealer.open((PIECE, &of.place_of(piece)), sealed.ok_or(Fault::StateSetBack)?.as_slice())
    }

    /// The records of a piece of what is spilled.
    pub(crate) fn spilled(&self, of: &Head, piece: u32, sealed: Option<Blob>) -> Result<Records, Fault> {
        let Change::Keywords(records) = self.open_piece(of, piece, sealed)? else {
            return Err(Fault::StateAltered);
        };
        Ok(records)
    }
}

/// A checkpoint that is being written.
struct Writer<'a> {
    enclave: &'a Enclave,
    head: Head,
    /// Records for the next piece.
    records: Records,
    bytes: usize,
}

impl Writer<'_> {
    async fn save(&mut self, piece: Change) {
        let name = self.head.name(self.head.pieces);
        let place = self.head.place_of(self.head.pieces);
        let sealed = self.enclave.core().seal(&piece, (PIECE, &place));
        self.head.pieces += 1;
        self.bytes += sealed.len();
        self.enclave.save(name, sealed).await;
    }

    /// Saves full pieces of records; behind the last record, what is left, too.
    async fn save_records(&mut self, are_all: bool) {
        while self.records.len() >= if are_all { 1 } else { PIECE_RECORDS } {
            let first = self.records.take_first(PIECE_RECORDS);
            self.save(Change::Keywords(first)).await;
        }
    }

    /// Saves records of all keywords in tables; less than a piece of them may wait.
    async fn save_keywords(&mut self) {
        let collections = self.enclave.core().state.collections.len();
        for (number, segment) in (0..collections).flat_map(|number| (0..SEGMENTS).map(move |at| (number, at)))
        {
            self.records
                .extend(self.enclave.core().state.collections[number].table.records(segment, number as u8));
            self.save_records(false).await;
        }
    }

    async fn save_versions(&mut self) {
        let collections = self.enclave.core().state.collections.len();
        for number in 0..collections {
            let bound = self.enclave.core().state.collections[number].documents.bound();
            for first in (0..bound).step_by(PIECE_RECORDS) {
                let versions =
                    self.enclave.core().state.collections[number].documents.versions(first, PIECE_RECORDS);
                self.save(Change::Versions(number as u32, versions)).await;
            }
        }
    }

    /// Takes over what was spilled before, piece by piece, without what is void by now.
    async fn copy(&mut self, old: &Head) -> Result<(), Fault> {
        for piece in old.spilled() {
            let sealed = self.enclave.load(old.name(piece)).await;
            {
                let mut core = self.enclave.core();
                for record in core.spilled(old, piece, sealed)?.iter() {
                    if !core.state.kept(record.collection.into())?.table.is_whole(&record.stem) {
                        self.records.extend([record]);
                    }
                }
            }
            self.save_records(false).await;
        }
        Ok(())
    }
}

impl Enclave {
    /// Writes the state whole, and has the log before it forgotten. Where tables are full, it spills them.
    pub(crate) async fn checkpoint(&self) -> Result<(), Fault> {
        let (old, head, generation, rest) = {
            let core = &mut *self.core();
            let (state, old) = (&core.state, Arc::clone(&core.state.spilled));
            core.journal.since_checkpoint = 0;
            core.fill.set_known(state.keywords(), &old);
            // Its generation uses an epoch number up, and so does the record that says it.
            let spills = state.epochs < u32::MAX - 1 && core.fill.spills(!old.spilled().is_empty());
            let generation = if spills { state.epochs + 1 } else { state.generation };
            let mut id = [0; 16];
            core.prg.fill(&mut id);
            let spills = old.spills + usize::from(spills);
            let head = Head { place: core.journal.place, id, spills, ..Head::default() };
            (old, head, generation, state.rest(generation))
        };
        let is_new = head.spills > old.spills;
        let mut writer = Writer { enclave: self, head, records: Records::default(), bytes: 0 };
        writer.save(rest).await;
        writer.save_versions().await;
        if is_new {
            writer.head.loaded = writer.head.pieces;
        }
        writer.save_keywords().await;
        if !is_new {
            writer.save_records(true).await;
            writer.head.loaded = writer.head.pieces;
        }
        writer.copy(&old).await?;
        writer.save_records(true).await;
        let Writer { head, bytes, .. } = writer;
        let (sealed, until) = (self.core().seal(&head, HEAD), head.place.number);
        self.save(StateName::Head, sealed).await;
        {
            // From now on it counts.
            let core = &mut *self.core();
            core.state.succeed(head);
            if is_new {
                core.state.begin_generation(generation);
            }
            core.fill.set_known(core.state.keywords(), &core.state.spilled);
            core.journal.checkpoint_bytes = bytes;
        }
        // The log before it, and the last one, can go once nobody reads what is spilled there.
        self.until(|_| (old.spilled().is_empty() || Arc::strong_count(&old) == 1).then_some(())).await;
        self.ask(|ask| Outgoing::Forget { ask, until }).await;
        if is_new { self.log(&Change::Epoch).await } else { Ok(()) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::collection::{About, Collection};
    use crate::documents::{Standing, Version};
    use crate::state::State;
    use crate::table::Record;
    use crate::{Channels, Iee};
    use arras_keys::Key;
    use arras_protocol::iee::{Incoming, STATE_BYTES_MAX};
    use arras_schemes::bisen::DocumentName;
    use arras_schemes::bisen::message::Settings;
    use arras_schemes::bisen::query::Padding;
    use arras_schemes::bisen::update::{Facts, Field};

    const STANDINGS: [Standing; 3] = [Standing::Draft, Standing::Published, Standing::Retired];

    /// A state of two collections: many keywords in one segment, and versions with these facts.
    fn state(root: &Key, count: u32, facts: &Facts) -> State {
        let mut state = State::default();
        for number in 0..2 {
            let settings = Settings { fields: 4, padding: Padding::None, profile: Blob::default() };
            let about = About { name: format!("{number}"), settings, revision: 0, entries: 0 };
            let mut collection = Collection::new(root, number, about, 0);
            for keyword in 0..40_000_u32 {
                let mut stem = [7; 16];
                stem[12..].copy_from_slice(&keyword.to_le_bytes());
                collection.table.set(&Record { stem, count, epoch: number, collection: 0 }, false);
            }
            for version in 0..20_000_u32 {
                let mut name = [1; 16];
                name[..4].copy_from_slice(&version.to_le_bytes());
                let standing = STANDINGS[version as usize % 3];
                let (name, facts, entries) = (DocumentName(name), *facts, version % 5);
                collection.documents.restore(&Version { name, facts, entries, standing });
            }
            state.collections.push(collection);
        }
        state
    }

    fn enclave(root: &Key) -> Iee {
        Iee::new(Key::take_from(&mut root.expose().to_owned()), Channels::Attested { debug: true })
    }

    /// The sealed pieces of a checkpoint of a state, and its head.
    fn written(root: &Key, state: State) -> (Head, Vec<Vec<u8>>) {
        let mut iee = enclave(root);
        let enclave = iee.enclave.clone();
        enclave.core().state = state;
        let task = enclave.clone();
        enclave.core().tasks.spawn(None, Box::pin(async move { task.checkpoint().await }));
        let mut sealed = Vec::new();
        enclave.run().unwrap();
        let mut said = enclave.core().tasks.take_out();
        while let Some(Outgoing::Save { ask, state, .. }) = said.pop() {
            sealed.push(state.0);
            said = iee.receive(Incoming::Answer { ask, bytes: None }).unwrap();
        }
        let head: Head = enclave.core().sealer.open(HEAD, &sealed.pop().unwrap()).unwrap();
        (head, sealed)
    }

    #[test]
    fn what_is_written_comes_back_in_pieces_whose_lengths_show_numbers_alone() {
        let root = Key::take_from(&mut [9; 32]);
        let facts = Facts { length: 5, visibility: 2, fields: [1, -1, 0, 3].map(Field) };
        let before = state(&root, 1, &facts);
        let (head, sealed) = written(&root, state(&root, 1, &facts));
        assert_eq!(head.pieces as usize, sealed.len());
        assert!(sealed.iter().all(|piece| piece.len() <= STATE_BYTES_MAX));
        let after = enclave(&root);
        let after = &mut *after.enclave.core();
        for (piece, number) in sealed.iter().zip(0..) {
            let piece = after.open_piece(&head, number, Some(Blob(piece.clone()))).unwrap();
            after.state.apply(&after.root, &piece).unwrap();
        }
        for (one, other) in before.collections.iter().zip(&after.state.collections) {
            assert_eq!((one.table.keywords(), other.table.keywords()), (40_000, 40_000));
            assert_eq!(other.documents.bound(), 20_000);
            for number in 0..20_000 {
                let (one, other) = (one.documents.get(number), other.documents.get(number));
                assert!(one.is_some() && one == other);
            }
        }
        let large = Facts { length: u32::MAX, visibility: u32::MAX, fields: [Field(i64::MIN); 4] };
        let (_, others) = written(&root, state(&root, 100_000, &large));
        let lengths = |pieces: &[Vec<u8>]| pieces.iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(lengths(&sealed), lengths(&others));
    }
}
