//! One session: what a client sends goes to the database, what the database answers comes back.
//!
//! Both ways run in one task. Neither reads on before what it has read is written: whoever does not read stops whoever
//! sends to it, and nothing is collected in between. A message in which nothing is to be changed passes as the bytes that
//! came, in as many pieces as they came in.

mod answers;
mod behind;
mod completed;
mod folding;
mod held;
mod kept;
mod late_rows;
mod names;
mod opened;
mod parts;
mod physical;
mod programs;
mod reading;
mod requests;
mod rewritten;
mod sequence;
mod settings;

use crate::cancel::Entered;
use crate::error::SqlError;
use crate::pipeline::{Asked, Pipeline};
use crate::replies::{self, Severity};
use crate::rewriting::Rewriting;
use crate::stream::{Incoming, Outgoing, Stream};
use crate::upstream::Upstream;
use crate::values::{ConnectionId, Viewer};
use arras_transport::room::Refused;
use behind::Behind;
use held::Held;
use names::{Names, Undo};
use parts::{Part, first_of};
use reading::Reading;
use settings::Settings;
use std::collections::BTreeSet;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::io::AsyncWriteExt;
use tokio::sync::{Notify, watch};
use tokio::task::coop::unconstrained;
use tokio::time::timeout;

/// Most messages on their way to the database and not answered: beyond it a client is not read from.
const UNANSWERED_MAX: usize = 4096;

/// How long a client has to take what it is told at the end.
const FAREWELL: Duration = Duration::from_secs(5);

/// How a session ended.
#[derive(Debug)]
pub(crate) enum End {
    /// Its client said so, or closed the connection between two statements.
    Left,
    /// Its client went away with statements unanswered.
    Abandoned,
    /// The database ended it, and said why or was asked to.
    Ended,
    /// The connection to the database broke.
    Lost(Option<io::Error>),
    /// What one of the two sends cannot be passed on.
    Violation(SqlError),
    /// The proxy stops.
    Stopped,
}

impl From<Refused> for End {
    fn from(refused: Refused) -> Self {
        Self::Violation(refused.into())
    }
}

/// What is kept of a message until it is answered.
#[derive(Default)]
struct Note {
    /// Messages are counted from 1; of one that nothing depends on, 0.
    number: u64,
    /// How its replies are read.
    reading: Reading,
    /// What it did to the session's names.
    undo: Option<Box<Undo>>,
}

/// Since the client was told of an error that the database knows nothing of.
struct KeepingBack {
    /// The database's transaction has been made to fail, too.
    followed: bool,
}

/// What both ways know.
struct State {
    /// What its values for results are sealed to.
    session: ConnectionId,
    pipeline: Pipeline<Note>,
    names: Names,
    settings: Settings,
    /// The transaction's: `I`, `T` or `E`.
    status: u8,
    /// When the first message of the transaction went to the database, or a value of it was computed.
    began: Option<SystemTime>,
    /// When the client's message came that is worked on.
    came: SystemTime,
    /// The session's time zone is not known until the database waits behind the message of this number.
    zone_doubted: Option<u64>,
    /// It may have written since it was last told that the database waits outside of a transaction.
    wrote: bool,
    /// Labels that it holds.
    held: Held,
    /// Tables were made or changed by this session, in the transaction under way, and since it looked at them last.
    changing_tables: bool,
    changed_tables: bool,
    /// Declared tables whose columns it changes, up to the message of a number.
    changing: Option<(u64, BTreeSet<String>)>,
    /// The client was told of an error that the database knows nothing of: replies are kept back until it waits for more.
    keeping_back: Option<KeepingBack>,
    /// It was told that its transaction has failed, and the database does not know that yet.
    failed_here: bool,
    /// The client has said that it ends the session.
    terminated: bool,
    /// The database has said that it does.
    fatal: bool,
    /// Somebody waits for the pipeline to become shorter, or empty.
    waiting: bool,
}

impl State {
    /// True if the proxy may ask the database something: it is answered at once, and fails no transaction of the client's.
    fn can_ask(&self) -> bool {
        self.status != b'E' && self.pipeline.will_end()
    }

    /// True if nothing is on its way, and no transaction is under way.
    fn is_outside(&self) -> bool {
        self.status == b'I' && self.pipeline.is_empty()
    }

    /// A message goes to the database.
    fn sent(&mut self, asked: Asked, note: Note) {
        // A Describe or a Close alone begins no transaction.
        if matches!(asked, Asked::Query | Asked::Parse | Asked::Bind | Asked::Execute | Asked::Call) {
            self.began();
        }
        // What is passed over does nothing.
        if let Some(undo) = self.pipeline.sent(asked, note).and_then(|note| note.undo) {
            self.names.undo(*undo, std::iter::empty());
        }
    }

    /// What of the session its values hang on as they are opened.
    fn viewer(&self) -> Viewer {
        Viewer { id: self.session, zone: self.settings.zone() }
    }

    /// When the transaction began that the next statement is of.
    fn began(&mut self) -> SystemTime {
        *self.began.get_or_insert(self.came)
    }

    /// The database waits outside of a transaction behind the message of a number: what was changed is changed for all.
    fn changes_end(&mut self, number: u64, rewriting: &Rewriting) {
        if let Some((_, names)) = self.changing.take_if(|(last, _)| *last <= number) {
            rewriting.changes_end(&names);
        }
    }

    /// Messages failed or were passed over, in the order in which they were sent; what is on its way was sent after them.
    fn undo(&mut self, undone: Vec<Undo>) {
        for undo in undone.into_iter().rev() {
            let later = self.pipeline.entries().filter_map(|entry| entry.note.undo.as_deref_mut());
            self.names.undo(undo, later);
        }
    }
}

/// A session's parts that both ways use.
struct BothWays {
    state: Mutex<State>,
    /// Told when the pipeline has become shorter and somebody waits for that.
    shorter: Notify,
    /// Of what the client was sent nothing is missing: no message was written in part, and none is to be written.
    whole: AtomicBool,
    /// Told when nothing is missing any more, and somebody waits for that.
    written: Notify,
    awaited: AtomicBool,
}

impl BothWays {
    fn new(beginning: &[u8]) -> Self {
        let mut settings = Settings::default();
        settings.read_all(beginning);
        let state = State {
            session: ConnectionId::draw(),
            pipeline: Pipeline::default(),
            names: Names::default(),
            settings,
            status: b'I',
            began: None,
            came: SystemTime::now(),
            zone_doubted: None,
            wrote: false,
            held: Held::default(),
            changing_tables: false,
            changed_tables: false,
            changing: None,
            keeping_back: None,
            failed_here: false,
            terminated: false,
            fatal: false,
            waiting: false,
        };
        Self {
            state: Mutex::new(state),
            shorter: Notify::new(),
            whole: AtomicBool::new(true),
            written: Notify::new(),
            awaited: AtomicBool::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // One task holds it, never across a wait; nothing panics while it does.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has whoever waits for fewer unanswered messages look again.
    fn tell_waiting(&self, state: &mut State) {
        if std::mem::take(&mut state.waiting) {
            self.shorter.notify_waiters();
        }
    }

    /// Something is to be written to the client.
    fn writes(&self) {
        self.whole.store(false, Ordering::Relaxed);
    }

    /// It is written, and ends with a message or not.
    fn written(&self, whole: bool) {
        self.whole.store(whole, Ordering::Relaxed);
        if whole && self.awaited.load(Ordering::Relaxed) {
            self.written.notify_waiters();
        }
    }

    /// Waits until nothing is unanswered, and the client has the answers.
    async fn idle(&self) {
        self.awaited.store(true, Ordering::Relaxed);
        loop {
            self.at_most(0).await;
            if self.whole.load(Ordering::Relaxed) {
                return;
            }
            self.written.notified().await;
        }
    }

    /// Waits until so few messages are unanswered.
    async fn at_most(&self, unanswered: usize) {
        loop {
            {
                let mut state = self.state();
                if state.pipeline.len() <= unanswered {
                    return;
                }
                state.waiting = true;
            }
            self.shorter.notified().await;
        }
    }
}

/// The two connections of a session, and what the database began it with.
pub(crate) struct Ends {
    pub(crate) client: Stream,
    pub(crate) database: Stream,
    pub(crate) beginning: Vec<u8>,
}

/// What a session goes by.
pub(crate) struct Surroundings<'a> {
    pub(crate) entered: &'a Entered,
    pub(crate) upstream: &'a Upstream,
    /// None if nothing is encrypted.
    pub(crate) rewriting: Option<&'a Rewriting>,
    /// The database that the session is connected to.
    pub(crate) database: &'a str,
}

/// Runs a session to its end.
pub(crate) async fn run(ends: Ends, around: Surroundings<'_>, mut stop: watch::Receiver<bool>) -> End {
    let (from_client, mut to_client) = ends.client.split();
    let (from_database, mut to_database) = ends.database.split();
    let shared = BothWays::new(&ends.beginning);
    drop(ends.beginning);
    let end = {
        // What hardly ever comes is heard even where rows without end take all of the task's budget.
        let stopped = pin!(unconstrained(stopped(&shared, &mut stop)));
        match around.rewriting {
            None => {
                let answers = pin!(answers::pass(&shared, from_database, &mut to_client));
                let requests = pin!(requests::pass(&shared, from_client, &mut to_database));
                first_of([answers as Part<'_, End>, requests, stopped]).await
            }
            Some(rewriting) => {
                let answers = opened::pass(&shared, rewriting, from_database, &mut to_client);
                let part = rewriting.kept.session();
                let ways = (rewriting, around.behind(), &part);
                let requests = rewritten::pass(&shared, ways, from_client, &mut to_database);
                let (answers, requests, set_back) =
                    (pin!(answers), pin!(requests), pin!(unconstrained(set_back(rewriting))));
                let gives_way = pin!(unconstrained(async { End::Violation(part.gives_way().await) }));
                first_of([answers as Part<'_, End>, requests, set_back, gives_way, stopped]).await
            }
        }
    };
    // Others may wait for the room of what it kept, and its client may take its time.
    (shared.state().names, shared.state().pipeline) = Default::default();
    if let (Some(farewell), true) = (farewell(&end), shared.whole.load(Ordering::Relaxed)) {
        let mut out = Vec::new();
        replies::error(&mut out, &farewell, Severity::Fatal);
        // One that does not read is not waited for.
        let _ = timeout(FAREWELL, to_client.write_whole(&out)).await;
    }
    leave(&end, &around, &mut to_database).await;
    let _ = timeout(FAREWELL, to_client.shutdown()).await;
    end
}

/// Completes when the database is found to have been set back.
async fn set_back(rewriting: &Rewriting) -> End {
    match rewriting.freshness() {
        Some(freshness) => End::Violation(freshness.set_back().await),
        None => std::future::pending().await,
    }
}

/// Completes when the proxy stops, no statement is under way, and the client has what it was told.
async fn stopped(shared: &BothWays, stop: &mut watch::Receiver<bool>) -> End {
    if stop.wait_for(|stop| *stop).await.is_err() {
        // Nobody is left to say so.
        std::future::pending::<()>().await;
    }
    shared.idle().await;
    End::Stopped
}

/// What a client is told at the end, if it is not the database that tells it.
fn farewell(end: &End) -> Option<SqlError> {
    match end {
        End::Left | End::Abandoned | End::Ended => None,
        End::Lost(_) => {
            let mut lost = SqlError::new("08006", "the proxy's connection to the database was lost");
            lost.detail =
                Some("Whether a statement or COMMIT that was not answered took effect is not known.".into());
            Some(lost)
        }
        End::Violation(refusal) => Some(refusal.clone()),
        End::Stopped => Some(SqlError::new("57P01", "terminating connection due to administrator command")),
    }
}

/// Ends the database's side: what runs there for nobody is cancelled.
async fn leave(end: &End, around: &Surroundings<'_>, to_database: &mut ToSide) {
    match end {
        End::Ended | End::Lost(_) => {}
        End::Left | End::Stopped => {
            let mut out = bytes::BytesMut::new();
            postgres_protocol::message::frontend::terminate(&mut out);
            let _ = to_database.write_all(&out).await;
        }
        End::Abandoned | End::Violation(_) => {
            let key = around.entered.upstream;
            if let Err(error) = around.upstream.cancel(key.process, key.secret).await {
                tracing::warn!(%error, "an abandoned statement may run on: it could not be cancelled");
            }
        }
    }
    let _ = to_database.shutdown().await;
}

type FromSide = Incoming;
type ToSide = Outgoing;

#[cfg(test)]
mod tests;
