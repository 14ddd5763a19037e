//! The B+ tree over each scheme.

use crate::body::{Subject, Tampering};
use crate::world::{INDEX, Wire, prg};
use arras_client::IndexError;
use arras_client::bplus::BPlus;
use arras_lab::plain_scheme::PlainScheme;
use arras_protocol::ore::Width;
use arras_storage::Storage;

/// Without encryption.
struct Plain(Width, u32);

impl Subject for Plain {
    type Index<S: Storage> = BPlus<PlainScheme, Wire<S>>;

    fn width(&self) -> Width {
        self.0
    }

    async fn open<S: Storage>(&self, wire: Wire<S>) -> Result<Self::Index<S>, IndexError> {
        BPlus::create(wire, INDEX, PlainScheme(self.0), self.1, prg(1)).await
    }

    fn tampering(&self) -> Tampering {
        Tampering::Bounded
    }
}

range_tests!(plain_32, Plain(Width::Bits32, 128));
range_tests!(plain_64, Plain(Width::Bits64, 4096));
range_tests!(plain_of_three_entries, Plain(Width::Bits64, 11 + 3 * 32));
