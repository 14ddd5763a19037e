//! Where a store's sealed entries and state are: in its folder, or in a database, which the first run names and later ones find
//! in the store.

use crate::StorageArguments;
use crate::credentials::replace;
use crate::failure::Failure;
use crate::store::failed;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A storage service of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Storage {
    /// The store's own folder.
    Embedded,
    /// Redis.
    Redis {
        /// URLs of the server, or of some of a cluster.
        servers: Vec<String>,
        /// Tells stores on one server apart.
        keyspace: String,
    },
    /// Cassandra or ScyllaDB.
    Cassandra {
        /// Some nodes, `HOST:PORT`.
        nodes: Vec<String>,
        /// Tells stores on one ring apart.
        keyspace: String,
        /// How many nodes keep each entry.
        replicas: u8,
    },
    /// PostgreSQL.
    Postgres {
        /// The database's URI.
        uri: String,
        /// Tells stores in one database apart.
        schema: String,
    },
}

/// The variables by which a host is told of servers.
const REDIS: &str = "ARRAS_REDIS";
const POSTGRES: &str = "ARRAS_POSTGRES";

fn path(client: &Path) -> PathBuf {
    client.join("storage.json")
}

/// A name that no other store has.
fn keyspace() -> Result<String, Failure> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| Failure::Process(error.to_string()))?;
    Ok(format!("arras_{:016x}", u64::from_be_bytes(bytes)))
}

impl Storage {
    /// The one of a store, by the folder of its client.
    pub(crate) fn of(client: &Path) -> Result<Self, Failure> {
        let path = path(client);
        let wrong = |error: io::Error| failed(&path, &error);
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| wrong(error.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::Embedded),
            Err(error) => Err(wrong(error)),
        }
    }

    /// The one that the command line names, with a keyspace of its own.
    fn named(asked: &StorageArguments) -> Result<Option<Self>, Failure> {
        let StorageArguments { redis, cassandra, replicas, postgres } = asked;
        Ok(if !redis.is_empty() {
            Some(Self::Redis { servers: redis.clone(), keyspace: keyspace()? })
        } else if !cassandra.is_empty() {
            let (nodes, replicas) = (cassandra.clone(), *replicas);
            Some(Self::Cassandra { nodes, keyspace: keyspace()?, replicas })
        } else if let Some(uri) = postgres {
            Some(Self::Postgres { uri: uri.clone(), schema: keyspace()? })
        } else {
            None
        })
    }

    /// Has a store use what the command line names. One that is there stays where its entries are; the servers' addresses may be
    /// others.
    pub(crate) fn ask(client: &Path, asked: &StorageArguments, is_new: bool) -> Result<(), Failure> {
        let kept = Self::of(client)?;
        let elsewhere = |what: &str| {
            let what =
                format!("the entries of this store are {kept}, not {what}: index anew into another store");
            Err(Failure::Store { path: path(client), what })
        };
        let wanted = match (Self::named(asked)?, &kept) {
            (None, _) if !is_new => return Ok(()),
            // Nothing was ever stored: it is put where it is said now.
            (None, _) => Self::Embedded,
            (Some(Self::Redis { servers, .. }), Self::Redis { keyspace, .. }) => {
                Self::Redis { servers, keyspace: keyspace.clone() }
            }
            (
                Some(Self::Cassandra { nodes, replicas, .. }),
                Self::Cassandra { keyspace, replicas: set, .. },
            ) => {
                let replicas = if is_new { replicas } else { *set };
                Self::Cassandra { nodes, keyspace: keyspace.clone(), replicas }
            }
            (Some(Self::Postgres { uri, .. }), Self::Postgres { schema, .. }) => {
                Self::Postgres { uri, schema: schema.clone() }
            }
            (Some(named), _) if is_new => named,
            (Some(named), _) => return elsewhere(&named.to_string()),
        };
        if wanted == kept { Ok(()) } else { wanted.save(client) }
    }

    /// Addresses may have passwords in them: nobody else reads the file.
    fn save(&self, client: &Path) -> Result<(), Failure> {
        let path = path(client);
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(&path, &error.into()))?;
        replace(&path, &text)
    }

    /// Tells it to the host.
    pub(crate) fn tell(&self, host: &mut Command) {
        // One of this process's own environment is not this store's.
        host.env_remove(REDIS).env_remove(POSTGRES);
        match self {
            Self::Embedded => {}
            Self::Redis { servers, keyspace } => {
                // Not among the arguments, which every user of the machine sees.
                host.env(REDIS, servers.join(",")).args(["--keyspace", keyspace]);
            }
            Self::Postgres { uri, schema } => {
                host.env(POSTGRES, uri).args(["--schema", schema]);
            }
            Self::Cassandra { nodes, keyspace, replicas } => {
                host.args(["--cassandra", &nodes.join(","), "--keyspace", keyspace]);
                host.arg("--replicas").arg(replicas.to_string());
            }
        }
    }
}

impl std::fmt::Display for Storage {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Embedded => "in its folder",
            Self::Redis { .. } => "in Redis",
            Self::Cassandra { .. } => "in Cassandra",
            Self::Postgres { .. } => "in PostgreSQL",
        })
    }
}
