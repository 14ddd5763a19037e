//! `arras proxy`: connects to the server, opens the engine, and serves MongoDB clients.

use super::{Failure, ProxyArguments, logging, plan, unlock};
use crate::configuration::{
    Configuration, ConfigurationError, LogFormat, Search, default_connections_max, default_memory,
};
use crate::connection::tls::{self, CertificatePaths};
use crate::connection::{Connection, Settings};
use crate::postgres::{Alone, Listening, Postgres};
use crate::running::{Noted, Running};
use arras_certificates::Watching;
use arras_engine::channel::ServerChannel;
use arras_engine::history::{Halt, History};
use arras_engine::text::TextService;
use arras_engine::witness::{self, Witness};
use arras_engine::{self as engine, Engine};
use arras_keys::Keyring;
use arras_mongo::{Options, Server};
use arras_planner::schema::Schema;
use arras_storage::{Embedded, ScrubPace};
use std::future::Future;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Exit code when a second signal cuts the stop short.
const INTERRUPTED: i32 = 130;

pub(super) fn run(arguments: ProxyArguments) -> Result<(), Failure> {
    let Some(file) = &arguments.config else { return alone(arguments, None) };
    if let Some(configuration) = Alone::read(file)? {
        return alone(arguments, Some(configuration));
    }
    let mut configuration = Configuration::read(file)?;
    configuration.postgres =
        Postgres::overridden(configuration.postgres, arguments.postgres, arguments.upstream)
            .map_err(|what| ConfigurationError { path: file.clone(), what })?;
    configuration.listen = arguments.listen.unwrap_or(configuration.listen);
    configuration.server.address = arguments.server.unwrap_or(configuration.server.address);
    configuration.connections_max = arguments.connections_max.unwrap_or(configuration.connections_max);
    configuration.schema = arguments.schema.or(configuration.schema);
    logging::start(configuration.log_format, "info");
    let schema = configuration.schema.as_deref().map(plan::read_schema).transpose()?.unwrap_or_default();
    let unlock = unlock::existing(configuration.keyring.key_file.clone())?;
    let keyring = Keyring::open(&configuration.keyring.path, unlock)?;
    let runtime = runtime()?;
    runtime.block_on(async {
        let stop = stop_signal()?;
        let history = History::new(arguments.take_over);
        serve(&configuration, keyring, schema, history, (Watching::with_hangup()?, stop)).await
    })
}

/// Runs a proxy in front of PostgreSQL alone; without a configuration nothing is encrypted.
fn alone(arguments: ProxyArguments, configuration: Option<Alone>) -> Result<(), Failure> {
    let command_line = |what| ConfigurationError { path: "command line".into(), what };
    let configured = configuration.as_ref().map(|configuration| configuration.postgres.clone());
    let postgres =
        Postgres::overridden(configured, arguments.postgres, arguments.upstream).map_err(command_line)?;
    let postgres = postgres.ok_or_else(|| command_line("--postgres and --upstream are needed".into()))?;
    let defaults = (LogFormat::default(), default_connections_max(), default_memory());
    let (log_format, connections_max, memory) =
        configuration.as_ref().map_or(defaults, |read| (read.log_format, read.connections_max, read.memory));
    logging::start(log_format, "info");
    let keyring = match &configuration {
        Some(Alone { keyring, .. }) => {
            let unlock = unlock::existing(keyring.key_file.clone())?;
            Some(Keyring::open(&keyring.path, unlock)?)
        }
        None => None,
    };
    runtime()?.block_on(async {
        let stop = stop_signal()?;
        let connections_max = arguments.connections_max.unwrap_or(connections_max);
        let search = configuration.as_ref().and_then(|read| read.search.as_ref());
        let limits = (connections_max, memory);
        let listening = Listening::open(&postgres, limits, keyring.as_ref(), search).await?;
        listening.serve(stop).await;
        tracing::info!("stopped");
        Ok(())
    })
}

/// Of a thread. A statement's tree is walked by recursion, and may be some thousand operators deep; what is not touched takes no memory.
const STACK_BYTES: usize = 32 << 20;

/// Threads for connections: half of the processors, since what keeps a processor busy has threads of its own. Fewer wake
/// each other less often. `TOKIO_WORKER_THREADS` says another number.
pub(super) fn runtime() -> io::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if std::env::var_os("TOKIO_WORKER_THREADS").is_none() {
        builder.worker_threads(
            std::thread::available_parallelism().map_or(1, |processors| processors.get() / 2).max(1),
        );
    }
    builder.thread_stack_size(STACK_BYTES).enable_all().build()
}

/// A task that ends with what started it.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs the proxy until `stop` completes, or until another one has taken over; `watching` says when certificates are read
/// again.
pub(super) async fn serve(
    configuration: &Configuration,
    keyring: Keyring,
    schema: Schema,
    history: History,
    (watching, stop): (Watching, impl Future<Output = ()>),
) -> Result<(), Failure> {
    let certificates = CertificatePaths::in_directory(&configuration.server.certificates);
    let tls = tls::reloading(&certificates)?;
    let text = text_service(configuration, &schema)?;
    let mut settings = Settings::new(configuration.server.address.clone(), tls.clone());
    settings.deadline = Duration::from_secs(configuration.server.deadline_seconds);
    let history = Arc::new(history);
    settings.history = Arc::clone(&history);
    // First, so that no other proxy is fenced by one that cannot start.
    let data_dir = configuration.data_dir.clone();
    let local = Embedded::open(&data_dir).map_err(|error| Failure::data(data_dir, error))?;
    Noted::forget(&configuration.data_dir);
    let witness = configuration.witness.as_deref().map(Witness::open).transpose();
    let witness = witness.map_err(engine::OpenError::from)?.map(Arc::new);
    let _watched = AbortOnDrop(tokio::spawn(async move {
        arras_certificates::watch(&tls, &certificates.public(), watching, arras_certificates::now).await;
    }));
    let mut stop = std::pin::pin!(stop);
    let connection = tokio::select! {
        connected = Connection::open_when_there(settings) => connected?,
        () = &mut stop => return Ok(()),
    };
    local.scrub_in_background(ScrubPace::default());
    let (server, incarnation) = (connection.server(), connection.incarnation());
    let mut engine_settings = engine_settings(configuration, schema, &history, witness.as_ref());
    engine_settings.text = text;
    let memory_bytes = engine_settings.memory_bytes;
    let mut running = Running::new(&keyring, &configuration.server.address, server.database);
    let connections_max = configuration.connections_max;
    let postgres = open_postgres(configuration, &keyring).await?;
    let engine = Engine::open(local, keyring, Arc::new(connection), &server, engine_settings).await?;
    let _restarts = AbortOnDrop(tokio::spawn(follow_restarts(engine.clone(), incarnation)));
    let noting = witness.clone().map(|witness| tokio::spawn(note(witness, Arc::clone(&history))));
    let (listener, bound) = bind(&configuration.listen).await?;
    running.listen = bound.to_string();
    let _said = say_running(&configuration.data_dir, running, Arc::clone(&history));
    say_listening(&bound);
    let options = Options { connections_max, memory_bytes, ..Options::default() };
    let stop = async {
        tokio::select! {
            () = stop => {}
            () = history.fenced() => {}
        }
    };
    let stopping = watch::Sender::new(false);
    let server = Server::new(Arc::new(engine), options);
    let mongo = server.serve(listener, async {
        stop.await;
        stopping.send_replace(true);
    });
    tokio::join!(mongo, serve_postgres(postgres, stopping.subscribe()));
    if let (Some(noting), Some(witness)) = (noting, witness) {
        noting.abort();
        note_once(&witness, &history);
    }
    if history.halted() == Some(Halt::Fenced) {
        return Err(Halt::Fenced.into());
    }
    tracing::info!("stopped");
    Ok(())
}

/// For whoever started the proxy with port 0; nobody reading is no reason to stop.
fn say_listening(bound: &SocketAddr) {
    let _ = writeln!(io::stdout(), "listening on mongodb://{bound}");
    let _ = io::stdout().flush();
    tracing::info!(address = %bound, "listening on mongodb://{bound}");
}

/// Listens for applications of PostgreSQL, if the configuration asks for it.
async fn open_postgres(
    configuration: &Configuration,
    keyring: &Keyring,
) -> Result<Option<Listening>, Failure> {
    let Some(postgres) = &configuration.postgres else { return Ok(None) };
    let limits = (configuration.connections_max, configuration.memory);
    Listening::open(postgres, limits, Some(keyring), configuration.search.as_ref()).await.map(Some)
}

/// Serves PostgreSQL beside, if it is asked for, until `stopping`.
async fn serve_postgres(listening: Option<Listening>, mut stopping: watch::Receiver<bool>) {
    if let Some(listening) = listening {
        // The sender outlives this.
        listening.serve(async move { _ = stopping.wait_for(|stopping| *stopping).await }).await;
    }
}

/// Tells the engine of each restart of the server.
async fn follow_restarts<C: ServerChannel>(
    engine: Engine<Embedded, C>,
    mut incarnation: watch::Receiver<u64>,
) {
    while incarnation.changed().await.is_ok() {
        engine.server_restarted().await;
    }
}

/// Listens for applications.
async fn bind(address: &str) -> Result<(TcpListener, SocketAddr), Failure> {
    let failed = |source| Failure::Listen { address: address.to_owned(), source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// Leaves the note for `arras doctor`, and keeps it true until what is returned is given up.
fn say_running(data_dir: &Path, mut running: Running, history: Arc<History>) -> Option<AbortOnDrop> {
    let told = |outcome: io::Result<()>| {
        if let Err(error) = outcome {
            tracing::warn!(%error, "`arras doctor` will not know of this proxy: its note cannot be written");
        }
    };
    let noted = match Noted::begin(data_dir, &running) {
        Ok(noted) => noted,
        Err(error) => {
            told(Err(error));
            return None;
        }
    };
    Some(AbortOnDrop(tokio::spawn(async move {
        running.halted = Some(history.halts().await.to_string());
        told(noted.say(&running));
        std::future::pending().await
    })))
}

pub(super) fn engine_settings(
    configuration: &Configuration,
    schema: Schema,
    history: &Arc<History>,
    witness: Option<&Arc<Witness>>,
) -> engine::Settings {
    engine::Settings {
        schema,
        range: configuration.range_indexes,
        cleanup: configuration.equality_indexes.cleanup,
        memory_bytes: configuration.memory.saturating_mul(1024 * 1024),
        spill_directory: configuration.data_dir.clone(),
        spill_bytes: configuration.spill.map_or(u64::MAX, |mebibytes| mebibytes.saturating_mul(1024 * 1024)),
        history: Arc::clone(history),
        witness: witness.cloned(),
        ..engine::Settings::default()
    }
}

/// The service of text indexes, if there is one.
///
/// # Errors
/// The schema needs one and there is none, or what its channel goes by cannot be read.
pub(super) fn text_service(
    configuration: &Configuration,
    schema: &Schema,
) -> Result<Option<Arc<dyn TextService>>, Failure> {
    if let Some(search) = &configuration.search {
        return service_of(search);
    }
    match schema.collections.iter().find(|(_, schema)| schema.text.is_some()) {
        None => Ok(None),
        Some((namespace, _)) => Err(Failure::Check(format!(
            "the schema declares text of {namespace}, which a host of boolean search keeps: name one under [search] in the configuration"
        ))),
    }
}

#[cfg(feature = "search")]
fn service_of(search: &Search) -> Result<Option<Arc<dyn TextService>>, Failure> {
    Ok(Some(Arc::new(arras_text::Service::new(crate::text::host(search)?))))
}

/// This build has none, as the configuration's reader says to who asks for one.
#[cfg(not(feature = "search"))]
fn service_of(_: &Search) -> Result<Option<Arc<dyn TextService>>, Failure> {
    Ok(None)
}

/// Notes how far the history has come, from time to time.
async fn note(witness: Arc<Witness>, history: Arc<History>) {
    loop {
        tokio::time::sleep(witness::STEP).await;
        let (witness, history) = (Arc::clone(&witness), Arc::clone(&history));
        let _ = tokio::task::spawn_blocking(move || note_once(&witness, &history)).await;
    }
}

pub(super) fn note_once(witness: &Witness, history: &History) {
    if let Err(error) = witness.acknowledged(history.acknowledged(0)) {
        tracing::warn!(%error, "what has come to pass cannot be noted: a restore that nobody declares may pass");
    }
}

/// Completes at the first SIGTERM or ctrl-C; a later one ends the process at once.
pub(super) fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
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
