//! Schema and query patterns to indexes, leakage and cost.
//!
//! Holds no key and does no I/O. The path of a query:
//! * [`schema`] and [`request`] say which indexes a collection has ([`indexes`], [`physical`]), of the [`kinds`] there
//!   are and against an [`adversary`];
//! * [`terms`] says what a document contributes to each;
//! * [`plan`] turns a filter into an [`access`] that finds at least the documents that match;
//! * [`explain`] says what that costs and leaks, and [`report`] does so for each query of a schema.
//!
//! *Paper.* Arx (VLDB'19) §2.4, §2.5, §6, §7, figure 4.
#![forbid(unsafe_code)]

pub mod access;
pub mod adversary;
mod advice;
pub mod comparison;
mod conditions;
pub mod cost;
pub mod explain;
pub mod indexes;
pub mod interval;
pub mod keys;
pub mod kinds;
pub mod physical;
pub mod plan;
pub mod report;
pub mod request;
pub mod schema;
pub mod terms;
pub mod text;
