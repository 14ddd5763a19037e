//! Order-preserving encoding in the lab, in both of its forms.

mod ranks;

use super::{Construction, Made, MakeFuture, Making, ProtocolEntry, Work};
use crate::attacks::{Exchange, Grain, Sight, View};
use arras_protocol::Protocol;
use arras_protocol::leakage::mope::{MOPE, STOPE};
use arras_protocol::mope::Head;
use arras_protocol::mope::index::{Change, Mope, Request, Response, SealedRow};
use arras_protocol::table;
use arras_schemes::mope::{Kind, index};
use arras_schemes::random::Randomness;
use std::sync::Arc;

/// The row of a form.
macro_rules! row {
    ($name:path, $leakage:path, $title:literal, $kind:path) => {
        ProtocolEntry {
            name: $name,
            title: $title,
            leakage: |_| $leakage,
            construction: Construction::OneByOne,
            in_all: true,
            work: Work::Usual,
            sorted_by_queries: false,
            page_bytes_min: |_| 1,
            make: |making| make($kind, making),
            ranks: Some(ranks::ranks),
            view: &VIEW,
            table3: None,
        }
    };
}

/// The rows of both.
pub(super) const ENTRIES: &[ProtocolEntry] = &[SAME_FOR_EVER, SAME_TIME];

/// mOPE: equal values have the same ciphertext for ever.
const SAME_FOR_EVER: ProtocolEntry = row!(table::index::MOPE, MOPE, "mOPE", Kind::Mope);
/// stOPE: while they are there.
const SAME_TIME: ProtocolEntry = row!(table::index::STOPE, STOPE, "stOPE", Kind::Stope);

/// The name of the entry that a message adds.
fn added(exchange: &Exchange) -> Option<Vec<u8>> {
    match exchange.of::<Mope>()?.0 {
        Request::Change(Change::Update { update, .. }) => {
            update.added.first().map(|entry| entry.sealed.0.to_vec())
        }
        Request::Change(_) | Request::Fetch { .. } | Request::Look { .. } | Request::Search { .. } => None,
    }
}

const VIEW: View = View {
    protocol: Mope::ID,
    sight: Sight { volume: Grain::Exact, items: Grain::Exact, in_order: true },
    entry_bytes: |_| None,
    inserted: added,
    seen: |exchange: &Exchange, _, seen| {
        if let Some((_, Response::Found { groups, .. })) = exchange.of::<Mope>() {
            let names =
                groups.iter().flat_map(|group| group.sealed.as_slice().chunks_exact(SealedRow::BYTES));
            seen.names.extend(names.map(<[u8]>::to_vec));
        }
    },
    ends_are_results: true,
};

/// An index whose tree is verified.
fn make(kind: Kind, making: Making) -> MakeFuture {
    Box::pin(async move {
        let (key, randomness) = (making.key(), Randomness::seeded(making.seed));
        let (index, width) = (making.index(), making.width);
        let made =
            index::Making { index, key: &key, width, kind, verified: true, small_nodes: false, randomness };
        let opened = index::Index::create(Arc::clone(&making.channel), &made).await?;
        Ok(Made {
            index: Box::new(opened),
            scheme: None,
            ciphertext_bytes: None,
            state_bytes: Box::new(|| Box::pin(async { size_of::<Head>() as u64 })),
        })
    })
}
