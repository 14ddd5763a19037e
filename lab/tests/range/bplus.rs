//! The B+ tree over each scheme.

mod schemes;
mod sealed;
mod stateful;
mod store;
mod views;
mod writes;

use crate::body::{Effort, Subject, Tampering};
use crate::world::{INDEX, Wire, key, prg};
use arras_protocol::bplus::{BPlus as Protocol, Request, Response, SealedEntry};
use arras_protocol::ore::Width;
use arras_protocol::{Channel, ChannelError};
use arras_schemes::IndexError;
use arras_schemes::bplus::{BPlus, StatefulBPlus};
use arras_schemes::ore::{OrderScheme, StatefulScheme};
use arras_storage::Storage;

/// A tree over the scheme that `make` makes, with pages of so many bytes.
struct Over<F> {
    width: Width,
    page_bytes: u32,
    make: F,
}

impl<O: OrderScheme, F: Fn(Width) -> O> Subject for Over<F> {
    type Index<S: Storage> = BPlus<O, Wire<S>>;

    fn width(&self) -> Width {
        self.width
    }

    async fn open<S: Storage>(&self, wire: Wire<S>) -> Result<Self::Index<S>, IndexError> {
        BPlus::new(wire, INDEX, &key(), (self.make)(self.width), prg(1)).create(self.page_bytes).await
    }

    fn tampering(&self) -> Tampering {
        Tampering::Bounded
    }
}

/// The same of a scheme whose comparisons take most of a second.
struct Slow<T>(T);

impl<T: Subject> Subject for Slow<T> {
    type Index<S: Storage> = T::Index<S>;

    fn width(&self) -> Width {
        self.0.width()
    }

    async fn open<S: Storage>(&self, wire: Wire<S>) -> Result<Self::Index<S>, IndexError> {
        self.0.open(wire).await
    }

    fn tampering(&self) -> Tampering {
        self.0.tampering()
    }

    fn effort(&self) -> Effort {
        Effort::Few
    }
}

/// A tree over the scheme with state that `make` makes.
struct OverStateful<F>(Over<F>);

impl<O: StatefulScheme, F: Fn(Width) -> O> Subject for OverStateful<F> {
    type Index<S: Storage> = StatefulBPlus<O, Wire<S>>;

    fn width(&self) -> Width {
        self.0.width
    }

    async fn open<S: Storage>(&self, wire: Wire<S>) -> Result<Self::Index<S>, IndexError> {
        let scheme = (self.0.make)(self.0.width);
        StatefulBPlus::new(wire, INDEX, &key(), scheme, prg(1)).create(self.0.page_bytes).await
    }

    fn tampering(&self) -> Tampering {
        Tampering::Bounded
    }
}

/// The same over a server whose replies hold three entries: every search goes on several times.
struct Short<F>(Over<F>);

/// Cuts searches.
struct Cutting<S> {
    wire: Wire<S>,
    entry_bytes: usize,
}

impl<S: Storage> Channel<Protocol> for Cutting<S> {
    async fn call(&self, mut request: Request) -> Result<Response, ChannelError> {
        let mut cut = false;
        if let Request::Search { limit, .. } = &mut request {
            cut = limit.is_none_or(|limit| limit > 3);
            *limit = Some(limit.map_or(3, |limit| limit.min(3)));
        }
        let mut response = Channel::<Protocol>::call(&self.wire, request).await?;
        if let Response::Found { entries, more } = &mut response {
            *more |= cut && entries.len() == 3 * self.entry_bytes;
        }
        Ok(response)
    }
}

impl<O: OrderScheme, F: Fn(Width) -> O> Subject for Short<F> {
    type Index<S: Storage> = BPlus<O, Cutting<S>>;

    fn width(&self) -> Width {
        self.0.width
    }

    async fn open<S: Storage>(&self, wire: Wire<S>) -> Result<Self::Index<S>, IndexError> {
        let scheme = (self.0.make)(self.0.width);
        let stored_bytes = scheme.scheme().stored_bytes().expect("a scheme's own parameters");
        let wire = Cutting { wire, entry_bytes: stored_bytes + SealedEntry::BYTES };
        BPlus::new(wire, INDEX, &key(), scheme, prg(1)).create(self.0.page_bytes).await
    }

    fn tampering(&self) -> Tampering {
        Tampering::Bounded
    }
}

/// A stateful tree over such a server.
struct ShortStateful<F>(Over<F>);

impl<O: StatefulScheme, F: Fn(Width) -> O> Subject for ShortStateful<F> {
    type Index<S: Storage> = StatefulBPlus<O, Cutting<S>>;

    fn width(&self) -> Width {
        self.0.width
    }

    async fn open<S: Storage>(&self, wire: Wire<S>) -> Result<Self::Index<S>, IndexError> {
        let scheme = (self.0.make)(self.0.width);
        let stored_bytes = scheme.scheme().stored_bytes().expect("a scheme's own parameters");
        let wire = Cutting { wire, entry_bytes: stored_bytes + SealedEntry::BYTES };
        StatefulBPlus::new(wire, INDEX, &key(), scheme, prg(1)).create(self.0.page_bytes).await
    }

    fn tampering(&self) -> Tampering {
        Tampering::Bounded
    }
}
