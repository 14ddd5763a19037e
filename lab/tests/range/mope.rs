//! Order-preserving encoding through the body of all range indexes, and what only it does.

mod lies;
mod lifetimes;

use crate::body::{Subject, Tampering};
use crate::world::{INDEX, Wire, key};
use arras_protocol::Channel;
use arras_protocol::mope::Head;
use arras_protocol::mope::index::Mope;
use arras_protocol::ore::Width;
use arras_schemes::IndexError;
use arras_schemes::mope::Kind;
use arras_schemes::mope::index::{Index, Making};
use arras_schemes::random::Randomness;
use arras_storage::Storage;

/// A form, a width, and whether the tree is verified.
pub(crate) struct Encoded(pub(crate) Kind, pub(crate) Width, pub(crate) bool);

impl Encoded {
    /// Opens the index that is there, or makes it; `acknowledged` if it was.
    pub(crate) async fn reopen<C: Channel<Mope>>(
        &self,
        channel: C,
        acknowledged: Option<Head>,
    ) -> Result<Index<C>, IndexError> {
        let Self(kind, width, verified) = *self;
        let (key, randomness) = (key(), Randomness::seeded(7));
        let making =
            Making { index: INDEX, key: &key, width, kind, verified, small_nodes: false, randomness };
        match acknowledged {
            Some(_) => Index::open(channel, &making, acknowledged),
            None => Index::create(channel, &making).await,
        }
    }
}

impl Subject for Encoded {
    type Index<S: Storage> = Index<Wire<S>>;

    fn width(&self) -> Width {
        self.1
    }

    async fn open<S: Storage>(&self, wire: Wire<S>) -> Result<Self::Index<S>, IndexError> {
        self.reopen(wire, None).await
    }

    /// Which entries a value has is not authenticated.
    fn tampering(&self) -> Tampering {
        Tampering::Bounded
    }
}

range_tests!(mope_of_32_bits, Encoded(Kind::Mope, Width::Bits32, true));
range_tests!(mope_of_64_bits, Encoded(Kind::Mope, Width::Bits64, true));
range_tests!(mope_unverified, Encoded(Kind::Mope, Width::Bits64, false));
range_tests!(stope_of_32_bits, Encoded(Kind::Stope, Width::Bits32, true));
range_tests!(stope_of_64_bits, Encoded(Kind::Stope, Width::Bits64, true));
range_tests!(stope_unverified, Encoded(Kind::Stope, Width::Bits32, false));
