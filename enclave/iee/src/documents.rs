//! The documents of a collection: their names, facts, and which of them searches see.

use crate::policy::sees;
use arras_schemes::bisen::DocumentName;
use arras_schemes::bisen::message::{Groups, Refused};
use arras_schemes::bisen::update::{DocumentAction, DocumentChange, Facts, Update};
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

/// A version of a document, of one length as it is sealed, whatever it says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Version {
    pub(crate) name: DocumentName,
    pub(crate) facts: Facts,
    /// How many entries were stored for it.
    #[serde(with = "postcard::fixint::le")]
    pub(crate) entries: u32,
    pub(crate) standing: Standing,
}

/// Versions by number.
#[derive(Default)]
pub(crate) struct Documents {
    versions: Vec<Version>,
    pub(crate) published: Set,
    /// Those that are published.
    pub(crate) by_name: HashMap<DocumentName, u32>,
    drafts: HashMap<DocumentName, u32>,
    /// Of those that are published.
    pub(crate) total_length: u64,
    /// Entries of drafts and of those that are published.
    pub(crate) live_entries: u64,
}

impl Documents {
    /// So many versions from one on.
    pub(crate) fn versions(&self, first: usize, most: usize) -> Vec<Version> {
        self.versions.iter().skip(first).take(most).cloned().collect()
    }

    /// How many numbers were given.
    pub(crate) fn bound(&self) -> usize {
        self.versions.len()
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Version> {
        self.versions.get(number as usize)
    }

    /// Whether a version that was published is still to be shown to who may see these groups: as it is, or in the place of the one
    /// that is there under its name now.
    pub(crate) fn shows(&self, number: u32, groups: &Groups) -> bool {
        let now = if self.published.contains(number as usize) {
            Some(number)
        } else {
            self.get(number).and_then(|version| self.by_name.get(&version.name).copied())
        };
        now.is_some_and(|now| [number, now].iter().all(|number| sees(groups, self.facts(*number).visibility)))
    }

    /// What is known of a version; of one that there is not, nothing that anybody may see.
    pub(crate) fn facts(&self, number: u32) -> Facts {
        self.get(number).map_or(Facts { visibility: u32::MAX, ..Facts::default() }, |version| version.facts)
    }

    /// Bytes for so many versions.
    pub(crate) fn bytes_for(versions: usize) -> usize {
        // Room is made an eighth ahead.
        versions * (size_of::<Version>() + MAP_BYTES + 1) * 9 / 8
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
                self.versions[*number as usize].facts = *facts;
                self.publish(*name, *number);
            }
        }
    }

    fn add_entries(&mut self, number: u32, more: u32) {
        let version = &mut self.versions[number as usize];
        version.entries = version.entries.saturating_add(more);
        self.live_entries += u64::from(more);
    }

    /// Publishes a draft.
    fn publish(&mut self, name: DocumentName, number: u32) {
        self.retire(self.by_name.get(&name).copied());
        self.drafts.remove(&name);
        let Some(version) = self.versions.get_mut(number as usize) else { return };
        version.standing = Standing::Published;
        self.total_length += u64::from(version.facts.length);
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
                self.total_length -= u64::from(version.facts.length);
                number.into_iter().for_each(|number| self.published.remove(number as usize));
            }
            Standing::Retired => {}
        }
    }

    /// The next version, from a checkpoint.
    pub(crate) fn restore(&mut self, version: &Version) {
        let number = self.bound() as u32;
        self.push(version.name, &version.facts);
        self.add_entries(number, version.entries);
        match version.standing {
            Standing::Draft => {}
            Standing::Published => self.publish(version.name, number),
            Standing::Retired => self.retire(Some(number)),
        }
    }

    /// The next version: a draft, in place of one that there is.
    fn push(&mut self, name: DocumentName, facts: &Facts) {
        if self.versions.len() == self.versions.capacity() {
            self.versions.reserve_exact(self.versions.len() / 8 + 64);
        }
        self.retire(self.drafts.get(&name).copied());
        self.drafts.insert(name, self.bound() as u32);
        self.versions.push(Version { name, facts: *facts, entries: 0, standing: Standing::Draft });
        self.published.grow(self.versions.len());
    }
}
