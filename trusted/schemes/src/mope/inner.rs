//! Inner nodes in memory.

use super::node::{Body, Entry, Layout, Tag};
use super::tags::Tags;
use arras_primitives::light_mac::Sum;
use std::sync::Arc;

/// An inner node as it was read or written, with its plains. Where nothing but the tags of children change, which each
/// insertion does on its way up, the rest is shared and the node's own tag is brought up to date rather than made anew.
pub(super) struct Inner {
    shape: Arc<Shape>,
    /// Of the children; none in a tree that is not verified.
    tags: Vec<Tag>,
    sum: Sum,
    /// Its own.
    pub(super) tag: Tag,
}

/// All but the tags.
struct Shape {
    body: Body,
    /// Its bytes; none in a tree that is not verified.
    bytes: Vec<u8>,
}

impl Inner {
    /// A node, its bytes and, in a verified tree, their sum and tag.
    pub(super) fn new(mut body: Body, bytes: &[u8], (sum, tag): (Sum, Tag)) -> Self {
        let tags = std::mem::take(&mut body.tags);
        let kept = if tags.is_empty() { 0 } else { bytes.len() - size_of_val(tags.as_slice()) };
        let shape = Arc::new(Shape { body, bytes: bytes[..kept].to_vec() });
        Self { shape, tags, sum, tag }
    }

    /// All but the tags.
    pub(super) fn body(&self) -> &Body {
        &self.shape.body
    }

    /// A child.
    pub(super) fn entry(&self, at: usize, layout: &Layout) -> Entry<'_> {
        let tag = self.tags.get(at).copied().unwrap_or_default();
        Entry { tag, ..self.shape.body.entry(at, layout) }
    }

    /// A copy with the tags, some of them others.
    pub(super) fn whole(&self, changed: &[(usize, Tag)], layout: &Layout) -> Body {
        let mut body = self.shape.body.part(0..self.shape.body.len(), layout);
        body.tags.extend_from_slice(&self.tags);
        for (at, tag) in changed {
            body.tags[*at] = *tag;
        }
        body
    }

    /// The node with other tags of some children, and its bytes.
    pub(super) fn retag(&self, tags: &Tags, changed: &[(usize, Tag)]) -> (Self, Vec<u8>) {
        let mut bytes = Vec::with_capacity(self.shape.bytes.len() + size_of_val(self.tags.as_slice()));
        bytes.extend_from_slice(&self.shape.bytes);
        bytes.extend_from_slice(self.tags.as_flattened());
        let (mut sum, mut of_children) = (self.sum, self.tags.clone());
        for (at, tag) in changed {
            let place = self.shape.bytes.len() + at * size_of::<Tag>();
            tags.replace(&mut sum, &mut bytes, place, tag);
            of_children[*at] = *tag;
        }
        let tag = tags.finish(sum, &bytes);
        (Self { shape: Arc::clone(&self.shape), tags: of_children, sum, tag }, bytes)
    }
}
