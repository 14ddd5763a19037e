//! `arras dev`: both sides as two processes on the embedded store.

use super::server_process::{self, ServerCommand};
use super::{DevArguments, Failure, logging, plan, proxy};
use crate::configuration::{Configuration, LogFormat};
use crate::init::{self, Choices, Layout};
use arras_certificates::{Watching, now};
use arras_engine::history::History;
use arras_keys::{Keyring, Unlock};
use arras_storage::private;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::oneshot;

/// Pause before a server that ended is started again.
const PAUSE: Duration = Duration::from_millis(200);

/// Everything in the directory of a development set-up.
struct Directory {
    layout: Layout,
    key_file: PathBuf,
    proxy_data: PathBuf,
    server_data: PathBuf,
}

impl Directory {
    fn new(directory: &Path) -> Self {
        Self {
            layout: Layout::new(&directory.join("config")),
            key_file: directory.join("keyring.key"),
            proxy_data: directory.join("proxy"),
            server_data: directory.join("server"),
        }
    }

    /// Makes what a first start needs.
    fn prepare(&self, directory: &Path) -> Result<(), Failure> {
        if self.layout.configuration.is_file() {
            return Ok(());
        }
        private::make_directory(directory)
            .map_err(|source| Failure::Io { path: directory.into(), source })?;
        if !self.key_file.exists() {
            arras_keys::create_key_file(&self.key_file)?;
        }
        let choices = Choices {
            unlock: Unlock::KeyFile(self.key_file.clone()),
            listen: "127.0.0.1:27017".into(),
            server: "127.0.0.1:7411".into(),
            data_dir: PathBuf::from("../proxy"),
        };
        init::init(&directory.join("config"), choices, now())?;
        Ok(())
    }
}

pub(super) fn run(arguments: &DevArguments) -> Result<(), Failure> {
    logging::start(LogFormat::Text, "info");
    let directory = std::path::absolute(&arguments.data_dir)?;
    let places = Directory::new(&directory);
    places.prepare(&directory)?;
    let schema = arguments.schema.as_deref().map(plan::read_schema).transpose()?.unwrap_or_default();
    let keyring = Keyring::open(&places.layout.keyring, Unlock::KeyFile(places.key_file.clone()))?;
    let server = ServerCommand {
        program: server_process::find()?,
        data_dir: places.server_data.clone(),
        certificates: places.layout.server.clone(),
        transcript: arguments.transcript.clone().map(|path| (path, arguments.transcript_bytes)),
    };
    let mut configuration = Configuration::read(&places.layout.configuration)?;
    configuration.listen.clone_from(&arguments.listen);
    configuration.search = arguments.search.host()?;
    configuration.data_dir = places.proxy_data;
    // Everything is kept in the one directory.
    configuration.witness = None;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let stop = proxy::stop_signal()?;
        let running = server.start("127.0.0.1:0").await?;
        configuration.server.address.clone_from(&running.address);
        tracing::info!(process = running.id(), address = running.address, "arras-server runs, without a key");
        let (stop_server, stopping) = oneshot::channel();
        let keeper = tokio::spawn(keep(server, running, stopping));
        let served = proxy::serve(
            &configuration,
            keyring,
            schema,
            History::default(),
            (Watching::without_hangup(), stop),
        )
        .await;
        let _ = stop_server.send(());
        let _ = keeper.await;
        served
    })
}

/// Keeps the server running: if it ends by itself (or is killed) it is started again where it was.
async fn keep(
    command: ServerCommand,
    mut running: server_process::ServerProcess,
    mut stopping: oneshot::Receiver<()>,
) {
    loop {
        tokio::select! {
            _ = &mut stopping => return running.stop().await,
            () = running.ended() => {}
        }
        tracing::warn!("arras-server has ended; starting it again");
        let address = running.address.clone();
        running = loop {
            tokio::select! {
                _ = &mut stopping => return,
                () = tokio::time::sleep(PAUSE) => {}
            }
            match command.start(&address).await {
                Ok(started) => break started,
                Err(error) => tracing::error!(%error, "arras-server does not start again"),
            }
        };
    }
}
