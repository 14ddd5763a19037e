//! A search under way: entries are fetched, the formula is evaluated in pieces, and results are sent page by page.

use crate::budget::Share;
use crate::documents::set_bytes;
use crate::evaluate::{Best, Evaluation, Ground, Scores, filter};
use crate::fetch::Fetch;
use crate::lane::Stopped;
use crate::policy::{groups_bytes, may_search};
use crate::server::{Client, Core, Enclave};
use crate::table::{Counted, Found, Record, Stems};
use arras_protocol::iee::Outgoing;
use arras_schemes::bisen::message::{Hit, PAGE_HITS, Page, Refused, Reply};
use arras_schemes::bisen::query::{Attribute, Padding, Ranking, Search, Step, TOP_MAX};
use std::sync::Arc;

/// Entries and words of sets that one piece works on, about.
const PIECE: usize = 1 << 20;

/// Bytes of a keyword's entries under one epoch.
const RUN_BYTES: usize = 32;

impl Core {
    /// Begins, with all that there is now and what was found of its keywords among what is spilled.
    fn ground(&mut self, of: Client, search: Search, held: usize, found: Found) -> Result<Ground, Refused> {
        let groups = self.rights(of, search.collection)?.groups;
        let depth = search.depth().ok_or(Refused::Formula)?;
        let collection = self.state.collection(search.collection)?;
        let counted = search.filters.iter().any(|filter| matches!(filter.of, Attribute::Frequency(_)));
        let in_phrase = search.formula.iter().any(|step| matches!(step, Step::Phrase(_)));
        let with_metadata = counted || search.ranking != Ranking::None || in_phrase;
        let keywords = search.keywords.iter();
        let keywords: Vec<Counted> =
            keywords.map(|keyword| collection.table.counted(collection.stem(keyword), &found)).collect();
        let entries = keywords.iter().map(Counted::entries).sum();
        let runs: usize = keywords.iter().map(|keyword| keyword.runs.len()).sum();
        let bound = collection.documents.bound();
        let scores = if search.ranking == Ranking::None { 0 } else { size_of::<f32>() * bound };
        let held = held + groups_bytes(&groups);
        // The snapshot, what waits, and what one step makes beside it.
        let beside = held + (depth + 3) * set_bytes(bound) + scores + runs * RUN_BYTES;
        let bytes = Fetch::bytes_for(entries, with_metadata).saturating_add(beside);
        if entries > u64::from(u32::MAX) {
            return Err(Refused::Memory { needed: bytes as u64, budget: u64::from(u32::MAX) });
        }
        let reserved = self.make_room(bytes, &self.share(of))?;
        let collection = self.state.collection(search.collection)?;
        Ok(Ground {
            groups,
            // A search may ask for more than the collection, not for less.
            padding: search.padding.max(collection.about.settings.padding),
            reserved,
            fetch: Fetch::new(keywords.into_iter(), with_metadata, bound),
            snapshot: collection.documents.published.clone(),
            bound,
            scratch: self.budget.scratch(),
            held,
            search,
        })
    }

    /// Some results. Their client's rights may have changed since it asked; what went meanwhile is left out.
    fn hits(&self, client: Client, ground: &Ground, best: &[(u32, f32)]) -> Result<Vec<Hit>, Refused> {
        let Ground { search, groups, .. } = ground;
        let rights = self.rights(client, search.collection)?;
        if rights.groups != *groups || !may_search(&rights, search) {
            return Err(Refused::NotAllowed);
        }
        let documents = &self.state.collection(search.collection)?.documents;
        let hit = |(number, score): &(u32, f32)| {
            let shown = documents.get(*number).filter(|_| documents.shows(*number, groups));
            shown.map(|version| Hit { name: version.name, score: *score })
        };
        Ok(best.iter().filter_map(hit).collect())
    }
}

impl Enclave {
    /// A search, to its last page. `held` are the bytes of what was asked.
    pub(crate) async fn search(&self, client: Client, search: Search, held: usize) -> Result<Reply, Stopped> {
        let share = self.core().share(client);
        search.depth().ok_or(Refused::Formula)?;
        let stems: Stems = {
            let core = self.core();
            let collection = core.state.collection(search.collection)?;
            search.keywords.iter().map(|keyword| collection.stem(keyword)).collect()
        };
        let wanted = |_: &Core, record: &Record| stems.contains(&record.stem);
        let (spilled, found) = loop {
            let spilled = Arc::clone(&self.core().state.spilled);
            let found = self.find(&spilled, (stems.len(), spilled.spills), held, &share, wanted).await?;
            // Once more if what is in tables was spilled meanwhile.
            if self.core().state.spilled.spills == spilled.spills {
                break (spilled, found);
            }
        };
        let mut ground = self.core().ground(client, search, held, found)?;
        self.fetch(&mut ground.fetch, ground.search.collection).await?;
        drop(spilled);
        let (mut best, matches) = self.evaluate(&ground, &share).await?;
        best.shrink_to_fit();
        let slots = ground.padding.slots(best.len() as u32) as usize;
        // What the search took is let go of. Padded, results take as much whatever was found.
        (ground.fetch, ground.snapshot, ground.reserved) = Default::default();
        ground.reserved = self.core().make_room(ground.held + 8 * slots.max(best.len()), &share)?;
        let mut from = 0;
        loop {
            let until = slots.min(from + PAGE_HITS);
            let these = best.get(from..until.min(best.len())).unwrap_or_default();
            let hits = self.core().hits(client, &ground, these)?;
            let reply = Reply::Found(Page::new(hits, until - from, matches, until == slots));
            if until == slots {
                return Ok(reply);
            }
            let (connection, bytes) = (client.connection, self.core().wrapped(client, reply));
            self.core().unread.push((client, Arc::clone(&share)));
            self.ask(|ask| Outgoing::Part { ask, connection, bytes }).await;
            let taken = self.core().unread.iter().position(|(reader, _)| *reader == client);
            let _ = taken.map(|at| self.core().unread.remove(at));
            from = until;
        }
    }

    /// The results, at most as many as there may be, and how many there are in all. Between two pieces of work others go on.
    async fn evaluate(&self, ground: &Ground, share: &Share) -> Result<(Best, u32), Refused> {
        let (search, sets) = (&ground.search, ground.bound / 64 + 1);
        let mut left = 0;
        let mut evaluation = Evaluation { waiting: Vec::new(), frequencies: vec![0; search.keywords.len()] };
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
            self.work(share, &mut left, ground.bound + ground.fetch.entries()).await;
            filter(ground, &self.core().state.collection(search.collection)?.documents, by, &mut found);
        }
        let matches = found.count_ones(..) as u32;
        let top = if search.top == 0 { u32::MAX } else { search.top };
        let most = if let Padding::Fixed(slots) = ground.padding { top.min(slots) } else { top } as usize;
        if search.ranking == Ranking::None {
            return Ok((found.ones().map(|number| (number as u32, 0.0)).take(most).collect(), matches));
        }
        let mut scores = Scores::new(found);
        let ranked = ground.fetch.words.iter().zip(&evaluation.frequencies).enumerate();
        for (keyword, (word, frequency)) in ranked.take(search.ranked.into()) {
            self.work(share, &mut left, sets + word.count as usize).await;
            let core = self.core();
            let documents = &core.state.collection(search.collection)?.documents;
            scores.add(ground, documents, keyword, *frequency);
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
