//! What a client of boolean search does by itself: text to keywords, queries to formulas, folders and mailboxes to
//! documents, and the lines to show of what was found.
//!
//! Reaches keywords' hashes and the enclave's messages, and no key of any data; opens no socket and has no clock. A document goes
//! [`corpus`] → [`analysis`] → [`update`]; a query [`grammar`] → [`formula`] → [`condition`] → [`search`]; both to a
//! [`service::Collection`], and what is found to [`snippets`]. Document and query pass through the same analysis, which is why
//! both are here, and which a [`profile`] makes sure of.
//!
//! *Paper.* BISEN (TDSC) §3 and §4 take keywords as given; this crate is where they come from.
#![forbid(unsafe_code)]

pub mod analysis;
pub mod condition;
#[cfg(feature = "corpus")]
pub mod corpus;
pub mod formula;
pub mod grammar;
pub mod language;
pub mod link;
mod patience;
pub mod profile;
pub mod search;
pub mod service;
pub mod snippets;
pub mod tsquery;
pub mod update;

#[cfg(test)]
mod oracle;
