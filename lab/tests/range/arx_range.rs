//! ArxRange through the body of all range indexes. What only it does is in `lab/tests/arx_range`.

use crate::body::{Subject, Tampering};
use crate::world::{INDEX, Wire, key, prg};
use arras_protocol::ore::Width;
use arras_protocol::write::{self, Write};
use arras_protocol::{Channel, OperationId};
use arras_schemes::IndexError;
use arras_schemes::arx_range::{ArxRange, ArxRangeParameters, Epochs, Standalone};
use arras_storage::Storage;
use std::sync::Arc;

/// A width, one separator in so many places, and separators at the client.
struct Chained(Width, u64, usize);

impl Subject for Chained {
    type Index<S: Storage> = Standalone<Wire<S>>;

    fn width(&self) -> Width {
        self.0
    }

    async fn open<S: Storage>(&self, wire: Wire<S>) -> Result<Self::Index<S>, IndexError> {
        let Self(width, bucket_factor, top_nodes) = *self;
        let parameters = ArxRangeParameters {
            key_bytes: width.bytes(),
            bucket_factor,
            top_nodes,
            sums: 0,
            aggregates: false,
        };
        let (channel, epochs) = (Arc::new(wire), Arc::new(Epochs::new(1)));
        let operation = OperationId { epoch: 0, sequence: 0 };
        let steps = ArxRange::<Wire<S>>::create(INDEX, &key(), parameters, &mut prg(1));
        let request =
            write::Request { operation: Some(operation), finished_below: operation, acknowledged: 0, steps };
        Channel::<Write>::call(&*channel, request).await?;
        let index =
            ArxRange::open(Arc::clone(&channel), INDEX, &key(), parameters, epochs, &mut prg(2)).await?;
        Ok(Standalone::new(index, channel, 1))
    }

    fn tampering(&self) -> Tampering {
        Tampering::Detected
    }
}

range_tests!(of_32_bits, Chained(Width::Bits32, 4, 8));
range_tests!(of_64_bits, Chained(Width::Bits64, 16, 64));
range_tests!(of_the_paper, Chained(Width::Bits32, 1, 0));
