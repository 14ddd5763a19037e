//! Path ORAM with a B+ tree, in the lab.

use super::make::SharedIndex;
use super::{Construction, Made, MakeFuture, Making, ProtocolEntry, StateBytes, Work};
use crate::attacks::{Exchange, Grain, Sight, View};
use crate::compare::{
    Band, CONSTRUCTION_BYTES, CONSTRUCTION_IO, CONSTRUCTION_MESSAGES, Evaluated, QUERY_BYTES, QUERY_IO,
    QUERY_MESSAGES, Row,
};
use crate::run::Stage;
use arras_protocol::Protocol;
use arras_protocol::leakage;
use arras_protocol::path_oram::{PathOram, Request};
use arras_protocol::table::index;
use arras_schemes::path_oram::{OramTree, OramTreeParameters};
use std::sync::Arc;

const ORAM: &str = "Path ORAM";

/// What the paper has of it, and why cells differ.
const TABLE3: Evaluated = Evaluated {
    rows: &[Row {
        name: ORAM,
        protocols: &[index::PATH_ORAM],
        queries: Stage::Queries,
        paper: [Some(31.0), Some(143.0), Some(18_254.0), Some(185.0), Some(490.0), Some(62_662.0)],
    }],
    reasons: &[
        (
            ORAM,
            CONSTRUCTION_IO,
            Band::Below,
            "the client keeps the upper levels of every path, and a bucket that was read is in the cache when it is written",
        ),
        (ORAM, CONSTRUCTION_MESSAGES, Band::Below, WHOLE_PATHS),
        (ORAM, CONSTRUCTION_BYTES, Band::Above, WHOLE_BLOCKS),
        (
            ORAM,
            QUERY_IO,
            Band::Above,
            "on uniform data a range of so many values holds three times as many records, and for each leaf of it a path of \
         buckets of four pages each is read and written",
        ),
        (ORAM, QUERY_MESSAGES, Band::Below, WHOLE_PATHS),
        (ORAM, QUERY_BYTES, Band::Above, WHOLE_BLOCKS),
    ],
};

const WHOLE_PATHS: &str =
    "all paths of an operation travel in one message, and what it writes back goes with the next";
const WHOLE_BLOCKS: &str = "a block is a page of 4 KiB, sealed, and whole buckets of four of them travel both ways; a query \
                            fetches a path for every leaf of its range";

pub(super) const ENTRY: ProtocolEntry = ProtocolEntry {
    name: index::PATH_ORAM,
    title: "Path ORAM",
    leakage: |_| leakage::path_oram::PATH_ORAM,
    construction: Construction::OneByOne,
    in_all: true,
    work: Work::Much,
    sorted_by_queries: false,
    page_bytes_min: |_| 256,
    make,
    ranks: None,
    view: &VIEW,
    table3: Some(&TABLE3),
};

const VIEW: View = View {
    protocol: PathOram::ID,
    sight: Sight { volume: Grain::Coarse, items: Grain::Hidden, in_order: false },
    entry_bytes: |_| None,
    inserted: |_| None,
    seen: |exchange: &Exchange, _, seen| {
        if let Some((Request::Access { read, .. }, _)) = exchange.of::<PathOram>() {
            *seen.volume.get_or_insert(0) += read.len() as u64;
        }
    },
    ends_are_results: true,
};

/// A B+ tree in a Path ORAM.
fn make(making: Making) -> MakeFuture {
    Box::pin(async move {
        let parameters = OramTreeParameters::of_pages(making.width.bytes(), making.page_bytes);
        let (channel, key, prg) = (Arc::clone(&making.channel), making.key(), making.prg());
        let tree = Arc::new(OramTree::create(channel, making.index(), &key, parameters, prg).await?);
        let index = SharedIndex(Arc::clone(&tree));
        let state_bytes: StateBytes = Box::new(move || {
            let tree = Arc::clone(&tree);
            Box::pin(async move { tree.client_bytes().await as u64 })
        });
        Ok(Made { index: Box::new(index), scheme: None, ciphertext_bytes: None, state_bytes })
    })
}
