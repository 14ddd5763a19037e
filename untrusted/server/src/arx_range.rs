//! Keyless half of ArxRange (Arx, VLDB'19, §4): keeps the forest of treap nodes, the linked buckets and the
//! garbled circuits; walks a range's bounds down the circuits and returns the buckets between.
//!
//! *Circuits are kept after evaluation.* A circuit may be opened once; but an attacker who watches this process
//! can copy what it deletes, so deleting protects nothing, and would turn every search into a write. The client's
//! repair overwrites them. That a circuit is the one the labels are for is checked by its nonce at every node:
//! the root's against the walk's, a child's against the transition that unlocked it.
//!
//! *Trust.* Requests are checked against what is stored; what is stored is checked as it is followed: a missing
//! child, a list that does not reach its end, a walk that does not end are [`Refusal::Damaged`].
//!
//! *Cost.* Search: one read of node and circuit a level and bound, one read a bucket. No writes.

mod change;
mod list;
mod store;
mod tree;
mod walk;

pub use change::apply;

use arras_protocol::Refusal;
use arras_protocol::arx_range::{Bound, Order, Request, Response};
use arras_protocol::{IndexId, NodeId};
use arras_storage::{Read, Storage};
pub(crate) use store::EMPTIED;
use store::{View, storage};

/// Answers a request.
///
/// # Errors
/// [`Refusal::UnknownIndex`], [`Refusal::Malformed`] and [`Refusal::Limit`] if the client is to blame,
/// [`Refusal::Stale`] if a circuit is not the one the labels are for, [`Refusal::Damaged`] and
/// [`Refusal::Storage`] if the store is.
pub fn answer<S: Storage>(store: &S, request: &Request) -> Result<Response, Refusal> {
    let reader = store.read().map_err(storage)?;
    let view = |index: IndexId| View::open(&reader, index);
    match request {
        Request::LoadTop { index, after } => tree::load_top(&view(*index)?, *after),
        Request::LoadTrees { index, roots, depth } => tree::load_trees(&view(*index)?, roots, *depth),
        Request::Buckets { index, nodes } => list::buckets(&view(*index)?, nodes),
        Request::Search { index, lower, upper, order, buckets_max } => {
            search(&view(*index)?, lower, upper.as_ref(), *order, *buckets_max)
        }
        Request::Continue { index, from, until, order, buckets_max } => {
            let (buckets, next) =
                list::between(&view(*index)?, *from, *until, *order, (*buckets_max).max(1))?;
            Ok(Response::Found {
                lower: Vec::new(),
                lower_bucket: if *order == Order::Ascending { *from } else { *until },
                upper: Vec::new(),
                upper_bucket: if *order == Order::Ascending { *until } else { *from },
                buckets,
                next,
            })
        }
    }
}

/// Walks both bounds side by side and returns the buckets between.
fn search<R: Read>(
    view: &View<'_, R>,
    lower: &Bound,
    upper: Option<&Bound>,
    order: Order,
    buckets_max: u32,
) -> Result<Response, Refusal> {
    let bounds: Vec<&Bound> = std::iter::once(lower).chain(upper).collect();
    let mut ends = walk::find(view, &bounds)?.into_iter();
    let lower = ends.next().ok_or_else(|| Refusal::Damaged("a search without an end".into()))?;
    let upper = ends.next().unwrap_or_else(|| walk::End { bucket: lower.bucket, path: Vec::new() });
    let (buckets, next) = if buckets_max == 0 {
        (list::ends(view, lower.bucket, upper.bucket)?, None)
    } else {
        let (from, until): (NodeId, NodeId) = match order {
            Order::Ascending => (lower.bucket, upper.bucket),
            Order::Descending => (upper.bucket, lower.bucket),
        };
        list::between(view, from, until, order, buckets_max)?
    };
    Ok(Response::Found {
        lower: lower.path,
        lower_bucket: lower.bucket,
        upper: upper.path,
        upper_bucket: upper.bucket,
        buckets,
        next,
    })
}
