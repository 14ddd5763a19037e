//! The documents of a collection: their names, facts, and which of them searches see.

use crate::policy::sees;
use arras_schemes::bisen::DocumentName;
use arras_schemes::bisen::message::{Groups, Refused};
use arras_schemes::bisen::update::{DocumentAction, DocumentChange, Facts, Field, Update};
use fixedbitset::FixedBitSet;
use serde::{Deserialize, Serialize};
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Standing {
    Draft,
    Published,
    Retired,
}

/// A version as it is sealed: of one length, whatever it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sealed {
    pub(crate) name: DocumentName,
    pub(crate) facts: Facts,
    #[serde(with = "postcard::fixint::le")]
    pub(crate) entries: u32,
    pub(crate) standing: Standing,
}

/// A version, but for its declared fields.
struct Version {
    name: DocumentName,
    length: u32,
    visibility: u32,
    /// How many entries were stored for it.
    entries: u32,
    standing: Standing,
}

/// Versions by number.
#[derive(Default)]
pub(crate) struct Documents {
    /// How many declared fields are kept of each.
    field_count: usize,
    versions: Vec<Version>,
    fields: Vec<Field>,
    pub(crate) published: Set,
    by_name: HashMap<DocumentName, u32>,
    drafts: HashMap<DocumentName, u32>,
    /// Of those that are published.
    pub(crate) total_length: u64,
    /// Entries of drafts and of those that are published.
    pub(crate) live_entries: u64,
}

impl Documents {
    pub(crate) fn new(field_count: usize) -> Self {
        Self { field_count, ..Self::default() }
    }

    /// How many numbers were given.
    pub(crate) fn bound(&self) -> usize {
        self.versions.len()
    }

    pub(crate) fn published_count(&self) -> usize {
        self.by_name.len()
    }

    pub(crate) fn is_retired(&self, number: u32) -> bool {
        self.get(number).is_some_and(|version| version.standing == Standing::Retired)
    }

    fn get(&self, number: u32) -> Option<&Version> {
        self.versions.get(number as usize)
    }

    pub(crate) fn name(&self, number: u32) -> Option<DocumentName> {
        self.get(number).map(|version| version.name)
    }

    /// Whether a version that was published is still to be shown to who may see these groups: as it is, or in the place of the one
    /// that is there under its name now.
    pub(crate) fn shows(&self, number: u32, groups: &Groups) -> bool {
        let now = if self.published.contains(number as usize) {
            Some(number)
        } else {
            self.name(number).and_then(|name| self.by_name.get(&name).copied())
        };
        now.is_some_and(|now| sees(groups, self.group(number)) && sees(groups, self.group(now)))
    }

    pub(crate) fn length(&self, number: u32) -> u32 {
        self.get(number).map_or(0, |version| version.length)
    }

    pub(crate) fn group(&self, number: u32) -> u32 {
        self.get(number).map_or(u32::MAX, |version| version.visibility)
    }

    pub(crate) fn field(&self, number: u32, field: u8) -> i64 {
        let at = number as usize * self.field_count + usize::from(field);
        self.fields.get(at).map_or(0, |field| field.0)
    }

    /// Bytes for so many versions.
    pub(crate) fn bytes_for(&self, versions: usize) -> usize {
        // Room is made an eighth ahead.
        versions * (size_of::<Version>() + 8 * self.field_count + MAP_BYTES + 1) * 9 / 8
    }

    /// The number of each of an update's documents, and how many of them are new.
    pub(crate) fn targets(&self, update: &Update) -> Result<(Vec<u32>, usize), Refused> {
        let mut named = HashSet::new();
        let mut targets = Vec::with_capacity(update.documents.len());
        let mut new = 0;
        for (change, slot) in update.documents.iter().zip(0..) {
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
            return Err(Refused::Bound);
        }
        let pointless = |slot: u32| targets.get(slot as usize).is_none_or(|number| *number == NO_NUMBER);
        match update.pairs.iter().map(|pair| pair.slot).find(|slot| pointless(*slot)) {
            Some(slot) => Err(Refused::Document(slot)),
            None => Ok((targets, new)),
        }
    }

    /// Carries out what an update does with its documents, of which each has so many more entries.
    pub(crate) fn apply(&mut self, update: &Update, targets: &[u32], entries: &[u32]) {
        let each = update.documents.iter().zip(targets.iter().zip(entries));
        for (DocumentChange { action, name, facts }, (number, more)) in each {
            let is_published = match action {
                DocumentAction::New | DocumentAction::NewPublished => {
                    self.push(*name, facts);
                    *action == DocumentAction::NewPublished
                }
                DocumentAction::Existing | DocumentAction::Draft => false,
                DocumentAction::DraftPublished => true,
                DocumentAction::Retire => {
                    self.retire(self.drafts.get(name).copied());
                    self.retire(self.by_name.get(name).copied());
                    continue;
                }
            };
            self.add_entries(*number, *more);
            if is_published {
                self.set_facts(*number, facts);
                self.publish(*name, *number);
            }
        }
    }

    fn add_entries(&mut self, number: u32, more: u32) {
        if let Some(version) = self.versions.get_mut(number as usize) {
            version.entries = version.entries.saturating_add(more);
            self.live_entries += u64::from(more);
        }
    }

    fn set_facts(&mut self, number: u32, facts: &Facts) {
        if let Some(version) = self.versions.get_mut(number as usize) {
            (version.length, version.visibility) = (facts.length, facts.visibility);
        }
        let fields = self.fields.iter_mut().skip(number as usize * self.field_count).take(self.field_count);
        fields.zip(facts.fields).for_each(|(field, value)| *field = value);
    }

    /// Publishes a draft.
    fn publish(&mut self, name: DocumentName, number: u32) {
        self.retire(self.by_name.get(&name).copied());
        self.drafts.remove(&name);
        let Some(version) = self.versions.get_mut(number as usize) else { return };
        version.standing = Standing::Published;
        self.total_length += u64::from(version.length);
        self.by_name.insert(name, number);
        self.published.insert(number as usize);
    }

    /// Retires a draft or a published version, if there is one.
    fn retire(&mut self, number: Option<u32>) {
        let Some(version) = number.and_then(|number| self.versions.get_mut(number as usize)) else { return };
        let before = std::mem::replace(&mut version.standing, Standing::Retired);
        if before != Standing::Retired {
            self.live_entries = self.live_entries.saturating_sub(u64::from(version.entries));
        }
        match before {
            Standing::Draft => _ = self.drafts.remove(&version.name),
            Standing::Published => {
                self.by_name.remove(&version.name);
                self.total_length -= u64::from(version.length);
                number.into_iter().for_each(|number| self.published.remove(number as usize));
            }
            Standing::Retired => {}
        }
    }

    /// A version, for a checkpoint.
    pub(crate) fn version(&self, number: u32) -> Option<Sealed> {
        let Version { name, length, visibility, entries, standing } = *self.get(number)?;
        let mut facts = Facts { length, visibility, ..Facts::default() };
        for (field, value) in facts.fields.iter_mut().enumerate().take(self.field_count) {
            *value = Field(self.field(number, field as u8));
        }
        Some(Sealed { name, facts, entries, standing })
    }

    /// The next version, from a checkpoint.
    pub(crate) fn restore(&mut self, Sealed { name, facts, entries, standing }: &Sealed) {
        let number = self.bound() as u32;
        self.push(*name, facts);
        self.add_entries(number, *entries);
        match standing {
            Standing::Draft => {}
            Standing::Published => self.publish(*name, number),
            Standing::Retired => self.retire(Some(number)),
        }
    }

    /// The next version: a draft, in place of one that there is.
    fn push(&mut self, name: DocumentName, facts: &Facts) {
        if self.versions.len() == self.versions.capacity() {
            let more = self.versions.len() / 8 + 64;
            self.versions.reserve_exact(more);
            self.fields.reserve_exact(more * self.field_count);
        }
        self.retire(self.drafts.get(&name).copied());
        self.drafts.insert(name, self.bound() as u32);
        let Facts { length, visibility, fields } = *facts;
        self.versions.push(Version { name, length, visibility, entries: 0, standing: Standing::Draft });
        self.fields.extend(fields.iter().take(self.field_count));
        self.published.grow(self.versions.len());
    }
}
