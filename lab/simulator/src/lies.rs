//! What a lying server makes of a reply.

use arras_protocol::{Protocol, ProtocolId, arx_eq, arx_range, codec, documents};

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
        if let Self::Flip(bit) = self {
            let reads = [documents::Documents::ID, arx_eq::ArxEq::ID, arx_range::ArxRange::ID];
            if reads.contains(&protocol) && !reply.is_empty() {
                let bit = usize::try_from(bit).unwrap_or_default() % (reply.len() * 8);
                reply[bit / 8] ^= 1 << (bit % 8);
            }
            return *reply != honest;
        }
        if protocol == documents::Documents::ID {
            if let Ok(documents::Response::Documents { mut documents, more, served }) =
                codec::decode::<documents::Response>(reply)
            {
                self.of(&mut documents);
                let more = more && self != Self::Withhold;
                *reply = codec::encode(&documents::Response::Documents { documents, more, served });
            }
        } else if protocol == arx_eq::ArxEq::ID {
            if let Ok(mut response) = codec::decode::<arx_eq::Response>(reply) {
                if let Some(matches) = response.values.iter_mut().max_by_key(|matches| matches.rows.len()) {
                    self.of(&mut matches.rows);
                }
                *reply = codec::encode(&response);
            }
        } else if protocol == arx_range::ArxRange::ID
            && let Ok(mut response) = codec::decode::<arx_range::Response>(reply)
        {
            match &mut response {
                arx_range::Response::Buckets(buckets) | arx_range::Response::Found { buckets, .. } => {
                    self.of(buckets);
                }
                arx_range::Response::Top { nodes, .. } => self.of(nodes),
                arx_range::Response::Trees(nodes) => self.of(nodes),
            }
            *reply = codec::encode(&response);
        }
        *reply != honest
    }

    fn of<T: Clone>(self, list: &mut Vec<T>) {
        match self {
            Self::Repeat => list.extend(list.first().cloned()),
            Self::Drop if !list.is_empty() => drop(list.remove(list.len() / 2)),
            Self::Reverse => list.reverse(),
            Self::Withhold => list.clear(),
            Self::Drop | Self::Flip(_) => {}
        }
    }
}
