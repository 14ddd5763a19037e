//! The channel an engine needs: one that carries every protocol it uses.

use arras_protocol::Channel;
use arras_protocol::mope::index::Mope;
use arras_protocol::pope::Pope;
use arras_protocol::{
    arx_eq, arx_eq::ArxEq, arx_range::ArxRange, bplus::BPlus, documents::Documents, unique::Unique,
    write::Write,
};

/// A channel to the server for every protocol of the engine.
pub trait ServerChannel:
    Channel<Documents>
    + Channel<Write>
    + Channel<Unique>
    + Channel<ArxEq>
    + Channel<arx_eq::Entries>
    + Channel<ArxRange>
    + Channel<BPlus>
    + Channel<Pope>
    + Channel<Mope>
    + 'static
{
}

impl<C> ServerChannel for C where
    C: Channel<Documents>
        + Channel<Write>
        + Channel<Unique>
        + Channel<ArxEq>
        + Channel<arx_eq::Entries>
        + Channel<ArxRange>
        + Channel<BPlus>
        + Channel<Pope>
        + Channel<Mope>
        + 'static
{
}
