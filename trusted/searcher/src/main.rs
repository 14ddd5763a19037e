//! `arras-search`, which `arras search` runs: boolean search over folders of files and mailboxes.
//!
//! It starts host and enclave as processes beside it, on a store in a folder, and speaks to the enclave through the host, by a channel
//! that opens to the measured program alone. The enclave is an ordinary process: what this machine's administrators see is everything.
//! Host and enclave say so when they start.
#![forbid(unsafe_code)]

mod administering;
mod certifying;
mod connection;
mod credentials;
mod failure;
mod host;
mod indexing;
mod journal;
mod progress;
mod querying;
mod serve;
mod showing;
mod storage;
mod store;

use arras_schemes::bisen::query::{PADDED_MAX, Padding};
use arras_search::language::Language;
use arras_search::profile::Profile;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Boolean search over folders of files and mailboxes.
#[derive(Debug, Parser)]
#[command(
    name = "arras search",
    bin_name = "arras search",
    version,
    about = "Boolean search over folders of files and mailboxes",
    long_about = "Boolean search over folders of files and mailboxes: an index that an isolated execution environment keeps \
        sealed. Host and enclave are started as processes; this release's enclave is an ordinary process, which protects nothing \
        from who has this machine.",
    after_help = "Queries: (whale OR ship) AND NOT \"old captain\" from:alice date:2001..2003 size:>10k\n\
        docs/search.md has the whole language. Exit codes: 0 done, a query that finds nothing too, 1 failed, 2 usage or query, \
        3 keyring, 4 store, 5 network, 6 something could not be read and all else is indexed, 130 stopped."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Bring the index up to what is at paths and below them: what is new or has changed is put in, what is gone taken out.
    Index(IndexArguments),
    /// Print the documents that a query finds, with the lines that match.
    Query(QueryArguments),
    /// The same in a browser on this machine, with what the server saw of each query beside its results.
    Serve(ServeArguments),
    /// Make a client's certificate for an enclave that runs by itself (docs/host.md), and the authority that signs it if there is none.
    Certify(CertifyArguments),
    /// Say what a client may do with a collection of an enclave that runs by itself; replaces what was said before.
    Grant(GrantArguments),
    /// Take all rights from a client of an enclave that runs by itself, or no more connections with a certificate.
    Revoke(RevokeArguments),
}

/// How the administrator reaches an enclave.
#[derive(Args, Debug)]
pub(crate) struct Administrator {
    /// Where its host listens.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) host: String,
    /// Where the administrator's certificate and key are, and `ca.pem`: what `certify` writes.
    #[arg(long, value_name = "DIR")]
    pub(crate) credentials: PathBuf,
    /// The release policy: which enclaves are spoken to, and the administrator's name.
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: PathBuf,
}

/// Arguments of `arras search grant`.
#[derive(Args, Debug)]
#[command(group(clap::ArgGroup::new("rights").required(true).multiple(true).args(["search", "update", "nothing"])))]
pub(crate) struct GrantArguments {
    #[command(flatten)]
    pub(crate) administrator: Administrator,
    /// It may search.
    #[arg(long)]
    pub(crate) search: bool,
    /// It may put documents in and take them out.
    #[arg(long)]
    pub(crate) update: bool,
    /// It may do nothing with the collection.
    #[arg(long, conflicts_with_all = ["search", "update"])]
    pub(crate) nothing: bool,
    /// It may rank, and filter by how often words occur.
    #[arg(long, requires = "search")]
    pub(crate) rank: bool,
    /// It may filter by the field of this number; may be repeated.
    #[arg(long = "field", value_name = "N", requires = "search", value_parser = clap::value_parser!(u8).range(0..i64::from(Profile::FIELDS)))]
    pub(crate) fields: Vec<u8>,
    /// It sees documents of this group, beside those of none; may be repeated. Not given: of all groups.
    #[arg(long = "group", value_name = "N")]
    pub(crate) groups: Vec<u32>,
    /// The name in its certificate.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// The collection.
    #[arg(value_name = "COLLECTION")]
    pub(crate) collection: String,
}

/// Arguments of `arras search revoke`.
#[derive(Args, Debug)]
#[command(group(clap::ArgGroup::new("whom").required(true).multiple(true).args(["name", "serial"])))]
pub(crate) struct RevokeArguments {
    #[command(flatten)]
    pub(crate) administrator: Administrator,
    /// The serial number of a certificate, as `certify` printed it.
    #[arg(long, value_name = "HEX")]
    pub(crate) serial: Option<String>,
    /// The name of a client, in every collection.
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
}

/// Arguments of `arras search certify`.
#[derive(Args, Debug)]
pub(crate) struct CertifyArguments {
    /// Where the authority is (`ca.pem`, `ca.key`), and the client's certificate and key are put (`NAME.pem`, `NAME.key`).
    #[arg(long, value_name = "DIR")]
    pub(crate) authority: PathBuf,
    /// The client's name: what the enclave's rights go by.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Arguments of `arras search index`.
#[derive(Args, Debug)]
pub(crate) struct IndexArguments {
    /// Where index, keyring and record of what was indexed are kept; made on the first run.
    #[arg(long, value_name = "DIR")]
    pub(crate) store: PathBuf,
    /// Language of the texts (none, english, german, ...); of a store that is there, its own [default: english]
    #[arg(long, value_name = "LANGUAGE")]
    pub(crate) language: Option<Language>,
    #[command(flatten)]
    pub(crate) storage: StorageArguments,
    /// Take what is at the paths and below them out of the index; the files need not be there.
    #[arg(long)]
    pub(crate) remove: bool,
    /// Files, folders of files, mbox files, Maildirs.
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
}

/// Where the host keeps sealed entries and state, if not in the store's folder; a store stays where its first run put it.
#[derive(Args, Debug)]
pub(crate) struct StorageArguments {
    /// Keep sealed entries in Redis (`redis://HOST:PORT`, several servers of one cluster after commas).
    #[arg(long, value_name = "URL", value_delimiter = ',', conflicts_with = "cassandra")]
    pub(crate) redis: Vec<String>,
    /// Keep sealed entries in Cassandra or ScyllaDB (`HOST:PORT`, several nodes after commas).
    #[arg(long, value_name = "NODE", value_delimiter = ',')]
    pub(crate) cassandra: Vec<String>,
    /// Keep sealed entries in PostgreSQL (`postgres://USER:PASSWORD@HOST:PORT/DATABASE`), in a schema of their own.
    #[arg(long, value_name = "URI", conflicts_with_all = ["redis", "cassandra"])]
    pub(crate) postgres: Option<String>,
    /// How many of Cassandra's nodes keep each entry; set on the first run.
    #[arg(long, value_name = "N", default_value_t = 3, requires = "cassandra", value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) replicas: u8,
}

/// Arguments of `arras search query`.
#[derive(Args, Debug)]
pub(crate) struct QueryArguments {
    /// The store of `arras search index`.
    #[arg(long, value_name = "DIR")]
    pub(crate) store: PathBuf,
    /// Rank what is found, and print the best N only [default with --rank: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) top: Option<u32>,
    /// By what to rank [default with --top: bm25]
    #[arg(long, value_name = "FORMULA")]
    pub(crate) rank: Option<Rank>,
    /// Refuse a store whose texts are in another language.
    #[arg(long, value_name = "LANGUAGE")]
    pub(crate) language: Option<Language>,
    /// One JSON object a line, with `path`, of a message in a mailbox `message`, of all messages what they say of `from`, `subject` and
    /// `date`, and if ranked `score`; no lines of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// Fill the enclave's answer up, so that its length shows the host less of how many documents match: `power-of-two`, or a number of
    /// results, of which there are then no more.
    #[arg(long, value_name = "PADDING", default_value = "none", value_parser = padding)]
    pub(crate) padding: Padding,
    /// Lines of each document that are shown.
    #[arg(long, value_name = "N", default_value_t = 2, conflicts_with = "json")]
    pub(crate) lines: usize,
    /// What to find. One that begins with a minus goes behind `--`.
    #[arg(value_name = "QUERY")]
    pub(crate) query: String,
}

fn padding(text: &str) -> Result<Padding, String> {
    let padding = match text {
        "none" => Padding::None,
        "power-of-two" => Padding::PowerOfTwo,
        number => Padding::Fixed(number.parse().map_err(|_| "none, power-of-two or a number is expected")?),
    };
    if padding.is_bounded() {
        Ok(padding)
    } else {
        Err(format!("a number of results from 1 to {PADDED_MAX} is expected"))
    }
}

/// Arguments of `arras search serve`.
#[derive(Args, Debug)]
pub(crate) struct ServeArguments {
    /// The store of `arras search index`. As long as the page is served, nothing else can use it.
    #[arg(long, value_name = "DIR")]
    pub(crate) store: PathBuf,
    /// Port to listen on, of this machine's own address alone; 0 is any that is free.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) port: u16,
}

/// How documents are ranked.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Rank {
    /// Okapi BM25.
    Bm25,
    /// TF-IDF.
    TfIdf,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Index(arguments) => indexing::run(&arguments),
        Command::Query(arguments) => querying::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Certify(arguments) => certifying::run(&arguments),
        Command::Grant(arguments) => administering::grant(&arguments),
        Command::Revoke(arguments) => administering::revoke(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Nobody may be reading.
            let _ = writeln!(io::stderr(), "arras search: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
