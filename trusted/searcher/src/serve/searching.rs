//! Answers queries, one after the other: the host's counts before and after one are what it saw of it.

use crate::connection::Connection;
use crate::failure::Failure;
use crate::host::{Host, Seen};
use crate::showing::{self, Showing, Shown};
use arras_schemes::bisen::query::{Padding, Ranking};
use arras_search::condition::Condition;
use arras_search::corpus::Ledger;
use arras_search::grammar::{QueryError, parse};
use arras_search::search::{Results, Wanted, request};
use arras_search::service::Collection;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// Lines of each document that are shown.
const LINES: usize = 2;

/// What somebody asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) text: String,
    /// How many of the best documents.
    pub(super) top: u32,
}

/// A query, and who waits for its answer.
pub(super) struct Job {
    pub(super) query: Query,
    pub(super) answer: oneshot::Sender<Result<Found, Wrong>>,
}

/// A document that was found.
pub(super) struct Document {
    pub(super) path: String,
    /// Which message of a mailbox.
    pub(super) message: Option<String>,
    pub(super) score: f32,
    /// As it is now.
    pub(super) shown: Shown,
}

/// What a query found.
pub(super) struct Found {
    pub(super) documents: Vec<Document>,
    /// How many match in all.
    pub(super) matches: u32,
    /// How many of those that are to be shown the record of what was indexed does not have.
    pub(super) unrecorded: usize,
    /// What the host saw; none if it does not say.
    pub(super) seen: Option<Seen>,
    /// Between request and last reply.
    pub(super) taken: Duration,
}

/// Why there is no answer.
pub(super) enum Wrong {
    /// What is wrong with the query itself, and where.
    Query(QueryError),
    /// What else.
    Other(Failure),
}

impl<E: Into<Failure>> From<E> for Wrong {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

/// Has the enclave's collection.
pub(super) struct Searcher<'s> {
    pub(super) host: Host,
    pub(super) collection: Collection<'s, Connection>,
    pub(super) ledger: Ledger,
}

impl Searcher<'_> {
    /// Answers until nobody can ask any more.
    pub(super) fn work(mut self, mut jobs: mpsc::Receiver<Job>) {
        while let Some(Job { query, answer }) = jobs.blocking_recv() {
            // Whoever has gone needs no search.
            if !answer.is_closed() {
                let _ = answer.send(self.search(&query));
            }
        }
    }

    fn search(&mut self, query: &Query) -> Result<Found, Wrong> {
        let formula = parse(&query.text).map_err(Wrong::Query)?;
        let language = self.collection.profile.language;
        let condition = Condition::new(&formula, language)?;
        let wanted = Wanted { ranking: Ranking::Bm25, top: query.top, padding: Padding::None };
        let opened = &self.collection.opened;
        let search = request(&condition, opened.collection, &opened.salt, wanted)?;
        let before = self.host.seen();
        let begun = Instant::now();
        let Results { hits, matches } = self.collection.search(search)?;
        let taken = begun.elapsed();
        let seen = self.host.seen().and_then(|after| Ok(after - before?)).ok();
        let places = self.ledger.find(&hits.iter().map(|hit| hit.name).collect());
        let unrecorded = hits.iter().filter(|hit| !places.contains_key(&hit.name)).count();
        let known = hits.iter().filter_map(|hit| Some((hit, places.get(&hit.name)?)));
        let wanted = showing::Wanted { condition: &condition, language, lines: LINES };
        let mut showing = Showing::new(places.values(), wanted);
        let documents = known.map(|(hit, place)| Document {
            path: place.path.display().to_string(),
            message: place.message.map(|message| message.to_string()),
            score: hit.score,
            shown: showing.show(place),
        });
        Ok(Found { documents: documents.collect(), matches, unrecorded, seen, taken })
    }
}
