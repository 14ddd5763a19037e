//! A channel to an honest server whose replies become lies.

use arras_lab::channel::Direct;
use arras_protocol::documents::SealedDocument;
use arras_protocol::{
    Blob, Channel, ChannelError, Protocol, Refusal, RowId, arx_eq, arx_range, codec, documents, unique, write,
};
use arras_storage::Memory;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Documents of a reply: the server may cut replies where it likes.
const PER_REPLY: usize = 7;
/// Replies of a lie that goes on, after which it ends so that the test does: a client that has asked for more would for ever.
const FOR_EVER: usize = 40;

/// What becomes of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lie {
    /// The first comes twice.
    Repeat,
    /// One is left out.
    Drop,
    /// The last is left out.
    DropLast,
    /// In the other order.
    Reverse,
    /// Nothing, and no more to come.
    Withhold,
    /// What there is, and no more to come.
    End,
    /// Nothing, and more to come: from this reply on.
    Stall,
    /// The first reply again, and more to come: from this reply on.
    Loop,
    /// Something that was not asked for.
    Stray,
}

impl Lie {
    pub(super) const ALL: [Self; 9] = [
        Self::Repeat,
        Self::Drop,
        Self::DropLast,
        Self::Reverse,
        Self::Withhold,
        Self::End,
        Self::Stall,
        Self::Loop,
        Self::Stray,
    ];

    fn goes_on(self) -> bool {
        matches!(self, Self::Stall | Self::Loop)
    }

    /// Tells something of a list in a reply.
    fn tell<T: Clone>(self, list: &mut Vec<T>, first: &[T], stray: Option<T>) {
        match self {
            Self::Repeat => list.extend(list.first().cloned()),
            Self::Drop if !list.is_empty() => drop(list.remove(list.len() / 2)),
            Self::DropLast => drop(list.pop()),
            Self::Reverse => list.reverse(),
            Self::Withhold | Self::Stall => list.clear(),
            Self::Loop => *list = first.to_vec(),
            Self::Stray => list.extend(stray),
            Self::Drop | Self::End => {}
        }
    }
}

/// Lies told, and errors that came of it.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) lies: usize,
    pub(super) refused: usize,
}

impl Told {
    pub(super) fn note(&mut self, lies: usize, refused: bool) {
        self.lies += lies;
        self.refused += usize::from(refused && lies > 0);
    }
}

#[derive(Default)]
struct Armed {
    lie: Option<Lie>,
    turn: usize,
    deniable: bool,
    replies: usize,
    told: usize,
    first: Vec<SealedDocument>,
    /// It went on for so long that somebody would follow it for ever.
    followed: bool,
    seen: Vec<SealedDocument>,
}

/// The channel.
pub(super) struct Lying {
    server: Direct<Memory>,
    armed: Mutex<Armed>,
    counts: AtomicUsize,
    /// The next durable write is lost on its way there, or its acknowledgement on the way back.
    pub(super) lose_write: AtomicBool,
    pub(super) lose_reply: AtomicBool,
    /// The next durable write is refused.
    pub(super) refuse_write: AtomicBool,
    /// Counters and tokens of searches in equality indexes.
    pub(super) covered: AtomicU64,
    pub(super) tokens: AtomicUsize,
    /// Entries of equality indexes that were made.
    pub(super) entered: AtomicUsize,
    /// Replies come in any order.
    pub(super) shuffled: AtomicBool,
    /// Documents come with the headers that they came with first, once `old_headers` is set.
    pub(super) old_headers: AtomicBool,
    headers: Mutex<HashMap<RowId, Blob>>,
}

impl Lying {
    pub(super) fn new(server: Direct<Memory>) -> Self {
        let (armed, counts, lose_write, lose_reply, refuse_write, covered, tokens, shuffled) =
            Default::default();
        let (old_headers, headers, entered) = Default::default();
        Self {
            server,
            armed,
            counts,
            lose_write,
            lose_reply,
            refuse_write,
            covered,
            tokens,
            shuffled,
            old_headers,
            headers,
            entered,
        }
    }

    /// Keeps the first header of each document, or shows it again beside what the document is now.
    fn of_headers(&self, documents: &mut [SealedDocument]) {
        let mut headers = self.headers.lock().unwrap();
        for document in documents {
            let first = headers.entry(document.row).or_insert_with(|| document.header.clone());
            if self.old_headers.load(Ordering::SeqCst) {
                document.header = first.clone();
            }
        }
    }

    /// Lies in reply number `turn` from now on, of those that can be lied in; what is `deniable` is not denied.
    pub(super) fn arm(&self, lie: Lie, turn: usize, deniable: bool) {
        let mut armed = self.armed.lock().unwrap();
        let seen = std::mem::take(&mut armed.seen);
        *armed = Armed { lie: Some(lie), turn, deniable, seen, ..Armed::default() };
    }

    /// Forgets documents seen: one that is written meanwhile would come in an older version, which is another lie than
    /// those told here.
    pub(super) fn forget(&self) {
        self.armed.lock().unwrap().seen.clear();
    }

    /// Becomes honest; how many lies were told.
    pub(super) fn disarm(&self) -> usize {
        let mut armed = self.armed.lock().unwrap();
        armed.lie = None;
        assert!(!armed.followed, "a lie without end was followed for {FOR_EVER} replies");
        armed.told
    }

    /// How often the server was asked for a count.
    pub(super) fn counts_asked(&self) -> usize {
        self.counts.load(Ordering::SeqCst)
    }

    /// The lie for the next reply.
    fn lie(&self) -> Option<Lie> {
        let mut armed = self.armed.lock().unwrap();
        let turn = armed.replies;
        armed.replies += 1;
        let lie = armed.lie?;
        armed.followed |= lie.goes_on() && turn >= armed.turn + FOR_EVER;
        let told = turn == armed.turn || turn > armed.turn && lie.goes_on() && !armed.followed;
        told.then_some(lie)
    }

    fn denied(&self, lie: Lie) -> bool {
        let denials = [Lie::Drop, Lie::DropLast, Lie::Withhold, Lie::Loop, Lie::Stall];
        self.armed.lock().unwrap().deniable && denials.contains(&lie)
    }

    fn told(&self, changed: bool) {
        self.armed.lock().unwrap().told += usize::from(changed);
    }

    fn of_documents(&self, response: &mut documents::Response) {
        let documents::Response::Documents { documents, more, .. } = response else {
            let documents::Response::Count(count) = response else { return };
            self.counts.fetch_add(1, Ordering::SeqCst);
            if self.lie().is_some() {
                *count += 1;
                self.told(true);
            }
            return;
        };
        self.of_headers(documents);
        let lie = self.lie();
        let mut armed = self.armed.lock().unwrap();
        if armed.first.is_empty() {
            armed.first.clone_from(documents);
        }
        let stray =
            armed.seen.iter().find(|seen| documents.iter().all(|other| other.row != seen.row)).cloned();
        if armed.seen.len() < 100 {
            armed.seen.extend(documents.iter().cloned());
        }
        let first = armed.first.clone();
        drop(armed);
        let Some(lie) = lie.filter(|lie| !self.denied(*lie)) else { return };
        let before = (documents.clone(), *more);
        lie.tell(documents, &first, stray);
        match lie {
            Lie::Stall | Lie::Loop => *more = true,
            Lie::Withhold | Lie::End => *more = false,
            Lie::Repeat | Lie::Drop | Lie::DropLast | Lie::Reverse | Lie::Stray => {}
        }
        self.told(before != (documents.clone(), *more));
    }

    fn of_values(&self, response: &mut arx_eq::Response) {
        let Some(lie) = self.lie() else { return };
        let before = response.clone();
        let stray = self.armed.lock().unwrap().seen.first().map(|seen| seen.row);
        if let Some(matches) = response.values.iter_mut().max_by_key(|matches| matches.rows.len()) {
            lie.tell(&mut matches.rows, &[], stray);
        }
        self.told(before != *response);
    }

    fn of_labels(&self, response: &mut unique::Response) {
        let Some(lie) = self.lie().filter(|lie| !self.denied(*lie)) else { return };
        let before = response.clone();
        lie.tell(&mut response.rows, &[], None);
        self.told(before != *response);
    }

    fn of_range(&self, response: &mut arx_range::Response) {
        let (arx_range::Response::Buckets(buckets) | arx_range::Response::Found { buckets, .. }) = response
        else {
            return;
        };
        let Some(lie) = self.lie() else { return };
        let before = buckets.clone();
        lie.tell(buckets, &[], None);
        let changed = before != *buckets;
        self.told(changed);
    }
}

/// The same message as another type: of the same protocol, so it cannot fail.
fn same<A: serde::Serialize, B: serde::de::DeserializeOwned>(message: &A) -> B {
    codec::decode(&codec::encode(message)).unwrap()
}

impl<P: Protocol> Channel<P> for Lying {
    async fn call(&self, request: P::Request) -> Result<P::Response, ChannelError> {
        if self.shuffled.load(Ordering::SeqCst) {
            for _ in 0..rand_below(6) {
                tokio::task::yield_now().await;
            }
        }
        if P::ID == documents::Documents::ID {
            let mut request: documents::Request = same::<_, _>(&request);
            let mut rows_left = 0;
            match &mut request {
                documents::Request::Scan { documents_max, .. } => {
                    *documents_max = (*documents_max).min(u32::try_from(PER_REPLY).unwrap());
                }
                documents::Request::Read { rows, .. } => {
                    rows_left = rows.len().saturating_sub(PER_REPLY);
                    rows.truncate(PER_REPLY);
                }
                documents::Request::Count { .. } | documents::Request::Exist { .. } => {}
            }
            let mut response = Channel::<documents::Documents>::call(&self.server, request).await?;
            if let documents::Response::Documents { more, .. } = &mut response {
                *more |= rows_left > 0;
            }
            self.of_documents(&mut response);
            return Ok(same(&response));
        }
        if P::ID == arx_eq::ArxEq::ID {
            let request: arx_eq::Request = same(&request);
            let tokens = request.values.concat();
            self.covered.fetch_add(arras_schemes::arx_eq::covered(&tokens), Ordering::SeqCst);
            self.tokens.store(tokens.len(), Ordering::SeqCst);
        }
        let lost = || ChannelError::Lost("a test".into());
        if P::ID == write::Write::ID && self.lose_write.swap(false, Ordering::SeqCst) {
            return Err(lost());
        }
        if P::ID == write::Write::ID && self.refuse_write.swap(false, Ordering::SeqCst) {
            return Err(ChannelError::Refused(Refusal::Storage("a test".into())));
        }
        if P::ID == write::Write::ID {
            let request: write::Request = same(&request);
            let is_entry =
                |step: &&write::Step| matches!(step, write::Step::ArxEq(arx_eq::Change::Insert { .. }));
            self.entered.fetch_add(request.steps.iter().filter(is_entry).count(), Ordering::SeqCst);
        }
        let response = Channel::<P>::call(&self.server, request).await?;
        if P::ID == write::Write::ID && self.lose_reply.swap(false, Ordering::SeqCst) {
            return Err(lost());
        }
        if P::ID == arx_eq::ArxEq::ID {
            let mut response: arx_eq::Response = same(&response);
            self.of_values(&mut response);
            return Ok(same(&response));
        }
        if P::ID == unique::Unique::ID {
            let mut response: unique::Response = same(&response);
            self.of_labels(&mut response);
            return Ok(same(&response));
        }
        if P::ID == arx_range::ArxRange::ID {
            let mut response: arx_range::Response = same(&response);
            self.of_range(&mut response);
            return Ok(same(&response));
        }
        Ok(response)
    }
}

/// A number below `end`, different from call to call.
pub(super) fn rand_below(end: usize) -> usize {
    use std::hash::{BuildHasher, RandomState};
    usize::try_from(RandomState::new().hash_one(0) % 1_000_003).unwrap() % end
}
