//! What tells a column's own tree from any other: tags of its nodes and of its head.

use super::node::Tag;
use crate::error::IndexError;
use arras_keys::{Key, Purpose};
use arras_primitives::ct;
use arras_primitives::light_mac::{LightMac, Sum};
use arras_protocol::mope::{DIGEST_BYTES, Head};

/// First byte of what a head's tag is of; a node begins with its level, which is less.
const HEAD: u8 = 0xff;

/// Bytes of a head's salt.
pub(super) const SALT_BYTES: usize = 4;

/// Makes and checks the tags of one column.
pub(super) struct Tags {
    mac: LightMac,
}

impl Tags {
    pub(super) fn new(key: &Key) -> Self {
        Self { mac: LightMac::new(key.child(Purpose::MopeTags).expose()) }
    }

    /// Of a node's bytes, with what an update of the tag starts from.
    pub(super) fn node(&self, bytes: &[u8]) -> (Sum, Tag) {
        let sum = self.mac.sum(bytes);
        (sum, self.mac.finish(sum, bytes))
    }

    /// Writes a child's tag into a node's bytes, and brings their sum up to date.
    pub(super) fn replace(&self, sum: &mut Sum, bytes: &mut [u8], at: usize, tag: &Tag) {
        self.mac.replace(sum, bytes, at, tag);
    }

    /// The tag of bytes, of which the sum is known.
    pub(super) fn finish(&self, sum: Sum, bytes: &[u8]) -> Tag {
        self.mac.finish(sum, bytes)
    }

    /// The sum of a node's bytes if the tag was made of these.
    pub(super) fn open(&self, bytes: &[u8], tag: &Tag) -> Option<Sum> {
        let (sum, made) = self.node(bytes);
        ct::equal(&made, tag).then_some(sum)
    }

    /// A head's digest: a salt, a tag of the head and the salt, and the root's tag. The salt is the writer's, drawn for each
    /// change: two writers that make the same change of the same version make different heads.
    pub(super) fn digest(&self, head: &Head, salt: [u8; SALT_BYTES], root: &Tag) -> [u8; DIGEST_BYTES] {
        let mut said = [0; 1 + 4 * 8 + SALT_BYTES + size_of::<Tag>()];
        said[0] = HEAD;
        for (at, number) in [head.version, head.root, head.next, head.values].into_iter().enumerate() {
            said[1 + at * 8..9 + at * 8].copy_from_slice(&number.to_be_bytes());
        }
        said[33..33 + SALT_BYTES].copy_from_slice(&salt);
        said[33 + SALT_BYTES..].copy_from_slice(root);
        let mut digest = [0; DIGEST_BYTES];
        digest[..SALT_BYTES].copy_from_slice(&salt);
        digest[SALT_BYTES..size_of::<Tag>()].copy_from_slice(&self.mac.tag(&said)[SALT_BYTES..]);
        digest[size_of::<Tag>()..].copy_from_slice(root);
        digest
    }

    /// Checks that a holder of the key made a head. (Nobody made that of a tree that never changed.)
    pub(super) fn check(&self, head: &Head) -> Result<(), IndexError> {
        let salt = head.digest.first_chunk().copied().unwrap_or_default();
        let made =
            if head.version == 0 { [0; DIGEST_BYTES] } else { self.digest(head, salt, &root_tag(head)) };
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
