//! Keyless half of Path ORAM: a tree of sealed buckets, of which paths are read and written back.
//!
//! The server has nothing to decide: it finds the buckets of the paths named. What it checks is that each write-back
//! comes once and in turn, so that a late duplicate of a request does not set paths back.

use crate::backend::{look_up, storage};
use crate::keyspace::key;
use arras_protocol::path_oram::{BUCKETS_BYTES_MAX, PATHS_MAX, Request, Response, Shape, WriteBack};
use arras_protocol::{Blob, IndexId, Refusal, codec};
use arras_storage::{Durability, Read, Storage, Table, Write};
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

/// Index id to [`Head`].
const HEADS: Table = Table("path_oram_heads");
/// Index id and place to bucket.
const BUCKETS: Table = Table("path_oram_buckets");

/// What the server knows of a tree.
#[derive(Serialize, Deserialize)]
struct Head {
    shape: Shape,
    /// The buckets of all places below are there.
    loaded: u32,
    /// Write-backs applied.
    epoch: u64,
}

fn malformed(why: &str) -> Refusal {
    Refusal::Malformed(format!("path_oram: {why}"))
}

fn head(reader: &impl Read, index: IndexId) -> Result<Head, Refusal> {
    let bytes = reader.get(HEADS, index.as_bytes()).map_err(storage)?.ok_or(Refusal::UnknownIndex)?;
    codec::decode::<Head>(&bytes)
        .ok()
        .filter(|head| head.shape.is_valid())
        .ok_or_else(|| Refusal::Damaged("the head of an ORAM".into()))
}

fn put_head(writer: &mut impl Write, index: IndexId, head: &Head) -> Result<(), Refusal> {
    writer.put(HEADS, index.as_bytes(), &codec::encode(head)).map_err(storage)
}

fn put_bucket(writer: &mut impl Write, index: IndexId, place: u32, bucket: &[u8]) -> Result<(), Refusal> {
    writer.put(BUCKETS, &key(&[index.as_bytes(), &place.to_be_bytes()]), bucket).map_err(storage)
}

/// Answers a request.
pub(crate) fn answer<S: Storage>(store: &S, request: Request) -> Result<Response, Refusal> {
    match request {
        Request::Access { index, epoch, write, read, durable } => {
            access(store, index, epoch, write, &read, durable)
        }
        Request::Create { index, shape } => {
            if !shape.is_valid() {
                return Err(malformed("a tree out of bounds"));
            }
            change(store, |writer| {
                writer.delete_prefix(BUCKETS, index.as_bytes(), usize::MAX).map_err(storage)?;
                put_head(writer, index, &Head { shape, loaded: shape.first_place(), epoch: 0 })
            })
        }
        Request::Drop { index } => change(store, |writer| {
            writer.delete(HEADS, index.as_bytes()).map_err(storage)?;
            writer.delete_prefix(BUCKETS, index.as_bytes(), usize::MAX).map_err(storage).map(drop)
        }),
        Request::Grow { index, levels } => change(store, |writer| grow(writer, index, levels)),
        Request::Load { index, first, buckets } => {
            change(store, |writer| load(writer, index, first, &buckets))
        }
    }
}

/// Runs a change in a durable transaction.
fn change<S: Storage>(
    store: &S,
    change: impl FnOnce(&mut S::Writer<'_>) -> Result<(), Refusal>,
) -> Result<Response, Refusal> {
    let mut writer = store.write().map_err(storage)?;
    change(&mut writer)?;
    writer.commit(Durability::Durable).map_err(storage)?;
    Ok(Response::Done)
}

fn grow(writer: &mut impl Write, index: IndexId, levels: u8) -> Result<(), Refusal> {
    let mut head = head(writer, index)?;
    if levels == head.shape.levels {
        return Ok(());
    }
    let shape = Shape { levels, ..head.shape };
    if Some(levels) != head.shape.levels.checked_add(1) || !shape.is_valid() {
        return Err(malformed("growth by other than one level"));
    }
    if head.loaded != head.shape.end_place() {
        return Err(malformed("growth of a tree that is not loaded"));
    }
    head.shape = shape;
    put_head(writer, index, &head)
}

fn load(writer: &mut impl Write, index: IndexId, first: u32, buckets: &Blob) -> Result<(), Refusal> {
    let mut head = head(writer, index)?;
    let buckets = buckets.as_slice().chunks(head.shape.bucket_bytes as usize);
    for (place, bucket) in (first..=u32::MAX).zip(buckets) {
        if place < head.loaded {
            continue;
        }
        if place != head.loaded || place >= head.shape.end_place() {
            return Err(malformed("buckets out of order"));
        }
        if bucket.len() != head.shape.bucket_bytes as usize {
            return Err(malformed("a bucket of another size"));
        }
        put_bucket(writer, index, place, bucket)?;
        head.loaded = place.saturating_add(1);
    }
    put_head(writer, index, &head)
}

/// Checks leaves that a request names; the places of their paths' buckets.
fn places(shape: &Shape, leaves: &[u32]) -> Result<Vec<u32>, Refusal> {
    if leaves.len() > shape.paths_max().min(PATHS_MAX) {
        return Err(Refusal::Limit(format!("{} paths at once", leaves.len())));
    }
    if leaves.iter().any(|leaf| *leaf >= shape.leaves()) {
        return Err(malformed("a leaf that is not in the tree"));
    }
    Ok(shape.places(leaves))
}

fn access<S: Storage>(
    store: &S,
    index: IndexId,
    epoch: u64,
    write: Option<WriteBack>,
    read: &[u32],
    durable: bool,
) -> Result<Response, Refusal> {
    let Some(write) = write else {
        let reader = store.read().map_err(storage)?;
        let head = ready(&reader, index)?;
        in_turn(&head, epoch, false)?;
        return paths(&reader, index, &head, &places(&head.shape, read)?);
    };
    let mut writer = store.write().map_err(storage)?;
    let mut head = ready(&writer, index)?;
    let to_read = places(&head.shape, read)?;
    let to_write = places(&head.shape, &write.leaves)?;
    let buckets = write.buckets.as_slice().chunks_exact(head.shape.bucket_bytes as usize);
    if buckets.len() != to_write.len() || !buckets.remainder().is_empty() {
        return Err(malformed("buckets that do not match their paths"));
    }
    if in_turn(&head, epoch, true)? {
        for (place, bucket) in to_write.into_iter().zip(buckets) {
            put_bucket(&mut writer, index, place, bucket)?;
        }
        head.epoch = epoch;
        put_head(&mut writer, index, &head)?;
    }
    let answer = paths(&writer, index, &head, &to_read)?;
    let durability = if durable { Durability::Durable } else { Durability::Relaxed };
    writer.commit(durability).map_err(storage)?;
    Ok(answer)
}

/// The head of a tree all of whose buckets are there.
fn ready(reader: &impl Read, index: IndexId) -> Result<Head, Refusal> {
    let head = head(reader, index)?;
    if head.loaded != head.shape.end_place() {
        return Err(malformed("the tree is not loaded"));
    }
    Ok(head)
}

/// Whether a request at `epoch` has a write-back that is still to be applied.
fn in_turn(head: &Head, epoch: u64, writes: bool) -> Result<bool, Refusal> {
    if epoch == head.epoch {
        return Ok(false);
    }
    if epoch < head.epoch {
        return Err(Refusal::Finished);
    }
    if writes && head.epoch.checked_add(1) == Some(epoch) {
        return Ok(true);
    }
    Err(Refusal::Damaged("an ORAM older than its client remembers it: the store was set back".into()))
}

fn paths(reader: &impl Read, index: IndexId, head: &Head, places: &[u32]) -> Result<Response, Refusal> {
    let bucket_bytes = head.shape.bucket_bytes as usize;
    let mut found = Vec::with_capacity((places.len() * bucket_bytes).min(BUCKETS_BYTES_MAX));
    let names = places.iter().map(|place| key(&[index.as_bytes(), &place.to_be_bytes()]));
    look_up(reader, BUCKETS, names, |bucket| {
        let bucket = bucket.filter(|bucket| bucket.len() == bucket_bytes);
        found.extend_from_slice(&bucket.ok_or_else(|| Refusal::Damaged("a bucket of an ORAM".into()))?);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(Response::Paths(found.into()))
}
