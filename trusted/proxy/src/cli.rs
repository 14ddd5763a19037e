//! The command line of `arras`.

mod certificates;
mod dev;
mod doctor;
mod executable;
mod failure;
mod init;
mod key;
mod lab;
pub mod logging;
mod plan;
mod postgres;
mod proxy;
mod restore;
mod search;
mod search_host;
mod server_process;
mod unlock;

pub use failure::Failure;
#[cfg(feature = "demo")]
pub(crate) use unlock::PASSPHRASE;

use crate::address::address;
use crate::postgres::{Place, place};
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

#[cfg(feature = "demo")]
const TOUR: &str =
    "  arras demo                                       a tour on real data, nothing to install\n";
#[cfg(not(feature = "demo"))]
const TOUR: &str = "";
const USE: &str = "  arras dev --data-dir ./data --listen 127.0.0.1:27017   both sides here, for development\n  \
        arras init ./config && arras proxy --config ./config/arras.toml   for real: see the README\n\n\
        RUST_LOG sets the log's level (error, warn, info, debug); no plaintext value and no key is ever logged.\n\
        Exit codes: 0 done or stopped, 1 failed, 2 usage or configuration, 3 keyring or certificates, \
        4 data directory, 5 network, 130 stopped at once by a second signal.";

/// `arras`: the trusted side.
#[derive(Debug, Parser)]
#[command(
    name = "arras",
    version,
    about = "Queries on encrypted data behind an ordinary MongoDB driver",
    long_about = "The trusted side of Arras: a proxy that applications connect to as if it were MongoDB. It \
        holds the keys, seals every value, and has arras-server, which holds none, answer queries on \
        ciphertext.",
    after_help = format!("First steps:\n{TOUR}{USE}")
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What `arras` can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure: short for `arras lab bench`.
    #[command(disable_help_flag = true)]
    Bench(LabArguments),
    /// Show the deployment's certificates, or make new ones before they end.
    #[command(subcommand)]
    Certificates(CertificatesCommand),
    /// Load a real data set, run queries on it, and show what the server saw of each.
    #[cfg(feature = "demo")]
    Demo(DemoArguments),
    /// Run both sides as two processes on the embedded store, ready for any MongoDB client.
    Dev(DevArguments),
    /// Check a configuration: files, keyring, certificates, server, data directory.
    Doctor(DoctorArguments),
    /// Make a configuration directory: keyring, certificates, commented arras.toml.
    Init(InitArguments),
    /// Change what unlocks the keyring, back it up, check a backup.
    #[command(subcommand)]
    Key(KeyCommand),
    /// Measure protocols, schemes and attacks (runs arras-lab, which holds both halves).
    #[command(disable_help_flag = true)]
    Lab(LabArguments),
    /// Print, for every query of a schema, the index that serves it, what it leaks and what it costs; make the indexes.
    Plan(PlanArguments),
    /// Encrypted columns in an ordinary PostgreSQL: try it out.
    #[command(subcommand)]
    Postgres(PostgresCommand),
    /// Run the proxy.
    Proxy(ProxyArguments),
    /// Say that the proxy's and the server's data directories were restored from one backup (with the proxy stopped):
    /// the next start makes anew what must not be used twice.
    Restore(RestoreArguments),
    /// Boolean search over folders of files and mailboxes (runs arras-search).
    #[command(disable_help_flag = true)]
    Search(SearchArguments),
}

/// What `arras certificates` can do.
#[derive(Debug, Subcommand)]
pub enum CertificatesCommand {
    /// Make new certificates for the proxy and the server, and say which files the server must be given.
    Renew(RenewArguments),
    /// Print each certificate: whose it is, its file, number, issuer and dates, and the days that are left.
    Show(ShowArguments),
}

/// Arguments of `arras certificates renew`.
#[derive(Args, Debug)]
pub struct RenewArguments {
    /// Configuration file, as made by `arras init`.
    #[arg(long, value_name = "FILE.toml")]
    pub config: PathBuf,
    /// Begin a new authority, too (its key is lost, or in wrong hands); one that would end is replaced without this. The
    /// old one is accepted beside it until `--finish`.
    #[arg(long, conflicts_with = "finish")]
    pub new_authority: bool,
    /// Make nothing new: stop accepting the authority before, once the server has its new files.
    #[arg(long)]
    pub finish: bool,
    /// Where to put what the server's machine needs [default: `server` beside the configuration]
    #[arg(long, value_name = "DIR")]
    pub server_directory: Option<PathBuf>,
}

/// Arguments of `arras certificates show`.
#[derive(Args, Debug)]
pub struct ShowArguments {
    /// Configuration file, as made by `arras init`.
    #[arg(long, value_name = "FILE.toml")]
    pub config: PathBuf,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
    /// Where what was made for the server's machine is [default: `server` beside the configuration]
    #[arg(long, value_name = "DIR")]
    pub server_directory: Option<PathBuf>,
}

/// What `arras key` can do.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Write a copy of the keyring that a recovery passphrase (ARRAS_RECOVERY_PASSPHRASE, or asked for) or a printed code
    /// opens.
    Backup(BackupArguments),
    /// Change or set the passphrase of the keyring, or remove it for a key file. Needs what unlocks it now. The new one is
    /// taken from ARRAS_NEW_PASSPHRASE, or asked for.
    Passphrase(PassphraseArguments),
    /// Check that a backup opens, is of this deployment and holds every root; shows none.
    Verify(VerifyArguments),
}

/// Arguments of `arras key backup`.
#[derive(Args, Debug)]
pub struct BackupArguments {
    /// Configuration file, as made by `arras init`.
    #[arg(long, value_name = "FILE.toml")]
    pub config: PathBuf,
    /// The file to write; must not exist.
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
    /// Make and print a recovery code in place of asking for a recovery passphrase.
    #[arg(long)]
    pub code: bool,
}

/// Arguments of `arras key passphrase`.
#[derive(Args, Debug)]
pub struct PassphraseArguments {
    /// Configuration file, as made by `arras init`.
    #[arg(long, value_name = "FILE.toml")]
    pub config: PathBuf,
    /// No passphrase any more: this key file unlocks the keyring (made if it does not exist).
    #[arg(long, value_name = "KEY_FILE")]
    pub remove: Option<PathBuf>,
}

/// Arguments of `arras key verify`.
#[derive(Args, Debug)]
pub struct VerifyArguments {
    /// Configuration file, as made by `arras init`.
    #[arg(long, value_name = "FILE.toml")]
    pub config: PathBuf,
    /// The backup.
    #[arg(long, value_name = "FILE")]
    pub backup: PathBuf,
}

/// Arguments of `arras demo`.
#[cfg(feature = "demo")]
#[derive(Args, Debug)]
pub struct DemoArguments {
    /// Load only so many documents.
    #[arg(long, value_name = "N")]
    pub rows: Option<usize>,
    /// Keep the data (and the server's transcript) in this directory, which must not exist yet.
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
}

/// Where a host of boolean search runs, and how it is spoken to.
#[derive(Args, Debug)]
pub struct SearchHostArguments {
    /// Where a host of boolean search runs, which keeps the words of texts.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    pub search: Option<String>,
    /// Directory with ca.pem, administrator.pem and administrator.key (`arras search certify`), for the channel to the enclave.
    #[arg(long, value_name = "DIR", requires = "search")]
    pub search_certificates: Option<PathBuf>,
    /// Which enclaves are spoken to: a release policy.
    #[arg(long, value_name = "FILE.toml", requires = "search")]
    pub search_policy: Option<PathBuf>,
    /// In place of certificates and policy: speak to whatever answers, over a channel that the host reads.
    #[arg(long, requires = "search")]
    pub search_plain_channel: bool,
}

/// Arguments of `arras dev`.
#[derive(Args, Debug)]
pub struct DevArguments {
    /// Everything is kept here: keyring (unlocked by a key file beside it: for development only), both stores.
    #[arg(long, value_name = "DIR")]
    pub data_dir: PathBuf,
    /// Where MongoDB clients connect; port 0 takes a free one, printed as `listening on mongodb://ADDRESS`.
    #[arg(long, value_name = "HOST:PORT", value_parser = address, default_value = "127.0.0.1:27017")]
    pub listen: String,
    /// Schema file; without one every field is sensitive and every supported query works.
    #[arg(long, value_name = "FILE.toml")]
    pub schema: Option<PathBuf>,
    /// Where text indexes are kept.
    #[command(flatten)]
    pub search: SearchHostArguments,
    /// Have the server write down everything it sees, as JSON lines.
    #[arg(long, value_name = "FILE")]
    pub transcript: Option<PathBuf>,
    /// Bytes of each message to write down.
    #[arg(long, value_name = "N", default_value_t = 256, requires = "transcript")]
    pub transcript_bytes: usize,
}

/// Arguments of `arras doctor`.
#[derive(Args, Debug)]
pub struct DoctorArguments {
    /// Configuration file, as made by `arras init`.
    #[arg(long, value_name = "FILE.toml")]
    pub config: PathBuf,
    /// Compare every index with the documents, too: reads everything and changes nothing. Stop the proxy first.
    #[arg(long)]
    pub deep: bool,
}

/// The configuration file's place.
#[derive(Args, Debug)]
pub struct ConfigArgument {
    /// Configuration file, as made by `arras init`.
    #[arg(long, value_name = "FILE.toml")]
    pub config: PathBuf,
}

/// Arguments of `arras restore`.
#[derive(Args, Debug)]
pub struct RestoreArguments {
    /// Configuration file, as made by `arras init`.
    #[arg(long, value_name = "FILE.toml")]
    pub config: PathBuf,
    /// The server's data directory alone was restored: go on with what it has, and give up every acknowledged write
    /// that it lacks. Cannot be taken back once the proxy was started.
    #[arg(long)]
    pub accept: bool,
}

/// Arguments of `arras init`.
#[derive(Args, Debug)]
pub struct InitArguments {
    /// Directory to make; must be empty if it exists.
    pub directory: PathBuf,
    /// Where applications will connect.
    #[arg(long, value_name = "HOST:PORT", value_parser = address, default_value = "127.0.0.1:27017")]
    pub listen: String,
    /// Where arras-server will be.
    #[arg(long, value_name = "HOST:PORT", value_parser = address, default_value = "127.0.0.1:7411")]
    pub server: String,
    /// The proxy's own data directory; relative to the configuration.
    #[arg(long, value_name = "DIR", default_value = "data")]
    pub data_dir: PathBuf,
    /// Unlock the keyring by this key file (made if it does not exist) instead of a passphrase.
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
}

/// Arguments of `arras lab`: those of `arras-lab`.
#[derive(Args, Debug)]
pub struct LabArguments {
    /// What to measure; `arras lab --help` lists it.
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

/// Arguments of `arras search`: those of `arras-search`.
#[derive(Args, Debug)]
pub struct SearchArguments {
    /// What to do; `arras search --help` lists it.
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

/// Arguments of `arras plan`.
#[derive(Args, Debug)]
pub struct PlanArguments {
    /// Schema file; with --config the configuration's, if this is not given.
    #[arg(long, value_name = "FILE.toml", required_unless_present = "config")]
    pub schema: Option<PathBuf>,
    /// Only this collection.
    #[arg(long, value_name = "DATABASE.COLLECTION", conflicts_with = "apply")]
    pub collection: Option<String>,
    /// Configuration file, as made by `arras init`.
    #[arg(long, value_name = "FILE.toml")]
    pub config: Option<PathBuf>,
    /// Make what the schema calls for and is not there, over the documents there are; the proxy must be stopped (one that
    /// runs has done so at its start).
    #[arg(long, requires = "config")]
    pub apply: bool,
    /// Compare, for each field whose order is needed, all protocols that could give it: what they leak and cost, and what
    /// the lab's attacks recovered.
    #[arg(long, conflicts_with = "apply")]
    pub compare: bool,
    /// The comparison as JSON lines, one a field.
    #[arg(long, requires = "compare")]
    pub json: bool,
    /// Documents of a collection, for which costs are said [default: 100000]
    #[arg(long, value_name = "N", conflicts_with = "apply")]
    pub documents: Option<u64>,
    /// Bytes of a sealed document, on average [default: 1024]
    #[arg(long, value_name = "BYTES", conflicts_with = "apply")]
    pub document_bytes: Option<u64>,
    /// Different values that a field has; may be repeated.
    #[arg(long, value_name = "FIELD=N", conflicts_with = "apply", value_parser = distinct)]
    pub distinct: Vec<(String, u64)>,
}

/// A field and a number.
fn distinct(text: &str) -> Result<(String, u64), String> {
    let named = text.rsplit_once('=').filter(|(field, _)| !field.is_empty());
    let (field, number) = named.ok_or("a field and a number are expected, as in age=120")?;
    Ok((field.to_owned(), number.parse().map_err(|error| format!("{number:?}: {error}"))?))
}

/// What `arras postgres` can do.
#[derive(Debug, Subcommand)]
pub enum PostgresCommand {
    /// Start a PostgreSQL of its own, load a real data set through the proxy, and show what PostgreSQL saw of each statement.
    #[cfg(feature = "demo")]
    Demo(PostgresDemoArguments),
    /// Run a proxy in front of a PostgreSQL that is there, with keys made on the first start: for development.
    Dev(PostgresDevArguments),
}

/// Arguments of `arras postgres demo`.
#[cfg(feature = "demo")]
#[derive(Args, Debug)]
pub struct PostgresDemoArguments {
    /// Load only so many rows.
    #[arg(long, value_name = "N")]
    pub rows: Option<usize>,
}

/// Arguments of `arras postgres dev`.
#[derive(Args, Debug)]
pub struct PostgresDevArguments {
    /// Everything is kept here: keyring (unlocked by a key file beside it: for development only), and how far each order had
    /// come.
    #[arg(long, value_name = "DIR")]
    pub data_dir: PathBuf,
    /// The PostgreSQL behind the proxy, `postgres://[user[:password]@]host[:port][/database][?sslmode=...]`.
    #[arg(long, value_name = "URL", env = "ARRAS_UPSTREAM", hide_env_values = true)]
    pub upstream: String,
    /// Schema of tables: which columns are encrypted, and what must work on them.
    #[arg(long, value_name = "FILE.toml")]
    pub schema: PathBuf,
    /// Where applications connect; port 0 takes a free one, printed as `listening on postgres://ADDRESS`.
    /// `HOST:PORT`, or the folder of a socket, `/run/arras` or `/run/arras:PORT`.
    #[arg(long, value_name = "PLACE", value_parser = place, default_value = "127.0.0.1:5433")]
    pub listen: Place,
    /// Where words of texts are kept.
    #[command(flatten)]
    pub search: SearchHostArguments,
}

/// Arguments of `arras proxy`.
#[derive(Args, Debug)]
pub struct ProxyArguments {
    /// Configuration file, as made by `arras init`.
    #[arg(long, value_name = "FILE.toml", required_unless_present_all = ["postgres", "upstream"])]
    pub config: Option<PathBuf>,
    /// Where applications of PostgreSQL connect, in place of the configuration's `postgres.listen`.
    /// `HOST:PORT`, or the folder of a socket, `/run/arras` or `/run/arras:PORT`; may be given several times.
    #[arg(long, value_name = "PLACE", value_parser = place)]
    pub postgres: Vec<Place>,
    /// The PostgreSQL behind the proxy, `postgres://[user[:password]@]host[:port][/database][?sslmode=...]`, in place of the
    /// configuration's `postgres.upstream`. A password is better left to the environment variable PGPASSWORD: arguments are
    /// shown by `ps`.
    #[arg(long, value_name = "URL", env = "ARRAS_UPSTREAM", hide_env_values = true)]
    pub upstream: Option<String>,
    /// In place of the configuration's `listen`.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    pub listen: Option<String>,
    /// In place of the configuration's server address.
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    pub server: Option<String>,
    /// In place of the configuration's `connections_max`.
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    pub connections_max: Option<usize>,
    /// In place of the configuration's schema.
    #[arg(long, value_name = "FILE.toml")]
    pub schema: Option<PathBuf>,
    /// Take the server over from another proxy that is connected to it; that one's writes are refused from then on,
    /// and it stops.
    #[arg(long)]
    pub take_over: bool,
}

/// Makes sure that there is an `arras-server` to start; a checkout run by cargo builds it, and shows that it does.
#[cfg(feature = "demo")]
pub(crate) fn prepare_server() -> Result<(), Failure> {
    server_process::find().map(drop)
}

/// Carries a command out.
///
/// # Errors
/// [`Failure`]: one line a person can act on, and an exit code.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.command {
        Command::Bench(arguments) => lab::bench(arguments.arguments),
        Command::Certificates(command) => certificates::run(&command),
        #[cfg(feature = "demo")]
        Command::Demo(arguments) => crate::demo::run(&arguments),
        Command::Dev(arguments) => dev::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Init(arguments) => init::run(arguments),
        Command::Key(command) => key::run(command),
        Command::Lab(arguments) => lab::run(&arguments.arguments),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Postgres(command) => postgres::run(command),
        Command::Proxy(arguments) => proxy::run(arguments),
        Command::Restore(arguments) => restore::run(&arguments),
        Command::Search(arguments) => search::run(&arguments.arguments),
    }
}
