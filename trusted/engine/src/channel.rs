//! The channel an engine needs: one that carries every protocol it uses.

use super::protocols::OrderChannel;
use arras_protocol::Channel;
use arras_protocol::{arx_eq, arx_eq::ArxEq, documents::Documents, unique::Unique, write::Write};

/// A channel to the server for every protocol of the engine.
pub trait ServerChannel:
    Channel<Documents>
    + Channel<Write>
    + Channel<Unique>
    + Channel<ArxEq>
    + Channel<arx_eq::Entries>
    + OrderChannel
    + 'static
{
}

impl<C> ServerChannel for C where
    C: Channel<Documents>
        + Channel<Write>
        + Channel<Unique>
        + Channel<ArxEq>
        + Channel<arx_eq::Entries>
        + OrderChannel
        + 'static
{
}
