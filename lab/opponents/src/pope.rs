//! POPE: a warm search.
//!
//! The published implementation (Python; 100,000 values, L = 60, ranges of 0.5 %) takes 0.53 ms a warm search, its
//! own ordering of integers in place of encryption. It is not in a registry, so its figure stands for it.

use crate::table::{Table, Target};
use arras_keys::Key;
use arras_primitives::prg::Prg;
use arras_protocol::ore::Width;
use arras_protocol::{Channel, ChannelError, IndexId, Protocol, RowId, codec};
use arras_schemes::pope::{Keyed, Standalone};
use arras_server::Backend;
use arras_storage::Memory;
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

const RECORDS: u64 = 100_000;
/// Values of a range of 0.5 %.
const SPAN: u64 = RECORDS / 200;
/// Searches before the tree is called warm.
const WARMING: u64 = 4_000;
/// Searches in one call of what is timed.
const EACH: usize = 64;

/// The server in this process; messages are encoded and decoded as on the wire.
struct Direct(Backend<Memory>);

impl<P: Protocol> Channel<P> for Direct {
    async fn call(&self, request: P::Request) -> Result<P::Response, ChannelError> {
        let reply = self.0.handle(P::ID, &codec::encode(&request))?;
        codec::decode(&reply).map_err(|_| ChannelError::Malformed(P::NAME.into()))
    }
}

/// Runs a future that never waits.
fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("a direct channel answers at once"),
    }
}

pub fn measure(table: &mut Table) {
    let mut random = Prg::new(&[5; 16]);
    let backend = Backend::open(Memory::new(), [1; 16]).expect("an empty store");
    let (index, page_bytes) = (IndexId([1; 8]), 4096);
    let key = Key::take_from(&mut [3; 32]);
    let keyed = Keyed { index, key: &key, width: Width::Bits32 };
    let made = Standalone::create(Direct(backend), keyed, page_bytes, Prg::new(&[1; 16]));
    let pope = now(made).expect("an index");
    let mut entries = Vec::new();
    for _ in 0..RECORDS {
        let mut row = [0; 16];
        random.fill(&mut row);
        entries.push((random.next_u64() % RECORDS, RowId(row)));
    }
    now(pope.insert_plain(&entries)).expect("inserts");
    let mut search = || {
        let lower = random.next_u64() % (RECORDS - SPAN);
        now(pope.search_plain(lower, lower + SPAN - 1)).expect("searches").len()
    };
    for _ in 0..WARMING {
        black_box(search());
    }
    let found: usize = (0..1000).map(|_| search()).sum();
    let operation = format!("POPE search, warm, {} of {RECORDS}", found / 1000);
    let mut searches = || {
        for _ in 0..EACH {
            black_box(search());
        }
    };
    table.row(&operation, &[Target::Ns(53_000.0)], EACH, &mut searches, None);
    println!("{:<44} {:>12} {:>14}", "", "", "530000 published, Python");
}
