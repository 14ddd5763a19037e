//! Kerschbaum-Tueno in the lab.

mod ranks;

use super::make::{page_bytes, stateless};
use super::{Construction, MakeFuture, Making, ProtocolEntry, Work};
use crate::attacks::{Exchange, Grain, Sight, View};
use crate::compare::{Band, CONSTRUCTION_BYTES, CONSTRUCTION_IO, Evaluated, QUERY_IO, Row};
use crate::run::Stage;
use arras_protocol::Protocol;
use arras_protocol::kerschbaum_tueno::{self, ENTRY_BYTES, Request, Response};
use arras_protocol::leakage;
use arras_protocol::table::index;
use arras_schemes::kerschbaum_tueno::KerschbaumTueno;
use std::sync::Arc;

const KERSCHBAUM: &str = "Kerschbaum-Tueno";

/// What the paper has of it, and why cells differ.
const TABLE3: Evaluated = Evaluated {
    rows: &[Row {
        name: KERSCHBAUM,
        protocols: &[index::KERSCHBAUM_TUENO],
        queries: Stage::Queries,
        paper: [Some(494.0), Some(40.0), Some(671.0), Some(7.0), Some(86.0), Some(1453.0)],
    }],
    reasons: &[
        (
            KERSCHBAUM,
            CONSTRUCTION_IO,
            Band::Above,
            "entries are 32 bytes with the row's name (the paper's pages hold twice as many), and every page of the rotated \
         array counts when it is read and when it is written",
        ),
        (
            KERSCHBAUM,
            CONSTRUCTION_BYTES,
            Band::Above,
            "a probe is a frame with a header, and its reply the array's length and a sealed rank of 16 bytes",
        ),
        (
            KERSCHBAUM,
            QUERY_IO,
            Band::Above,
            "entries are 32 bytes with the row's name, and on uniform data a range of so many values holds three times as \
         many records: the pages of results count",
        ),
    ],
};

pub(super) const ENTRY: ProtocolEntry = ProtocolEntry {
    name: index::KERSCHBAUM_TUENO,
    title: "Kerschbaum-Tueno",
    leakage: |_| leakage::kerschbaum_tueno::KERSCHBAUM_TUENO,
    construction: Construction::OneByOne,
    in_all: true,
    work: Work::Most,
    sorted_by_queries: false,
    page_bytes_min: |_| ENTRY_BYTES,
    make,
    ranks: Some(ranks::ranks),
    view: &VIEW,
    table3: Some(&TABLE3),
};

const VIEW: View = View {
    protocol: kerschbaum_tueno::KerschbaumTueno::ID,
    sight: Sight { volume: Grain::Exact, items: Grain::Exact, in_order: true },
    entry_bytes: |_| None,
    inserted: |exchange| match exchange.of::<kerschbaum_tueno::KerschbaumTueno>()?.0 {
        Request::Insert { entry, .. } => Some(entry.to_vec()),
        _ => None,
    },
    seen: |exchange: &Exchange, _, seen| {
        if let Some((_, Response::Entries(entries))) = exchange.of::<kerschbaum_tueno::KerschbaumTueno>() {
            seen.names.extend(entries.as_slice().chunks_exact(ENTRY_BYTES).map(<[u8]>::to_vec));
        }
    },
    // The first and the last one read are the range's neighbours.
    ends_are_results: false,
};

/// A rotated array.
fn make(making: Making) -> MakeFuture {
    Box::pin(async move {
        let (channel, key, prg) = (Arc::clone(&making.channel), making.key(), making.prg());
        let (width, page_bytes) = (making.width, page_bytes(&making));
        let array = KerschbaumTueno::create(channel, making.index(), &key, width, page_bytes, prg).await?;
        Ok(stateless(array))
    })
}
