//! Where the keyed side takes its randomness from: one source, which whoever opens an engine chooses.
//!
//! In all that ships it is the operating system's, through a generator of each thread. The laboratory's simulator
//! replays a run from a number, keys and nonces included; so what stands on this has no other source.

#[cfg(feature = "lab")]
use rand::{SeedableRng, rngs::StdRng};
use rand::{TryCryptoRng, TryRng};
use std::convert::Infallible;
#[cfg(feature = "lab")]
use std::sync::{Arc, Mutex, PoisonError};

/// A source of randomness. Copies share one stream.
#[derive(Clone, Default)]
pub struct Randomness(Origin);

#[derive(Clone, Default)]
enum Origin {
    #[default]
    System,
    #[cfg(feature = "lab")]
    Seeded(Arc<Mutex<StdRng>>),
}

/// The operating system's.
pub static SYSTEM: Randomness = Randomness(Origin::System);

impl std::fmt::Debug for Randomness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Randomness")
    }
}

impl Randomness {
    /// A stream that anybody can repeat who knows the number: for simulations, where there is nothing to hide.
    #[cfg(feature = "lab")]
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(Origin::Seeded(Arc::new(Mutex::new(StdRng::seed_from_u64(seed)))))
    }

    /// The next of the stream, for as long as one operation needs it.
    #[must_use]
    pub fn rng(&self) -> Source {
        match &self.0 {
            Origin::System => Source(Stream::System),
            #[cfg(feature = "lab")]
            Origin::Seeded(stream) => Source(Stream::Seeded(Arc::clone(stream))),
        }
    }
}

/// See [`Randomness::rng`].
pub struct Source(Stream);

enum Stream {
    /// The generator of whichever thread asks.
    System,
    #[cfg(feature = "lab")]
    Seeded(Arc<Mutex<StdRng>>),
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Source")
    }
}

impl TryRng for Source {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        match &mut self.0 {
            Stream::System => rand::rng().try_next_u32(),
            #[cfg(feature = "lab")]
            Stream::Seeded(stream) => stream.lock().unwrap_or_else(PoisonError::into_inner).try_next_u32(),
        }
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        match &mut self.0 {
            Stream::System => rand::rng().try_next_u64(),
            #[cfg(feature = "lab")]
            Stream::Seeded(stream) => stream.lock().unwrap_or_else(PoisonError::into_inner).try_next_u64(),
        }
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        match &mut self.0 {
            Stream::System => rand::rng().try_fill_bytes(bytes),
            #[cfg(feature = "lab")]
            Stream::Seeded(stream) => {
                stream.lock().unwrap_or_else(PoisonError::into_inner).try_fill_bytes(bytes)
            }
        }
    }
}

impl TryCryptoRng for Source {}

#[cfg(all(test, feature = "lab"))]
mod tests {
    use super::*;
    use rand::Rng;

    #[test]
    fn a_seed_says_the_stream_and_copies_share_it() {
        let (one, other) = (Randomness::seeded(7), Randomness::seeded(7));
        let copy = one.clone();
        let drawn = [one.rng().next_u64(), copy.rng().next_u64()];
        assert_eq!(drawn, [other.rng().next_u64(), other.rng().next_u64()]);
        assert_ne!(drawn[0], drawn[1]);
        assert_ne!(Randomness::seeded(8).rng().next_u64(), drawn[0]);
    }
}
