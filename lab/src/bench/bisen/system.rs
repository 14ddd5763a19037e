//! Host and enclave as processes on a storage service, and what each of them takes of the processor.

use super::{BisenError, failed};
use crate::bench::installation::Process;
use crate::bench::processor::taken;
use crate::private_cassandra::PrivateCassandra;
use crate::private_redis::PrivateRedis;
use arras_schemes::bisen::message::{Opened, Reply, Request};
use arras_search::language::Language;
use arras_search::link::Link;
use arras_search::profile::Profile;
use arras_search::service::{Collection, SearchService, ServiceError, Unreachable};
use nix::errno::Errno;
use nix::unistd::Pid;
use std::fs;
use std::net::TcpStream;
use std::ops::Sub;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
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
}

impl Service {
    /// Each, in the order of the table.
    pub(super) const ALL: [Self; 6] =
        [Self::Memory, Self::Embedded, Self::Redis, Self::RedisCluster, Self::Cassandra, Self::CassandraRing];

    /// Its name in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Embedded => "embedded",
            Self::Redis => "Redis, one server",
            Self::RedisCluster => "Redis, cluster of three",
            Self::Cassandra => "Cassandra, one node",
            Self::CassandraRing => "Cassandra, three nodes",
        }
    }
}

/// A storage service that runs as processes of its own.
enum Running {
    Inside,
    Redis(PrivateRedis),
    Cassandra(PrivateCassandra),
}

impl Running {
    fn start(service: Service) -> std::io::Result<Self> {
        Ok(match service {
            Service::Memory | Service::Embedded => Self::Inside,
            Service::Redis => Self::Redis(PrivateRedis::start()?),
            Service::RedisCluster => Self::Redis(PrivateRedis::start_cluster()?),
            Service::Cassandra => Self::Cassandra(PrivateCassandra::start(1)?),
            Service::CassandraRing => Self::Cassandra(PrivateCassandra::start(3)?),
        })
    }

    fn processes(&self) -> Vec<u32> {
        match self {
            Self::Inside => Vec::new(),
            Self::Redis(redis) => redis.processes(),
            Self::Cassandra(cassandra) => cassandra.processes(),
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
        }
    }
}

/// A collection of a running enclave.
pub(super) struct System {
    link: Link<TcpStream>,
    /// What the enclave says of the collection.
    pub(super) opened: Opened,
    host: Process,
    enclave: Pid,
    storage: Running,
    begun: Instant,
    _folder: TempDir,
}

impl System {
    /// Starts host and enclave, and makes the collection.
    pub(super) fn start(executables: &Path, service: Service) -> Result<Self, BisenError> {
        let storage = Running::start(service).map_err(failed(service.name()))?;
        let folder = tempfile::tempdir().map_err(failed("a temporary folder"))?;
        let program = executables.join("arras-host");
        let mut command = Command::new(&program);
        command.args(["--listen", "127.0.0.1:0", "--administrator", ADMINISTRATOR]);
        command.args(["--enclave-memory", ENCLAVE_MIB, "--enclave"]).arg(executables.join("arras-enclave"));
        command.args(["--enclave-argument=--plain-channels", "--enclave-argument=--sealing-key"]);
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
        }
        let shown = program.display().to_string();
        let host = Process::start(command)
            .map_err(|error| failed(shown.clone())(std::io::Error::other(error.to_string())))?;
        let enclave = child_of(host.id()).map_err(failed(shown))?;
        let stream = TcpStream::connect(&host.address).map_err(failed(host.address.clone()))?;
        stream.set_nodelay(true).map_err(failed(host.address.clone()))?;
        let mut link = Link::plain(stream, ADMINISTRATOR).map_err(ServiceError::from)?;
        let profile = Profile::new(Language::English);
        let opened = Collection::create(&mut link, COLLECTION, profile)?.opened;
        Ok(Self { link, opened, host, enclave, storage, begun: Instant::now(), _folder: folder })
    }

    /// The collection, to be asked.
    pub(super) fn collection(&mut self) -> Result<Collection<'_, Link<TcpStream>>, BisenError> {
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
