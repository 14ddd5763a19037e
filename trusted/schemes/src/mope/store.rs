//! Where a column's tree is kept: at a server of ours, or in the tables of an ordinary database.

pub use arras_protocol::mope::{Round, TreeStore};
