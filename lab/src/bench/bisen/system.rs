//! Host and enclave as processes on a storage service, and what each of them takes of the processor.

use super::wire::{Counted, Linked};
use super::{BisenError, failed};
use crate::bench::installation::Process;
use crate::bench::processor::taken;
use crate::private_cassandra::{PrivateCassandra, Turn};
use crate::private_postgres::{Options, PrivatePostgres};
use crate::private_redis::PrivateRedis;
use arras_attestation::authority::{Authority, certificate, private};
use arras_attestation::channel::{Client, Credentials};
use arras_attestation::evidence::DevelopmentRoot;
use arras_attestation::policy::{Accepted, ReleasePolicy, Source};
use arras_host::enclave::measure;
use arras_schemes::bisen::channel::SECURITY_VERSION;
use arras_schemes::bisen::message::{Opened, Reply, Request};
use arras_search::language::Language;
use arras_search::profile::Profile;
use arras_search::service::{Collection, SearchService, ServiceError, Unreachable};
use nix::errno::Errno;
use nix::unistd::Pid;
use std::fs;
use std::ops::Sub;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// Who may make collections.
const ADMINISTRATOR: &str = "administrator";

/// The collection that is measured.
const COLLECTION: &str = "texts";

/// MiB that the enclave may take: what the sizes need, so that none is refused.
const ENCLAVE_MIB: &str = "8192";

/// Where entries are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    Memory,
    Embedded,
    Redis,
    RedisCluster,
    Cassandra,
    CassandraRing,
    Postgres,
}

impl Service {
    /// Each, in the order of the table.
    pub(super) const ALL: [Self; 7] = [
        Self::Memory,
        Self::Embedded,
        Self::Redis,
        Self::RedisCluster,
        Self::Cassandra,
        Self::CassandraRing,
        Self::Postgres,
    ];

    /// Its name in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Embedded => "embedded",
            Self::Redis => "Redis, one server",
            Self::RedisCluster => "Redis, cluster of three",
            Self::Cassandra => "Cassandra, one node",
            Self::CassandraRing => "Cassandra, three nodes",
            Self::Postgres => "PostgreSQL",
        }
    }
}

/// What carries messages between client and enclave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channels {
    /// TLS 1.3 that ends in the enclave, as where it counts.
    Attested,
    /// Nothing, which the host reads.
    Plain,
}

/// A storage service that runs as processes of its own.
enum Running {
    Inside,
    Redis(PrivateRedis),
    Cassandra(PrivateCassandra),
    Postgres(PrivatePostgres),
}

/// This process's turn for rings of Cassandra, which are measured side by side.
fn turn() -> std::io::Result<Turn> {
    static TURN: Mutex<Option<Turn>> = Mutex::new(None);
    let mut taken = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    match &*taken {
        Some(turn) => Ok(turn.clone()),
        None => Ok(taken.insert(Turn::take()?).clone()),
    }
}

impl Running {
    fn start(service: Service) -> std::io::Result<Self> {
        Ok(match service {
            Service::Memory | Service::Embedded => Self::Inside,
            Service::Redis => Self::Redis(PrivateRedis::start()?),
            Service::RedisCluster => Self::Redis(PrivateRedis::start_cluster()?),
            Service::Cassandra => Self::Cassandra(PrivateCassandra::start_in(1, turn()?)?),
            Service::CassandraRing => Self::Cassandra(PrivateCassandra::start_in(3, turn()?)?),
            // As it is installed: what it acknowledges is on the disk.
            Service::Postgres => Self::Postgres(
                PrivatePostgres::start_with(&Options::default()).map_err(std::io::Error::other)?,
            ),
        })
    }

    fn processes(&self) -> Vec<u32> {
        match self {
            Self::Inside => Vec::new(),
            Self::Redis(redis) => redis.processes(),
            Self::Cassandra(cassandra) => cassandra.processes(),
            Self::Postgres(postgres) => postgres.processes(),
        }
    }
}

/// Seconds of the processor, by participant, and seconds that went by.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shares {
    /// This process: analysis, hashing, messages.
    pub(super) client: f64,
    /// Moves bytes; of memory and the embedded store, keeps them, too.
    pub(super) host: f64,
    pub(super) enclave: f64,
    /// Processes of a storage service; none of memory and the embedded store.
    pub(super) storage: f64,
    pub(super) passed: f64,
    /// Bytes between client and host, both ways.
    pub(super) bytes: f64,
    /// How often the client waited for a reply.
    pub(super) trips: f64,
}

impl Sub for Shares {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            client: self.client - before.client,
            host: self.host - before.host,
            enclave: self.enclave - before.enclave,
            storage: self.storage - before.storage,
            passed: self.passed - before.passed,
            bytes: self.bytes - before.bytes,
            trips: self.trips - before.trips,
        }
    }
}

/// A collection of a running enclave.
pub(super) struct System {
    link: Linked,
    /// What the enclave says of the collection.
    pub(super) opened: Opened,
    /// Bytes of the client's own secret: the key of its certificate.
    pub(super) key_bytes: usize,
    host: Process,
    enclave: Pid,
    storage: Running,
    begun: Instant,
    _folder: TempDir,
}

impl System {
    /// Starts host and enclave, and makes the collection.
    pub(super) fn start(
        executables: &Path,
        service: Service,
        channels: Channels,
    ) -> Result<Self, BisenError> {
        let storage = Running::start(service).map_err(failed(service.name()))?;
        let folder = tempfile::tempdir().map_err(failed("a temporary folder"))?;
        let program = executables.join("arras-host");
        let mut command = Command::new(&program);
        command.args(["--listen", "127.0.0.1:0", "--administrator", ADMINISTRATOR]);
        let enclave = executables.join(match channels {
            Channels::Attested => "arras-enclave",
            // Of the laboratory (`lab/simulator`): the enclave's own program has no such channels.
            Channels::Plain => "arras-plain-enclave",
        });
        command.args(["--enclave-memory", ENCLAVE_MIB, "--enclave"]).arg(&enclave);
        let authority = vouched(&mut command, channels, folder.path())?;
        command.arg("--enclave-argument=--sealing-key");
        command.arg("--enclave-argument").arg(folder.path().join("sealing-key"));
        match (&storage, service) {
            (Running::Inside, Service::Memory) => _ = command.arg("--memory"),
            _ => _ = command.arg("--data-dir").arg(folder.path().join("data")),
        }
        match &storage {
            Running::Inside => {}
            Running::Redis(redis) => _ = command.arg("--redis").arg(redis.urls().join(",")),
            Running::Cassandra(cassandra) => {
                let nodes = cassandra.nodes();
                command
                    .args(["--replicas", &nodes.len().to_string()])
                    .arg("--cassandra")
                    .arg(nodes.join(","));
            }
            Running::Postgres(postgres) => _ = command.arg("--postgres").arg(postgres.uri("postgres")),
        }
        let shown = program.display().to_string();
        let host = Process::start(command)
            .map_err(|error| failed(shown.clone())(std::io::Error::other(error.to_string())))?;
        let stream = Counted::connect(&host.address).map_err(failed(host.address.clone()))?;
        let (mut link, key_bytes) = match authority {
            None => (Linked::plain(stream, ADMINISTRATOR)?, 0),
            Some(authority) => {
                let policy = policy(folder.path(), &enclave)?;
                let own = credentials(&authority)?;
                let key_bytes = own.private.secret_der().len();
                (Linked::attested(stream, Client::new(own, policy).map_err(channel)?)?, key_bytes)
            }
        };
        let enclave = child_of(host.id()).map_err(failed(shown))?;
        let profile = Profile::new(Language::English);
        let opened = Collection::create(&mut link, COLLECTION, profile)?.opened;
        let begun = Instant::now();
        Ok(Self { link, opened, key_bytes, host, enclave, storage, begun, _folder: folder })
    }

    /// The collection, to be asked.
    pub(super) fn collection(&mut self) -> Result<Collection<'_, Linked>, BisenError> {
        Ok(Collection::existing(&mut self.link, COLLECTION)?)
    }

    /// Asks the enclave; a refusal is an error.
    pub(super) fn ask(&mut self, request: Request) -> Result<Reply, BisenError> {
        match self.link.ask(request).map_err(ServiceError::from)? {
            Reply::Refused(refused) => Err(ServiceError::from(refused).into()),
            reply => Ok(reply),
        }
    }

    /// What all participants have taken until now.
    pub(super) fn shares(&self) -> Result<Shares, BisenError> {
        let host = Pid::from_raw(self.host.id().cast_signed());
        let own = taken(Pid::this());
        let storage = self.storage.processes().into_iter().map(|id| taken(Pid::from_raw(id.cast_signed())));
        let all = || -> Result<Shares, Errno> {
            Ok(Shares {
                client: own?,
                host: taken(host)?,
                enclave: taken(self.enclave)?,
                storage: storage.sum::<Result<f64, Errno>>()?,
                passed: self.begun.elapsed().as_secs_f64(),
                bytes: self.link.bytes() as f64,
                trips: self.link.trips() as f64,
            })
        };
        all().map_err(|error| failed("a participant's processor time")(error.into()))
    }

    /// Bytes of the enclave that are in memory.
    pub(super) fn enclave_bytes(&self) -> Result<u64, BisenError> {
        let path = format!("/proc/{}/status", self.enclave);
        let status = fs::read_to_string(&path).map_err(failed(path))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        Ok(line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or_default() << 10)
    }
}

fn channel(error: impl std::fmt::Display) -> BisenError {
    BisenError::Channel(error.to_string())
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Has the host vouch for its enclave, or channels plain; the authority that clients have certificates of, if there is one.
fn vouched(
    command: &mut Command,
    channels: Channels,
    folder: &Path,
) -> Result<Option<Authority>, BisenError> {
    if channels == Channels::Plain {
        return Ok(None);
    }
    let (authority, _) = Authority::create(now()).map_err(channel)?;
    let file = folder.join("ca.pem");
    fs::write(&file, authority.certificate()).map_err(failed(file.display().to_string()))?;
    command.arg("--authority").arg(file).arg("--development-root").arg(folder.join("root"));
    Ok(Some(authority))
}

/// What the client accepts: this program, by that root's word.
fn policy(folder: &Path, enclave: &Path) -> Result<ReleasePolicy, BisenError> {
    let file = folder.join("root.public");
    let root = fs::read_to_string(&file).map_err(failed(file.display().to_string()))?;
    let accepted = Accepted {
        source: Source::Process { root: DevelopmentRoot::read(&root).map_err(channel)? },
        measurements: vec![measure(enclave).map_err(channel)?.to_vec()],
        version_min: SECURITY_VERSION,
        allow_debug: false,
    };
    Ok(ReleasePolicy { administrator: ADMINISTRATOR.into(), max_age_seconds: 3600, accept: vec![accepted] })
}

/// The administrator's certificate and key.
fn credentials(authority: &Authority) -> Result<Credentials, BisenError> {
    let issued = authority.issue(ADMINISTRATOR, now()).map_err(channel)?;
    Ok(Credentials {
        authority: certificate(authority.certificate()).map_err(channel)?,
        certificate: certificate(&issued.0).map_err(channel)?,
        private: private(&issued.1).map_err(channel)?,
    })
}

/// The process that a process has started.
fn child_of(parent: u32) -> std::io::Result<Pid> {
    let parent = parent.to_string();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Ok(status) = fs::read_to_string(entry.path().join("stat")) else { continue };
        // Behind the name, which may have anything in it: the state, and the parent.
        let behind = status.rsplit(") ").next().unwrap_or_default();
        let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if behind.split(' ').nth(1) == Some(&parent)
            && let Some(id) = id
        {
            return Ok(Pid::from_raw(id));
        }
    }
    Err(std::io::Error::other("it has not started the enclave"))
}

impl SearchService for System {
    fn ask(&mut self, request: Request) -> Result<Reply, Unreachable> {
        self.link.ask(request)
    }
}
