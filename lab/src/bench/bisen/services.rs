//! Storage services (figure 8): the same updates and searches on each, in turns.

use super::system::{Channels, Service, System};
use super::texts::Texts;
use super::updates::Loading;
use super::{BisenBench, BisenError, Lines, median};
use arras_protocol::iee::ENTRY_BYTES;
use arras_schemes::bisen::KeywordHash;
use arras_schemes::bisen::message::{Reply, Request};
use arras_schemes::bisen::query::{Padding, Search, Step};
use arras_schemes::bisen::update::Update;
use std::convert::Infallible;
use std::path::Path;
use std::time::Instant;

/// Keywords of the searches, few to many: of the last its entries are what takes time, not its message.
const KEYWORDS: [u16; 4] = [5, 20, 60, 200];

/// A service with what it took.
pub(super) struct Measured {
    service: Service,
    system: System,
    /// Seconds of all updates.
    pub(super) updates: f64,
    /// Seconds of each round of the search.
    pub(super) searches: Vec<f64>,
}

impl Measured {
    pub(super) fn start(
        executables: &Path,
        service: Service,
        channels: Channels,
    ) -> Result<Self, BisenError> {
        let system = System::start(executables, service, channels)?;
        Ok(Self { service, system, updates: 0.0, searches: Vec::new() })
    }
}

/// Measures each service that can be started.
pub(super) fn measure(bench: &BisenBench, texts: &Texts, lines: &mut Lines<'_>) -> Result<(), BisenError> {
    lines.begin("8, storage services");
    let mut measured = Vec::new();
    for service in Service::ALL {
        if matches!(service, Service::Memory | Service::Embedded) || bench.services {
            (lines.tell)(service.name());
            match Measured::start(&bench.executables, service, Channels::Attested) {
                Ok(one) => measured.push(one),
                // A service that is not installed is left out, and said so.
                Err(error) => {
                    lines.add(format!("{}: not measured: {error}", service.name()), "", f64::NAN, "", "");
                }
            }
        }
    }
    (lines.tell)("8, storage services");
    let entries = load(&mut measured, texts, bench.service_pairs)?;
    let mut labels = 0;
    // The paper's axis: how many labels are accessed.
    for keywords in KEYWORDS {
        measured.iter_mut().for_each(|one| one.searches.clear());
        labels = search(&mut measured, texts, keywords, bench.rounds)?;
        for one in &measured {
            let what = format!("{}: a search", one.service.name());
            lines.add(what, format!("{labels} labels"), median(one.searches.clone()), "s", "");
        }
    }
    report(&measured, entries as f64, labels as f64, lines);
    Ok(())
}

/// The same updates to each, one after the other; how many entries they have.
pub(super) fn load(measured: &mut [Measured], texts: &Texts, pairs: u64) -> Result<usize, BisenError> {
    // Collections have salts of their own, which keywords are hashed with.
    let mut queues: Vec<std::vec::IntoIter<Update>> = Vec::new();
    let mut entries = 0;
    for one in measured.iter() {
        let mut updates = Vec::new();
        let filled = Loading::new(texts).fill(&one.system.opened, pairs, |update| {
            updates.push(update);
            Ok::<(), Infallible>(())
        });
        let Ok(()) = filled;
        entries = updates.iter().map(Update::pair_count).sum();
        queues.push(updates.into_iter());
    }
    loop {
        let mut any = false;
        for (one, queue) in measured.iter_mut().zip(&mut queues) {
            let Some(update) = queue.next() else { continue };
            any = true;
            let begun = Instant::now();
            one.system.ask(Request::Update(update))?;
            one.updates += begun.elapsed().as_secs_f64();
        }
        if !any {
            return Ok(entries);
        }
    }
}

/// A disjunction of the most frequent keywords on each, in turns; how many labels it asks for.
pub(super) fn search(
    measured: &mut [Measured],
    texts: &Texts,
    keywords: u16,
    rounds: usize,
) -> Result<u64, BisenError> {
    let mut labels = 0;
    for round in 0..=rounds {
        for one in &mut *measured {
            let opened = &one.system.opened;
            let mut search = Search::new(opened.collection);
            let words = texts.popular(usize::from(keywords));
            search.keywords =
                words.iter().map(|word| KeywordHash::of(&opened.salt, word.as_bytes())).collect();
            search.padding = Padding::Fixed(100);
            // As many on the first as on any other.
            if labels == 0 {
                labels = counted(&mut one.system, &search)?;
            }
            // Each operator behind its second operand, so that few wait.
            let with_operator =
                |place| [Step::Keyword(place), Step::Or].into_iter().take(1 + usize::from(place > 0));
            search.formula = (0..keywords).flat_map(with_operator).collect();
            let begun = Instant::now();
            one.system.ask(Request::Search(search))?;
            // The first round finds caches cold.
            if round > 0 {
                one.searches.push(begun.elapsed().as_secs_f64());
            }
        }
    }
    Ok(labels)
}

/// How many documents have each of the search's keywords, in all.
fn counted(system: &mut System, search: &Search) -> Result<u64, BisenError> {
    let mut labels = 0;
    for keyword in &search.keywords {
        let one = Search { keywords: vec![*keyword], formula: vec![Step::Keyword(0)], ..search.clone() };
        if let Reply::Found(page) = system.ask(Request::Search(one))? {
            labels += u64::from(page.matches());
        }
    }
    Ok(labels)
}

fn report(measured: &[Measured], entries: f64, labels: f64, lines: &mut Lines<'_>) {
    let million = 1e6;
    // Seconds of a million labels: of updates, of searches, and the mean of the two, as the paper has it.
    let of = |one: &Measured| {
        let [update, search] = [one.updates / entries, median(one.searches.clone()) / labels];
        [update, search, f64::midpoint(update, search)].map(|each| each * million)
    };
    for one in measured {
        let (at, [update, search, mean]) = (one.service.name(), of(one));
        let size = format!("{:.0} labels of {ENTRY_BYTES} bytes", entries);
        lines.add(format!("{at}: a million labels put"), size, update, "s", "");
        lines.add(format!("{at}: a million labels got"), format!("{labels} labels"), search, "s", "");
        lines.add(format!("{at}: the mean of both"), "", mean, "s", "");
    }
    let find = |service| measured.iter().find(|one| one.service == service).map(of);
    let compared = [
        (Service::Embedded, Service::Memory, ["", ""]),
        (Service::Redis, Service::Memory, ["10", "3"]),
        (Service::RedisCluster, Service::Memory, ["", ""]),
        (Service::Cassandra, Service::Redis, ["10", "4"]),
        (Service::CassandraRing, Service::Redis, ["", ""]),
        (Service::Postgres, Service::Redis, ["", ""]),
    ];
    for (service, beside, [paper, wanted]) in compared {
        if let (Some(ours), Some(others)) = (find(service), find(beside)) {
            let name = format!("{} beside {}", service.name(), beside.name());
            for (part, what) in ["put", "got", "mean"].into_iter().enumerate() {
                let ratio = ours[part] / others[part];
                let shown = if part == 2 { [paper, wanted] } else { ["", ""] };
                lines.wanted(format!("{name}, {what}"), "", ratio, "times", shown);
            }
        }
    }
}
