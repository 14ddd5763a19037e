//! Keyless half of Logarithmic-BRC (Demertzis et al., SIGMOD 2016): an encrypted multimap of bins and blocks.

use crate::backend::storage;
use crate::keyspace::key;
use arras_primitives::prg::{self, Prg};
use arras_protocol::limits::{REPLY_BYTES_SOFT, STEPS_MAX};
use arras_protocol::logarithmic_brc::cjjjkrs::{Layout, Shape};
use arras_protocol::logarithmic_brc::cjjkrs::{HEADER_BYTES, LABEL_BYTES, Label, SearchToken, mask_records};
use arras_protocol::logarithmic_brc::{Asked, Bin, Block, InstanceId, Others, Request, Response, TOKENS_MAX};
use arras_protocol::{Blob, IndexId, Refusal, codec};
use arras_storage::{Bytes, Direction, Durability, Read, Storage, Table, Write};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Index and instance to [`Status`].
const INSTANCES: Table = Table("logarithmic_brc_instances");
/// Index, instance and place of a bin to its cells.
const BINS: Table = Table("logarithmic_brc_bins");
/// Index, instance and label of a block to its sealed records.
const BLOCKS: Table = Table("logarithmic_brc_blocks");

/// Bins after each other that are read for one label. Bins are filled in part on average, so a run of full ones is
/// short; a longer one is no accident.
const BIN_RUN_MAX: u32 = 4096;

/// What is known of an instance.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Status {
    shape: Shape,
    complete: bool,
}

/// Answers a request.
pub(crate) fn answer<S: Storage>(store: &S, request: Request) -> Result<Response, Refusal> {
    match request {
        Request::Build { index, instance, shape, bins, blocks, others } => {
            let mut writer = store.write().map_err(storage)?;
            begin(&mut writer, index, instance, shape, others.is_some())?;
            add(&mut writer, &name(index, instance), &shape, &bins, &blocks)?;
            let durability = if others.is_some() { Durability::Durable } else { Durability::Relaxed };
            if let Some(Others { mut kept, replaced }) = others {
                kept.push(instance);
                known(&writer, index, [&kept, &replaced])?;
                drop_others(&mut writer, index, &kept)?;
            }
            writer.commit(durability).map_err(storage)?;
            Ok(Response::Done)
        }
        Request::Retain { index, instances } => {
            let mut writer = store.write().map_err(storage)?;
            drop_others(&mut writer, index, &instances)?;
            writer.commit(Durability::Durable).map_err(storage)?;
            Ok(Response::Done)
        }
        Request::Search { index, asked, skip } => {
            few(&asked)?;
            search(&store.read().map_err(storage)?, index, &asked, skip)
        }
        Request::Heads { index, asked } => {
            few(&asked)?;
            heads(&store.read().map_err(storage)?, index, &asked)
        }
    }
}

fn name(index: IndexId, instance: InstanceId) -> Vec<u8> {
    key(&[index.as_bytes(), &instance.0])
}

fn malformed(what: &str) -> Refusal {
    Refusal::Malformed(what.to_owned())
}

fn status(reader: &impl Read, name: &[u8]) -> Result<Option<Status>, Refusal> {
    reader
        .get(INSTANCES, name)
        .map_err(storage)?
        .map(|bytes| codec::decode(&bytes).map_err(|_| Refusal::Damaged("an instance's shape".into())))
        .transpose()
}

/// Begins an instance, or goes on with it.
fn begin(
    writer: &mut impl Write,
    index: IndexId,
    instance: InstanceId,
    shape: Shape,
    complete: bool,
) -> Result<(), Refusal> {
    let shape = shape.checked().ok_or_else(|| malformed("a shape that cannot be"))?;
    let name = name(index, instance);
    match status(writer, &name)? {
        Some(status) if status.complete => return Err(Refusal::Conflict { step: 0 }),
        Some(status) if status.shape != shape => return Err(malformed("an instance of two shapes")),
        _ => {}
    }
    writer.put(INSTANCES, &name, &codec::encode(&Status { shape, complete })).map_err(storage)
}

/// Adds pages.
fn add(
    writer: &mut impl Write,
    name: &[u8],
    shape: &Shape,
    bins: &[Bin],
    blocks: &[Block],
) -> Result<(), Refusal> {
    if bins.len() > STEPS_MAX || blocks.len() > STEPS_MAX {
        return Err(Refusal::Limit(format!("{} pages in one write", bins.len().max(blocks.len()))));
    }
    let cell_bytes = shape.cell_bytes();
    let bin_bytes_max = cell_bytes.saturating_mul(shape.bin_cells as usize);
    for bin in bins {
        if bin.cells.len() > bin_bytes_max || !bin.cells.len().is_multiple_of(cell_bytes) {
            return Err(malformed("a bin of another length"));
        }
        writer.put(BINS, &key(&[name, &bin.place.to_be_bytes()]), bin.cells.as_slice()).map_err(storage)?;
    }
    for block in blocks {
        if shape.block_records == 0 || block.sealed.len() != shape.sealed_block_bytes() {
            return Err(malformed("a block of another length"));
        }
        writer.put(BLOCKS, &key(&[name, &block.label.0]), block.sealed.as_slice()).map_err(storage)?;
    }
    Ok(())
}

/// # Errors
/// [`Refusal::Malformed`] if there is a complete instance that the client does not name.
fn known(reader: &impl Read, index: IndexId, named: [&[InstanceId]; 2]) -> Result<(), Refusal> {
    let named: BTreeSet<Vec<u8>> = named.into_iter().flatten().map(|it| name(index, *it)).collect();
    let range = crate::keyspace::prefix_range(index.as_bytes(), None);
    let mut unnamed: Vec<Vec<u8>> = Vec::new();
    reader
        .scan(INSTANCES, crate::keyspace::borrow(&range), Direction::Ascending, &mut |name, _| {
            if !named.contains(name) {
                unnamed.push(name.to_vec());
            }
            ControlFlow::Continue(())
        })
        .map_err(storage)?;
    for name in unnamed {
        if status(reader, &name)?.is_some_and(|status| status.complete) {
            return Err(malformed(
                "the index has instances that its client does not know of: it has lost its state, or another writes",
            ));
        }
    }
    Ok(())
}

/// Drops the instances of an index that are not retained, finished or not.
fn drop_others(writer: &mut impl Write, index: IndexId, retained: &[InstanceId]) -> Result<(), Refusal> {
    let retained: BTreeSet<Vec<u8>> = retained.iter().map(|instance| name(index, *instance)).collect();
    let range = crate::keyspace::prefix_range(index.as_bytes(), None);
    let mut dropped: Vec<Vec<u8>> = Vec::new();
    writer
        .scan(INSTANCES, crate::keyspace::borrow(&range), Direction::Ascending, &mut |name, _| {
            if !retained.contains(name) {
                dropped.push(name.to_vec());
            }
            ControlFlow::Continue(())
        })
        .map_err(storage)?;
    for name in dropped {
        writer.delete(INSTANCES, &name).map_err(storage)?;
        writer.delete_prefix(BINS, &name, usize::MAX).map_err(storage)?;
        writer.delete_prefix(BLOCKS, &name, usize::MAX).map_err(storage)?;
    }
    Ok(())
}

/// # Errors
/// [`Refusal::Limit`] if there are too many lists for one request.
fn few(asked: &[Asked]) -> Result<(), Refusal> {
    let tokens: usize = asked.iter().map(|asked| asked.tokens.len()).sum();
    if tokens > TOKENS_MAX || asked.len() > TOKENS_MAX {
        return Err(Refusal::Limit(format!("{tokens} lists in one search")));
    }
    Ok(())
}

/// Reads lists until the reply is full.
fn search(reader: &impl Read, index: IndexId, asked: &[Asked], mut skip: u32) -> Result<Response, Refusal> {
    let (mut records, mut sealed) = (Vec::new(), Vec::new());
    for Asked { instance, tokens } in asked {
        let mut lists = Lists::of(reader, index, *instance)?;
        for token in tokens {
            if sealed.len() >= REPLY_BYTES_SOFT {
                return Ok(Response::Found { records, sealed: sealed.into() });
            }
            records.push(lists.read(*token, std::mem::take(&mut skip), &mut sealed)?);
        }
    }
    Ok(Response::Found { records, sealed: Blob(sealed) })
}

/// Reads first cells until the reply is full.
fn heads(reader: &impl Read, index: IndexId, asked: &[Asked]) -> Result<Response, Refusal> {
    let (mut records, mut sealed) = (Vec::new(), Vec::new());
    for Asked { instance, tokens } in asked {
        let mut lists = Lists::of(reader, index, *instance)?;
        for token in tokens {
            if sealed.len() >= REPLY_BYTES_SOFT {
                return Ok(Response::Found { records, sealed: sealed.into() });
            }
            let mut first = [[0; 16]; 2];
            prg::stream(&token.0, &mut first);
            let [mask, label] = &first;
            records.push(match lists.cell(Label(*label))? {
                Some((header, body)) => {
                    sealed.extend_from_slice(body);
                    mask_records(mask, header)
                }
                None => 0,
            });
        }
    }
    Ok(Response::Found { records, sealed: Blob(sealed) })
}

/// The lists of one instance.
struct Lists<'a, R> {
    reader: &'a R,
    /// Index and instance.
    name: Vec<u8>,
    shape: Shape,
    /// The bin read last, and its place.
    page: Option<(u32, Bytes)>,
}

impl<'a, R: Read> Lists<'a, R> {
    /// Those of an instance that is complete.
    fn of(reader: &'a R, index: IndexId, instance: InstanceId) -> Result<Self, Refusal> {
        let name = name(index, instance);
        let status = status(reader, &name)?.filter(|status| status.complete).ok_or(Refusal::UnknownIndex)?;
        Ok(Self { reader, name, shape: status.shape, page: None })
    }

    /// Appends a list's sealed parts from part `skip` on until there are no more or the reply is full; how many
    /// records the list has.
    fn read(&mut self, token: SearchToken, skip: u32, sealed: &mut Vec<u8>) -> Result<u32, Refusal> {
        let shape = self.shape;
        // Enough for short lists: the mask and the labels of the first cells.
        let mut first = [[0; 16]; 8];
        prg::stream(&token.0, &mut first);
        let [mask, labels @ ..] = &first;
        let [label, ..] = labels;
        let Some(cell) = self.cell(Label(*label))? else {
            return if skip == 0 { Ok(0) } else { Err(malformed("parts of a list that is not there")) };
        };
        let (header, body) = cell;
        let records = mask_records(mask, header);
        let damaged = || Refusal::Damaged("a list's length".into());
        let layout = shape.layout(records).filter(|_| records > 0).ok_or_else(damaged)?;
        if skip >= layout.parts() {
            return Err(malformed("parts beyond a list's end"));
        }
        if skip == 0 {
            sealed.extend_from_slice(body);
        }
        let next = skip.max(1);
        // What does not fit into this reply is not looked up.
        let fit = REPLY_BYTES_SOFT / shape.sealed_cell_bytes().max(1);
        let until = layout.parts().min(next.saturating_add(u32::try_from(fit).unwrap_or(u32::MAX)));
        if let Some(labels) = labels.get(next as usize..until as usize) {
            self.parts(labels, &layout, next, sealed)?;
        } else {
            // The labels of these parts alone: a list may be said to be long, and earlier parts to be here already.
            let mut labels = vec![[0; 16]; until.saturating_sub(next) as usize];
            Prg::from_block(&token.0, u128::from(next) + 1).fill_blocks(&mut labels);
            self.parts(&labels, &layout, next, sealed)?;
        }
        Ok(records)
    }

    /// Appends parts of a list from part `first` on, found by their labels.
    fn parts(
        &mut self,
        labels: &[[u8; 16]],
        layout: &Layout,
        first: u32,
        sealed: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        for (part, label) in (first..).zip(labels) {
            if sealed.len() >= REPLY_BYTES_SOFT {
                break;
            }
            let missing = || Refusal::Damaged("a list is not all there".into());
            let label = Label(*label);
            if part < layout.cells {
                let (_, body) = self.cell(label)?.ok_or_else(missing)?;
                sealed.extend_from_slice(body);
            } else {
                let block = self.reader.get(BLOCKS, &key(&[&self.name, &label.0])).map_err(storage)?;
                let block = block.ok_or_else(missing)?;
                if block.len() != self.shape.sealed_block_bytes() {
                    return Err(Refusal::Damaged("a block's length".into()));
                }
                sealed.extend_from_slice(&block);
            }
        }
        Ok(())
    }

    /// The masked length and the sealed records of the cell with a label.
    fn cell(&mut self, label: Label) -> Result<Option<(u32, &[u8])>, Refusal> {
        let cell_bytes = self.shape.cell_bytes();
        let home = label.bin(self.shape.bins);
        let mut found = None;
        for place in home..home.saturating_add(BIN_RUN_MAX) {
            let page = self.bin(place)?;
            if !page.len().is_multiple_of(cell_bytes) {
                return Err(Refusal::Damaged("a bin's length".into()));
            }
            let cells = page.len() / cell_bytes;
            let at = cells_below(page, cell_bytes, &label);
            if at < cells {
                let start = at.saturating_mul(cell_bytes);
                let same = page.get(start..start.saturating_add(LABEL_BYTES)) == Some(&label.0);
                found = same.then_some((place, start));
                break;
            }
            // All labels of the bin are lower. Those that did not fit, and only if it is full, are in the next one.
            if cells < self.shape.bin_cells as usize {
                break;
            }
        }
        let Some((place, start)) = found else {
            return Ok(None);
        };
        let cell = self.bin(place)?.get(start..start.saturating_add(cell_bytes)).unwrap_or_default();
        let split = cell
            .get(LABEL_BYTES..)
            .and_then(|cell| cell.split_first_chunk::<HEADER_BYTES>())
            .ok_or_else(|| Refusal::Damaged("a cell's length".into()))?;
        Ok(Some((u32::from_le_bytes(*split.0), split.1)))
    }

    /// The cells of a bin; none if it was not stored.
    fn bin(&mut self, place: u32) -> Result<&[u8], Refusal> {
        if self.page.as_ref().is_none_or(|(at, _)| *at != place) {
            let cells = self.reader.get(BINS, &key(&[&self.name, &place.to_be_bytes()])).map_err(storage)?;
            self.page = Some((place, cells.unwrap_or_default()));
        }
        Ok(self.page.as_ref().map_or(&[], |(_, cells)| &**cells))
    }
}

/// How many cells of a bin have a lower label.
fn cells_below(page: &[u8], cell_bytes: usize, label: &Label) -> usize {
    let (mut low, mut high) = (0, page.len() / cell_bytes);
    while low < high {
        let middle = low.midpoint(high);
        let start = middle.saturating_mul(cell_bytes);
        if page.get(start..start.saturating_add(LABEL_BYTES)) < Some(&label.0[..]) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
