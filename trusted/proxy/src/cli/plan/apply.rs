//! `arras plan --apply`: makes what a schema calls for and is not there, while no proxy runs.

use crate::cli::{Failure, logging, proxy, unlock};
use crate::configuration::Configuration;
use crate::connection::tls::{self, CertificatePaths};
use crate::connection::{Connection, Settings};
use crate::running::{Noted, Running};
use arras_engine::declared::{CalledFor, Unmet};
use arras_engine::history::History;
use arras_engine::witness::Witness;
use arras_engine::{self as engine, Engine};
use arras_keys::Keyring;
use arras_planner::schema::Schema;
use arras_service::store::{Namespace, Store};
use arras_storage::{Embedded, StorageError};
use std::sync::Arc;
use std::time::Duration;

/// How often the output says how far an index is.
const PROGRESS: Duration = Duration::from_secs(1);

pub(super) fn run(configuration: &Configuration, schema: Schema) -> Result<(), Failure> {
    logging::start(configuration.log_format, "warn");
    let unlock = unlock::existing(configuration.keyring.key_file.clone())?;
    let keyring = Keyring::open(&configuration.keyring.path, unlock)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(apply(configuration, keyring, schema))
}

fn in_use(configuration: &Configuration) -> Failure {
    let path = configuration.data_dir.clone();
    let process =
        Running::read(&path).map_or_else(String::new, |running| format!(" (process {})", running.process));
    let what = format!(
        "a proxy{process} has it open; what the schema called for at its start it has made, or its log says why not: restart it \
         after a change of the schema, or stop it to make the indexes by this command"
    );
    Failure::Data { path, what }
}

#[allow(clippy::print_stdout, reason = "what the command is for")]
async fn apply(configuration: &Configuration, keyring: Keyring, schema: Schema) -> Result<(), Failure> {
    let path = configuration.data_dir.clone();
    if !Embedded::exists(&path).map_err(|error| Failure::data(path.clone(), error))? {
        println!("there are no data yet: the indexes are made with their collections");
        return Ok(());
    }
    let local = match Embedded::open(&path) {
        Err(StorageError::InUse) => return Err(in_use(configuration)),
        opened => opened.map_err(|error| Failure::data(path, error))?,
    };
    // A proxy's that ended without a stop: it is not what has the directory open now.
    Noted::forget(&configuration.data_dir);
    let witness = configuration.witness.as_deref().map(Witness::open).transpose();
    let witness = witness.map_err(engine::OpenError::from)?.map(Arc::new);
    let history = Arc::new(History::new(false));
    let certificates = CertificatePaths::in_directory(&configuration.server.certificates);
    let tls = tls::client_config(&certificates)?;
    let settings = Settings {
        history: Arc::clone(&history),
        deadline: Duration::from_secs(configuration.server.deadline_seconds),
        ..Settings::new(configuration.server.address.clone(), tls)
    };
    let connection = Connection::open(settings).await?;
    let server = connection.server();
    let text = proxy::text_service(configuration, &schema)?;
    let settings = engine::Settings {
        keep_schema_applied: false,
        text,
        ..proxy::engine_settings(configuration, schema, &history, witness.as_ref())
    };
    let engine = Engine::open(local, keyring, Arc::new(connection), &server, settings).await?;
    let lacking = engine.lacking();
    if lacking.is_empty() {
        println!("everything that the schema calls for is there");
    }
    let unmet = applied(&engine, &lacking).await;
    if let Some(witness) = &witness {
        proxy::note_once(witness, &history);
    }
    for (ns, index) in &lacking {
        let failed = unmet.iter().find(|unmet| unmet.ns == *ns && unmet.index == *index);
        let outcome =
            failed.map_or_else(|| "made".to_owned(), |unmet| format!("cannot be made: {}", unmet.why));
        println!("{}.{}: {index:#}: {outcome}", ns.database, ns.collection);
    }
    match unmet.len() {
        0 => Ok(()),
        1 => Err(Failure::Check("one index cannot be made".into())),
        more => Err(Failure::Check(format!("{more} indexes cannot be made"))),
    }
}

/// Makes them, and says from time to time how far it is.
#[allow(clippy::print_stdout, reason = "what the command is for")]
async fn applied<C: engine::channel::ServerChannel>(
    engine: &Engine<Embedded, C>,
    lacking: &[(Namespace, CalledFor)],
) -> Vec<Unmet> {
    for (ns, index) in lacking {
        println!("{}.{}: {index:#}: to be made", ns.database, ns.collection);
    }
    let mut applying = std::pin::pin!(engine.apply_schema());
    let mut tick = tokio::time::interval(PROGRESS);
    tick.tick().await;
    loop {
        tokio::select! {
            unmet = &mut applying => return unmet,
            _ = tick.tick() => {
                for build in engine.index_builds() {
                    let (ns, done, total) = (&build.ns, build.done, build.total);
                    println!("{}.{}: {done} of {total} documents", ns.database, ns.collection);
                }
            }
        }
    }
}
