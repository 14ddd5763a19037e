//! `arras-server`: the keyless server's process.
#![forbid(unsafe_code)]
#![deny(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

use arras_certificates::{Reloading, Watching};
use arras_server::Backend;
use arras_server::configuration::{Arguments, Command, Configuration, ConfigurationError, LogFormat};
use arras_server::listener::{Handler, Limits, Listener};
use arras_server::tls::{self, TlsError};
use arras_server::transcript::Transcript;
use arras_storage::{Embedded, ScrubPace, Sizes, StorageError};
use clap::Parser;
use rustls::ServerConfig;
use std::future::Future;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tracing::{info, warn};
use tracing_subscriber::EnvFilter;

/// Exit code when a second signal cuts the stop short.
const INTERRUPTED: i32 = 130;

/// How long a data directory in use is waited for: a server that is just ending gives it up.
const GIVEN_UP: Duration = Duration::from_secs(3);
/// Others write between two sweeps.
const BETWEEN_SWEEPS: Duration = Duration::from_millis(5);
/// How soon something that was dropped is looked for.
const UNTIL_LOOKING: Duration = Duration::from_secs(1);
const UNTIL_TRIED_AGAIN: Duration = Duration::from_secs(10);

/// Why the server does not run: one line a person can act on.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    #[error(transparent)]
    Certificates(#[from] TlsError),
    #[error("{path}: {what}")]
    Data { path: PathBuf, what: String },
    #[error("cannot listen on {address}: {what}; choose another --listen address")]
    Network { address: String, what: io::Error },
    #[error("the operating system does not let the server start: {0}")]
    System(#[from] io::Error),
}

impl Failure {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Configuration(_) => 2,
            Self::Certificates(_) => 3,
            Self::Data { .. } => 4,
            Self::Network { .. } | Self::System(_) => 5,
        }
    }
}

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut arguments = Arguments::parse();
    let done = match arguments.command.take() {
        Some(Command::Verify { data_dir }) => verify(&data_dir),
        None => Configuration::new(arguments).map_err(Failure::from).and_then(run),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("arras-server: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(configuration: Configuration) -> Result<(), Failure> {
    start_log(configuration.log_format);
    let tls = tls::reloading(&configuration.certificates)?;
    let backend = open(&configuration.data_dir, configuration.cache)?;
    if configuration.scrub_rate > 0 {
        let bytes_per_second = configuration.scrub_rate.saturating_mul(1 << 20);
        backend.store().scrub_in_background(ScrubPace { bytes_per_second, ..ScrubPace::default() });
    }
    let Some((path, bytes)) = &configuration.transcript else {
        return serve(&configuration, tls, Arc::new(backend));
    };
    let transcript = Transcript::append(backend, path, *bytes)
        .map_err(|error| Failure::Data { path: path.clone(), what: error.to_string() })?;
    serve(&configuration, tls, Arc::new(transcript))
}

/// Answers the proxy until told to stop.
fn serve<H: Handler>(
    configuration: &Configuration,
    tls: Reloading<ServerConfig>,
    handler: Arc<H>,
) -> Result<(), Failure> {
    let runtime = runtime()?;
    runtime.block_on(async {
        let address = &configuration.listen;
        let listening = async {
            let usual = Limits::default();
            let connections_max = configuration.connections_max.unwrap_or(usual.connections_max);
            let memory_bytes = configuration
                .memory
                .map_or(usual.memory_bytes, |mebibytes| mebibytes.saturating_mul(1 << 20));
            let limits = Limits { connections_max, memory_bytes, ..usual };
            let listener = Listener::bind(address, tls.clone(), limits).await?;
            Ok((listener.local_addr()?, listener))
        };
        let (bound, listener) =
            listening.await.map_err(|what| Failure::Network { address: address.clone(), what })?;
        let stop = stop_signal(configuration.stop_with_stdin)?;
        let watching = Watching::with_hangup()?;
        // For whoever started the server with port 0; nobody reading is no reason to stop.
        let _ = writeln!(io::stdout(), "listening on {bound}");
        info!(address = %bound, data_dir = %configuration.data_dir.display(), "listening on {bound}");
        let public = configuration.certificates.public();
        tokio::select! {
            () = listener.serve(Arc::clone(&handler), stop) => {}
            // Neither ends.
            () = sweep(handler) => {}
            () = arras_certificates::watch(&tls, &public, watching, arras_certificates::now) => {}
        }
        Ok::<(), Failure>(())
    })?;
    // Waits for requests on blocking threads, whose store closes after them.
    drop(runtime);
    info!("stopped");
    Ok(())
}

/// Has what drops leave removed, a little at a time.
async fn sweep<H: Handler>(handler: Arc<H>) {
    loop {
        let sweeping = Arc::clone(&handler);
        let pause = match tokio::task::spawn_blocking(move || sweeping.sweep()).await {
            Ok(Ok(true)) => BETWEEN_SWEEPS,
            Ok(Ok(false)) => UNTIL_LOOKING,
            Ok(Err(refusal)) => {
                warn!(%refusal, "what was dropped is not removed yet; tried again");
                UNTIL_TRIED_AGAIN
            }
            Err(_) => UNTIL_TRIED_AGAIN,
        };
        tokio::time::sleep(pause).await;
    }
}

/// Threads for connections: half of the processors, since what keeps a processor busy has threads of its own. Fewer wake
/// each other less often. `TOKIO_WORKER_THREADS` says another number.
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if std::env::var_os("TOKIO_WORKER_THREADS").is_none() {
        builder.worker_threads(
            std::thread::available_parallelism().map_or(1, |processors| processors.get() / 2).max(1),
        );
    }
    builder.enable_all().build()
}

/// Checks the files of a stopped server, and prints how many entries each table has.
fn verify(path: &Path) -> Result<(), Failure> {
    let failed = |what: String| Failure::Data { path: path.to_path_buf(), what };
    let checked = Embedded::exists(path).and_then(|exists| match exists {
        true => Embedded::open(path)?.verify().map(Some),
        false => Ok(None),
    });
    let counts = checked.map_err(|error| failed(describe(error)))?;
    let counts = counts.ok_or_else(|| failed("there is no database here".into()))?;
    for (table, entries) in counts {
        let _ = writeln!(io::stdout(), "ok    {table}: {entries} entries");
    }
    Ok(())
}

/// What is wrong with a data directory, and what to do about it.
fn describe(error: StorageError) -> String {
    match error {
        StorageError::InUse => "another arras-server uses this data directory; stop it first".into(),
        StorageError::Damaged(what) => format!("damaged ({what}); restore it from a backup"),
        StorageError::Environment(what) | StorageError::Undecided(what) | StorageError::Full(what) => {
            format!("{what}; check that it is a writable directory")
        }
    }
}

/// Opens the data directory and counts this start.
fn open(path: &Path, cache: usize) -> Result<Backend<Embedded>, Failure> {
    let failed = |what: String| Failure::Data { path: path.to_path_buf(), what };
    let mut fresh_name = [0; 16];
    getrandom::fill(&mut fresh_name).map_err(|error| failed(error.to_string()))?;
    let began = Instant::now();
    let store = loop {
        match Embedded::open_with(path, Sizes::of_server(cache.saturating_mul(1 << 20))) {
            Err(StorageError::InUse) if began.elapsed() < GIVEN_UP => std::thread::sleep(GIVEN_UP / 50),
            opened => break opened,
        }
    };
    store.and_then(|store| Backend::open(store, fresh_name)).map_err(|error| failed(describe(error)))
}

fn start_log(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr);
    match format {
        LogFormat::Json => log.json().init(),
        LogFormat::Text => log.init(),
    }
}

/// Completes at the first SIGTERM or ctrl-C, or at the end of standard input if that counts; a later signal ends
/// the process at once.
fn stop_signal(stop_with_stdin: bool) -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (parent, parent_ended) = oneshot::channel();
    if stop_with_stdin {
        // A thread of its own: a read of standard input cannot be given up, and must not keep the runtime.
        std::thread::spawn(move || parent.send(io::copy(&mut io::stdin().lock(), &mut io::sink())));
    }
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = parent_ended, if stop_with_stdin => {}
        }
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            std::process::exit(INTERRUPTED);
        });
    })
}
