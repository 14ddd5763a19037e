//! A search under way: entries are fetched, then the formula is evaluated in pieces.

use crate::budget::Share;
use crate::documents::set_bytes;
use crate::evaluate::{Evaluation, Ground, Scores, filter};
use crate::fetch::Fetch;
use crate::policy::may_search;
use crate::results::{Best, Cursor, groups_bytes, most};
use crate::server::{Client, Core, Enclave};
use crate::table::{Counted, Found};
use arras_schemes::bisen::message::{Groups, Refused, Reply};
use arras_schemes::bisen::query::{Attribute, Ranking, Search, Step, TOP_MAX};

/// Entries and words of sets that one piece works on, about.
const PIECE: usize = 1 << 20;

/// Bytes of a keyword's entries under one epoch.
const RUN_BYTES: usize = 32;

/// Bytes that a search takes as it was asked, without its keywords, and what its client may see.
fn held(search: &Search, groups: &Groups) -> usize {
    let words = |step: &Step| if let Step::Phrase(words) = step { size_of_val(words.as_slice()) } else { 0 };
    let phrases: usize = search.formula.iter().map(words).sum();
    size_of_val(search.formula.as_slice())
        + phrases
        + size_of_val(search.filters.as_slice())
        + groups_bytes(groups)
}

impl Core {
    /// Begins: what was found of its keywords among what is spilled counts with the table, as it is now.
    fn begin_search(
        &mut self,
        search: Search,
        depth: usize,
        groups: Groups,
        share: &Share,
        found: &Found,
    ) -> Result<Ground, Refused> {
        let collection = self.state.collection(search.collection)?;
        let counted = search.filters.iter().any(|filter| matches!(filter.of, Attribute::Frequency(_)));
        let in_phrase = search.formula.iter().any(|step| matches!(step, Step::Phrase(_)));
        let with_metadata = counted || search.ranking != Ranking::None || in_phrase;
        let keywords = search.keywords.iter();
        let keywords: Vec<Counted> =
            keywords.map(|keyword| collection.table.counted(collection.stem(keyword), found)).collect();
        let entries = keywords.iter().map(Counted::entries).sum();
        let runs: usize = keywords.iter().map(|keyword| keyword.runs.len()).sum();
        let bound = collection.documents.bound();
        // The snapshot, what waits, and what one step makes beside it.
        let sets = (depth + 3) * set_bytes(bound);
        let scores = if search.ranking == Ranking::None { 0 } else { Scores::bytes_for(bound) };
        let beside = sets + scores + runs * RUN_BYTES + held(&search, &groups);
        let bytes = Fetch::bytes_for(entries, with_metadata).saturating_add(beside);
        if entries > u64::from(u32::MAX) {
            return Err(Refused::Memory { needed: bytes as u64, budget: u64::from(u32::MAX) });
        }
        // A search may ask for more than the collection, not for less.
        let padding = search.padding.max(collection.about.settings.padding);
        let reserved = self.make_room(bytes, share)?;
        let snapshot = self.state.collection(search.collection)?.documents.published.clone();
        let (fetch, scratch) =
            (Fetch::new(keywords.into_iter(), with_metadata, bound), self.budget.scratch());
        Ok(Ground { search, groups, padding, fetch, snapshot, bound, scratch, reserved })
    }

    /// The first page; the rest is kept for as long as there is room.
    fn keep(&mut self, ground: Ground, client: Client, best: Best, matches: u32) -> Result<Reply, Refused> {
        // What the search took is let go of first.
        let Ground { search, groups, padding, fetch, snapshot, reserved, .. } = ground;
        drop((fetch, snapshot, reserved));
        // Its rights may have changed since it began.
        let rights = self.rights(client, search.collection)?;
        if rights.groups != groups || !may_search(&rights, &search) {
            return Err(Refused::NotAllowed);
        }
        let cursor = Cursor::new((client.connection, search.collection, groups), best, matches, padding);
        let reserved = self.make_room(cursor.bytes(), &self.share(client))?;
        let documents = &self.state.collection(search.collection)?.documents;
        Ok(Reply::Found(self.results.begin(cursor, reserved, documents)))
    }
}

impl Enclave {
    /// A search, to its first page.
    pub(crate) async fn search(&self, client: Client, search: Search) -> Result<Reply, Refused> {
        let groups = self.core().rights(client, search.collection)?.groups;
        let share = self.core().share(client);
        let depth = search.depth().ok_or(Refused::Formula)?;
        let found = self.look_up(&search, held(&search, &groups), &share).await?;
        let mut ground = self.core().begin_search(search, depth, groups, &share, &found)?;
        drop(found);
        self.fetch(&mut ground.fetch, ground.search.collection).await.map_err(Refused::Storage)?;
        let (best, matches) = self.evaluate(&ground, &share).await?;
        self.core().keep(ground, client, best, matches)
    }

    /// The results, at most as many as there may be, and how many there are in all. Between two pieces of work others go on.
    async fn evaluate(&self, ground: &Ground, share: &Share) -> Result<(Best, u32), Refused> {
        let (search, sets) = (&ground.search, ground.bound / 64 + 1);
        let mut left = 0;
        let mut evaluation = Evaluation::new(search.keywords.len());
        let entries = |keyword: &u16| {
            ground.fetch.words.get(usize::from(*keyword)).map_or(0, |word| word.count as usize)
        };
        for step in &search.formula {
            // A phrase goes over its words' entries twice.
            let looked_at = match step {
                Step::Keyword(keyword) => entries(keyword),
                Step::Phrase(words) => words.iter().map(|word| 2 * (entries(&word.0) + sets)).sum(),
                Step::All | Step::Not | Step::And | Step::Or => 0,
            };
            self.work(share, &mut left, sets + looked_at).await;
            evaluation.step(ground, step)?;
        }
        self.work(share, &mut left, sets).await;
        let mut found =
            evaluation.visible(ground, &self.core().state.collection(search.collection)?.documents);
        for by in &search.filters {
            self.work(share, &mut left, sets + ground.fetch.entries()).await;
            filter(ground, &self.core().state.collection(search.collection)?.documents, by, &mut found);
        }
        let (matches, most) = (found.count_ones(..) as u32, most(ground.padding, search.top));
        if search.ranking == Ranking::None {
            return Ok((found.ones().map(|number| (number as u32, 0.0)).take(most).collect(), matches));
        }
        let mut scores = Scores::new(found);
        for (keyword, word) in ground.fetch.words.iter().enumerate().take(search.ranked.into()) {
            self.work(share, &mut left, sets + word.count as usize).await;
            let core = self.core();
            let documents = &core.state.collection(search.collection)?.documents;
            scores.add(ground, documents, keyword, evaluation.frequency(keyword));
        }
        Ok((scores.top(most.min(TOP_MAX as usize)), matches))
    }

    /// Waits for a turn if this is more work than is left of the last.
    async fn work(&self, share: &Share, left: &mut usize, work: usize) {
        if *left == 0 {
            self.turn(share).await;
            *left = PIECE;
        }
        // What is larger than a piece waits for as many turns as it takes of others.
        for _ in 0..(work - work.min(*left)) / PIECE {
            self.turn(share).await;
        }
        *left = left.saturating_sub(work);
    }
}
