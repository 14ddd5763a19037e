//! A search under way: entries are fetched, then the formula is evaluated in pieces.

use crate::bitmap::Bitmap;
use crate::budget::Budget;
use crate::collection::Collection;
use crate::evaluate::{Evaluation, Ground, filter};
use crate::fetch::Fetch;
use crate::rank::Scores;
use crate::results::{Cursor, most, stricter};
use crate::server::Client;
use crate::table::{Counted, Found};
use arras_schemes::bisen::message::{Groups, Refused};
use arras_schemes::bisen::query::{Filter, Plan, Ranking, Search, Step, TOP_MAX};

/// Entries and words of sets that one piece works on, about.
const PIECE: usize = 1 << 20;

/// Bytes of a keyword's entries under one epoch.
const RUN_BYTES: usize = 32;

/// Bytes that a search takes as it was asked, without its keywords, and what its client may see.
pub(crate) fn held(search: &Search, groups: &Groups) -> usize {
    let words = |step: &Step| if let Step::Phrase(words) = step { size_of_val(words.as_slice()) } else { 0 };
    let groups = if let Groups::Only(groups) = groups { size_of_val(groups.as_slice()) } else { 0 };
    let phrases: usize = search.formula.iter().map(words).sum();
    size_of_val(search.formula.as_slice()) + phrases + size_of_val(search.filters.as_slice()) + groups
}

/// Where a search is.
enum Stage {
    Formula(Evaluation),
    Ranking { scores: Scores, next: usize, frequencies: Vec<Option<u32>>, matches: u32 },
}

/// A search.
pub(crate) struct Task {
    pub(crate) client: Client,
    pub(crate) search: Search,
    pub(crate) fetch: Fetch,
    pub(crate) groups: Groups,
    plan: Plan,
    snapshot: Bitmap,
    bound: usize,
    stage: Stage,
    /// Bytes that are counted for it.
    pub(crate) reserved: usize,
}

/// A search that may begin.
pub(crate) struct Planned {
    search: Search,
    groups: Groups,
    plan: Plan,
    keywords: Vec<Counted>,
    with_metadata: bool,
    /// Bytes that it takes.
    pub(crate) bytes: usize,
}

impl Planned {
    /// What was found of its keywords among what is spilled counts with the table, as it is now.
    pub(crate) fn new(
        collection: &Collection,
        search: Search,
        groups: Groups,
        found: &Found,
    ) -> Result<Self, Refused> {
        let plan = search.check().map_err(Refused::Formula)?;
        let field_beyond = search.filters.iter().find_map(|filter| match filter {
            Filter::Equals { field, .. } | Filter::Range { field, .. } => {
                (*field >= collection.settings.fields).then_some(*field)
            }
            Filter::Frequency { .. } | Filter::Visibility(_) | Filter::Length(_) => None,
        });
        if let Some(field) = field_beyond {
            return Err(Refused::Field(field));
        }
        let counted = |keyword| collection.table.counted(collection.stem(keyword), found);
        let keywords: Vec<Counted> = search.keywords.iter().map(counted).collect();
        let entries = keywords.iter().map(Counted::entries).sum();
        let counted = search.filters.iter().any(|filter| match filter {
            Filter::Frequency { .. } => true,
            Filter::Equals { .. } | Filter::Range { .. } | Filter::Visibility(_) | Filter::Length(_) => false,
        });
        let with_metadata =
            counted || search.ranking != Ranking::None || plan.in_phrase.iter().any(|phrase| *phrase);
        let runs: usize = keywords.iter().map(|keyword| keyword.runs.len()).sum();
        // The snapshot, what waits, and what one step makes beside it.
        let sets = (plan.depth + 3) * Bitmap::bytes_for(collection.documents.bound());
        let beside = sets + runs * RUN_BYTES + held(&search, &groups);
        let bytes = Fetch::bytes_for(entries, with_metadata).saturating_add(beside);
        if entries > u64::from(u32::MAX) {
            return Err(Refused::Memory { needed: bytes as u64, budget: u64::from(u32::MAX) });
        }
        Ok(Self { search, groups, plan, keywords, with_metadata, bytes })
    }
}

/// What a piece of work came to.
pub(crate) enum Progress {
    More,
    Found(Cursor),
}

impl Task {
    /// Begins; [`Planned::bytes`] are reserved.
    pub(crate) fn begin(planned: Planned, client: Client, collection: &Collection) -> Self {
        let Planned { search, groups, plan, keywords, with_metadata, bytes } = planned;
        let stage = Stage::Formula(Evaluation::new(search.keywords.len()));
        Self {
            client,
            fetch: Fetch::new(keywords.into_iter(), with_metadata),
            groups,
            plan,
            snapshot: collection.documents.published().clone(),
            bound: collection.documents.bound(),
            stage,
            reserved: bytes,
            search,
        }
    }

    /// Works on for a while, once all entries are there.
    pub(crate) fn piece(
        &mut self,
        collection: &Collection,
        budget: &mut Budget,
    ) -> Result<Progress, Refused> {
        let ground = Ground {
            search: &self.search,
            fetch: &self.fetch,
            documents: &collection.documents,
            snapshot: &self.snapshot,
            bound: self.bound,
            groups: &self.groups,
            scratch: budget.scratch(),
        };
        let padding = stricter(self.search.padding, collection.settings.padding);
        let most = most(padding, self.search.top);
        let of = (self.client.connection, self.search.collection);
        let mut spent = 0;
        while spent < PIECE {
            spent += self.bound / 64 + 1;
            match &mut self.stage {
                Stage::Formula(evaluation) => {
                    // A step looks at the entries of a keyword, or of a phrase's: an equal part of all, about.
                    spent += self.fetch.entries() / self.search.formula.len().max(1);
                    let Some(mut found) = evaluation.step(&ground)? else { continue };
                    filter(&ground, &mut found);
                    let matches = found.count();
                    if self.search.ranking == Ranking::None {
                        let numbers: Vec<u32> = found.numbers().take(most).collect();
                        let cursor = Cursor::new(of.0, of.1, (numbers, Vec::new()), matches, padding);
                        return Ok(Progress::Found(cursor));
                    }
                    let bytes = Scores::bytes_for(matches as usize, self.bound);
                    if !budget.reserve(bytes) {
                        return Err(Refused::Memory { needed: bytes as u64, budget: budget.free() as u64 });
                    }
                    self.reserved += bytes;
                    let frequencies = std::mem::take(&mut evaluation.frequencies);
                    self.stage = Stage::Ranking { scores: Scores::new(found), next: 0, frequencies, matches };
                }
                Stage::Ranking { scores, next, frequencies, matches } => {
                    let keyword = *next;
                    *next += 1;
                    match self.plan.ranked.get(keyword) {
                        None => {
                            let best = scores.top(most.min(TOP_MAX as usize));
                            let cursor = Cursor::new(of.0, of.1, best, *matches, padding);
                            return Ok(Progress::Found(cursor));
                        }
                        Some(false) => {}
                        Some(true) => {
                            let frequency = frequencies.get(keyword).copied().flatten().unwrap_or(0);
                            scores.add(&ground, keyword, frequency);
                            spent += self.fetch.words().get(keyword).map_or(0, |word| word.count as usize);
                        }
                    }
                }
            }
        }
        Ok(Progress::More)
    }
}
