//! Building an instance: every list's cells and blocks, in the order of their labels, within bounded memory.
//!
//! The server receives cells and blocks ordered by label, which is a random order: which of them belong together does
//! not show. As all of them need not fit into memory, they are made in passes, each of the labels in one slice of
//! the dictionary; labels are cheap to make again.

use super::cover::Node;
use super::fences::{Fences, in_order};
use super::instance::{InstanceKeys, Part, Room, part_records, token_input};
use super::record::Record;
use super::{Padding, Parameters};
use arras_primitives::prg::{self, Prg};
use arras_protocol::logarithmic_brc::cjjjkrs::Shape;
use arras_protocol::logarithmic_brc::cjjkrs::{Label, mask_records};
use arras_protocol::logarithmic_brc::{Bin, Block, RECORDS_MAX};
use std::ops::Range;

/// Memory for the cells and blocks of one pass, about, in bytes.
const PASS_BYTES: usize = 96 << 20;

/// Pages in one request, about, in bytes.
const BATCH_BYTES: usize = 8 << 20;

/// Nodes whose tokens are made at once.
const NODES_AT_ONCE: usize = 256;

/// What an instance is built of.
pub(super) struct Builder<'a> {
    pub(super) parameters: &'a Parameters,
    pub(super) keys: &'a InstanceKeys,
    pub(super) shape: Shape,
    /// Levels of nodes that have lists.
    levels: Range<u8>,
    /// Ordered by value, then row.
    records: &'a [Record],
    /// Cells and blocks that are there to hide how many others there are.
    dummies: [u64; 2],
    /// Seed of the dummies' labels and contents.
    dummy_seed: [u8; 16],
    bins_a_pass: u32,
}

/// Cells and blocks of a number of lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) cells: u64,
    pub(super) blocks: u64,
}

/// A list: records below one node.
struct List<'a> {
    node: Node,
    fences: Fences,
    /// Ordered by value, then row.
    records: &'a [Record],
}

/// The lists of one level: runs of records below one node.
fn lists(records: &[Record], level: u8) -> impl Iterator<Item = List<'_>> {
    let mut until = 0;
    records
        .chunk_by(move |left, right| Node::above(left.value, level) == Node::above(right.value, level))
        .filter_map(move |list| {
            let from = until;
            until += list.len();
            let below = from.checked_sub(1).and_then(|last| records.get(last));
            let [below, above] = [below, records.get(until)].map(|record| record.map(|record| record.value));
            let node = Node::above(list.first()?.value, level);
            Some(List { node, fences: Fences { below, above }, records: list })
        })
}

/// How many records, as the shape counts them; `None` if there are too many for one instance.
pub(super) fn count(records: &[Record]) -> Option<u32> {
    u32::try_from(records.len()).ok().filter(|count| *count <= RECORDS_MAX)
}

fn sizes(shape: &Shape, levels: Range<u8>, records: &[Record]) -> Option<Sizes> {
    let mut sizes = Sizes::default();
    for level in levels {
        for list in lists(records, level) {
            let layout = shape.layout(count(list.records)?)?;
            sizes.cells += u64::from(layout.cells);
            sizes.blocks += u64::from(layout.blocks);
        }
    }
    Some(sizes)
}

/// The most cells and blocks that any `records` records can need on the levels.
pub(super) fn worst_sizes(shape: &Shape, levels: Range<u8>, domain_bits: u8, records: u64) -> Sizes {
    let cell_records = u64::from(shape.cell_records.max(1));
    let loose = u64::from(shape.loose_records_max);
    let mut sizes = Sizes::default();
    for level in levels {
        let nodes = 1_u64.checked_shl(u32::from(domain_bits.saturating_sub(level))).unwrap_or(u64::MAX);
        let lists = nodes.min(records);
        // A list has one cell for every `cell_records` records, the last not full: most if lists are many.
        let by_records = (records + lists * (cell_records - 1)) / cell_records;
        if shape.block_records == 0 {
            sizes.cells += by_records;
            continue;
        }
        sizes.cells += by_records.min(lists.saturating_mul(1 + loose.div_ceil(cell_records)));
        // A list with a block has more than `loose` records beyond its first cell; all blocks but one are full.
        let by_size = records / (loose + 1);
        sizes.blocks += by_size.min((records / u64::from(shape.block_records)).saturating_add(lists));
    }
    sizes
}

/// The next number with at most four significant bits.
pub(super) fn rounded(number: u64) -> u64 {
    let step = 1_u64 << number.checked_ilog2().unwrap_or(0).saturating_sub(3);
    number.next_multiple_of(step)
}

/// Cells and blocks of one pass.
#[derive(Default)]
struct Pass {
    /// Label of a cell, and where its bytes are.
    cells: Vec<(Label, usize)>,
    cell_bytes: Vec<u8>,
    blocks: Vec<(Label, Vec<u8>)>,
}

/// Pages for one request.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) bins: Vec<Bin>,
    pub(super) blocks: Vec<Block>,
}

impl<'a> Builder<'a> {
    /// Prepares an instance of `records`, which are ordered and not too many. `None` if they are too many.
    pub(super) fn new(
        parameters: &'a Parameters,
        keys: &'a InstanceKeys,
        flat: bool,
        records: &'a [Record],
        prg: &mut Prg,
    ) -> Option<Self> {
        count(records)?;
        let lowest = if flat { parameters.domain_bits } else { 0 };
        let levels = lowest..parameters.domain_bits + 1;
        let shape = if flat { parameters.shape_of_cells()? } else { parameters.shape()? };
        let real = sizes(&shape, levels.clone(), records)?;
        let padded = match parameters.padding {
            Padding::None => real,
            Padding::Rounded => Sizes { cells: rounded(real.cells), blocks: rounded(real.blocks) },
            Padding::Worst => {
                worst_sizes(&shape, levels.clone(), parameters.domain_bits, records.len() as u64)
            }
        };
        let dummies = [padded.cells.saturating_sub(real.cells), padded.blocks.saturating_sub(real.blocks)];
        let shape = shape.for_cells(padded.cells)?;
        let bytes = u128::from(padded.cells) * shape.cell_bytes() as u128
            + u128::from(padded.blocks) * shape.sealed_block_bytes() as u128;
        let passes = u32::try_from(bytes / PASS_BYTES as u128).ok()? + 1;
        let mut dummy_seed = [0; 16];
        prg.fill(&mut dummy_seed);
        let bins_a_pass = shape.bins.div_ceil(passes);
        Some(Self { parameters, keys, shape, levels, records, dummies, dummy_seed, bins_a_pass })
    }

    /// All pages, in batches; the last one is marked.
    pub(super) fn batches(&self) -> Batches<'_> {
        Batches { builder: self, next_bin: 0, spill: Vec::new(), ready: Vec::new().into_iter() }
    }

    /// Makes what lies in a slice of the bins.
    fn pass(&self, slice: &Range<u32>) -> Pass {
        let mut pass = Pass::default();
        let (mut some, mut seeds) = (Vec::new(), Vec::new());
        for level in self.levels.clone() {
            let mut lists = lists(self.records, level);
            loop {
                some.clear();
                some.extend(lists.by_ref().take(NODES_AT_ONCE));
                if some.is_empty() {
                    break;
                }
                seeds.clear();
                seeds.extend(some.iter().map(|list| token_input(list.node)));
                self.keys.tokens(&mut seeds);
                for (list, token) in some.iter().zip(&seeds) {
                    self.list(slice, list, token, &mut pass);
                }
            }
        }
        self.dummies(slice, &mut pass);
        pass
    }

    /// Makes what of one list lies in a slice of the bins.
    fn list(&self, slice: &Range<u32>, list: &List<'_>, token: &[u8; 16], pass: &mut Pass) {
        let &List { node, fences, records: held } = list;
        let Some((records, layout)) = count(held).and_then(|count| Some((count, self.shape.layout(count)?)))
        else {
            return;
        };
        let mut short = [[0; 16]; 4];
        let mut long = Vec::new();
        let parts = layout.parts() as usize;
        let stream = if parts < short.len() {
            &mut short[..=parts]
        } else {
            long.resize(parts + 1, [0; 16]);
            &mut long[..]
        };
        prg::stream(token, stream);
        let Some((mask, labels)) = stream.split_first() else {
            return;
        };
        for (label, position) in labels.iter().zip(0..) {
            let label = Label(*label);
            if !slice.contains(&label.bin(self.shape.bins)) {
                continue;
            }
            let (first, until) = part_records(&self.shape, &layout, records, position);
            let part = Part { node, records, position };
            let room = Room::of(self.parameters.width, &self.shape, &layout, position);
            let its = (first as usize..until as usize).filter_map(|at| in_order(node, at, held));
            let sealed = self.keys.seal(room, part, (position == 0).then_some(fences), its);
            if position >= layout.cells {
                pass.blocks.push((label, sealed));
                continue;
            }
            // Only the first cell says how long the list is; in the others the label's own bytes stand in.
            let header =
                if position == 0 { mask_records(mask, records).to_le_bytes() } else { filler(label, mask) };
            pass.push_cell(label, header, &sealed);
        }
    }

    /// Makes the dummies that lie in a slice of the bins.
    fn dummies(&self, slice: &Range<u32>, pass: &mut Pass) {
        let mut labels = Prg::new(&self.dummy_seed);
        let mut cell = vec![0; self.shape.sealed_cell_bytes()];
        let mut block = vec![0; self.shape.sealed_block_bytes()];
        for (count, is_cell) in self.dummies.into_iter().zip([true, false]) {
            for _ in 0..count {
                // A label, and the seed of the content.
                let mut drawn = [[0; 16]; 2];
                labels.fill_blocks(&mut drawn);
                let [label, seed] = drawn;
                let label = Label(label);
                if !slice.contains(&label.bin(self.shape.bins)) {
                    continue;
                }
                let mut content = Prg::new(&seed);
                if is_cell {
                    let mut header = [0; 4];
                    content.fill(&mut header);
                    content.fill(&mut cell);
                    pass.push_cell(label, header, &cell);
                } else {
                    content.fill(&mut block);
                    pass.blocks.push((label, block.clone()));
                }
            }
        }
    }
}

/// Four bytes that look random and that the client need not know: in place of a length.
fn filler(label: Label, mask: &[u8; 16]) -> [u8; 4] {
    let mut bytes = [0; 4];
    // A token's stream is one of a random function: what it gives at the label is as good as random.
    let mut seed = *mask;
    seed.iter_mut().zip(label.0).for_each(|(seed, byte)| *seed ^= byte);
    Prg::new(&seed).fill(&mut bytes);
    bytes
}

impl Pass {
    fn push_cell(&mut self, label: Label, header: [u8; 4], sealed: &[u8]) {
        self.cells.push((label, self.cell_bytes.len()));
        self.cell_bytes.extend_from_slice(&label.0);
        self.cell_bytes.extend_from_slice(&header);
        self.cell_bytes.extend_from_slice(sealed);
    }
}

/// Iterates over an instance's pages.
pub(super) struct Batches<'a> {
    builder: &'a Builder<'a>,
    next_bin: u32,
    /// Cells that the last bin had no room for.
    spill: Vec<u8>,
    ready: std::vec::IntoIter<Batch>,
}

impl Batches<'_> {
    /// Fills the bins of a slice, and those behind the last one that the cells left over need.
    fn slice(&mut self, slice: &Range<u32>) -> Vec<Batch> {
        let Pass { mut cells, cell_bytes: bytes, mut blocks } = self.builder.pass(slice);
        cells.sort_unstable_by_key(|(label, _)| *label);
        blocks.sort_unstable_by_key(|(label, _)| *label);
        let shape = &self.builder.shape;
        let bin_bytes = shape.cell_bytes() * shape.bin_cells as usize;
        let mut batches = Pages::default();
        let mut cells = cells.into_iter().peekable();
        let mut place = slice.start;
        let is_last = slice.end == shape.bins;
        while place < slice.end || (is_last && !self.spill.is_empty()) {
            let mut bin = std::mem::take(&mut self.spill);
            while let Some((_, at)) = cells.next_if(|(label, _)| label.bin(shape.bins) == place) {
                bin.extend_from_slice(&bytes[at..at + shape.cell_bytes()]);
            }
            if bin.len() > bin_bytes {
                self.spill = bin.split_off(bin_bytes);
            }
            if !bin.is_empty() {
                batches.grow(bin.len()).bins.push(Bin { place, cells: bin.into() });
            }
            place += 1;
        }
        for (label, sealed) in blocks {
            batches.grow(sealed.len()).blocks.push(Block { label, sealed: sealed.into() });
        }
        batches.batches
    }
}

/// Pages dealt out to requests.
#[derive(Default)]
struct Pages {
    batches: Vec<Batch>,
    bytes: usize,
}

impl Pages {
    /// The batch for a further page.
    fn grow(&mut self, page_bytes: usize) -> &mut Batch {
        self.bytes += page_bytes;
        if self.batches.is_empty() || self.bytes > BATCH_BYTES {
            self.batches.push(Batch::default());
            self.bytes = page_bytes;
        }
        let last = self.batches.len() - 1;
        &mut self.batches[last]
    }
}

impl Iterator for Batches<'_> {
    /// A batch, and whether it is the last.
    type Item = (Batch, bool);

    fn next(&mut self) -> Option<(Batch, bool)> {
        let bins = self.builder.shape.bins;
        while self.ready.len() == 0 && self.next_bin < bins {
            let until = self.next_bin.saturating_add(self.builder.bins_a_pass).min(bins);
            self.ready = self.slice(&(self.next_bin..until)).into_iter();
            self.next_bin = until;
            // Even an instance without pages is announced.
            if self.next_bin == bins && self.ready.len() == 0 {
                self.ready = vec![Batch::default()].into_iter();
            }
        }
        let batch = self.ready.next()?;
        Some((batch, self.next_bin == bins && self.ready.len() == 0))
    }
}
