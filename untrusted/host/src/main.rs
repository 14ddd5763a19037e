//! `arras-host`: the host of an isolated execution environment, as a process.
#![forbid(unsafe_code)]
#![deny(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

use arras_host::attestation::{Attester, DevelopmentRoot, NoAttester};
use arras_host::brought::FileError;
use arras_host::counter::{Counter, FileCounter, MemoryCounter};
use arras_host::enclave::{Enclave, EnclaveError, Loader, Measurement, measure, written};
use arras_host::gramine::{self, GramineQuotes};
use arras_host::host::{HostError, Keeping, Launch, Limits, serve};
use arras_host::seen::Seen;
#[cfg(feature = "cassandra")]
use arras_host::store::cassandra::{CassandraStore, Ring};
#[cfg(feature = "postgres")]
use arras_host::store::postgres::{self, PostgresStore};
#[cfg(feature = "redis")]
use arras_host::store::redis::{self, RedisStore};
use arras_host::store::{EmbeddedStore, MemoryStore, Store, StoreError};
use arras_host::tpm::{TpmCounter, TpmQuotes};
use arras_host::tsm::{self, Brought, Folder, TsmReports};
use arras_storage::StorageError;
use arras_storage::private::make_directory;
use clap::{Args, Parser};
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tracing::{info, warn};
use tracing_subscriber::EnvFilter;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// After how long a storage service that is away at the start is asked again.
#[cfg(any(feature = "redis", feature = "cassandra", feature = "postgres"))]
const AGAIN: Duration = Duration::from_secs(2);

/// How long what is under way on the disk may take when the host ends.
const ENDING: Duration = Duration::from_secs(10);

/// Starts an enclave and serves it: moves bytes between it, its clients and storage.
#[derive(Parser)]
#[command(name = "arras-host", version)]
struct Arguments {
    /// The enclave's program.
    #[arg(long, value_name = "FILE")]
    enclave: PathBuf,
    /// SHA-256 of the program that is to run, in hexadecimal: any other is not started.
    #[arg(long, value_name = "HEX", value_parser = measurement)]
    measurement: Option<Measurement>,
    /// An argument for the enclave's program (`--enclave-argument=--debug`), any number of them. Under Gramine its manifest has them.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, conflicts_with = "gramine")]
    enclave_argument: Vec<OsString>,
    /// Address to listen on for clients.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:27300")]
    listen: String,
    #[command(flatten)]
    storage: Storage,
    /// Most MiB that the enclave may take.
    #[arg(long, value_name = "MIB", default_value_t = 512)]
    enclave_memory: u64,
    /// Who may make collections and say what others may do: a name in a certificate.
    #[arg(long, value_name = "NAME", default_value = "administrator")]
    administrator: String,
    /// The administrator's authority (PEM), whose certificates clients have; an enclave stays with that of its first start.
    #[arg(long, value_name = "FILE", requires = "voucher")]
    authority: Option<PathBuf>,
    #[command(flatten)]
    vouching: Vouching,
    /// Stop at the end of standard input, too: with whoever started the host. To each line `seen` there, a line on standard output
    /// answers with counts of what the host has seen.
    #[arg(long)]
    stop_with_stdin: bool,
    /// Most connections at a time; one more waits.
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections_max)]
    connections: usize,
}

/// What goes with `--tsm` or `--gramine` goes with none of these: clap lets an argument be without what it requires where another has excluded that.
const OTHERS: [&str; 2] = ["development_root", "tpm_key"];
const NOT_TSM: [&str; 3] = ["development_root", "tpm_key", "gramine"];
const NOT_GRAMINE: [&str; 3] = ["development_root", "tpm_key", "tsm"];

/// Who vouches for the enclave.
#[derive(Args)]
struct Vouching {
    /// Vouch for the enclave by a key in this file, made if there is none, its public key beside it in FILE.public. It protects against
    /// nobody who has this machine.
    #[arg(long, value_name = "FILE", group = "voucher")]
    development_root: Option<PathBuf>,
    /// Vouch for this machine, and what it measured, by quotes of its TPM under this key: a persistent handle, or a context's file. Needs
    /// `tpm2-tools`; `TPM2TOOLS_TCTI` says where the TPM is.
    #[arg(long, value_name = "KEY", group = "voucher", requires = "tpm_registers")]
    tpm_key: Option<String>,
    /// The registers of the quotes: `sha256:0,1,2,7`.
    #[arg(long, value_name = "LIST", requires = "tpm_key", conflicts_with = "development_root")]
    tpm_registers: Option<String>,
    /// Vouch for this machine, which runs under SEV-SNP or TDX, by reports that the kernel hands out (configfs-tsm, Linux 6.7 and later).
    /// Needs root.
    #[arg(long, groups = ["voucher", "intel"])]
    tsm: bool,
    /// Where configfs-tsm is.
    #[arg(long, value_name = "DIR", requires = "tsm", conflicts_with_all = NOT_TSM, default_value = tsm::FOLDER)]
    tsm_folder: PathBuf,
    /// SEV-SNP: the certificate of this machine's chip (VCEK; DER, or PEM with that which signed it behind it or without), for hypervisors
    /// that hand on none. Read anew for each report.
    #[arg(long, value_name = "FILE", requires = "tsm", conflicts_with_all = NOT_TSM)]
    vcek: Option<PathBuf>,
    /// TDX and SGX: Intel's collateral for this machine's platform (JSON), for clients whose policies have none. Read anew for each report.
    #[arg(long, value_name = "FILE", requires = "intel", conflicts_with_all = OTHERS)]
    collateral: Option<PathBuf>,
    /// Start the enclave in SGX, under Gramine; it vouches for itself, by its quote. Beside its program are its signed manifest
    /// (`.manifest.sgx`) and the signature (`.sig`).
    #[arg(long, groups = ["voucher", "intel"])]
    gramine: bool,
    /// What Gramine starts a program in SGX by.
    #[arg(long, value_name = "FILE", requires = "gramine", conflicts_with_all = NOT_GRAMINE, default_value = "/usr/bin/gramine-sgx")]
    gramine_loader: PathBuf,
    /// Seconds that the enclave may take until it asks for evidence, and evidence until it is there: quoting services can hang. Then the host
    /// ends with an error.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    evidence_wait: u64,
}

/// Where sealed entries and state are kept.
#[derive(Args)]
#[group(required = true)]
struct Storage {
    /// A folder: the embedded store, and the counter in a file.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// In memory, gone with the process.
    #[arg(long, conflicts_with_all = ["data_dir"])]
    memory: bool,
    /// The counter in an index of this machine's TPM, made if it is not there, which a restored disk does not set back.
    #[arg(long, value_name = "INDEX", requires = "data_dir", value_parser = index)]
    tpm_counter: Option<u32>,
    /// Redis servers (`redis://HOST:PORT`, several of one cluster after commas). Where no store is named but
    /// `--data-dir`, the variable ARRAS_REDIS says the same, and is not seen among the processes' arguments. The counter in a file of `--data-dir`.
    #[cfg(feature = "redis")]
    #[arg(long, value_name = "URL", value_delimiter = ',', requires = "data_dir")]
    redis: Vec<String>,
    /// Nodes of Cassandra or ScyllaDB (`HOST:PORT`, several after commas); the counter in a file of `--data-dir`.
    #[cfg(feature = "cassandra")]
    #[cfg_attr(feature = "redis", arg(conflicts_with = "redis"))]
    #[arg(long, value_name = "NODE", value_delimiter = ',', requires = "data_dir")]
    cassandra: Vec<String>,
    /// A database of PostgreSQL (`postgres://USER:PASSWORD@HOST:PORT/DATABASE`). Where no store is named but `--data-dir`, the variable
    /// ARRAS_POSTGRES says the same, unseen. The counter in a file of `--data-dir`.
    #[cfg(feature = "postgres")]
    #[cfg_attr(feature = "redis", arg(conflicts_with = "redis"))]
    #[cfg_attr(feature = "cassandra", arg(conflicts_with = "cassandra"))]
    #[arg(long, value_name = "URI", requires = "data_dir")]
    postgres: Option<String>,
    /// Schema in PostgreSQL, made if it is not there: of each enclave its own.
    #[cfg(feature = "postgres")]
    #[arg(long, value_name = "NAME", default_value = "arras_search")]
    schema: String,
    /// Keyspace in Cassandra; in Redis, what the keys of this enclave's state begin with.
    #[cfg(any(feature = "redis", feature = "cassandra"))]
    #[arg(long, value_name = "NAME", default_value = "arras")]
    keyspace: String,
    /// How many of Cassandra's nodes keep each entry; set when the keyspace is made.
    #[cfg(feature = "cassandra")]
    #[arg(long, value_name = "N", default_value_t = 3)]
    replicas: u8,
}

/// What says where a store is without being seen among the processes' arguments, and the feature that it needs.
const VARIABLES: [(&str, &str, bool); 2] = [
    ("ARRAS_REDIS", "redis", cfg!(feature = "redis")),
    ("ARRAS_POSTGRES", "postgres", cfg!(feature = "postgres")),
];

/// What a variable says, if it says anything.
fn said(variable: &str) -> Option<String> {
    std::env::var(variable).ok().filter(|said| !said.is_empty())
}

impl Storage {
    /// Is a store named among the arguments?
    fn is_named(&self) -> bool {
        let named: &[bool] = &[
            #[cfg(feature = "redis")]
            !self.redis.is_empty(),
            #[cfg(feature = "cassandra")]
            !self.cassandra.is_empty(),
            #[cfg(feature = "postgres")]
            self.postgres.is_some(),
        ];
        named.contains(&true)
    }

    /// Refuses variables that name two stores, or one that this host was built without.
    fn judge_variables(&self) -> Result<(), StoreError> {
        let set: Vec<_> = VARIABLES.into_iter().filter(|(variable, ..)| said(variable).is_some()).collect();
        if let Some((variable, feature, _)) = set.iter().find(|(.., is_built)| !is_built) {
            let what = format!("{variable} is set, and this host was built without the feature {feature}");
            return Err(StoreError::Failed(what));
        }
        match &set[..] {
            [(one, ..), (other, ..)] if !self.is_named() => {
                Err(StoreError::Failed(format!("{one} and {other} are both set: which store is it?")))
            }
            _ => Ok(()),
        }
    }

    /// The servers of Redis that are named, or that the environment says where no store is.
    #[cfg(feature = "redis")]
    fn redis(&self) -> Option<Vec<String>> {
        if self.is_named() {
            return Some(self.redis.clone()).filter(|servers| !servers.is_empty());
        }
        Some(said("ARRAS_REDIS")?.split(',').map(str::to_owned).collect())
    }

    /// The database of PostgreSQL, likewise.
    #[cfg(feature = "postgres")]
    fn postgres(&self) -> Option<String> {
        if self.is_named() { self.postgres.clone() } else { said("ARRAS_POSTGRES") }
    }
}

fn measurement(text: &str) -> Result<Measurement, String> {
    let byte = |at: usize| text.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes: Option<Vec<u8>> = (0..32).map(|place| byte(2 * place)).collect();
    let bytes = bytes.filter(|_| text.len() == 64).and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| "64 hexadecimal digits are expected".into())
}

fn index(text: &str) -> Result<u32, String> {
    let number = text.strip_prefix("0x").and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let index = number.filter(|number| (0x0100_0000..0x0200_0000).contains(number));
    index.ok_or_else(|| "an index of a TPM is expected, as in 0x1500020".into())
}

/// Why the host does not run: one line a person can act on.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Enclave(#[from] EnclaveError),
    #[error("{path}: {what}")]
    Data { path: PathBuf, what: String },
    #[error("{path}: {what}")]
    InUse { path: PathBuf, what: String },
    #[error("the enclave's signature: {0}")]
    Signature(#[from] FileError),
    #[error("storage: {0}")]
    Store(#[from] StoreError),
    #[error("cannot listen on {address}: {what}; choose another --listen address")]
    Network { address: String, what: io::Error },
    #[error("the operating system does not let the host start: {0}")]
    System(#[from] io::Error),
}

impl Failure {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Host(_) | Self::Enclave(_) => 1,
            Self::Data { .. } | Self::Signature(_) => 4,
            Self::InUse { .. } => 6,
            Self::Network { .. } | Self::Store(_) | Self::System(_) => 5,
        }
    }
}

/// An authority's certificate, as DER.
fn authority(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |what: String| Failure::Data { path: path.to_path_buf(), what };
    let text = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    let certificate = pem::parse(text).map_err(|error| failed(error.to_string()))?;
    Ok(certificate.into_contents())
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let colours = io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(io::stderr).init();
    let run = || {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let ended = runtime.block_on(run(arguments));
        // What hangs, as a service that is asked for evidence, does not keep the process.
        runtime.shutdown_timeout(ENDING);
        ended
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("arras-host: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Failure> {
    let Some(directory) = arguments.storage.data_dir.clone() else {
        let (store, counter) = (MemoryStore::default(), MemoryCounter::default());
        let kept = Keeping { store, counter, seen: Arc::default() };
        return start(arguments, kept).await;
    };
    let failed = |what: String| Failure::Data { path: directory.clone(), what };
    let counted = |error: io::Error| match error.kind() {
        io::ErrorKind::WouldBlock => Failure::InUse { path: directory.clone(), what: error.to_string() },
        _ => failed(error.to_string()),
    };
    make_directory(&directory).map_err(|error| failed(error.to_string()))?;
    let counter: Box<dyn Counter> = match arguments.storage.tpm_counter {
        Some(index) => Box::new(TpmCounter::open(&directory, index).map_err(counted)?),
        None => {
            warn!(
                "the monotonic counter is a file: who can write to this machine's disk can set it back unnoticed"
            );
            Box::new(FileCounter::open(&directory).map_err(counted)?)
        }
    };
    arguments.storage.judge_variables()?;
    #[cfg(feature = "redis")]
    if let Some(servers) = arguments.storage.redis() {
        let keyspace = &arguments.storage.keyspace;
        let connect = async || RedisStore::connect(&servers, keyspace, redis::PATIENCE).await;
        let store = connected(arguments.stop_with_stdin, connect).await?;
        return start(arguments, Keeping { store, counter, seen: Arc::default() }).await;
    }
    #[cfg(feature = "cassandra")]
    if !arguments.storage.cassandra.is_empty() {
        let Storage { cassandra, keyspace, replicas, .. } = &arguments.storage;
        let ring = Ring { nodes: cassandra.clone(), keyspace: keyspace.clone(), replicas: *replicas };
        let connect = async || CassandraStore::connect(&ring).await;
        let store = connected(arguments.stop_with_stdin, connect).await?;
        return start(arguments, Keeping { store, counter, seen: Arc::default() }).await;
    }
    #[cfg(feature = "postgres")]
    if let Some(uri) = arguments.storage.postgres() {
        let schema = &arguments.storage.schema;
        let connect = async || PostgresStore::connect(&uri, schema, postgres::PATIENCE).await;
        let store = connected(arguments.stop_with_stdin, connect).await?;
        return start(arguments, Keeping { store, counter, seen: Arc::default() }).await;
    }
    let store = EmbeddedStore::open(&directory).map_err(|error| match error {
        StorageError::InUse => Failure::InUse { path: directory.clone(), what: error.to_string() },
        error => failed(error.to_string()),
    })?;
    start(arguments, Keeping { store, counter, seen: Arc::default() }).await
}

/// A storage service's connection. One that is away is waited for, as it may start later than the host; but for a host that somebody
/// started to hear from it.
#[cfg(any(feature = "redis", feature = "cassandra", feature = "postgres"))]
async fn connected<S>(
    is_heard: bool,
    connect: impl AsyncFn() -> Result<S, StoreError>,
) -> Result<S, StoreError> {
    loop {
        match connect().await {
            Err(StoreError::Away(what)) if !is_heard => {
                warn!("{what}; it is asked again every {} s", AGAIN.as_secs());
                tokio::time::sleep(AGAIN).await;
            }
            ended => return ended,
        }
    }
}

/// Says what was seen to each line that asks, until standard input ends.
fn answer(seen: &Seen) {
    for line in io::stdin().lines().map_while(Result::ok) {
        if line == "seen" {
            // Who asked may have gone since; its end is the next line's matter.
            let _ = writeln!(io::stdout(), "seen {seen}");
        }
    }
}

/// Who vouches for the enclave.
fn attester(vouching: &Vouching, measured: Measurement) -> Result<Arc<dyn Attester>, Failure> {
    if let (Some(key), Some(registers)) = (&vouching.tpm_key, &vouching.tpm_registers) {
        return Ok(Arc::new(TpmQuotes::new(key.clone(), registers.clone())));
    }
    if vouching.tsm {
        let brought = Brought { vcek: vouching.vcek.clone(), collateral: vouching.collateral.clone() };
        return Ok(Arc::new(TsmReports::new(Folder::new(vouching.tsm_folder.clone()), brought)));
    }
    if vouching.gramine {
        return Ok(Arc::new(GramineQuotes::new(vouching.collateral.clone())));
    }
    let Some(path) = &vouching.development_root else { return Ok(Arc::new(NoAttester)) };
    warn!(
        "the enclave is vouched for by a development root: this protects against nobody who has this machine"
    );
    let at = |error: io::Error| Failure::Data { path: path.clone(), what: error.to_string() };
    Ok(Arc::new(DevelopmentRoot::open(path, measured).map_err(at)?))
}

/// MRENCLAVE, as the signature beside the enclave's program says it.
fn signed(program: &Path) -> Result<String, Failure> {
    Ok(written(&gramine::measurement(program)?))
}

async fn start<S: Store, C: Counter>(arguments: Arguments, kept: Keeping<S, C>) -> Result<(), Failure> {
    let address = arguments.listen;
    let listening = async {
        let listener = TcpListener::bind(&address).await?;
        Ok((listener.local_addr()?, listener))
    };
    let (bound, listener) = listening.await.map_err(|what| Failure::Network { address, what })?;
    let measured = measure(&arguments.enclave)?;
    let expected = arguments.measurement.as_ref();
    let vouching = &arguments.vouching;
    let loader = if vouching.gramine {
        Loader::Gramine(&vouching.gramine_loader)
    } else {
        Loader::System(&arguments.enclave_argument)
    };
    // Looked for first: what Gramine says of a signature that is missing is not passed on.
    let of_sgx = vouching.gramine.then(|| signed(&arguments.enclave)).transpose()?;
    let enclave = Enclave::start(&arguments.enclave, loader, expected)?;
    match of_sgx {
        Some(mrenclave) => info!(mrenclave, "the enclave is started, in SGX"),
        None => info!(measurement = written(&measured), "the enclave is started"),
    }
    let attester = attester(vouching, measured)?;
    let launch = Launch {
        memory_bytes: arguments.enclave_memory.saturating_mul(1 << 20),
        administrator: arguments.administrator,
        authority: arguments.authority.as_deref().map(authority).transpose()?.unwrap_or_default(),
        attester,
        patience: Duration::from_secs(arguments.vouching.evidence_wait),
    };
    let limits = Limits { connections_max: arguments.connections, ..Limits::default() };
    let (parent, parent_ended) = oneshot::channel();
    if arguments.stop_with_stdin {
        // A thread of its own: a read of standard input cannot be given up, and must not keep the runtime.
        let seen = Arc::clone(&kept.seen);
        std::thread::spawn(move || {
            answer(&seen);
            parent.send(())
        });
    }
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // For whoever started the host with port 0; nobody reading is no reason to stop.
    let _ = writeln!(io::stdout(), "listening on {bound}");
    info!(address = %bound, "listening on {bound}");
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = parent_ended, if arguments.stop_with_stdin => {}
        }
    };
    Ok(serve(enclave, launch, kept, listener, limits, stop).await?)
}
