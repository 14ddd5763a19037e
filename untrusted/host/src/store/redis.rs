//! In Redis: one server, or a cluster.

use super::{FIRST, Store, StoreError, checkpoint_key, is_begun_by, state_key};
use arras_protocol::Blob;
use arras_protocol::iee::{ENTRY_BYTES, LABEL_BYTES, SEALED_BYTES, StateName};
use link::Link;
use redis::{Cmd, RedisError, Value};
use std::time::Duration;

mod link;

/// Keys of one command: another client's does not wait for a longer one.
const COMMAND_KEYS: usize = 512;

/// How many parts a cluster's entries lie in, each in one slot: a batch is at most as many commands, not one for each key.
const PARTS: u8 = 128;

/// How long a server may take for a connection, or to answer what the enclave waits for: without an end, one that
/// hangs would stop every search.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// What the keys of state begin with, behind the keyspace's name. Labels are random: none is such a text.
const STATE: &str = "-iee-state:";

/// The set of the names of log records and checkpoints that are there, ordered as they are, behind the keyspace's name.
const NAMES: &str = "-iee-names";

/// A label with its place in the batch.
type Placed<'l> = (usize, &'l [u8; LABEL_BYTES]);

/// Entries and state in Redis. How durable they are is the server's `appendfsync`.
pub struct RedisStore {
    link: Link,
    /// What keys of state begin with.
    state: Vec<u8>,
    /// The key of the set of their names.
    names: Vec<u8>,
}

impl RedisStore {
    /// Connects to a server, or by some of its servers to a cluster. Whatever takes longer than `patience` has failed. Stores of
    /// different keyspaces do not meet, whatever server they are on.
    ///
    /// # Errors
    /// [`StoreError`] if none answers.
    pub async fn connect(servers: &[String], keyspace: &str, patience: Duration) -> Result<Self, StoreError> {
        let link = Link::connect(servers, patience).await?;
        let of = |what: &str| [keyspace, what].concat().into_bytes();
        Ok(Self { link, state: of(STATE), names: of(NAMES) })
    }

    fn named(&self, key: &[u8]) -> Vec<u8> {
        [&self.state, key].concat()
    }

    /// The key of a label: in a cluster its part is the key's hash tag, so that a command has all its keys in one place.
    fn key(&self, label: &[u8; LABEL_BYTES]) -> Vec<u8> {
        if self.link.is_cluster() {
            [format!("{{{:02x}}}", part(label)).as_bytes(), label].concat()
        } else {
            label.to_vec()
        }
    }

    /// Labels with their places, those of one command together.
    fn groups<'l>(&self, labels: impl Iterator<Item = &'l [u8; LABEL_BYTES]>) -> Vec<Vec<Placed<'l>>> {
        let mut placed: Vec<_> = labels.enumerate().collect();
        if !self.link.is_cluster() {
            return placed.chunks(COMMAND_KEYS).map(<[_]>::to_vec).collect();
        }
        placed.sort_by_key(|(_, label)| part(label));
        let parts = placed.chunk_by(|(_, one), (_, other)| part(one) == part(other));
        parts.flat_map(|part| part.chunks(COMMAND_KEYS)).map(<[_]>::to_vec).collect()
    }

    /// A command that has labels alone, on all of them.
    fn on_labels(&self, name: &str, groups: &[Vec<Placed<'_>>]) -> Vec<Cmd> {
        let on_group = |group: &Vec<Placed<'_>>| {
            let mut command = redis::cmd(name);
            for (_, label) in group {
                command.arg(self.key(label));
            }
            command
        };
        groups.iter().map(on_group).collect()
    }

    /// What keeps a piece of state, whose name is kept before: one without state is nothing, state without a name would never go.
    async fn saving(&self, name: StateName, state: &Blob) -> Result<Cmd, StoreError> {
        let key = state_key(name);
        if name != StateName::Head {
            let mut command = redis::cmd("ZADD");
            command.arg(&self.names).arg(0).arg(&key);
            done(vec![self.link.ask(&command).await?])?;
        }
        let mut command = redis::cmd("SET");
        command.arg(self.named(&key)).arg(state.as_slice());
        Ok(command)
    }

    /// Commands, all at once; their replies in order.
    async fn ask_all(&self, commands: Vec<Cmd>) -> Result<Vec<Value>, StoreError> {
        if commands.is_empty() { Ok(vec![]) } else { self.link.ask_all(commands).await }
    }
}

impl From<RedisError> for StoreError {
    fn from(error: RedisError) -> Self {
        let said = format!("Redis: {error}");
        if link::is_passing(&error) { Self::Away(said) } else { Self::Failed(said) }
    }
}

/// What a command that reads has found, in order.
fn found(replies: Vec<Value>) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
    let mut values = Vec::with_capacity(replies.len());
    for reply in replies {
        let reply = reply.extract_error().map_err(StoreError::from)?;
        match reply {
            Value::Array(many) => values.extend(found(many)?),
            Value::BulkString(bytes) => values.push(Some(bytes)),
            Value::Nil => values.push(None),
            other => return Err(StoreError::Failed(format!("Redis: an unexpected reply: {other:?}"))),
        }
    }
    Ok(values)
}

/// That commands that write have done so.
fn done(replies: Vec<Value>) -> Result<(), StoreError> {
    for reply in replies {
        reply.extract_error().map_err(StoreError::from)?;
    }
    Ok(())
}

/// The part of a cluster's entries that a label is of: labels are random.
fn part(label: &[u8; LABEL_BYTES]) -> u8 {
    label[0] % PARTS
}

impl Store for RedisStore {
    async fn get(&self, labels: Blob) -> Result<Vec<u8>, StoreError> {
        let (labels, _) = labels.as_slice().as_chunks();
        let groups = self.groups(labels.iter());
        let replies = self.ask_all(self.on_labels("MGET", &groups)).await?;
        let mut entries = vec![0; labels.len() * SEALED_BYTES];
        let (places, _) = entries.as_chunks_mut::<SEALED_BYTES>();
        for (group, reply) in groups.iter().zip(replies) {
            let values = found(vec![reply])?;
            if values.len() != group.len() {
                return Err(StoreError::Failed("Redis: fewer or more values than were asked for".into()));
            }
            for ((place, _), value) in group.iter().zip(values) {
                let sealed = value.and_then(|value| value.try_into().ok());
                if let (Some(entry), Some(sealed)) = (places.get_mut(*place), sealed) {
                    *entry = sealed;
                }
            }
        }
        Ok(entries)
    }

    async fn put(&self, entries: Blob) -> Result<(), StoreError> {
        let (entries, _) = entries.as_slice().as_chunks::<ENTRY_BYTES>();
        let groups = self.groups(entries.iter().filter_map(|entry| entry.first_chunk()));
        let put = groups.into_iter().map(|group| {
            let mut command = redis::cmd("MSET");
            for (place, label) in group {
                let sealed = entries.get(place).map(|entry| entry.split_at(LABEL_BYTES).1);
                command.arg(self.key(label)).arg(sealed.unwrap_or_default());
            }
            command
        });
        done(self.ask_all(put.collect()).await?)
    }

    async fn remove(&self, labels: Blob) -> Result<(), StoreError> {
        let (labels, _) = labels.as_slice().as_chunks();
        done(self.ask_all(self.on_labels("UNLINK", &self.groups(labels.iter()))).await?)
    }

    async fn begin(&self, record: Blob) -> Result<(), StoreError> {
        let mut set = self.saving(FIRST, &record).await?;
        set.arg("NX");
        done(vec![self.link.ask(&set).await?])?;
        let (there, head) = (self.load(FIRST).await?, self.load(StateName::Head).await?);
        is_begun_by(&record, there.as_deref(), head.as_deref())
    }

    async fn save(&self, name: StateName, state: Blob) -> Result<(), StoreError> {
        let set = self.saving(name, &state).await?;
        done(vec![self.link.ask(&set).await?])
    }

    async fn load(&self, name: StateName) -> Result<Option<Vec<u8>>, StoreError> {
        let mut command = redis::cmd("GET");
        command.arg(self.named(&state_key(name)));
        Ok(found(vec![self.link.ask(&command).await?])?.pop().flatten())
    }

    async fn forget(&self, until: u64) -> Result<(), StoreError> {
        let ranges = [
            (state_key(StateName::Log(0)), state_key(StateName::Log(until)), b'['),
            (checkpoint_key(0).to_vec(), checkpoint_key(until).to_vec(), b'('),
        ];
        for (first, last, bound) in ranges {
            let mut command = redis::cmd("ZRANGEBYLEX");
            command.arg(&self.names).arg([&b"["[..], &first].concat()).arg([&[bound][..], &last].concat());
            let names: Vec<Vec<u8>> =
                found(vec![self.link.ask(&command).await?])?.into_iter().flatten().collect();
            // Few, and the driver takes apart what has keys in many places of a cluster.
            let gone = names.chunks(COMMAND_KEYS).map(|names| {
                let mut command = redis::cmd("UNLINK");
                for name in names {
                    command.arg(self.named(name));
                }
                command
            });
            done(self.ask_all(gone.collect()).await?)?;
            let struck = names.chunks(COMMAND_KEYS).map(|names| {
                let mut command = redis::cmd("ZREM");
                command.arg(&self.names).arg(names);
                command
            });
            done(self.ask_all(struck.collect()).await?)?;
        }
        Ok(())
    }
}
