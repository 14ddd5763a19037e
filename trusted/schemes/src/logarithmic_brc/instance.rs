//! Keys of one instance, and its lists sealed and opened.

use super::cover::Node;
use super::fences::Fences;
use super::record::{Record, decode, encode, record_bytes};
use crate::error::OpenFailed;
use arras_keys::{Key, Purpose};
use arras_primitives::det_aead::DetAead;
use arras_primitives::prf::Prf;
use arras_protocol::logarithmic_brc::InstanceId;
use arras_protocol::logarithmic_brc::cjjjkrs::{Layout, Shape};
use arras_protocol::ore::Width;

/// What tokens are made with and lists sealed under, in one instance. Nothing is sealed twice under one: an instance
/// is built once, from fresh keys, so what a server was given to search older ones finds nothing in it.
pub(super) struct InstanceKeys {
    /// Node to token.
    tokens: Prf,
    seal: DetAead,
}

/// Where a part of a list belongs: sealed with it, so that parts cannot be exchanged, left out or cut off.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) node: Node,
    /// Records of the list.
    pub(super) records: u32,
    /// Its place among the list's cells and blocks.
    pub(super) position: u32,
}

impl Part {
    fn associated(&self) -> [u8; 17] {
        let mut bytes = [0; 17];
        bytes[0] = self.node.level;
        bytes[1..9].copy_from_slice(&self.node.prefix.to_be_bytes());
        bytes[9..13].copy_from_slice(&self.records.to_be_bytes());
        bytes[13..].copy_from_slice(&self.position.to_be_bytes());
        bytes
    }
}

/// The node as the function that makes tokens sees it.
pub(super) fn token_input(node: Node) -> [u8; 16] {
    let mut input = [0; 16];
    input[0] = node.level;
    input[8..].copy_from_slice(&node.prefix.to_be_bytes());
    input
}

impl InstanceKeys {
    pub(super) fn new(keywords: &Key, seals: &Key, instance: InstanceId) -> Self {
        Self {
            tokens: Prf::new(keywords.derive(&[&instance.0]).expose_16()),
            seal: DetAead::new(seals.derive(&[&instance.0]).expose()),
        }
    }

    /// The keys of an index from which those of instances are derived.
    pub(super) fn roots(key: &Key) -> [Key; 2] {
        [key.child(Purpose::LogarithmicBrcKeyword), key.child(Purpose::LogarithmicBrcSeal)]
    }

    /// Replaces nodes, as [`token_input`] gives them, by their tokens.
    pub(super) fn tokens(&self, nodes: &mut [[u8; 16]]) {
        self.tokens.blocks(nodes);
    }

    /// Seals a part: what fences a cell has before its records, then the records, filled up to the room there is with zeros.
    pub(super) fn seal<'r>(
        &self,
        room: Room,
        part: Part,
        fences: Option<Fences>,
        records: impl Iterator<Item = &'r Record>,
    ) -> Vec<u8> {
        let mut plaintext = Vec::with_capacity(room.bytes());
        if let Some(fences) = fences.filter(|_| room.fences > 0) {
            plaintext.extend(fences.encode(part.node, room.fences));
        }
        plaintext.resize(room.fences, 0);
        records.for_each(|record| encode(room.width, record, &mut plaintext));
        plaintext.resize(room.bytes(), 0);
        self.seal.seal(&[&part.associated()], &plaintext)
    }

    /// Opens a part: its `count` records, which are below the node, are appended. The fences, if it is a list's first cell
    /// and has some.
    pub(super) fn open(
        &self,
        room: Room,
        part: Part,
        count: usize,
        sealed: &[u8],
        records: &mut Vec<Record>,
    ) -> Result<Option<Fences>, OpenFailed> {
        let plaintext = self.seal.open(&[&part.associated()], sealed).map_err(|_| OpenFailed)?;
        if plaintext.len() != room.bytes() || count > room.records {
            return Err(OpenFailed);
        }
        let (fences, held) = plaintext.split_at(room.fences);
        for bytes in held.chunks_exact(record_bytes(room.width)).take(count) {
            let record = decode(room.width, bytes)?;
            if !part.node.covers(record.value) {
                return Err(OpenFailed);
            }
            records.push(record);
        }
        Ok((part.position == 0 && room.fences > 0).then(|| Fences::decode(part.node, fences)))
    }
}

/// What a part has room for.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub(super) width: Width,
    /// Bytes of fences, before the records.
    pub(super) fences: usize,
    pub(super) records: usize,
}

impl Room {
    /// That of the part at a position of a list.
    pub(super) fn of(width: Width, shape: &Shape, layout: &Layout, position: u32) -> Self {
        let (fences, records) = if position < layout.cells {
            (shape.fence_bytes, shape.cell_records)
        } else {
            (0, shape.block_records)
        };
        Self { width, fences: fences as usize, records: records as usize }
    }

    fn bytes(self) -> usize {
        self.fences + self.records * record_bytes(self.width)
    }
}

/// Which of a list's records a part holds.
pub(super) fn part_records(shape: &Shape, layout: &Layout, records: u32, position: u32) -> (u32, u32) {
    let (first, capacity, until) = if position < layout.cells {
        (position * shape.cell_records, shape.cell_records, layout.in_cells)
    } else {
        let block = position - layout.cells;
        (layout.in_cells + block * shape.block_records, shape.block_records, records)
    };
    (first.min(until), (first + capacity).min(until))
}
