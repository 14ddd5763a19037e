//! ArxRange with both halves in one process: against a sorted list, through crashes and faults, under the eyes of
//! an attacker who keeps everything.

mod adding;
mod answers;
mod auditor;
mod deferred;
mod faults;
mod hostile;
mod leakage;
mod lies;
mod shape;
mod world;
