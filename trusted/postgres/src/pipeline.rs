//! What was sent to the database and is not answered yet, in its order: the protocol says in no reply what it answers.
//!
//! A client may send any number of messages ahead (pipelining). The database answers each in turn, but after an error it
//! passes over everything up to the next `Sync`; and while it reads the rows of a `COPY` it passes over every `Sync`.

use std::collections::VecDeque;

/// A message that the database will answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// `Query`: answered by any number of results, and `ReadyForQuery`.
    Query,
    Parse,
    Bind,
    /// `Describe`, of a statement or a portal.
    Describe,
    Execute,
    Close,
    /// Answered by `ReadyForQuery`.
    Sync,
    /// `FunctionCall`: answered by one result, and `ReadyForQuery`.
    Call,
    /// `CopyDone` or `CopyFail`: answered by nothing of its own.
    CopyEnd,
}

impl Asked {
    /// What a client's message asks, by its type; `None` if nothing answers it.
    pub(crate) fn by(kind: u8) -> Option<Self> {
        Some(match kind {
            b'Q' => Self::Query,
            b'P' => Self::Parse,
            b'B' => Self::Bind,
            b'D' => Self::Describe,
            b'E' => Self::Execute,
            b'C' => Self::Close,
            b'S' => Self::Sync,
            b'F' => Self::Call,
            b'c' | b'f' => Self::CopyEnd,
            _ => return None,
        })
    }

    /// True if a reply of this type is the last of the answer, whatever came before it.
    #[inline]
    pub(crate) fn ends_by(self, reply: u8) -> bool {
        matches!(
            (reply, self),
            (b'1', Self::Parse)
                | (b'2', Self::Bind)
                | (b'3', Self::Close)
                | (b'T' | b'n', Self::Describe)
                | (b'C' | b'I' | b's', Self::Execute)
        )
    }

    /// True if `ReadyForQuery` ends the answer.
    pub(crate) fn ends_ready(self) -> bool {
        match self {
            Self::Query | Self::Sync | Self::Call => true,
            Self::Parse | Self::Bind | Self::Describe | Self::Execute | Self::Close | Self::CopyEnd => false,
        }
    }
}

/// A message on its way, and what its answer is read by.
#[derive(Debug)]
pub(crate) struct Entry<T> {
    pub(crate) asked: Asked,
    pub(crate) note: T,
}

/// The messages on their way.
#[derive(Debug)]
pub(crate) struct Pipeline<T> {
    entries: VecDeque<Entry<T>>,
    /// An error came, and no `Sync` was sent since.
    skipping: bool,
    /// The first entry reads rows from the client.
    copying: bool,
}

impl<T> Default for Pipeline<T> {
    fn default() -> Self {
        Self { entries: VecDeque::new(), skipping: false, copying: false }
    }
}

impl<T> Pipeline<T> {
    /// A message goes to the database; the note again if nothing will answer it, since it is passed over.
    #[inline]
    pub(crate) fn sent(&mut self, asked: Asked, note: T) -> Option<T> {
        if (self.copying || self.skipping || asked == Asked::CopyEnd) && self.passes_over(asked) {
            return Some(note);
        }
        self.entries.push_back(Entry { asked, note });
        None
    }

    /// Will nothing answer a message that is sent now?
    fn passes_over(&mut self, asked: Asked) -> bool {
        if self.copying {
            // Whatever comes before the end of the rows is passed over or is an error of the COPY.
            let ended = self.entries.iter().any(|entry| entry.asked == Asked::CopyEnd);
            if !ended && asked != Asked::CopyEnd {
                return true;
            }
        } else if asked == Asked::CopyEnd && self.entries.is_empty() {
            return true;
        }
        let skips = self.skipping && asked != Asked::Sync;
        self.skipping = skips;
        skips
    }

    /// What the next reply answers; `None` if it answers nothing.
    pub(crate) fn first(&mut self) -> Option<&mut Entry<T>> {
        // An end of rows for which no COPY waited is answered by nothing.
        while !self.copying && self.entries.front().is_some_and(|entry| entry.asked == Asked::CopyEnd) {
            self.entries.pop_front();
        }
        self.entries.front_mut()
    }

    /// The same, if neither a `COPY` nor the end of one has a part in what its replies mean.
    #[inline]
    pub(crate) fn next(&self) -> Option<&Entry<T>> {
        self.entries.front().filter(|entry| !self.copying && entry.asked != Asked::CopyEnd)
    }

    /// That one is answered.
    #[inline]
    pub(crate) fn next_is_answered(&mut self) {
        self.entries.pop_front();
    }

    /// The messages on their way.
    pub(crate) fn entries(&mut self) -> impl Iterator<Item = &mut Entry<T>> {
        self.entries.iter_mut()
    }

    /// True if the database passes over what comes, until a `Sync`.
    pub(crate) fn is_skipping(&self) -> bool {
        self.skipping
    }

    /// True if all of them will be answered without another.
    pub(crate) fn will_end(&self) -> bool {
        self.entries.back().is_none_or(|entry| entry.asked.ends_ready())
    }

    /// Number of messages on their way.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if the database owes no answer.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A reply of this type has come: the entries that are done with it, the failed and the passed over ones among them.
    pub(crate) fn answered(&mut self, reply: u8) -> Done<T> {
        let Some(asked) = self.first().map(|entry| entry.asked) else { return Done::Nothing };
        match (reply, asked) {
            _ if asked.ends_by(reply) => {
                self.copied();
                self.entries.pop_front().map_or(Done::Nothing, Done::Answered)
            }
            // The next result of a query may be a COPY, too.
            (b'C', Asked::Query) => {
                self.copied();
                Done::Nothing
            }
            (b'G' | b'W', Asked::Execute | Asked::Query) => {
                self.copying();
                Done::Nothing
            }
            (b'E', Asked::Query | Asked::Call) => {
                self.copied();
                Done::Nothing
            }
            (b'E', _) => {
                self.copied();
                Done::Failed(self.failed())
            }
            (b'Z', _) => self.ready(),
            _ => Done::Nothing,
        }
    }

    /// The first entry reads rows now: each `Sync` that was sent ahead of their end is passed over.
    fn copying(&mut self) {
        self.copying = true;
        let end = self.entries.iter().position(|entry| entry.asked == Asked::CopyEnd);
        let ahead = end.unwrap_or(self.entries.len());
        let mut place = 0;
        self.entries.retain(|entry| {
            let passed_over = place > 0 && place < ahead && entry.asked == Asked::Sync;
            place += 1;
            !passed_over
        });
    }

    /// No rows are read any more.
    fn copied(&mut self) {
        if std::mem::take(&mut self.copying)
            && self.entries.get(1).is_some_and(|entry| entry.asked == Asked::CopyEnd)
        {
            self.entries.remove(1);
        }
    }

    /// Everything up to the next `Sync` is passed over.
    fn failed(&mut self) -> VecDeque<Entry<T>> {
        let sync = self.entries.iter().position(|entry| entry.asked == Asked::Sync);
        self.skipping = sync.is_none();
        let rest = self.entries.split_off(sync.unwrap_or(self.entries.len()));
        std::mem::replace(&mut self.entries, rest)
    }

    fn ready(&mut self) -> Done<T> {
        while let Some(entry) = self.entries.pop_front() {
            if entry.asked.ends_ready() {
                return Done::Ready(entry);
            }
        }
        Done::Nothing
    }
}

/// What a reply ends.
#[derive(Debug)]
pub(crate) enum Done<T> {
    Nothing,
    /// The first message is answered.
    Answered(Entry<T>),
    /// The first message failed, and those behind it, up to the next `Sync`, are passed over.
    Failed(VecDeque<Entry<T>>),
    /// The database waits for the next message after this one.
    Ready(Entry<T>),
}

#[cfg(test)]
mod tests;
