//! `arras search index`.

use crate::IndexArguments;
use crate::connection::Connection;
use crate::failure::Failure;
use crate::journal::{JournalFile, Opened};
use crate::progress::{Shown, counted, grouped};
use crate::store::{self, COLLECTION, Store};
use arras_protocol::text::name;
use arras_schemes::bisen::message::Refused;
use arras_search::corpus::{Ledger, Summary, index, remove};
use arras_search::language::Language;
use arras_search::profile::Profile;
use arras_search::service::{Collection, ServiceError};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

pub(crate) fn run(arguments: &IndexArguments) -> Result<(), Failure> {
    // Before anything is made: a path that is mistyped makes no store.
    if let Some(missing) = arguments.paths.iter().find(|path| !arguments.remove && !path.exists()) {
        return Err(Failure::Store { path: missing.clone(), what: "there is no such file or folder".into() });
    }
    let store = Store::create(&arguments.store, &arguments.storage)?;
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    let watching = ctrlc::set_handler(move || {
        if asked.swap(true, Ordering::Relaxed) {
            // The second one: what was acknowledged is kept.
            std::process::exit(130);
        }
    });
    watching.map_err(|error| Failure::Process(error.to_string()))?;
    store.serving(|connection| bring_up(arguments, &store, stop, connection))
}

/// Brings the index up to what is there.
fn bring_up(
    arguments: &IndexArguments,
    store: &Store,
    stop: Arc<AtomicBool>,
    connection: &mut Connection,
) -> Result<(), Failure> {
    let profile = profile(arguments.language, connection)?;
    let mut collection = Collection::create(connection, COLLECTION, profile)?;
    let path = store.journal();
    let opened = JournalFile::open(&path, &store.aead, &collection.opened.salt);
    let (mut journal, mut ledger) = match opened.map_err(|error| store::failed(&path, &error))? {
        Opened::Known(journal, ledger) => (journal, ledger),
        Opened::New(journal) => (journal, Ledger::default()),
    };
    collection.expect(ledger.revision())?;
    let mut shown = Shown::new(stop);
    let begun = Instant::now();
    let bring = if arguments.remove { remove } else { index };
    let summary = bring(&mut collection, &mut ledger, &arguments.paths, &mut journal, &mut shown);
    shown.clear();
    let summary = summary?;
    report(&summary, &ledger, begun.elapsed().as_secs_f64(), &mut io::stderr().lock())?;
    if summary.stopped {
        return Err(Failure::Stopped);
    }
    compact(&mut collection)?;
    match summary.problem_count {
        0 => Ok(()),
        unread => Err(Failure::Unread(unread)),
    }
}

/// Takes entries of what is gone out of the storage, if they are many.
fn compact(collection: &mut Collection<'_, Connection>) -> io::Result<()> {
    match collection.compact(COLLECTION) {
        Ok(0) => {}
        Ok(removed) => {
            let removed = counted(removed, "stored entry", "stored entries");
            writeln!(io::stderr(), "{removed} of documents that are gone or were replaced are removed")?;
        }
        // All is indexed; the next run tries it again.
        Err(error) => {
            writeln!(
                io::stderr(),
                "entries of documents that are gone or were replaced are not removed: {error}"
            )?;
        }
    }
    Ok(())
}

/// The analysis that is asked for, or that the store has.
fn profile(asked: Option<Language>, connection: &mut Connection) -> Result<Profile, Failure> {
    if let Some(language) = asked {
        return Ok(Profile::new(language));
    }
    match Collection::existing(connection, COLLECTION) {
        Ok(found) => Ok(found.profile),
        Err(ServiceError::Refused(Refused::NotAllowed)) => Ok(Profile::new(Language::English)),
        Err(error) => Err(error.into()),
    }
}

/// What was done, in a few lines.
fn report(summary: &Summary, ledger: &Ledger, seconds: f64, to: &mut impl Write) -> io::Result<()> {
    let done = &summary.done;
    for problem in &summary.problems {
        writeln!(to, "not read: {}: {}", name(&problem.path.display().to_string()), problem.what)?;
    }
    for left_out in &summary.left_out {
        writeln!(to, "left out: {}: {}", name(&left_out.path.display().to_string()), left_out.what)?;
    }
    let more = summary.problem_count - summary.problems.len() as u64;
    if more > 0 {
        writeln!(to, "not read: {} more", grouped(more))?;
    }
    if done.cut > 0 {
        let cut = counted(done.cut, "document", "documents");
        writeln!(to, "too large to be indexed whole: {cut} (docs/search.md, limits)")?;
    }
    let rate = grouped((done.pairs as f64 / seconds.max(1e-3)) as u64);
    writeln!(
        to,
        "{} put in, {} taken out, {} unchanged, {} not text, {} not read; {} in {seconds:.1} s ({rate} pairs/s); {} in the index",
        counted(done.documents, "document", "documents"),
        grouped(done.removed),
        counted(summary.unchanged, "file", "files"),
        grouped(done.binary),
        grouped(summary.problem_count),
        counted(done.pairs, "pair", "pairs"),
        counted(ledger.len() as u64, "file", "files"),
    )
}
