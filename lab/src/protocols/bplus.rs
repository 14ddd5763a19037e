//! The B+ trees over all schemes, in the lab.

use super::make::page_bytes;
use super::{Construction, Made, MakeFuture, Making, ProtocolEntry, Watched, Work};
use crate::attacks::{Column, Exchange, Grain, Sight, View};
use crate::compare::{Band, CONSTRUCTION_IO, Evaluated, QUERY_BYTES, QUERY_IO, Row};
use crate::plain_scheme::PlainScheme;
use crate::run::Stage;
use arras_protocol::Protocol;
use arras_protocol::bplus::{self, Change, Request, Response, SealedEntry};
use arras_protocol::leakage;
use arras_protocol::ore::Scheme;
use arras_protocol::table::index;
use arras_schemes::bplus::{BPlus, StatefulBPlus};
use arras_schemes::ore::bclo::Bclo;
use arras_schemes::ore::cloz::Cloz;
use arras_schemes::ore::clww::Clww;
use arras_schemes::ore::fh_ope::FhOpe;
use arras_schemes::ore::lewi_wu::{BlockBits, LewiWu};
use arras_schemes::ore::{OrderScheme, StatefulScheme};
use arras_schemes::traits::RangeIndex;
use std::sync::Arc;

const BPLUS: &str = "B+ tree with ORE";

/// What the paper has of it, and why cells differ.
const TABLE3: Evaluated = Evaluated {
    rows: &[Row {
        name: BPLUS,
        protocols: &[index::BPLUS_BCLO, index::BPLUS_CLWW, index::BPLUS_LEWI_WU, index::BPLUS_FH_OPE],
        queries: Stage::Queries,
        paper: [Some(3.0), Some(2.0), Some(177.0), Some(44.0), Some(2.0), Some(342.0)],
    }],
    reasons: &[
        (
            BPLUS,
            CONSTRUCTION_IO,
            Band::Below,
            "the cache holds the upper nodes, and a page that was read to insert is in it when it is written",
        ),
        (
            BPLUS,
            QUERY_IO,
            Band::Above,
            "on uniform data a range of so many values holds three times as many records, and a page a tenth as many of \
         Lewi-Wu's ciphertexts as of the others, which weighs in the mean",
        ),
        (
            BPLUS,
            QUERY_IO,
            Band::Below,
            "on salaries a range of so many values holds half as many records: fewer pages of results",
        ),
        (
            BPLUS,
            QUERY_BYTES,
            Band::Below,
            "a query is one frame with the ciphertexts of its two ends; nothing but the records comes back",
        ),
    ],
};

/// The paper's row is the mean over the schemes, and the baseline is in its figures.
const OF_OTHERS: Evaluated = Evaluated { rows: &[], reasons: &[] };

/// The row of a B+ tree over a scheme.
macro_rules! bplus {
    ($name:path, $title:literal, $public:expr, $make:expr, $in_all:literal, $work:expr, $table3:expr) => {
        ProtocolEntry {
            name: $name,
            title: $title,
            leakage: |width| *leakage::bplus::bplus($public(width)),
            construction: Construction::OneByOne,
            in_all: $in_all,
            work: $work,
            sorted_by_queries: false,
            page_bytes_min: |width| arras_schemes::bplus::page_bytes_min($public(width)),
            make: $make,
            ranks: Some(|run| Column::read(run)?.ranks()),
            view: &VIEW,
            table3: $table3,
        }
    };
}

/// The rows, in the order of the tables.
pub(super) const ENTRIES: &[ProtocolEntry] = &[PLAIN, BCLO, CLWW, LEWI_WU, CLOZ, FH_OPE];

const PLAIN: ProtocolEntry = bplus!(
    index::PLAIN,
    "No encryption",
    Scheme::Plain,
    |making| make(PlainScheme(making.width), making),
    true,
    Work::Usual,
    Some(&OF_OTHERS)
);
const BCLO: ProtocolEntry = bplus!(
    index::BPLUS_BCLO,
    "B+ tree, BCLO",
    Scheme::Bclo,
    |making| make(Bclo::new(&making.key(), making.width), making),
    true,
    Work::Much,
    Some(&TABLE3)
);
const CLWW: ProtocolEntry = bplus!(
    index::BPLUS_CLWW,
    "B+ tree, CLWW",
    Scheme::Clww,
    |making| make(Clww::new(&making.key(), making.width), making),
    true,
    Work::Usual,
    Some(&OF_OTHERS)
);
const LEWI_WU: ProtocolEntry = bplus!(
    index::BPLUS_LEWI_WU,
    "B+ tree, Lewi-Wu",
    |width| Scheme::LewiWu { width, block_bits: BlockBits::Eight.bits() },
    |making| make(LewiWu::new(&making.key(), making.width, BlockBits::Eight), making),
    true,
    Work::Much,
    Some(&OF_OTHERS)
);
const CLOZ: ProtocolEntry = bplus!(
    index::BPLUS_CLOZ,
    "B+ tree, CLOZ",
    Scheme::Cloz,
    |making| make(Cloz::new(&making.key(), making.width), making),
    false,
    Work::Much,
    None
);
const FH_OPE: ProtocolEntry = bplus!(
    index::BPLUS_FH_OPE,
    "B+ tree, FH-OPE",
    Scheme::FhOpe,
    |making| make_stateful(FhOpe::new(making.width), making),
    true,
    Work::Usual,
    Some(&OF_OTHERS)
);

const VIEW: View = View {
    protocol: bplus::BPlus::ID,
    sight: Sight { volume: Grain::Exact, items: Grain::Exact, in_order: true },
    entry_bytes: |exchange| match exchange.of::<bplus::BPlus>()?.0 {
        Request::Change(Change::CreateIndex { scheme, .. }) => {
            Some(scheme.stored_bytes().unwrap_or(0) + SealedEntry::BYTES)
        }
        _ => None,
    },
    inserted: |exchange| match exchange.of::<bplus::BPlus>()?.0 {
        Request::Change(Change::Insert { entries, .. }) | Request::Load { entries, .. } => {
            entries.first().map(|entry| entry.sealed.as_bytes().to_vec())
        }
        Request::Change(Change::Revise { revision, .. }) => {
            revision.inserted.first().map(|entry| entry.sealed.as_bytes().to_vec())
        }
        _ => None,
    },
    seen: |exchange: &Exchange, entry_bytes, seen| {
        if let Some((_, Response::Found { entries, .. })) = exchange.of::<bplus::BPlus>() {
            let name = |entry: &[u8]| entry[entry.len().saturating_sub(SealedEntry::BYTES)..].to_vec();
            seen.names.extend(entries.as_slice().chunks_exact(entry_bytes).map(name));
        }
    },
    ends_are_results: true,
};

/// An index over a scheme, and what is watched of the scheme.
fn made<O: OrderScheme + 'static>(index: impl RangeIndex + 'static, scheme: Watched<O>) -> Made {
    let ciphertext_bytes = scheme.scheme().stored_bytes().map(|bytes| bytes as u64);
    let tally = scheme.tally();
    Made {
        index: Box::new(index),
        scheme: Some(tally),
        ciphertext_bytes,
        state_bytes: Box::new(move || {
            let bytes = scheme.state_bytes() as u64;
            Box::pin(async move { bytes })
        }),
    }
}

/// A B+ tree over a scheme.
fn make<O: OrderScheme + 'static>(scheme: O, making: Making) -> MakeFuture {
    Box::pin(async move {
        let scheme = Watched::new(scheme);
        let (channel, index) = (Arc::clone(&making.channel), making.index());
        let index = BPlus::new(channel, index, &making.key(), scheme.clone(), making.prg());
        Ok(made(index.create(page_bytes(&making)).await?, scheme))
    })
}

/// A B+ tree over a scheme with state.
fn make_stateful<O: StatefulScheme + 'static>(scheme: O, making: Making) -> MakeFuture {
    Box::pin(async move {
        let scheme = Watched::new(scheme);
        let (channel, index) = (Arc::clone(&making.channel), making.index());
        let index = StatefulBPlus::new(channel, index, &making.key(), scheme.clone(), making.prg());
        Ok(made(index.create(page_bytes(&making)).await?, scheme))
    })
}
