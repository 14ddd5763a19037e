//! Trees of order-preserving encodings in a real PostgreSQL: what is kept and how it changes, beside whatever other
//! connections do, and whatever is killed.

mod crashes;
mod heads;
mod installation;
mod last_occurrences;
mod races;
mod relabellings;
mod rights;
mod snapshots;
mod store;
mod world;
