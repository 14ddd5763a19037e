//! What is shown of documents that were found: read again where they are, those of one mailbox in one pass.

use arras_search::condition::Condition;
use arras_search::corpus::{About, Look, MessageId, Place, Reread, reread, reread_mailbox};
use arras_search::language::Language;
use arras_search::snippets::{Finder, Snippet};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

/// What is looked for in texts, and how much of them is shown.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'c> {
    pub(crate) condition: &'c Condition,
    pub(crate) language: Language,
    /// Lines of each document; 0 shows what messages say of themselves alone.
    pub(crate) lines: usize,
}

/// A document as it is now.
pub(crate) struct Shown {
    /// What a message says of itself.
    pub(crate) about: Option<About>,
    /// Its lines, or why there are none.
    pub(crate) lines: Result<Vec<Snippet>, Reread>,
}

/// Some documents that were found.
pub(crate) struct Showing<'p, 'c> {
    wanted: Wanted<'c>,
    /// Messages of mailboxes that are not read yet.
    unread: HashMap<&'p Path, BTreeSet<MessageId>>,
    read: HashMap<&'p Path, BTreeMap<MessageId, Shown>>,
}

impl<'p, 'c> Showing<'p, 'c> {
    /// To show these.
    pub(crate) fn new(places: impl Iterator<Item = &'p Place>, wanted: Wanted<'c>) -> Self {
        let mut unread: HashMap<&Path, BTreeSet<MessageId>> = HashMap::new();
        for place in places {
            if let Some(message) = place.message {
                unread.entry(&place.path).or_default().insert(message);
            }
        }
        Self { wanted, unread, read: HashMap::new() }
    }

    /// One of them; a message of a mailbox once.
    pub(crate) fn show(&mut self, place: &'p Place) -> Shown {
        let Self { wanted, unread, read } = self;
        let Some(message) = place.message else {
            if wanted.lines == 0 && !place.is_message() {
                return Shown { about: None, lines: Ok(Vec::new()) };
            }
            let mut looking = Looking::new(*wanted);
            let outcome = reread(place, &mut looking);
            return looking.shown(outcome);
        };
        let path = place.path.as_path();
        if let Some(messages) = unread.remove(path) {
            let looked = reread_mailbox(path, &messages, || Looking::new(*wanted));
            let shown = looked.into_iter().map(|(id, (looking, outcome))| (id, looking.shown(outcome)));
            read.insert(path, shown.collect());
        }
        let shown = read.get_mut(path).and_then(|messages| messages.remove(&message));
        shown.unwrap_or(Shown { about: None, lines: Err(Reread::Gone) })
    }
}

/// Looks at one document.
struct Looking<'c> {
    wanted: Wanted<'c>,
    /// Made with the first piece, as it holds stop words and stems.
    finder: Option<Finder<'c>>,
    lines: Vec<Snippet>,
    about: Option<About>,
}

impl<'c> Looking<'c> {
    fn new(wanted: Wanted<'c>) -> Self {
        Self { wanted, finder: None, lines: Vec::new(), about: None }
    }

    fn shown(self, outcome: Reread) -> Shown {
        let lines = self.finder.map_or(self.lines, Finder::finish);
        // What was read of one that is not whole is another's, or ends anywhere.
        match outcome {
            Reread::Whole => Shown { about: self.about, lines: Ok(lines) },
            other => Shown { about: None, lines: Err(other) },
        }
    }
}

impl Look for Looking<'_> {
    fn feed(&mut self, piece: &str) {
        let Wanted { condition, language, lines } = self.wanted;
        if lines > 0 {
            self.finder.get_or_insert_with(|| Finder::new(condition, language, lines)).feed(piece);
        }
    }

    fn about(&mut self, about: About) {
        self.about = Some(about);
        // Its end: many messages of a mailbox are held until they are shown.
        self.lines = self.finder.take().map(Finder::finish).unwrap_or_default();
    }
}
