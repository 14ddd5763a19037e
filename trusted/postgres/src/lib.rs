//! PostgreSQL front end: wire protocol and SQL rewriting.
//!
//! It sees plaintext values and terms, no key: what needs one goes through `arras_service::columns`. Between an application
//! and its database it passes on messages: what the database answers (rows, tags, notices, errors with their positions,
//! settings) is the database's own, but where an encrypted column is concerned.
#![forbid(unsafe_code)]

mod access;
mod cancel;
pub mod catalog;
pub mod checks;
mod codec;
pub mod column_type;
pub mod copy;
pub mod error;
pub mod examined;
mod fields;
mod frames;
mod listener;
pub mod moment;
pub mod mope;
mod named;
mod pipeline;
pub mod plan;
mod replies;
pub mod report;
mod rewrite;
mod rewriting;
mod room;
pub mod schema;
mod scram;
mod server;
mod session;
pub mod shown;
mod startup;
mod stream;
mod text;
mod upstream;
pub mod values;
pub mod words;

pub use access::{Acceptor, Access, Users};
pub use catalog::Catalog;
pub use error::SqlError;
pub use listener::{Listener, SocketFile, socket_path};
use mope::{
    Connections, Dial, Dialled, Duplex, Freshness, Question, Settings, Snapshot, Stored, failure,
    hold_statement, is_holding, is_named_in, not_known_there, set_anew, watch_older,
};
pub use named::{Naming, Prepared};
pub use plan::{Action, Planned};
pub use rewrite::plan;
pub use rewriting::Rewriting;
pub use schema::Schema;
pub use scram::{NotAVerifier, Verifier};
pub use server::{Options, Server};
pub use upstream::{AddressError, LoginPassword, Upstream, UpstreamError};
