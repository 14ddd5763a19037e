//! BISEN's isolated execution environment (Ferreira et al., IEEE TDSC): the only trusted code on the server's machine.
//!
//! [`Iee`] is a state machine: one message in, messages out. It opens no file or socket, knows no clock and starts no thread; its
//! windows are the channels to clients and the host's storage, both through `arras_protocol::iee`. The binary moves frames. Inside, what
//! is under way are tasks that wait for the host's answers (the module `tasks`): one does all changes, and
//! each search is one.
//!
//! *Channels* are TLS 1.3 that ends in here ([`Channels::Attested`]). The key is made at each start; the certificate has evidence that the
//! host obtains and that binds the key, the authority whose certificates clients have, and the administrator's name.
//!
//! *Scheme.* `docs/bisen.md`. In short: a keyword has a counter and an epoch in the module `table`; its entry number c lies under the label
//! `F(F(H(w)) xor (epoch || c))`, F being AES, which is CBC-MAC of two blocks, and is sealed with that label. A search fetches all entries
//! of its keywords in one random order, replays their operations, evaluates the formula on bitmaps of dense document numbers, filters, ranks and
//! pads.
//!
//! *Durability.* A change is a record in a log that is sealed and chained; the monotonic counter is raised to its number before
//! anything that depends on it leaves. So a state that was set back, or two that were mixed, is noticed at the next start.
//!
//! *Memory* is counted: tables, documents, searches and what waits. Counters that do not fit are spilled (the module `spill`); what else
//! does not fit is refused.
#![forbid(unsafe_code)]

mod budget;
mod channel;
mod checkpoint;
mod collection;
mod compact;
mod documents;
mod evaluate;
mod fetch;
mod frames;
mod journal;
mod lane;
mod policy;
mod search;
mod server;
mod spill;
mod state;
mod table;
mod tasks;

pub use arras_protocol::iee::Fault;
pub use channel::Channels;
pub use frames::serve;
pub use server::Iee;
pub use spill::SPILLED_MAX;
