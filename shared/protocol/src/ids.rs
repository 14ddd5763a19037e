//! Names of things on the server. All are random or pseudorandom: none carries plaintext.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $bytes:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub [u8; $bytes]);

        impl $name {
            /// Length in bytes.
            pub const BYTES: usize = $bytes;

            /// Its bytes.
            #[must_use]
            pub fn as_bytes(&self) -> &[u8; $bytes] {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "("))?;
                for byte in self.0 {
                    write!(f, "{byte:02x}")?;
                }
                write!(f, ")")
            }
        }
    };
}

id!(
    /// A collection: random, chosen by the proxy when the collection is made.
    CollectionId, 8
);
id!(
    /// An encrypted index: random, chosen by the proxy when the index is made.
    IndexId, 8
);
id!(
    /// A stored document: deterministic AEAD tag of its canonical `_id` (EQunique), so equal ids meet.
    RowId, 16
);
id!(
    /// A node of an ArxRange tree and the bucket that starts at it; random. [`NodeId::HEAD`] is the bucket
    /// before the first separator.
    NodeId, 16
);

impl NodeId {
    /// The bucket of entries below the first separator; not a tree node.
    pub const HEAD: Self = Self([0; 16]);
}

/// A write of the proxy. `epoch` rises durably with every start of the proxy, `sequence` within it, so an
/// operation id never names two writes; ordered by time. Of one length, whatever it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OperationId {
    /// Start of the proxy that made it.
    #[serde(with = "postcard::fixint::be")]
    pub epoch: u64,
    /// Its place among that start's writes.
    #[serde(with = "postcard::fixint::be")]
    pub sequence: u64,
}
