//! Brings an index up to what is on the disk.

use super::decoding;
use super::html;
use super::ledger::{self, Entry, Ledger, MessageId, Record, Stamp};
use super::message::{Messages, Reader};
use super::read::{self, Kind, Open};
use super::walk::{self, File, Found};
use crate::analysis::Collector;
use crate::formula::Field;
use crate::service::{Collection, SearchService, ServiceError};
use crate::update::{Filler, Numbers, document_name};
use arras_schemes::bisen::update::Update;
use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Updates that are ready and wait for the one under way.
const READY_MAX: usize = 2;
/// Problems that are kept to be shown; the others are counted.
const PROBLEMS_MAX: usize = 100;

/// Keeps the ledger's journal, sealed and in order.
pub trait Journal {
    /// Adds a piece behind those before, durably.
    ///
    /// # Errors
    /// What the storage says.
    fn append(&mut self, piece: &[u8]) -> io::Result<()>;
}

/// Hears how a run goes.
pub trait Progress {
    /// So many files with so many bytes are new or changed.
    fn begin(&mut self, files: u64, bytes: u64);
    /// So much is done, and durable.
    fn advance(&mut self, done: &Counts);
    /// Set when the run is to stop with the file that is read done: it is looked at before each.
    fn stop(&self) -> Arc<AtomicBool>;
}

/// What was done.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Files that were new or changed and have been read.
    pub files: u64,
    /// Their bytes that were read.
    pub bytes: u64,
    /// Documents that were put into the index.
    pub documents: u64,
    /// Documents that were taken out of it.
    pub removed: u64,
    /// Pairs of keyword and document that were put in.
    pub pairs: u64,
    /// Files that are no text.
    pub binary: u64,
    /// Documents of which something is not in the index, as they are too large.
    pub cut: u64,
}

/// What could not be read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// The file or folder.
    pub path: PathBuf,
    /// What the operating system says.
    pub what: String,
}

impl Problem {
    pub(super) fn new(path: &Path, error: &io::Error) -> Self {
        Self { path: path.into(), what: error.to_string() }
    }
}

/// The outcome of a run.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Summary {
    /// What was done.
    pub done: Counts,
    /// Files that were as the index has them.
    pub unchanged: u64,
    /// What could not be read and was left as the index has it, the first so many.
    pub problems: Vec<Problem>,
    /// How many there are in all.
    pub problem_count: u64,
    /// What was met and is not entered, and why.
    pub left_out: Vec<Problem>,
    /// Whether it was stopped before its end.
    pub stopped: bool,
}

/// Why a run ended early. What was done is in the journal, and the next run goes on.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// What was to be indexed is not there: it may be on a disk that is not. Nothing was changed.
    #[error("{path}: {source}")]
    NoPath {
        /// The file or folder that was named.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The enclave.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The journal.
    #[error("the record of what was indexed cannot be written: {0}")]
    Journal(io::Error),
}

/// Indexes what is at paths and below them, as far as it is new or has changed, and takes what is no longer there out.
///
/// One thread reads and analyses, the calling one sends. Memory is bounded by the largest document's keywords
/// ([`Collector`]), some updates, and the ledger.
///
/// # Errors
/// [`IndexError`].
pub fn index<S: SearchService>(
    collection: &mut Collection<'_, S>,
    ledger: &mut Ledger,
    roots: &[PathBuf],
    journal: &mut dyn Journal,
    progress: &mut dyn Progress,
) -> Result<Summary, IndexError> {
    let (work, mut summary) = plan(ledger, roots, &progress.stop())?;
    if summary.stopped {
        return Ok(summary);
    }
    progress.begin(work.files.len() as u64, work.files.iter().map(|(file, _)| file.size).sum());
    run(collection, ledger, work, journal, progress, &mut summary)?;
    Ok(summary)
}

/// Takes everything at paths and below them out of the index, whether or not it is there still.
///
/// # Errors
/// [`IndexError`].
pub fn remove<S: SearchService>(
    collection: &mut Collection<'_, S>,
    ledger: &mut Ledger,
    roots: &[PathBuf],
    journal: &mut dyn Journal,
    progress: &mut dyn Progress,
) -> Result<Summary, IndexError> {
    let mut work = Work::default();
    for root in roots {
        let path = named(root);
        let before = work.gone.len();
        work.gone.extend(ledger.below(&path).map(|(name, entry)| (name.to_owned(), entry.clone())));
        if work.gone.len() == before {
            let source = io::Error::new(io::ErrorKind::NotFound, "nothing of it is in the index");
            return Err(IndexError::NoPath { path, source });
        }
    }
    let mut summary = Summary::default();
    progress.begin(0, 0);
    run(collection, ledger, work, journal, progress, &mut summary)?;
    Ok(summary)
}

/// A path as it was named when it was indexed: what is left of it without links and `..`, the rest as it is.
fn named(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    for there in absolute.ancestors() {
        let (Ok(real), Ok(rest)) = (there.canonicalize(), absolute.strip_prefix(there)) else { continue };
        return real.join(rest);
    }
    absolute
}

/// What a run has to do.
#[derive(Default)]
struct Work {
    gone: Vec<(String, Entry)>,
    files: Vec<(File, Option<Entry>)>,
}

fn plan(ledger: &Ledger, roots: &[PathBuf], stop: &AtomicBool) -> Result<(Work, Summary), IndexError> {
    let mut found = Found::new(stop);
    let mut absolute = Vec::new();
    for root in roots {
        let wrong = |source| IndexError::NoPath { path: root.clone(), source };
        let path = root.canonicalize().map_err(wrong)?;
        walk::walk(&path, &mut found).map_err(wrong)?;
        absolute.push(path);
    }
    if found.is_stopped() {
        return Ok((Work::default(), Summary { stopped: true, ..Summary::default() }));
    }
    found.files.sort_by(|one, other| one.name.cmp(&other.name));
    found.files.dedup_by(|one, other| one.name == other.name);
    let there: HashSet<&str> = found.files.iter().map(|file| file.name.as_str()).collect();
    // What is below a folder that cannot be read is not known to be gone.
    let unseen = |name: &str| found.problems.iter().any(|problem| Path::new(name).starts_with(&problem.path));
    let mut gone: Vec<(String, Entry)> = Vec::new();
    for root in &absolute {
        let missing = ledger.below(root).filter(|(name, _)| !there.contains(name) && !unseen(name));
        gone.extend(missing.map(|(name, entry)| (name.to_owned(), entry.clone())));
    }
    gone.sort_by(|one, other| one.0.cmp(&other.0));
    gone.dedup_by(|one, other| one.0 == other.0);
    let mut summary = Summary { left_out: found.left_out, ..Summary::default() };
    let mut files = Vec::new();
    for file in found.files {
        let entry = ledger.get(&file.name);
        let is_same = |stamp: &Stamp| (stamp.size, stamp.modified) == (file.size, file.modified);
        let moved = entry.is_some_and(|entry| entry.place != file.place);
        if !moved && entry.and_then(|entry| entry.stamp.as_ref()).is_some_and(is_same) {
            summary.unchanged += 1;
        } else {
            let entry = entry.cloned();
            files.push((file, entry));
        }
    }
    found.problems.into_iter().for_each(|problem| summary.add(problem));
    Ok((Work { gone, files }, summary))
}

impl Summary {
    fn add(&mut self, problem: Problem) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        }
    }
}

/// An update, and what is true when it is done.
struct Batch {
    update: Option<Update>,
    records: Vec<Record>,
    done: Counts,
    problems: Vec<Problem>,
}

fn run<S: SearchService>(
    collection: &mut Collection<'_, S>,
    ledger: &mut Ledger,
    work: Work,
    journal: &mut dyn Journal,
    progress: &mut dyn Progress,
    summary: &mut Summary,
) -> Result<(), IndexError> {
    let stopping = progress.stop();
    let (sender, receiver): (_, Receiver<Batch>) = sync_channel(READY_MAX);
    let (opened, language) = (&collection.opened, collection.profile.language);
    let mut producer = Producer {
        collector: Collector::new(language),
        filler: Filler::new(opened.collection, opened.salt),
        messages: Messages::default(),
        sender,
        stopping: &stopping,
        records: Vec::new(),
        problems: Vec::new(),
        done: Counts::default(),
    };
    thread::scope(|scope| {
        let reading = scope.spawn(move || producer.work(work));
        for mut batch in receiver {
            if let Some(update) = batch.update.take() {
                collection.update(update)?;
                batch.records.push(Record::Acknowledged { revision: collection.opened.revision });
            }
            if !batch.records.is_empty() {
                journal.append(&ledger::encode(&batch.records)).map_err(IndexError::Journal)?;
            }
            batch.records.into_iter().for_each(|record| ledger.apply(record));
            batch.problems.into_iter().for_each(|problem| summary.add(problem));
            summary.done = batch.done;
            progress.advance(&summary.done);
        }
        // It sends no more, so it has ended, and it does not panic but by a defect.
        summary.stopped = matches!(reading.join(), Ok(Err(Ended::Stopped)));
        Ok(())
    })
}

/// Why the producer ends early.
enum Ended {
    Stopped,
    /// Nobody takes what it makes any more.
    Unheard,
    /// One file; the run goes on.
    File(io::Error),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Self::File(error)
    }
}

/// Reads and analyses.
struct Producer<'r> {
    collector: Collector,
    filler: Filler,
    messages: Messages,
    sender: SyncSender<Batch>,
    stopping: &'r AtomicBool,
    /// What is true when the update that is being filled is done.
    records: Vec<Record>,
    problems: Vec<Problem>,
    done: Counts,
}

impl Reader for Collector {
    fn field(&mut self, field: Field, text: &str) {
        Self::field(self, field, text);
    }

    fn feed(&mut self, piece: &str) {
        Self::feed(self, piece);
    }

    fn end_text(&mut self) {
        Self::end_text(self);
    }
}

impl Producer<'_> {
    fn work(&mut self, work: Work) -> Result<(), Ended> {
        let outcome = self.all(work);
        match outcome {
            Ok(()) | Err(Ended::Stopped) => self.flush()?,
            Err(Ended::Unheard | Ended::File(_)) => {}
        }
        outcome
    }

    fn all(&mut self, work: Work) -> Result<(), Ended> {
        for (name, entry) in work.gone {
            self.check_stop()?;
            self.remove_all(&name, &entry)?;
            self.records.push(Record::Gone { name });
        }
        for (file, entry) in work.files {
            self.check_stop()?;
            let read_before = self.done.bytes;
            match self.file(&file, entry.as_ref()) {
                Ok(()) => {}
                Err(Ended::File(error)) => self.problems.push(Problem::new(file.path(), &error)),
                Err(ended @ (Ended::Stopped | Ended::Unheard)) => return Err(ended),
            }
            self.done.bytes = read_before + file.size;
            self.done.files += 1;
        }
        Ok(())
    }

    fn check_stop(&self) -> Result<(), Ended> {
        if self.stopping.load(Ordering::Relaxed) { Err(Ended::Stopped) } else { Ok(()) }
    }

    /// Sends what is there.
    fn flush(&mut self) -> Result<(), Ended> {
        let Self { filler, sender, records, problems, done, .. } = self;
        filler.flush(|update| send(sender, Some(update), records, problems, done))?;
        // What needed no update: a file that was touched and is the same, or cannot be read.
        send(sender, None, records, problems, done)
    }

    fn file(&mut self, file: &File, entry: Option<&Entry>) -> Result<(), Ended> {
        let open = Open::new(file.path(), file.is_message)?;
        let was_mailbox = entry.is_some_and(|entry| entry.messages.is_some());
        let is_mailbox = open.kind == Kind::Mailbox;
        if let Some(entry) = entry.filter(|_| was_mailbox != is_mailbox || open.kind == Kind::Binary) {
            self.remove_all(&file.name, entry)?;
            self.records.push(Record::Gone { name: file.name.clone() });
        }
        let entry = entry.filter(|_| was_mailbox == is_mailbox);
        match open.kind {
            Kind::Binary => self.done.binary += 1,
            Kind::Mailbox => self.mailbox(file, entry, open)?,
            Kind::Html | Kind::Message | Kind::Text => self.document(file, entry, open)?,
        }
        Ok(())
    }

    fn document(&mut self, file: &File, entry: Option<&Entry>, open: Open) -> Result<(), Ended> {
        self.collector.begin();
        let kind = if open.kind == Kind::Message { "mail".into() } else { read::ending(file.path()) };
        self.about(&file.name, &kind);
        let mut sent = None;
        let mut cut = false;
        let content = match open.kind {
            Kind::Text => open.text(&mut self.collector)?,
            Kind::Html => {
                let (bytes, more, content) = open.held()?;
                self.collector.feed(&html::text(&decoding::text(&bytes)));
                cut = more > 0;
                content
            }
            Kind::Message | Kind::Mailbox | Kind::Binary => {
                let (bytes, more, content) = open.held()?;
                sent = self.messages.read(&bytes, &mut self.collector);
                cut = more > 0;
                content
            }
        };
        let second = |modified: i64| modified.div_euclid(1_000_000_000);
        // What says no date of its own has that of its last change, by which it is found, too.
        let is_dated = |modified| sent.is_some() || second(modified) == second(file.modified);
        let known = entry.and_then(|entry| entry.stamp);
        if !known.is_some_and(|known| known.content == content && is_dated(known.modified)) {
            let date = sent.unwrap_or_else(|| second(file.modified));
            self.put(&file.name, None, date, file.size, cut)?;
        }
        self.records.push(indexed(file, content, false));
        Ok(())
    }

    fn mailbox(&mut self, file: &File, entry: Option<&Entry>, open: Open) -> Result<(), Ended> {
        let before = entry.and_then(|entry| entry.messages.as_ref());
        let mut seen = BTreeSet::new();
        let start = self.done.bytes;
        open.messages(|raw, so_far| -> Result<(), Ended> {
            self.check_stop()?;
            self.done.bytes = start + so_far;
            let id = read::message_id(raw);
            if !seen.insert(id) || before.is_some_and(|before| before.contains(&id)) {
                return Ok(());
            }
            self.collector.begin();
            self.about(&file.name, "mail");
            let sent = self.messages.read(raw, &mut self.collector);
            let date = sent.unwrap_or_else(|| file.modified.div_euclid(1_000_000_000));
            let cut = raw.len() >= super::HELD_BYTES_MAX;
            self.put(&file.name, Some(id), date, raw.len() as u64, cut)?;
            self.records.push(Record::Message { name: file.name.clone(), id });
            Ok(())
        })?;
        for id in before.into_iter().flatten().filter(|id| !seen.contains(id)) {
            self.take_out(&file.name, Some(*id))?;
            self.records.push(Record::MessageGone { name: file.name.clone(), id: *id });
        }
        self.records.push(indexed(file, [0; 16], true));
        Ok(())
    }

    /// The fields that every document has.
    fn about(&mut self, name: &str, kind: &str) {
        self.collector.field(Field::Path, name);
        self.collector.field(Field::Type, kind);
    }

    /// Puts what the collector has into the index.
    fn put(
        &mut self,
        name: &str,
        message: Option<MessageId>,
        date: i64,
        size: u64,
        cut: bool,
    ) -> Result<(), Ended> {
        let numbers = Numbers { date, size: i64::try_from(size).unwrap_or(i64::MAX) };
        let Self { collector, filler, sender, records, problems, done, .. } = self;
        let keywords = collector.finish();
        let document = document_name(&ledger::called(name, message));
        filler.document(document, numbers, &keywords, |update| {
            send(sender, Some(update), records, problems, done)
        })?;
        done.documents += 1;
        done.pairs += keywords.iter().len() as u64;
        let cut_short = keywords.cut() != crate::analysis::Cut::default();
        done.cut += u64::from(cut || cut_short);
        Ok(())
    }

    fn remove_all(&mut self, name: &str, entry: &Entry) -> Result<(), Ended> {
        match &entry.messages {
            None => self.take_out(name, None),
            Some(messages) => messages.iter().try_for_each(|id| self.take_out(name, Some(*id))),
        }
    }

    fn take_out(&mut self, name: &str, message: Option<MessageId>) -> Result<(), Ended> {
        let Self { filler, sender, records, problems, done, .. } = self;
        let document = document_name(&ledger::called(name, message));
        filler.remove(document, |update| send(sender, Some(update), records, problems, done))?;
        done.removed += 1;
        Ok(())
    }
}

fn indexed(file: &File, content: [u8; 16], mailbox: bool) -> Record {
    let stamp = Stamp { size: file.size, modified: file.modified, content };
    Record::Indexed { name: file.name.clone(), place: file.place.clone(), stamp, mailbox }
}

fn send(
    sender: &SyncSender<Batch>,
    update: Option<Update>,
    records: &mut Vec<Record>,
    problems: &mut Vec<Problem>,
    done: &Counts,
) -> Result<(), Ended> {
    let (records, problems) = (std::mem::take(records), std::mem::take(problems));
    sender.send(Batch { update, records, done: *done, problems }).map_err(|_| Ended::Unheard)
}
