//! What a lying server makes of a reply.

use crate::protocols;
use arras_protocol::ProtocolId;

/// A lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// The first comes twice.
    Repeat,
    /// The one in the middle is left out.
    Drop,
    /// In the other order.
    Reverse,
    /// Nothing, and no more to come.
    Withhold,
    /// A bit is another one: this one, counted from the end round and round.
    Flip(u64),
}

impl Lie {
    /// Makes a lie of a reply; false if there is nothing to be told in it.
    pub(crate) fn tell(self, protocol: ProtocolId, reply: &mut Vec<u8>) -> bool {
        let honest = reply.clone();
        protocols::tell(self, protocol, reply);
        *reply != honest
    }

    /// The lie about a list.
    pub(crate) fn of<T: Clone>(self, list: &mut Vec<T>) {
        match self {
            Self::Repeat => list.extend(list.first().cloned()),
            Self::Drop if !list.is_empty() => drop(list.remove(list.len() / 2)),
            Self::Reverse => list.reverse(),
            Self::Withhold => list.clear(),
            Self::Drop | Self::Flip(_) => {}
        }
    }

    /// The lie about bytes of which no end can be cut off unnoticed.
    pub(crate) fn of_bytes(self, bytes: &mut Vec<u8>) {
        match self {
            Self::Repeat => bytes.extend_from_within(..),
            Self::Reverse => bytes.reverse(),
            Self::Flip(bit) if !bytes.is_empty() => {
                let bit = usize::try_from(bit).unwrap_or_default() % (bytes.len() * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            Self::Drop | Self::Withhold | Self::Flip(_) => {}
        }
    }
}
