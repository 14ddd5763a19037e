//! The documents of a collection: their names, facts, and which of them searches see.

use arras_schemes::bisen::DocumentName;
use arras_schemes::bisen::message::Refused;
use arras_schemes::bisen::update::{DocumentAction, DocumentChange, Facts, Update};
use fixedbitset::FixedBitSet;
use std::collections::{HashMap, HashSet};

/// A set of numbers of documents below a bound.
pub(crate) type Set = FixedBitSet;

/// Bytes of a set below this bound.
pub(crate) fn set_bytes(bound: usize) -> usize {
    bound.div_ceil(128) * 16
}

/// Most versions: numbers have 30 bits in an entry.
pub(crate) const NUMBERS_MAX: usize = 1 << 30;

/// The slot of a document that is only removed: it has no number.
const NO_NUMBER: u32 = u32::MAX;

/// Bytes that a name takes in a map, about: name, number, control, and room to grow.
const MAP_BYTES: usize = 48;

/// Whether searches see a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Draft,
    Published,
    Retired,
}

impl Standing {
    /// From its number as it is cast.
    pub(crate) fn of_code(code: u8) -> Self {
        match code {
            0 => Self::Draft,
            1 => Self::Published,
            _ => Self::Retired,
        }
    }
}

/// Versions by number.
#[derive(Default)]
pub(crate) struct Documents {
    /// How many declared fields are kept of each.
    field_count: usize,
    names: Vec<DocumentName>,
    lengths: Vec<u32>,
    visibility: Vec<u32>,
    fields: Vec<i64>,
    published: Set,
    retired: Set,
    by_name: HashMap<DocumentName, u32>,
    drafts: HashMap<DocumentName, u32>,
    total_length: u64,
}

impl Documents {
    pub(crate) fn new(field_count: usize) -> Self {
        Self { field_count, ..Self::default() }
    }

    /// How many numbers were given.
    pub(crate) fn bound(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn published(&self) -> &Set {
        &self.published
    }

    pub(crate) fn published_count(&self) -> usize {
        self.by_name.len()
    }

    pub(crate) fn total_length(&self) -> u64 {
        self.total_length
    }

    pub(crate) fn is_retired(&self, number: u32) -> bool {
        self.retired.contains(number as usize)
    }

    pub(crate) fn name(&self, number: u32) -> Option<DocumentName> {
        self.names.get(number as usize).copied()
    }

    pub(crate) fn length(&self, number: u32) -> u32 {
        self.lengths.get(number as usize).copied().unwrap_or(0)
    }

    pub(crate) fn group(&self, number: u32) -> u32 {
        self.visibility.get(number as usize).copied().unwrap_or(u32::MAX)
    }

    pub(crate) fn field(&self, number: u32, field: u8) -> i64 {
        let at = number as usize * self.field_count + usize::from(field);
        self.fields.get(at).copied().unwrap_or(0)
    }

    /// Bytes that a version takes.
    fn row_bytes(&self) -> usize {
        16 + 4 + 4 + 8 * self.field_count + MAP_BYTES + 1
    }

    pub(crate) fn bytes(&self) -> usize {
        // Room is made an eighth ahead.
        self.names.len() * self.row_bytes() * 9 / 8
    }

    /// Bytes for so many more.
    pub(crate) fn growth_for(&self, more: usize) -> usize {
        more * self.row_bytes() * 9 / 8
    }

    /// The number of each of an update's documents, and how many of them are new.
    pub(crate) fn targets(&self, update: &Update) -> Result<(Vec<u32>, usize), Refused> {
        let mut named = HashSet::new();
        let mut targets = Vec::with_capacity(update.document_count());
        let mut new = 0;
        for (change, slot) in update.documents().zip(0..) {
            let wrong = Refused::Document(slot);
            if !named.insert(change.name) {
                return Err(wrong);
            }
            targets.push(match change.action {
                DocumentAction::New | DocumentAction::NewPublished => {
                    new += 1;
                    (self.bound() + new - 1) as u32
                }
                DocumentAction::Existing => *self.by_name.get(&change.name).ok_or(wrong)?,
                DocumentAction::Draft | DocumentAction::DraftPublished => {
                    *self.drafts.get(&change.name).ok_or(wrong)?
                }
                DocumentAction::Retire => NO_NUMBER,
            });
        }
        if self.bound() + new > NUMBERS_MAX {
            return Err(Refused::Update);
        }
        let pointless = |slot: u32| targets.get(slot as usize).is_none_or(|number| *number == NO_NUMBER);
        match update.pairs().map(|pair| pair.slot).find(|slot| pointless(*slot)) {
            Some(slot) => Err(Refused::Document(slot)),
            None => Ok((targets, new)),
        }
    }

    /// Carries out what an update does with its documents.
    pub(crate) fn apply(&mut self, update: &Update, targets: &[u32]) {
        for (change, number) in update.documents().zip(targets) {
            self.apply_one(&change, *number);
        }
    }

    fn apply_one(&mut self, change: &DocumentChange, number: u32) {
        let name = change.name;
        match change.action {
            DocumentAction::New => {
                self.push(name, &change.facts);
                self.set_draft(name, number);
            }
            DocumentAction::NewPublished => {
                self.push(name, &change.facts);
                self.drop_draft(&name);
                self.publish(name, number);
            }
            DocumentAction::Existing | DocumentAction::Draft => {}
            DocumentAction::DraftPublished => {
                self.set_facts(number, &change.facts);
                self.drafts.remove(&name);
                self.publish(name, number);
            }
            DocumentAction::Retire => {
                self.drop_draft(&name);
                self.unpublish(&name);
            }
        }
    }

    fn push(&mut self, name: DocumentName, facts: &Facts) {
        if self.names.len() == self.names.capacity() {
            let more = self.names.len() / 8 + 64;
            self.names.reserve_exact(more);
            self.lengths.reserve_exact(more);
            self.visibility.reserve_exact(more);
            self.fields.reserve_exact(more * self.field_count);
        }
        self.names.push(name);
        self.lengths.push(facts.length);
        self.visibility.push(facts.visibility);
        self.fields.extend(facts.fields.iter().take(self.field_count));
        self.published.grow(self.names.len());
        self.retired.grow(self.names.len());
    }

    fn set_facts(&mut self, number: u32, facts: &Facts) {
        let at = number as usize;
        if let Some(length) = self.lengths.get_mut(at) {
            *length = facts.length;
        }
        if let Some(visibility) = self.visibility.get_mut(at) {
            *visibility = facts.visibility;
        }
        let fields = self.fields.iter_mut().skip(at * self.field_count).take(self.field_count);
        fields.zip(facts.fields).for_each(|(field, value)| *field = value);
    }

    fn set_draft(&mut self, name: DocumentName, number: u32) {
        if let Some(before) = self.drafts.insert(name, number) {
            self.retired.insert(before as usize);
        }
    }

    fn drop_draft(&mut self, name: &DocumentName) {
        if let Some(before) = self.drafts.remove(name) {
            self.retired.insert(before as usize);
        }
    }

    fn publish(&mut self, name: DocumentName, number: u32) {
        self.unpublish(&name);
        self.by_name.insert(name, number);
        self.published.insert(number as usize);
        self.total_length += u64::from(self.length(number));
    }

    fn unpublish(&mut self, name: &DocumentName) {
        if let Some(before) = self.by_name.remove(name) {
            self.published.remove(before as usize);
            self.retired.insert(before as usize);
            self.total_length -= u64::from(self.length(before));
        }
    }

    /// A version, for a checkpoint.
    pub(crate) fn version(&self, number: u32) -> Option<(DocumentName, Facts, Standing)> {
        let mut facts =
            Facts { length: self.length(number), visibility: self.group(number), ..Facts::default() };
        for (field, value) in facts.fields.iter_mut().enumerate().take(self.field_count) {
            *value = self.field(number, field as u8);
        }
        let standing = if self.published.contains(number as usize) {
            Standing::Published
        } else if self.retired.contains(number as usize) {
            Standing::Retired
        } else {
            Standing::Draft
        };
        Some((self.name(number)?, facts, standing))
    }

    /// The next version, from a checkpoint.
    pub(crate) fn restore(&mut self, name: DocumentName, facts: &Facts, standing: Standing) {
        let number = self.bound() as u32;
        self.push(name, facts);
        match standing {
            Standing::Draft => self.set_draft(name, number),
            Standing::Published => self.publish(name, number),
            Standing::Retired => self.retired.insert(number as usize),
        }
    }
}
