//! Inner nodes in memory.

use super::node::{Body, Entry, Layout, Tag};
use super::tags::Tags;
use arras_primitives::light_mac::Sum;
use std::sync::Arc;

/// Tags that differ from those of the bytes, at most.
const CHANGED_MAX: usize = 16;

/// An inner node as it was read or written, with its plains. Where nothing but the tags of children change, which each
/// insertion does on its way up, the rest is shared and the node's own tag is brought up to date rather than made anew.
pub(super) struct Inner {
    /// All but the tags.
    body: Arc<Body>,
    /// Its bytes as they were a few changes ago; none in a tree that is not verified.
    bytes: Arc<Vec<u8>>,
    /// Tags of children that have changed since.
    changed: Vec<(usize, Tag)>,
    sum: Sum,
    /// Its own.
    pub(super) tag: Tag,
}

impl Inner {
    /// A node, its bytes and, in a verified tree, their sum and tag.
    pub(super) fn new(mut body: Body, bytes: &[u8], (sum, tag): (Sum, Tag)) -> Self {
        let tags = std::mem::take(&mut body.tags);
        let bytes = if tags.is_empty() { Vec::new() } else { bytes.to_vec() };
        Self { body: Arc::new(body), bytes: Arc::new(bytes), changed: Vec::new(), sum, tag }
    }

    /// All but the tags.
    pub(super) fn body(&self) -> &Body {
        &self.body
    }

    /// Where the tags are in the bytes.
    fn tags_at(&self) -> usize {
        self.bytes.len().saturating_sub(self.body.len() * size_of::<Tag>())
    }

    /// A child's tag; zero in a tree that is not verified.
    fn tag_of(&self, at: usize) -> Tag {
        if let Some((_, tag)) = self.changed.iter().find(|(changed, _)| *changed == at) {
            return *tag;
        }
        let tags = self.bytes.get(self.tags_at()..).unwrap_or_default().as_chunks().0;
        tags.get(at).copied().unwrap_or_default()
    }

    /// A child.
    pub(super) fn entry(&self, at: usize, layout: &Layout) -> Entry<'_> {
        Entry { tag: self.tag_of(at), ..self.body.entry(at, layout) }
    }

    /// A copy with the tags, some of them others.
    pub(super) fn whole(&self, changed: &[(usize, Tag)], layout: &Layout) -> Body {
        let mut body = self.body.part(0..self.body.len(), layout);
        if layout.tags {
            body.tags.extend_from_slice(self.bytes.get(self.tags_at()..).unwrap_or_default().as_chunks().0);
        }
        for (at, tag) in self.changed.iter().chain(changed) {
            body.tags[*at] = *tag;
        }
        body
    }

    /// The node with other tags of some children, and its bytes.
    pub(super) fn retag(&self, tags: &Tags, others: &[(usize, Tag)]) -> (Self, Vec<u8>) {
        let place = |at: usize| self.tags_at() + at * size_of::<Tag>();
        let mut bytes = Vec::clone(&self.bytes);
        for (at, tag) in &self.changed {
            bytes[place(*at)..place(*at) + size_of::<Tag>()].copy_from_slice(tag);
        }
        let mut sum = self.sum;
        let mut changed = Vec::with_capacity(self.changed.len() + others.len());
        changed.extend(self.changed.iter().filter(|(at, _)| others.iter().all(|(other, _)| other != at)));
        for (at, tag) in others {
            tags.replace(&mut sum, &mut bytes, place(*at), tag);
            changed.push((*at, *tag));
        }
        let tag = tags.finish(sum, &bytes);
        let (body, mut of_before) = (Arc::clone(&self.body), Arc::clone(&self.bytes));
        if changed.len() > CHANGED_MAX {
            changed.clear();
            of_before = Arc::new(bytes.clone());
        }
        (Self { body, bytes: of_before, changed, sum, tag }, bytes)
    }
}
