//! POPE in the lab.

mod ranks;

use super::make::{page_bytes, stateless};
use super::{Construction, MakeFuture, Making, ProtocolEntry, Work};
use crate::attacks::{Exchange, Grain, Sight, View};
use crate::compare::{Band, CONSTRUCTION_BYTES, CONSTRUCTION_IO, Evaluated, QUERY_IO, QUERY_MESSAGES, Row};
use crate::run::Stage;
use arras_protocol::Protocol;
use arras_protocol::leakage;
use arras_protocol::pope::{Pope, Request, Response};
use arras_protocol::table::index;
use arras_schemes::pope;
use std::sync::Arc;

const POPE_WARM: &str = "POPE, warm";
const POPE_COLD: &str = "POPE, cold";

/// What the paper has of it, and why cells differ.
const TABLE3: Evaluated = Evaluated {
    rows: &[
        Row {
            name: POPE_WARM,
            protocols: &[index::POPE],
            queries: Stage::Queries,
            paper: [Some(1.0), Some(2.0), Some(32.0), Some(300.0), Some(914.0), Some(43_331.0)],
        },
        Row {
            name: POPE_COLD,
            protocols: &[index::POPE],
            queries: Stage::FirstQuery,
            paper: [None, None, None, Some(2175.0), Some(497_722.0), Some(9_056_644.0)],
        },
    ],
    reasons: &[
        (
            POPE_WARM,
            CONSTRUCTION_IO,
            Band::Below,
            "an insertion goes to the last page of the root's buffer, which the cache holds until it is full",
        ),
        (
            POPE_WARM,
            CONSTRUCTION_BYTES,
            Band::Above,
            "an element is sealed by itself, with its tie-break and the row's name, in a frame with a header",
        ),
        (
            POPE_WARM,
            QUERY_IO,
            Band::Below,
            "buffers move by whole pages, leaves come out of a split half full, and inner nodes stay in the cache",
        ),
        (POPE_WARM, QUERY_MESSAGES, Band::Below, CHUNKS),
        (
            POPE_COLD,
            QUERY_IO,
            Band::Above,
            "elements are 60 bytes with the row's name, and their pages count when they are read, when they are written to \
         the children's buffers and when they are removed, level by level",
        ),
        (POPE_COLD, QUERY_MESSAGES, Band::Below, CHUNKS),
    ],
};

const CHUNKS: &str =
    "buffers are streamed in chunks of pages, not element by element, and both ends go down together";

pub(super) const ENTRY: ProtocolEntry = ProtocolEntry {
    name: index::POPE,
    title: "POPE",
    leakage: |_| leakage::pope::POPE,
    construction: Construction::OneByOne,
    in_all: true,
    work: Work::Usual,
    sorted_by_queries: true,
    page_bytes_min: pope::page_bytes_min,
    make,
    ranks: Some(ranks::ranks),
    view: &VIEW,
    table3: Some(&TABLE3),
};

/// The elements of the range's two end leaves come with the results, unsorted.
const VIEW: View = View {
    protocol: Pope::ID,
    sight: Sight { volume: Grain::Coarse, items: Grain::Coarse, in_order: false },
    entry_bytes: |exchange| match exchange.of::<Pope>()?.0 {
        Request::CreateIndex { element_bytes, .. } => Some(usize::from(element_bytes)),
        _ => None,
    },
    inserted: |exchange| match exchange.of::<Pope>()?.0 {
        Request::Insert { elements, .. } => Some(elements.0),
        _ => None,
    },
    seen: |exchange: &Exchange, element_bytes, seen| {
        if let Some((_, Response::Found { elements, .. })) = exchange.of::<Pope>() {
            seen.names.extend(elements.as_slice().chunks_exact(element_bytes).map(<[u8]>::to_vec));
        }
    },
    ends_are_results: true,
};

/// A buffer tree.
fn make(making: Making) -> MakeFuture {
    Box::pin(async move {
        let (channel, key, prg) = (Arc::clone(&making.channel), making.key(), making.prg());
        let keyed = pope::Keyed { index: making.index(), key: &key, width: making.width };
        Ok(stateless(pope::Standalone::create(channel, keyed, page_bytes(&making), prg).await?))
    })
}
