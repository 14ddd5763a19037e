//! Keys of one instance, and its lists sealed and opened.

use super::cover::Node;
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

    /// Seals the records of a part, filled up to `capacity` with zeros.
    pub(super) fn seal(&self, width: Width, part: Part, capacity: u32, records: &[Record]) -> Vec<u8> {
        let bytes = capacity as usize * record_bytes(width);
        let mut plaintext = Vec::with_capacity(bytes);
        records.iter().for_each(|record| encode(width, record, &mut plaintext));
        plaintext.resize(bytes, 0);
        self.seal.seal(&[&part.associated()], &plaintext)
    }

    /// Opens a part and appends its `count` records, which are below the node.
    pub(super) fn open(
        &self,
        width: Width,
        part: Part,
        count: usize,
        sealed: &[u8],
        records: &mut Vec<Record>,
    ) -> Result<(), OpenFailed> {
        let plaintext = self.seal.open(&[&part.associated()], sealed).map_err(|_| OpenFailed)?;
        if plaintext.len() < count * record_bytes(width) {
            return Err(OpenFailed);
        }
        for bytes in plaintext.chunks_exact(record_bytes(width)).take(count) {
            let record = decode(width, bytes)?;
            if !part.node.covers(record.value) {
                return Err(OpenFailed);
            }
            records.push(record);
        }
        Ok(())
    }
}

/// Which of a list's records a part holds, and how many it has room for.
pub(super) fn part_records(shape: &Shape, layout: &Layout, records: u32, position: u32) -> (u32, u32, u32) {
    let (first, capacity, until) = if position < layout.cells {
        (position * shape.cell_records, shape.cell_records, layout.in_cells)
    } else {
        let block = position - layout.cells;
        (layout.in_cells + block * shape.block_records, shape.block_records, records)
    };
    (first.min(until), (first + capacity).min(until), capacity)
}
