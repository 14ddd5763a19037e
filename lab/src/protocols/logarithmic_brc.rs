//! Logarithmic-BRC in the lab.

use super::make::{page_bytes, stateless};
use super::{Construction, MakeFuture, Making, ProtocolEntry, Work};
use crate::attacks::{Exchange, Grain, Sight, View};
use crate::channel::LabChannel;
use crate::compare::{Band, CONSTRUCTION_MESSAGES, Evaluated, Row};
use crate::run::Stage;
use arras_protocol::Order;
use arras_protocol::leakage;
use arras_protocol::logarithmic_brc::{self, Request, Response};
use arras_protocol::table::index;
use arras_protocol::{Protocol, RowId};
use arras_schemes::arx_range::RangeEntry;
use arras_schemes::error::IndexError;
use arras_schemes::logarithmic_brc::{LogarithmicBrc, Parameters};
use arras_schemes::traits::RangeIndex;
use std::sync::Arc;

const BRC: &str = "Logarithmic-BRC";

/// What the paper has of it, and why cells differ.
const TABLE3: Evaluated = Evaluated {
    rows: &[Row {
        name: BRC,
        protocols: &[index::LOGARITHMIC_BRC],
        queries: Stage::Queries,
        paper: [None, Some(1.0), None, Some(40.0), Some(2.0), Some(391.0)],
    }],
    reasons: &[(
        BRC,
        CONSTRUCTION_MESSAGES,
        Band::Below,
        "all records go in one request; the paper counts one a record",
    )],
};

pub(super) const ENTRY: ProtocolEntry = ProtocolEntry {
    name: index::LOGARITHMIC_BRC,
    title: "Logarithmic-BRC",
    leakage: |_| leakage::logarithmic_brc::LOGARITHMIC_BRC,
    construction: Construction::Bulk,
    in_all: true,
    work: Work::Usual,
    sorted_by_queries: false,
    page_bytes_min: |_| 256,
    make,
    ranks: None,
    view: &VIEW,
    table3: Some(&TABLE3),
};

/// A record has a sealed copy in each list that holds it, and no two of them look related.
const VIEW: View = View {
    protocol: logarithmic_brc::LogarithmicBrc::ID,
    sight: Sight { volume: Grain::Exact, items: Grain::Hidden, in_order: false },
    entry_bytes: |_| None,
    inserted: |_| None,
    seen: |exchange: &Exchange, _, seen| {
        if let Some((Request::Search { asked, .. }, Response::Found { records, .. })) =
            exchange.of::<logarithmic_brc::LogarithmicBrc>()
        {
            // A list that did not fit into one reply is asked for again, with the same token.
            let tokens = asked.iter().flat_map(|asked| {
                asked.tokens.iter().map(move |token| {
                    let list = (asked.instance, token.0);
                    arras_protocol::codec::encode(&list)
                })
            });
            seen.lists.extend(tokens.zip(records.into_iter().map(u64::from)));
            seen.volume = Some(seen.lists.values().sum());
        }
    },
    ends_are_results: true,
};

/// Logarithmic-BRC whose insertion is the bulk load.
struct Loaded(LogarithmicBrc<LabChannel>);

impl RangeIndex for Loaded {
    async fn insert(&self, entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        self.0.bulk_load(entries).await
    }

    async fn remove(&self, entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        self.0.remove(entries).await
    }

    async fn search(
        &self,
        lower: Vec<u8>,
        upper: Vec<u8>,
        order: Order,
        limit: Option<usize>,
    ) -> Result<Vec<(Vec<u8>, RowId)>, IndexError> {
        self.0.search(lower, upper, order, limit).await
    }
}

fn make(making: Making) -> MakeFuture {
    Box::pin(async move {
        let parameters = Parameters { page_bytes: page_bytes(&making), ..Parameters::new(making.width) };
        let (channel, prg) = (Arc::clone(&making.channel), making.prg());
        let index = LogarithmicBrc::new(making.index(), parameters, &making.key(), channel, prg)?;
        Ok(stateless(Loaded(index)))
    })
}
