//! Documents that were found, read again to show where they match, and of messages from whom they are and about what.

use super::decoding;
use super::html;
use super::ledger::{MessageId, Place};
use super::message::{Messages, Reader};
use super::read::{self, Kind, Open};
use crate::formula::Field;
use chrono::{DateTime, SecondsFormat};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::io;
use std::path::Path;

/// What became of a document that was found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reread {
    /// It was read.
    Whole,
    /// The file is another than was indexed.
    Changed,
    /// The file is not there any more, or the message is not in its mailbox.
    Gone,
    /// The file cannot be read: what the operating system says.
    Unreadable(String),
}

impl Display for Reread {
    /// What a person is told instead of the text.
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => Ok(()),
            Self::Changed => formatter.write_str("changed since it was indexed"),
            Self::Gone => formatter.write_str("is gone"),
            Self::Unreadable(why) => write!(formatter, "cannot be read: {why}"),
        }
    }
}

impl From<io::Error> for Reread {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Gone,
            _ => Self::Unreadable(error.to_string()),
        }
    }
}

/// What a message says of itself, as it says it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct About {
    /// Names and addresses of who sent it; empty if it does not say.
    pub from: String,
    /// Its subject, likewise.
    pub subject: String,
    /// When, in seconds since 1970.
    pub sent: Option<i64>,
}

impl About {
    /// When it was sent, by RFC 3339 in UTC.
    #[must_use]
    pub fn date(&self) -> Option<String> {
        let moment = DateTime::from_timestamp(self.sent?, 0)?;
        Some(moment.to_rfc3339_opts(SecondsFormat::Secs, true))
    }

    fn person(&mut self, name: &str, address: &str) {
        if !(self.from.is_empty() || name.is_empty() && address.is_empty()) {
            self.from.push_str(", ");
        }
        self.from.push_str(name);
        match (name.is_empty(), address.is_empty()) {
            (_, true) => {}
            (true, false) => self.from.push_str(address),
            (false, false) => self.from.extend([" <", address, ">"]),
        }
    }
}

/// Takes what is read of a document.
pub trait Look {
    /// The next piece of its text.
    fn feed(&mut self, piece: &str);
    /// Of a message, behind its text, what it says of itself.
    fn about(&mut self, about: About);
}

impl<F: FnMut(&str)> Look for F {
    fn feed(&mut self, piece: &str) {
        self(piece);
    }

    fn about(&mut self, _: About) {}
}

/// Passes on what is looked at.
struct Texts<'l, L> {
    look: &'l mut L,
    about: About,
    /// A sender whose address comes next.
    name: Option<String>,
}

impl<L: Look> Reader for Texts<'_, L> {
    fn field(&mut self, field: Field, text: &str) {
        match field {
            Field::From => match self.name.take() {
                None => self.name = Some(text.to_owned()),
                Some(name) => self.about.person(&name, text),
            },
            Field::Subject => text.clone_into(&mut self.about.subject),
            Field::To | Field::Cc | Field::Path | Field::Type => {}
        }
    }

    fn feed(&mut self, piece: &str) {
        self.look.feed(piece);
    }

    fn end_text(&mut self) {
        self.look.feed("\n");
    }
}

impl<'l, L: Look> Texts<'l, L> {
    fn new(look: &'l mut L) -> Self {
        Self { look, about: About::default(), name: None }
    }

    fn message(mut self, messages: &Messages, raw: &[u8]) {
        let sent = messages.read(raw, &mut self);
        self.look.about(About { sent, ..self.about });
    }
}

/// Reads a document that was found, as it is where it was indexed, by pieces. Of what is not whole the look is not to be trusted.
/// Several messages of one mailbox are read by [`reread_mailbox`] at once.
pub fn reread(place: &Place, look: &mut impl Look) -> Reread {
    if let Some(message) = place.message {
        let mut look = Some(look);
        let mut outcome = Reread::Gone;
        each_message(&place.path, &BTreeSet::from([message]), |messages, _, raw| {
            if let Some(look) = look.take() {
                Texts::new(look).message(messages, raw);
                outcome = Reread::Whole;
            }
        })
        .unwrap_or_else(|instead| outcome = instead);
        return outcome;
    }
    file(place, look).unwrap_or_else(Reread::from)
}

fn file(place: &Place, look: &mut impl Look) -> io::Result<Reread> {
    let open = Open::new(&place.path, place.is_in_maildir())?;
    // The size alone: times of files that were copied back differ.
    if place.stamp.is_none_or(|stamp| stamp.size != open.size) {
        return Ok(Reread::Changed);
    }
    let mut texts = Texts::new(look);
    match open.kind {
        Kind::Binary | Kind::Mailbox => return Ok(Reread::Changed),
        Kind::Html => texts.feed(&html::text(&decoding::text(&open.held()?.0))),
        Kind::Message => texts.message(&Messages::default(), &open.held()?.0),
        Kind::Text => {
            open.text(&mut texts)?;
        }
    }
    Ok(Reread::Whole)
}

/// Reads messages of one mailbox that were found, in one pass; every one has an outcome.
pub fn reread_mailbox<L: Look>(
    path: &Path,
    wanted: &BTreeSet<MessageId>,
    mut look: impl FnMut() -> L,
) -> BTreeMap<MessageId, (L, Reread)> {
    let mut found = BTreeMap::new();
    let passed = each_message(path, wanted, |messages, id, raw| {
        found.entry(id).or_insert_with(|| {
            let mut look = look();
            Texts::new(&mut look).message(messages, raw);
            (look, Reread::Whole)
        });
    });
    let instead = passed.err().unwrap_or(Reread::Gone);
    for id in wanted {
        found.entry(*id).or_insert_with(|| (look(), instead.clone()));
    }
    found
}

/// Passes on the messages of a mailbox that are wanted, until there are all.
fn each_message(
    path: &Path,
    wanted: &BTreeSet<MessageId>,
    mut each: impl FnMut(&Messages, MessageId, &[u8]),
) -> Result<(), Reread> {
    let open = Open::new(path, false)?;
    if open.kind != Kind::Mailbox {
        return Err(Reread::Changed);
    }
    let (parser, mut missing) = (Messages::default(), wanted.clone());
    let passed = open.messages(|raw, _| {
        let id = read::message_id(raw);
        if missing.remove(&id) {
            each(&parser, id, raw);
        }
        // No reason to stop but that nothing is missing.
        if missing.is_empty() { Err(Reread::Whole) } else { Ok(()) }
    });
    match passed {
        Ok(()) | Err(Reread::Whole) => Ok(()),
        Err(instead) => Err(instead),
    }
}
