//! The MongoDB front end over real TCP connections and the plain store: what drivers do not show, since they never
//! misbehave.
#![allow(clippy::unwrap_used)]

mod bounds;
mod client;
mod connections;
mod cursors;
mod definitions;
mod explain;
mod halves;
mod hostile;
mod lying;
mod now;
mod plans;
mod slow;
mod sorts;
mod validation;
