//! What an enclave answers, computed from the updates as they are: for tests of what is sent.
#![allow(clippy::unwrap_used)]

use crate::service::{SearchService, Unreachable};
use arras_schemes::bisen::message::{Hit, Opened, Page, Refused, Reply, Request, Settings};
use arras_schemes::bisen::query::{Attribute, PhraseWord, Ranking, Search, Step};
use arras_schemes::bisen::update::{DocumentAction, Facts, Operation, Update};
use arras_schemes::bisen::{DocumentName, KeywordHash, Salt};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A version of a document.
#[derive(Clone, Default)]
pub(crate) struct Version {
    pub(crate) facts: Facts,
    /// Of each keyword how often and where.
    pub(crate) keywords: BTreeMap<KeywordHash, (u32, Vec<u32>)>,
    entries: u64,
}

/// One collection.
#[derive(Default)]
pub(crate) struct Oracle {
    pub(crate) settings: Option<Settings>,
    pub(crate) published: BTreeMap<DocumentName, Version>,
    drafts: HashMap<DocumentName, Version>,
    /// Updates that it took.
    pub(crate) updates: usize,
    /// Entries that are stored.
    pub(crate) entries: u64,
    /// Fails once so many updates were taken.
    pub(crate) dies_after: Option<usize>,
}

pub(crate) const SALT: Salt = Salt([7; 16]);

impl SearchService for Oracle {
    fn ask(&mut self, request: Request) -> Result<Reply, Unreachable> {
        assert!(request.is_bounded());
        Ok(match request {
            Request::Create { settings, .. } => {
                self.settings = Some(settings);
                self.opened()
            }
            Request::Open(_) if self.settings.is_none() => Reply::Refused(Refused::NotAllowed),
            Request::Open(_) => self.opened(),
            Request::Update(update) => {
                if self.dies_after.is_some_and(|last| self.updates >= last) {
                    return Err(Unreachable("it was killed".into()));
                }
                self.updates += 1;
                self.update(&update);
                Reply::Updated
            }
            Request::Search(search) => self.search(&search),
            Request::Compact { .. } => {
                let live = self.live_entries();
                let read = std::mem::replace(&mut self.entries, live);
                self.updates += 1;
                Reply::Compacted { next: None, read, saved: read - live }
            }
            Request::Grant { .. } | Request::Revoke(_) | Request::RevokeCertificate(_) => Reply::Done,
        })
    }
}

impl Oracle {
    fn live_entries(&self) -> u64 {
        self.published.values().map(|version| version.entries).sum()
    }

    fn opened(&self) -> Reply {
        Reply::Opened(Opened {
            collection: 3,
            salt: SALT,
            settings: self.settings.clone().unwrap(),
            documents: self.published.len() as u64,
            entries: self.entries,
            live_entries: self.live_entries(),
            revision: self.updates as u128,
        })
    }

    fn update(&mut self, update: &Update) {
        assert!(update.is_bounded());
        let documents = &update.documents;
        let names: BTreeSet<DocumentName> = documents.iter().map(|document| document.name).collect();
        assert_eq!(names.len(), documents.len(), "a document comes once in a call");
        for document in documents {
            let fresh = || Version { facts: document.facts, ..Version::default() };
            match document.action {
                DocumentAction::New | DocumentAction::NewPublished => {
                    self.drafts.insert(document.name, fresh());
                }
                DocumentAction::Draft | DocumentAction::DraftPublished => {
                    self.drafts.get_mut(&document.name).expect("a draft").facts = document.facts;
                }
                DocumentAction::Retire => {
                    self.published.remove(&document.name);
                    self.drafts.remove(&document.name);
                }
                DocumentAction::Existing => panic!("nothing changes what is published"),
            }
        }
        for pair in &update.pairs {
            let draft = self.drafts.get_mut(&documents[pair.slot as usize].name).expect("a draft");
            let entry = draft.keywords.entry(pair.keyword).or_default();
            if pair.operation == Operation::Add {
                assert_eq!(entry.0, 0, "a keyword is added once");
                entry.0 = pair.metadata.frequency();
            }
            entry.1.extend(pair.metadata.positions(pair.operation));
            draft.entries += 1;
            self.entries += 1;
        }
        for document in documents {
            if matches!(document.action, DocumentAction::NewPublished | DocumentAction::DraftPublished) {
                let version = self.drafts.remove(&document.name).unwrap();
                self.published.insert(document.name, version);
            }
        }
    }

    fn search(&mut self, search: &Search) -> Reply {
        search.check().unwrap();
        let mut hits: Vec<Hit> = self
            .published
            .iter()
            .filter(|(_, version)| matches(search, version))
            .map(|(name, version)| Hit { name: *name, score: score(search, version) })
            .collect();
        let matches = hits.len() as u32;
        if search.ranking != Ranking::None {
            hits.sort_by(|one, other| other.score.total_cmp(&one.score));
        }
        if search.top > 0 {
            hits.truncate(search.top as usize);
        }
        Reply::Found(Page::new(hits, 0, matches, true))
    }
}

/// How often the document has the keywords.
fn score(search: &Search, version: &Version) -> f32 {
    let times = |keyword| version.keywords.get(keyword).map_or(0, |(frequency, _)| *frequency);
    if search.ranking == Ranking::None { 0.0 } else { search.keywords.iter().map(times).sum::<u32>() as f32 }
}

fn matches(search: &Search, version: &Version) -> bool {
    let places = |keyword: u16| version.keywords.get(&search.keywords[usize::from(keyword)]);
    let mut stack: Vec<bool> = Vec::new();
    for step in &search.formula {
        let holds = match step {
            Step::Keyword(keyword) => places(*keyword).is_some(),
            Step::Phrase(words) => places(words[0].0).is_some_and(|(_, starts)| {
                let at = |start: u32, PhraseWord(keyword, distance): &PhraseWord| {
                    places(*keyword).is_some_and(|(_, all)| all.contains(&(start + u32::from(*distance))))
                };
                starts.iter().any(|start| words.iter().all(|word| at(*start, word)))
            }),
            Step::All => true,
            Step::Not => !stack.pop().unwrap(),
            Step::And => stack.pop().unwrap() & stack.pop().unwrap(),
            Step::Or => stack.pop().unwrap() | stack.pop().unwrap(),
        };
        stack.push(holds);
    }
    stack[0]
        && search.filters.iter().all(|filter| match filter.of {
            Attribute::Field(field) => {
                (filter.from..=filter.until).contains(&version.facts.fields[usize::from(field)].0)
            }
            Attribute::Frequency(_) | Attribute::Visibility | Attribute::Length => {
                panic!("nothing asks for this")
            }
        })
}
