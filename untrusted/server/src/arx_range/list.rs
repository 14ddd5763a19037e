//! Buckets: a doubly linked list in key order.

use super::store::{View, damaged};
use arras_protocol::arx_range::{FoundBucket, Order, Response};
use arras_protocol::limits::REPLY_BYTES_SOFT;
use arras_protocol::{NodeId, Refusal};
use arras_storage::Read;

/// What a bucket costs in a reply besides its sealed entries, in bytes, at most.
const BUCKET_BYTES: usize = 64;

/// A bucket that is named by the client.
fn named<R: Read>(view: &View<'_, R>, node: NodeId) -> Result<FoundBucket, Refusal> {
    view.bucket(node)?.ok_or_else(|| Refusal::Malformed("no such bucket".into()))
}

/// What it takes up in a reply, in bytes, about.
fn reply_bytes(found: &FoundBucket) -> usize {
    let added =
        found.added.iter().fold(0_usize, |sum, sealed| sum.saturating_add(sealed.len()).saturating_add(2));
    added.saturating_add(found.bucket.sealed.len()).saturating_add(BUCKET_BYTES)
}

/// The first of `nodes`' buckets, as many as fit a reply.
pub(super) fn buckets<R: Read>(view: &View<'_, R>, nodes: &[NodeId]) -> Result<Response, Refusal> {
    let mut found = Vec::new();
    let mut bytes = 0_usize;
    for &node in nodes {
        if bytes > REPLY_BYTES_SOFT {
            break;
        }
        let bucket = named(view, node)?;
        bytes = bytes.saturating_add(reply_bytes(&bucket));
        found.push(bucket);
    }
    Ok(Response::Buckets(found))
}

/// The two ends of a range; once if they are one.
pub(super) fn ends<R: Read>(
    view: &View<'_, R>,
    lower: NodeId,
    upper: NodeId,
) -> Result<Vec<FoundBucket>, Refusal> {
    let mut found = vec![named(view, lower)?];
    if upper != lower {
        found.push(named(view, upper)?);
    }
    Ok(found)
}

/// Buckets from one through another, and the next one if the reply was cut before.
pub(super) fn between<R: Read>(
    view: &View<'_, R>,
    from: NodeId,
    until: NodeId,
    order: Order,
    buckets_max: u32,
) -> Result<(Vec<FoundBucket>, Option<NodeId>), Refusal> {
    let mut found = Vec::new();
    let mut bytes = 0_usize;
    let mut bucket = named(view, from)?;
    let mut node = from;
    let mut left = buckets_max;
    loop {
        let neighbour = match order {
            Order::Ascending => bucket.bucket.next,
            Order::Descending => bucket.bucket.previous,
        };
        bytes = bytes.saturating_add(reply_bytes(&bucket));
        left = left.saturating_sub(1);
        found.push(bucket);
        if node == until {
            return Ok((found, None));
        }
        // The list's own end before the range's: the bounds are the wrong way round, or the list is broken.
        node = neighbour.ok_or_else(|| damaged("the buckets end before the range does"))?;
        if left == 0 || bytes > REPLY_BYTES_SOFT {
            return Ok((found, Some(node)));
        }
        bucket = view.bucket(node)?.ok_or_else(|| damaged("a bucket's neighbour is missing"))?;
    }
}
