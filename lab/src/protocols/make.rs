//! How each protocol's index is made.

use super::{Made, MakeFuture, Making, StateBytes, Watched};
use crate::channel::LabChannel;
use arras_protocol::arx_range::Order;
use arras_protocol::bplus::SealedEntry;
use arras_protocol::ore::Scheme;
use arras_protocol::write::{self, Write};
use arras_protocol::{Channel, OperationId, RowId};
use arras_schemes::arx_range::{ArxRange, ArxRangeParameters, Epochs, RangeEntry, Standalone};
use arras_schemes::bplus::{BPlus, StatefulBPlus};
use arras_schemes::error::IndexError;
use arras_schemes::kerschbaum_tueno::KerschbaumTueno;
use arras_schemes::logarithmic_brc::{LogarithmicBrc, Parameters};
use arras_schemes::ore::{OrderScheme, StatefulScheme};
use arras_schemes::path_oram::{OramTree, OramTreeParameters};
use arras_schemes::pope;
use arras_schemes::traits::RangeIndex;
use std::sync::Arc;

/// A page's head and the longest reference to a child.
const BPLUS_HEAD_BYTES: usize = 40;
const BPLUS_CHILD_BYTES: usize = 8;

/// The smallest page of a B+ tree over a scheme: three entries fit.
pub(super) fn bplus_page_bytes_min(scheme: Scheme) -> usize {
    let entry_bytes = scheme.stored_bytes().unwrap_or(0) + SealedEntry::BYTES + BPLUS_CHILD_BYTES;
    BPLUS_HEAD_BYTES + 3 * entry_bytes
}

fn page_bytes(making: &Making) -> u32 {
    u32::try_from(making.page_bytes).unwrap_or(u32::MAX)
}

/// A B+ tree over a scheme.
pub(super) fn bplus<O: OrderScheme + 'static>(scheme: O, making: Making) -> MakeFuture {
    Box::pin(async move {
        let scheme = Watched::new(scheme);
        let (watched, tally) = (scheme.clone(), scheme.tally());
        let ciphertext_bytes = scheme.scheme().stored_bytes().map(|bytes| bytes as u64);
        let (channel, index) = (Arc::clone(&making.channel), making.index());
        let index = BPlus::new(channel, index, &making.key(), scheme, making.prg());
        let index = index.create(page_bytes(&making)).await?;
        Ok(Made {
            index: Box::new(index),
            scheme: Some(tally),
            ciphertext_bytes,
            state_bytes: Box::new(move || {
                let bytes = watched.state_bytes() as u64;
                Box::pin(async move { bytes })
            }),
        })
    })
}

/// A B+ tree over a scheme with state.
pub(super) fn stateful_bplus<O: StatefulScheme + 'static>(scheme: O, making: Making) -> MakeFuture {
    Box::pin(async move {
        let scheme = Watched::new(scheme);
        let (watched, tally) = (scheme.clone(), scheme.tally());
        let ciphertext_bytes = scheme.scheme().stored_bytes().map(|bytes| bytes as u64);
        let (channel, index) = (Arc::clone(&making.channel), making.index());
        let index = StatefulBPlus::new(channel, index, &making.key(), scheme, making.prg());
        let index = index.create(page_bytes(&making)).await?;
        Ok(Made {
            index: Box::new(index),
            scheme: Some(tally),
            ciphertext_bytes,
            state_bytes: Box::new(move || {
                let bytes = watched.state_bytes() as u64;
                Box::pin(async move { bytes })
            }),
        })
    })
}

/// For client halves that keep nothing but their keys.
fn no_state() -> StateBytes {
    Box::new(|| Box::pin(async { 0 }))
}

/// An index of such a client half, over no scheme.
fn stateless(index: impl RangeIndex + 'static) -> Made {
    Made { index: Box::new(index), scheme: None, ciphertext_bytes: None, state_bytes: no_state() }
}

/// An index shared between the run that uses it and whoever measures its state.
struct Shared<I>(Arc<I>);

impl<I: RangeIndex> RangeIndex for Shared<I> {
    async fn insert(&self, entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        self.0.insert(entries).await
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

/// A rotated array.
pub(super) fn kerschbaum_tueno(making: Making) -> MakeFuture {
    Box::pin(async move {
        let (channel, key, prg) = (Arc::clone(&making.channel), making.key(), making.prg());
        let (width, page_bytes) = (making.width, page_bytes(&making));
        let array = KerschbaumTueno::create(channel, making.index(), &key, width, page_bytes, prg).await?;
        Ok(stateless(array))
    })
}

/// A buffer tree.
pub(super) fn pope(making: Making) -> MakeFuture {
    Box::pin(async move {
        let (channel, key, prg) = (Arc::clone(&making.channel), making.key(), making.prg());
        let keyed = pope::Keyed { index: making.index(), key: &key, width: making.width };
        Ok(stateless(pope::Standalone::create(channel, keyed, page_bytes(&making), prg).await?))
    })
}

/// A B+ tree in a Path ORAM.
pub(super) fn path_oram(making: Making) -> MakeFuture {
    Box::pin(async move {
        let parameters = OramTreeParameters::of_pages(making.width.bytes(), making.page_bytes);
        let (channel, key, prg) = (Arc::clone(&making.channel), making.key(), making.prg());
        let tree = Arc::new(OramTree::create(channel, making.index(), &key, parameters, prg).await?);
        let index = Shared(Arc::clone(&tree));
        let state_bytes: StateBytes = Box::new(move || {
            let tree = Arc::clone(&tree);
            Box::pin(async move { tree.client_bytes().await as u64 })
        });
        Ok(Made { index: Box::new(index), scheme: None, ciphertext_bytes: None, state_bytes })
    })
}

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

pub(super) fn logarithmic_brc(making: Making) -> MakeFuture {
    Box::pin(async move {
        let parameters = Parameters { page_bytes: page_bytes(&making), ..Parameters::new(making.width) };
        let (channel, prg) = (Arc::clone(&making.channel), making.prg());
        let index = LogarithmicBrc::new(making.index(), parameters, &making.key(), channel, prg)?;
        Ok(Made {
            index: Box::new(Loaded(index)),
            scheme: None,
            ciphertext_bytes: None,
            state_bytes: no_state(),
        })
    })
}

pub(super) fn arx_range(making: Making) -> MakeFuture {
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
