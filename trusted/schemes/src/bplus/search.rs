//! A search: asked until its range is through.

use super::refused;
use super::reply::Range;
use crate::contract::Order;
use crate::error::IndexError;
use crate::ore::{End, OrderScheme};
use arras_primitives::prg::Prg;
use arras_protocol::bplus::{BPlus as Protocol, Bound, Request, Response};
use arras_protocol::{Channel, IndexId};

/// Replies that one search may take: at some megabytes each, more than fits in memory.
const REPLIES_MAX: usize = 1 << 14;

/// Both ends of a range of values.
pub(super) fn ends(
    scheme: &impl OrderScheme,
    (lower, upper): (u64, u64),
    random: &mut Prg,
) -> Result<(Bound, Bound), IndexError> {
    let mut end = |value, end| -> Result<Bound, IndexError> {
        let query = scheme.bound(value, end, random).map_err(refused)?.into();
        Ok(Bound { query, after: None })
    };
    Ok((end(lower, End::Lower)?, end(upper, End::Upper)?))
}

/// Where a search asks.
pub(super) struct Searching<'c, C> {
    pub(super) channel: &'c C,
    pub(super) index: IndexId,
    /// Version of the ciphertexts.
    pub(super) version: u64,
}

impl<C: Channel<Protocol>> Searching<'_, C> {
    /// Asks once for a range. `take` puts the reply's entries to the range and says where it goes on, if it has an entry;
    /// none if the range, or its limit, is through.
    pub(super) async fn once(
        &self,
        (lower, upper): (Bound, Bound),
        range: &mut Range,
        mut take: impl FnMut(&mut Range, &[u8]) -> Result<Option<Bound>, IndexError> + Send,
    ) -> Result<Option<Bound>, IndexError> {
        let (index, version, order) = (self.index, self.version, range.order);
        let limit = range.remaining().map(|remaining| remaining as u64);
        let request = Request::Search { index, version, lower, upper, order, limit };
        let Response::Found { entries, more } = self.channel.call(request).await? else {
            return Err(IndexError::Peer("not the answer to a search"));
        };
        let next = take(range, entries.as_slice())?;
        if !more || range.remaining() == Some(0) {
            return Ok(None);
        }
        match next.filter(|_| !entries.is_empty()) {
            Some(next) => Ok(Some(next)),
            None => Err(IndexError::Peer("more to come after nothing")),
        }
    }

    /// Asks for a range until it is through.
    pub(super) async fn through(
        &self,
        (mut lower, mut upper): (Bound, Bound),
        range: &mut Range,
        mut take: impl FnMut(&mut Range, &[u8]) -> Result<Option<Bound>, IndexError> + Send,
    ) -> Result<(), IndexError> {
        for _ in 0..REPLIES_MAX {
            let Some(next) = self.once((lower.clone(), upper.clone()), range, &mut take).await? else {
                return Ok(());
            };
            match range.order {
                Order::Ascending => lower = next,
                Order::Descending => upper = next,
            }
        }
        Err(IndexError::Peer("a search without an end"))
    }
}
