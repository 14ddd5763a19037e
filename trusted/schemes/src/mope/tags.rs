//! What tells a column's own tree from any other: tags of its nodes and of its head.

use super::node::Tag;
use crate::error::IndexError;
use arras_keys::{Key, Purpose};
use arras_primitives::ct;
use arras_primitives::light_mac::LightMac;
use arras_protocol::mope::{DIGEST_BYTES, Head};

/// First byte of what a head's tag is of; a node begins with its level, which is less.
const HEAD: u8 = 0xff;

/// Makes and checks the tags of one column.
pub(super) struct Tags(LightMac);

impl Tags {
    pub(super) fn new(key: &Key) -> Self {
        Self(LightMac::new(key.child(Purpose::MopeTags).expose()))
    }

    /// Of a node's bytes.
    pub(super) fn node(&self, bytes: &[u8]) -> Tag {
        self.0.tag(bytes)
    }

    /// True if a node's bytes are those that the tag was made of.
    pub(super) fn is_node(&self, bytes: &[u8], tag: &Tag) -> bool {
        ct::equal(&self.node(bytes), tag)
    }

    /// A head's digest: its own tag, then the root's.
    pub(super) fn digest(&self, head: &Head, root: &Tag) -> [u8; DIGEST_BYTES] {
        let mut said = [0; 1 + 4 * 8 + size_of::<Tag>()];
        said[0] = HEAD;
        for (at, number) in [head.version, head.root, head.next, head.values].into_iter().enumerate() {
            said[1 + at * 8..9 + at * 8].copy_from_slice(&number.to_be_bytes());
        }
        said[33..].copy_from_slice(root);
        let mut digest = [0; DIGEST_BYTES];
        digest[..size_of::<Tag>()].copy_from_slice(&self.0.tag(&said));
        digest[size_of::<Tag>()..].copy_from_slice(root);
        digest
    }

    /// Checks that a holder of the key made a head. (Nobody made that of a tree that never changed.)
    pub(super) fn check(&self, head: &Head) -> Result<(), IndexError> {
        let made = if head.version == 0 { [0; DIGEST_BYTES] } else { self.digest(head, &root_tag(head)) };
        let never = head.version > 0 || head.values == 0;
        if never && ct::equal(&made, &head.digest) {
            return Ok(());
        }
        Err(IndexError::Contradicted("the head of an order-preserving tree was not made under this key"))
    }
}

/// The root's tag.
pub(super) fn root_tag(head: &Head) -> Tag {
    head.digest.last_chunk().copied().unwrap_or_default()
}
