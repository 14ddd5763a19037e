//! Updates (figure 3), and what is stored (section 6.1).

use super::system::{Shares, System};
use super::texts::Texts;
use super::{BisenError, Lines};
use arras_protocol::iee::ENTRY_BYTES;
use arras_schemes::bisen::Salt;
use arras_schemes::bisen::message::Opened;
use arras_schemes::bisen::update::Update;
use arras_search::analysis::Collector;
use arras_search::language::Language;
use arras_search::update::{Filler, Numbers, document_name};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

/// Updates that are ready and wait for the one under way, as `arras search index` has it.
const READY_MAX: usize = 2;

/// Keywords of the paper's single document.
const SINGLE: usize = 640;

/// From one document to the next, so that few of them are of all folders: a prime, which meets every document.
const STRIDE: usize = 7919;

/// How far a collection is filled.
pub(super) struct Loading<'t> {
    texts: &'t Texts,
    next: usize,
    pairs: u64,
    /// Hashes of all keywords.
    keywords: HashSet<u64>,
}

impl<'t> Loading<'t> {
    pub(super) fn new(texts: &'t Texts) -> Self {
        Self { texts, next: 0, pairs: 0, keywords: HashSet::new() }
    }

    /// Pairs of keyword and document so far.
    pub(super) fn pairs(&self) -> u64 {
        self.pairs
    }

    /// Makes updates until there are so many pairs, and passes them on.
    pub(super) fn fill<E>(
        &mut self,
        opened: &Opened,
        until: u64,
        mut full: impl FnMut(Update) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut collector = Collector::new(Language::English);
        let mut filler = Filler::new(opened.collection, opened.salt);
        while self.pairs < until {
            let documents = &self.texts.documents;
            let document = &documents[self.next.wrapping_mul(STRIDE) % documents.len()];
            collector.begin();
            collector.feed(document);
            let keywords = collector.finish();
            let numbers = Numbers { date: 0, size: document.len() as i64 };
            filler.document(document_name(&self.next.to_string()), numbers, &keywords, &mut full)?;
            self.pairs += keywords.iter().len() as u64;
            // Texts that are taken again have nothing new.
            if self.next < documents.len() {
                self.keywords.extend(keywords.iter().map(|keyword| hash(keyword.text)));
            }
            self.next += 1;
        }
        filler.flush(full)
    }
}

fn hash(keyword: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    keyword.hash(&mut hasher);
    hasher.finish()
}

/// Nobody takes updates any more.
struct Unheard;

fn send(to: &SyncSender<Update>, update: Update) -> Result<(), Unheard> {
    to.send(update).map_err(|_| Unheard)
}

/// Fills the collection until it has so many pairs: one thread analyses, one sends.
pub(super) fn measure(
    system: &mut System,
    loading: &mut Loading<'_>,
    until: u64,
    lines: &mut Lines<'_>,
) -> Result<(), BisenError> {
    lines.begin("3, updates");
    let (before, pairs_before) = (system.shares()?, loading.pairs);
    let opened = system.opened.clone();
    let (to, updates) = sync_channel(READY_MAX);
    thread::scope(|scope| -> Result<(), BisenError> {
        let analysing = scope.spawn(|| {
            // It ends early only if the other side did, which says why.
            let _ = loading.fill(&opened, until, move |update| send(&to, update));
        });
        let mut collection = system.collection()?;
        for update in updates {
            collection.update(update)?;
        }
        // A defect in the analysis shows as one here.
        let _ = analysing.join();
        Ok(())
    })?;
    let shares = system.shares()? - before;
    report(&shares, loading.pairs - pairs_before, lines);
    Ok(())
}

fn report(shares: &Shares, pairs: u64, lines: &mut Lines<'_>) {
    let at = format!("{pairs} pairs");
    let each = |seconds: f64| pairs as f64 / seconds;
    lines.wanted(
        "whole pipeline",
        &at,
        each(shares.passed),
        "pairs/s",
        ["41,000 (464 million in 11,239 s)", "300,000"],
    );
    let paper = "357,000 (464 million in 1,300 s)";
    lines.wanted("enclave alone", &at, each(shares.enclave), "pairs/s", [paper, "1,500,000"]);
    lines.add("client, with analysis", &at, shares.client, "s of processor", "the largest");
    lines.add("enclave", &at, shares.enclave, "s of processor", "as the storage");
    lines.add("host and its storage in memory", &at, shares.host, "s of processor", "as the enclave");
    let bytes = shares.bytes / pairs as f64;
    lines.add("network, between client and host", &at, bytes, "bytes a pair", "little beyond the hashes");
    lines.add("network, at the paper's 50 Mbit/s and 41.4 ms", &at, networked(shares), "s", "");
}

/// Seconds that the paper's network would take for what went over ours.
pub(super) fn networked(shares: &Shares) -> f64 {
    shares.bytes * 8.0 / 50e6 + shares.trips * 0.041_377
}

/// What is stored, and one document alone.
pub(super) fn storage(
    system: &mut System,
    loading: &Loading<'_>,
    lines: &mut Lines<'_>,
) -> Result<(), BisenError> {
    lines.begin("6.1, storage");
    let opened = system.collection()?.opened.clone();
    let (pairs, at) = (loading.pairs as f64, format!("{} pairs", loading.pairs));
    let stored = opened.entries as f64 * ENTRY_BYTES as f64;
    lines.add("an entry", "", ENTRY_BYTES as f64, "bytes", "83");
    let paper = ["83, no places of phrases", "64"];
    lines.wanted("entries, places for phrases with them", &at, stored / pairs, "bytes a pair", paper);
    let (memory, keywords) = (system.enclave_bytes()? as f64, loading.keywords.len() as f64);
    lines.add("enclave's memory, all of it", &at, memory / pairs, "bytes a pair", "");
    lines.add(
        "enclave's memory, documents with it",
        &at,
        memory / keywords,
        "bytes a keyword",
        "36, counters alone",
    );
    lines.add("keywords", &at, keywords, "", "616,500 (Oxford's)");
    lines.add("a client's secret", "", system.key_bytes as f64, "bytes", "32");
    lines.add("documents", &at, opened.documents as f64, "", "");
    lines.begin("3, updates");
    let single = single(opened.collection, &opened.salt);
    let before = system.shares()?;
    for update in single {
        system.collection()?.update(update)?;
    }
    let taken = (system.shares()? - before).passed * 1e3;
    lines.add("a document of 640 keywords, into all of them", &at, taken, "ms", "29, network with it");
    Ok(())
}

/// One document of so many keywords.
fn single(collection: u32, salt: &Salt) -> Vec<Update> {
    let mut collector = Collector::new(Language::None);
    let text: String = (0..SINGLE).map(|word| format!("single{word} ")).collect();
    collector.begin();
    collector.feed(&text);
    let mut filler = Filler::new(collection, *salt);
    let mut updates = Vec::new();
    let numbers = Numbers { date: 0, size: 0 };
    let mut full = |update| -> Result<(), std::convert::Infallible> {
        updates.push(update);
        Ok(())
    };
    let Ok(()) = filler.document(document_name("single"), numbers, &collector.finish(), &mut full);
    let Ok(()) = filler.flush(&mut full);
    updates
}
