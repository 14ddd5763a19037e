//! One column's tree in PostgreSQL's tables.

use super::Column;
use super::bound::{Learned, LearnedLabels};
use super::connections::{Connections, Prepared, failure};
use super::encoding::{Encoding, EncodingTurn};
use super::labels::{from_database, to_database};
use super::summaries::Flat;
use arras_protocol::mope::{DIGEST_BYTES, Fetch, Fetched, Head, Round, TreeChange, TreeStore, Tried};
use arras_protocol::{Blob, ChannelError, Refusal};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

/// The first attempt to have a column's labels alone, and the pause after it. Whoever wants to store labels waits for an
/// attempt, and goes on in the pause.
const FIRST_ATTEMPT: Duration = Duration::from_millis(20);
/// The longest attempt and pause.
const LONGEST_ATTEMPT: Duration = Duration::from_millis(500);

/// Which values are looked at for such that no row has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Those that a statement has noted to have lost an occurrence.
    Noted,
    /// All: also those whose statement was rolled back, and of tables that are gone.
    All,
}

/// A column's tree, kept in tables.
#[derive(Clone, Debug)]
pub struct TreeTables {
    connections: Arc<Connections>,
    column: Column,
    encoding: Encoding,
}

/// What became of one attempt to apply a change.
enum Attempt {
    Applied,
    OtherVersion,
    /// Transactions hold the column's labels, or rows that have them.
    Held,
    /// A transaction of somebody else's won; nothing was done.
    Again,
}

impl TreeTables {
    /// The tree of a column that [`super::register`] has made known.
    #[must_use]
    pub fn new(connections: Arc<Connections>, column: Column) -> Self {
        Self { connections, column, encoding: Encoding::default() }
    }

    /// A session whose process in the database is that one encodes values, until what is returned is dropped: a change that
    /// waits for labels which it holds would wait for ever, and fails at once.
    #[must_use]
    pub fn encoding(&self, process: Option<i32>) -> EncodingTurn {
        self.encoding.begin(process)
    }

    /// The labels of ciphertexts as they are now, in the order given, none where one is not stored. A transaction that sees
    /// the database as it was when it began asks for them after `arras.mope_hold`.
    ///
    /// # Errors
    /// [`ChannelError`].
    pub async fn learn(&self, ciphertexts: &[Vec<u8>]) -> Result<LearnedLabels, ChannelError> {
        let asked: Vec<&[u8]> = ciphertexts.iter().map(Vec::as_slice).collect();
        let row = self.read(&[], false, &asked).await?;
        let epoch = column(&row, "epoch")?;
        let labels: Option<Vec<Option<i64>>> = column(&row, "labels")?;
        let learned = |label: Option<i64>| label.map(|label| Learned { label: from_database(label), epoch });
        Ok(LearnedLabels { of: labels.unwrap_or_default().into_iter().map(learned).collect(), epoch })
    }

    /// Ciphertexts, `most` at most, of values that no row has. A change that takes one out is refused if a row has it then.
    ///
    /// # Errors
    /// [`ChannelError`].
    pub async fn unused(&self, reach: Reach, most: u16) -> Result<Vec<Blob>, ChannelError> {
        let writing = self.connections.writing().await?;
        let statement = "SELECT arras.mope_unused($1, $2, $3)";
        let (everywhere, most) = (reach == Reach::All, i32::from(most));
        let number = self.column.number();
        let parameters: [&(dyn ToSql + Sync); 3] = [&number, &everywhere, &most];
        let asking = writing.session.client.query(statement, &parameters);
        let asked = self.connections.within(async { asking.await.map_err(|error| failure(&error)) }).await;
        let rows = match asked {
            Ok(rows) => rows,
            Err(error) => {
                if error.outcome_unknown() {
                    writing.give_up();
                }
                return Err(error);
            }
        };
        rows.iter().map(|row| Ok(Blob::from(field::<Vec<u8>>(row, 0)?))).collect()
    }

    /// One round; once more on another connection if the first is lost, since nothing changes.
    async fn read(&self, nodes: &[i64], root: bool, ciphertexts: &[&[u8]]) -> Result<Row, ChannelError> {
        let number = self.column.number();
        let ask = async |session: &Prepared| {
            let parameters: [&(dyn ToSql + Sync); 4] = [&number, &nodes, &root, &ciphertexts];
            let asking = session.client.query_one(&session.fetch, &parameters);
            self.connections.within(async { asking.await.map_err(|error| failure(&error)) }).await
        };
        let session = self.connections.reading().await?;
        match ask(&session).await {
            Err(ChannelError::Lost(_)) => {
                self.connections.give_up(&session).await;
                ask(&*self.connections.reading().await?).await
            }
            Err(error @ ChannelError::Deadline(_)) => {
                self.connections.give_up(&session).await;
                Err(error)
            }
            answer => answer,
        }
    }

    async fn fetched(&self, fetch: Fetch) -> Result<Fetched, ChannelError> {
        let nodes: Vec<i64> = fetch.nodes.iter().map(|node| node.cast_signed()).collect();
        let ciphertexts: Vec<&[u8]> = fetch.ciphertexts.iter().map(Blob::as_slice).collect();
        let row = self.read(&nodes, fetch.root, &ciphertexts).await?;
        fetched(&row, fetch.root)
    }

    async fn apply(&self, change: &TreeChange) -> Result<bool, ChannelError> {
        let begun = Instant::now();
        let patience = self.connections.patience();
        let mut pause = FIRST_ATTEMPT;
        let mut waiting = Vec::new();
        loop {
            match self.attempt(change, pause, patience).await? {
                Attempt::Applied => return Ok(true),
                Attempt::OtherVersion => return Ok(false),
                Attempt::Again if begun.elapsed() < patience => {}
                Attempt::Held if begun.elapsed() < patience => {
                    // Who holds them and was waiting for this change before the last attempt, too, waits for its end.
                    let now = self.encoding.among(&self.holders().await?);
                    if let Some((process, _)) = now.iter().find(|one| waiting.contains(*one)) {
                        return Err(self.deadlocked(*process));
                    }
                    waiting = now;
                    sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_ATTEMPT);
                }
                Attempt::Again | Attempt::Held => return Err(self.held(begun.elapsed()).await),
            }
        }
    }

    /// The processes of transactions that hold the labels.
    async fn holders(&self) -> Result<Vec<i32>, ChannelError> {
        let statement = "SELECT l.pid FROM pg_catalog.pg_locks l WHERE l.locktype = 'advisory' AND l.granted \
                         AND l.objsubid = 1 AND l.mode = 'ShareLock' AND l.database = (SELECT d.oid FROM \
                         pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()) \
                         AND ((l.classid::bigint << 32) | l.objid::bigint) = arras.mope_lock($1)";
        let number = self.column.number();
        let session = self.connections.reading().await?;
        let asking = async {
            let asked = session.client.query(statement, &[&number]).await;
            asked.map_err(|error| failure(&error))
        };
        let rows = self.connections.within(asking).await?;
        rows.iter().map(|row| field::<i32>(row, 0)).collect()
    }

    /// That a transaction waits for itself.
    fn deadlocked(&self, process: i32) -> ChannelError {
        ChannelError::Halted(format!(
            "a value finds no room in the order of column {} until labels change, and the transaction of process {process}, \
             which waits for that, holds them itself; nothing was done: try the transaction again",
            self.column
        ))
    }

    /// Names who holds the labels.
    async fn held(&self, waited: Duration) -> ChannelError {
        let number = self.column.number();
        let who = async {
            let session = self.connections.reading().await?;
            let asking = async {
                let asked = session.client.query_one("SELECT arras.mope_holders($1)", &[&number]).await;
                asked.map_err(|error| failure(&error))
            };
            let row = self.connections.within(asking).await?;
            field::<Option<String>>(&row, 0)
        };
        let who = who.await.ok().flatten().unwrap_or_else(|| "others lock rows of its tables".to_owned());
        ChannelError::Halted(format!(
            "a value finds no room in the order of column {} until labels change, and transactions that store them have \
             not ended within {} ms ({who}); nothing was done: try the transaction again",
            self.column,
            waited.as_millis()
        ))
    }

    /// One attempt, and one only.
    async fn apply_within(&self, change: &TreeChange, wait: Duration) -> Result<Tried, ChannelError> {
        Ok(match self.attempt(change, wait, wait).await? {
            Attempt::Applied => Tried::Applied,
            Attempt::OtherVersion => Tried::OtherVersion,
            Attempt::Held | Attempt::Again => Tried::Busy,
        })
    }

    /// Tries for so long to have the labels alone, and then waits for rows with `patience`.
    async fn attempt(
        &self,
        change: &TreeChange,
        attempt: Duration,
        patience: Duration,
    ) -> Result<Attempt, ChannelError> {
        let writing = self.connections.writing().await?;
        let sent = Arguments::of(change, attempt, patience);
        let parameters = sent.parameters(&self.column.0);
        let asking = writing.session.client.query_one(&writing.session.commit, &parameters);
        let asked = self.connections.within(async { Ok(asking.await) }).await;
        let outcome = match asked {
            Ok(Ok(row)) => return outcome(&field::<String>(&row, 0)?),
            Ok(Err(error)) => match error.code() {
                Some(&SqlState::LOCK_NOT_AVAILABLE) => return Ok(Attempt::Held),
                Some(&SqlState::T_R_DEADLOCK_DETECTED | &SqlState::T_R_SERIALIZATION_FAILURE) => {
                    return Ok(Attempt::Again);
                }
                _ => failure(&error),
            },
            Err(late) => late,
        };
        if outcome.outcome_unknown() {
            writing.give_up();
        }
        Err(outcome)
    }
}

impl TreeStore for TreeTables {
    fn fetch(&self, fetch: Fetch) -> Round<'_, Fetched> {
        Box::pin(self.fetched(fetch))
    }

    fn commit(&self, change: TreeChange) -> Round<'_, bool> {
        Box::pin(async move { self.apply(&change).await })
    }

    fn commit_within(&self, change: TreeChange, wait: Duration) -> Round<'_, Tried> {
        Box::pin(async move { self.apply_within(&change, wait).await })
    }
}

/// What the function's word means.
fn outcome(word: &str) -> Result<Attempt, ChannelError> {
    match word {
        "applied" => Ok(Attempt::Applied),
        "version" => Ok(Attempt::OtherVersion),
        "held" => Ok(Attempt::Held),
        "stored" => Err(ChannelError::Refused(Refusal::Conflict { step: 0 })),
        other => Err(ChannelError::Malformed(format!("a change came to {other:?}"))),
    }
}

/// A change as the function's arguments.
struct Arguments<'a> {
    expected: i64,
    head: [i64; 4],
    digest: &'a [u8],
    nodes: Vec<i64>,
    contents: Vec<Option<&'a [u8]>>,
    leaving: Vec<&'a [u8]>,
    summaries: Flat,
    entered: Vec<&'a [u8]>,
    labels: Vec<i64>,
    attempt: i32,
    patience: i32,
}

impl<'a> Arguments<'a> {
    fn of(change: &'a TreeChange, attempt: Duration, patience: Duration) -> Self {
        let TreeChange { expected, head, nodes, left, summaries, entered } = change;
        let milliseconds = |time: Duration| i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
        Self {
            expected: expected.cast_signed(),
            head: [head.version, head.root, head.next, head.values].map(u64::cast_signed),
            digest: &head.digest,
            nodes: nodes.iter().map(|(node, _)| node.cast_signed()).collect(),
            contents: nodes.iter().map(|(_, content)| content.as_ref().map(Blob::as_slice)).collect(),
            leaving: left.iter().map(Blob::as_slice).collect(),
            summaries: Flat::of(summaries),
            entered: entered.iter().map(|(ciphertext, _)| ciphertext.as_slice()).collect(),
            labels: entered.iter().map(|(_, label)| to_database(*label)).collect(),
            attempt: milliseconds(attempt),
            patience: milliseconds(patience),
        }
    }

    fn parameters<'b>(&'b self, column: &'b i64) -> [&'b (dyn ToSql + Sync); 21] {
        let Self {
            expected,
            head,
            digest,
            nodes,
            contents,
            leaving,
            summaries,
            entered,
            labels,
            attempt,
            patience,
        } = self;
        let Flat { numbers, lows, highs, starts, halves, odds, downs } = summaries;
        let [version, root, next, values] = head;
        [
            column, expected, version, root, next, values, digest, nodes, contents, leaving, numbers, lows,
            highs, starts, halves, odds, downs, entered, labels, attempt, patience,
        ]
    }
}

/// What a row of `arras.mope_fetch` says.
pub(super) fn fetched(row: &Row, root_asked: bool) -> Result<Fetched, ChannelError> {
    let contents: Option<Vec<Option<Vec<u8>>>> = column(row, "contents")?;
    let root: Option<Vec<u8>> = column(row, "root_content")?;
    let labels: Option<Vec<Option<i64>>> = column(row, "labels")?;
    let contents = contents.unwrap_or_default().into_iter().chain(root_asked.then_some(root));
    Ok(Fetched {
        head: head(row)?,
        nodes: contents.map(|content| content.map(Blob::from)).collect(),
        labels: labels.unwrap_or_default().into_iter().map(|label| label.map(from_database)).collect(),
    })
}

fn head(row: &Row) -> Result<Head, ChannelError> {
    let number = |name| Ok::<_, ChannelError>(column::<i64>(row, name)?.cast_unsigned());
    let digest: Vec<u8> = column(row, "digest")?;
    let digest: [u8; DIGEST_BYTES] =
        digest.try_into().map_err(|_| ChannelError::Malformed("a digest of another length".into()))?;
    let (version, root, next, values) =
        (number("version")?, number("root")?, number("next")?, number("values")?);
    Ok(Head { version, root, next, values, digest })
}

/// A value of a row that the database chose: it may be of another kind than agreed.
fn column<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a Row, name: &str) -> Result<T, ChannelError> {
    row.try_get(name).map_err(|error| ChannelError::Malformed(error.to_string()))
}

fn field<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a Row, at: usize) -> Result<T, ChannelError> {
    row.try_get(at).map_err(|error| ChannelError::Malformed(error.to_string()))
}
