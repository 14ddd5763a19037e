//! PostgreSQL front end: wire protocol and SQL rewriting.
//!
//! It sees plaintext values and terms, no key: what needs one goes through `arras_service::columns`.
#![forbid(unsafe_code)]

pub mod catalog;
mod codec;
pub mod column_type;
pub mod error;
pub mod plan;
mod rewrite;
pub mod schema;
mod text;
pub mod values;

pub use catalog::Catalog;
pub use error::SqlError;
pub use plan::{Action, Planned};
pub use rewrite::plan;
pub use schema::Schema;
