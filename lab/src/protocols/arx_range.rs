//! ArxRange in the lab.

use super::make::no_state;
use super::{Construction, Made, MakeFuture, Making, ProtocolEntry, Work};
use crate::attacks::{Exchange, Grain, Sight, View};
use crate::channel::LabChannel;
use arras_protocol::arx_range::{self, Response};
use arras_protocol::leakage;
use arras_protocol::table::index;
use arras_protocol::write::{self, Write};
use arras_protocol::{Channel, OperationId, Protocol};
use arras_schemes::arx_range::{ArxRange, ArxRangeParameters, Epochs, Standalone};
use std::sync::Arc;

pub(super) const ENTRY: ProtocolEntry = ProtocolEntry {
    name: index::ARX_RANGE,
    title: "ArxRange",
    leakage: |_| leakage::arx_range::ARX_RANGE,
    construction: Construction::OneByOne,
    in_all: true,
    work: Work::Usual,
    sorted_by_queries: false,
    page_bytes_min: |_| 64,
    make,
    ranks: None,
    view: &VIEW,
    table3: None,
};

/// Buckets, padded.
const VIEW: View = View {
    protocol: arx_range::ArxRange::ID,
    sight: Sight { volume: Grain::Coarse, items: Grain::Coarse, in_order: true },
    entry_bytes: |_| None,
    inserted: |_| None,
    seen: |exchange: &Exchange, _, seen| {
        if let Some((_, Response::Found { buckets, .. })) = exchange.of::<arx_range::ArxRange>() {
            seen.names.extend(buckets.iter().map(|found| found.node.as_bytes().to_vec()));
        }
    },
    ends_are_results: true,
};

fn make(making: Making) -> MakeFuture {
    Box::pin(async move {
        let parameters = ArxRangeParameters {
            key_bytes: making.width.bytes(),
            bucket_factor: 16,
            top_nodes: 1024,
            sums: 0,
            aggregates: false,
        };
        let (index, keys, mut prg) = (making.index(), making.key(), making.prg());
        let steps = ArxRange::<LabChannel>::create(index, &keys, parameters, &mut prg);
        let operation = OperationId { epoch: 1, sequence: 0 };
        let request =
            write::Request { operation: Some(operation), finished_below: operation, acknowledged: 0, steps };
        Channel::<Write>::call(&*making.channel, request).await?;
        let epochs = Arc::new(Epochs::new(1));
        let channel = Arc::clone(&making.channel);
        let opened = ArxRange::open(Arc::clone(&channel), index, &keys, parameters, epochs, &mut prg).await?;
        // The writes that follow are of the next epoch, numbered from 0.
        let index = Standalone::new(opened, channel, 2);
        Ok(Made { index: Box::new(index), scheme: None, ciphertext_bytes: None, state_bytes: no_state() })
    })
}
