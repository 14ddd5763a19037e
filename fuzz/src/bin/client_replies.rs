//! Replies to the client halves of the range indexes: `index: u8`, then each reply as `length: u16 LE | body`. Errors are
//! results, and so are lies that nothing contradicts; a panic or an operation without an end is not. When there are no
//! more replies the connection is lost.
#![no_main]

use arras_fuzz::seed;
use arras_keys::Key;
use arras_primitives::prg::Prg;
use arras_protocol::Order;
use arras_protocol::ore::Width;
use arras_protocol::{Channel, ChannelError, IndexId, Protocol, RowId, codec};
use arras_schemes::IndexError;
use arras_schemes::arx_range::RangeEntry;
use arras_schemes::bplus::{BPlus, StatefulBPlus};
use arras_schemes::kerschbaum_tueno::KerschbaumTueno;
use arras_schemes::logarithmic_brc::{LogarithmicBrc, Parameters};
use arras_schemes::ore::clww::Clww;
use arras_schemes::ore::fh_ope::FhOpe;
use arras_schemes::path_oram::{OramParameters, OramTree, OramTreeParameters};
use arras_schemes::pope::{Keyed, Standalone};
use arras_schemes::traits::RangeIndex;
use arras_server::Backend;
use arras_storage::Memory;
use libfuzzer_sys::fuzz_target;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

const INDEX: IndexId = IndexId([1; 8]);
const INDEXES: u8 = 6;

/// The server: a real one whose replies are written down, or replies.
enum Server {
    Honest(Backend<Memory>, Mutex<Vec<u8>>),
    Scripted(Mutex<Vec<u8>>),
}

impl<P: Protocol> Channel<P> for Server {
    async fn call(&self, request: P::Request) -> Result<P::Response, ChannelError> {
        let reply = match self {
            Self::Honest(backend, replies) => {
                let reply = backend.handle(P::ID, &codec::encode(&request))?;
                let length = u16::try_from(reply.len()).expect("a short reply").to_le_bytes();
                replies.lock().expect("nothing panicked").extend([&length[..], &reply].concat());
                reply
            }
            Self::Scripted(replies) => {
                let mut replies = replies.lock().expect("nothing panicked");
                let Some(([low, high], rest)) = replies.split_first_chunk::<2>() else {
                    return Err(ChannelError::Lost("no more replies".into()));
                };
                let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
                let reply = rest[..length].to_vec();
                replies.drain(..2 + length);
                reply
            }
        };
        codec::decode(&reply).map_err(|_| ChannelError::Malformed("not a reply".into()))
    }
}

async fn work(index: impl RangeIndex) {
    let entries = |keys: std::ops::Range<u32>| -> Vec<_> {
        let entry = |key: u32| RangeEntry {
            value: (key / 2).to_be_bytes().to_vec(),
            row: RowId([key as u8; 16]),
            sums: Vec::new(),
        };
        keys.map(entry).collect()
    };
    let _ = index.insert(entries(0..12)).await;
    for (order, limit) in [(Order::Ascending, None), (Order::Descending, Some(3))] {
        let found = index.search(vec![0, 0, 0, 1], vec![0, 0, 0, 4], order, limit).await;
        let Ok(found) = found else { continue };
        assert!(limit.is_none_or(|limit| found.len() <= limit));
        assert!(found.iter().all(|(key, _)| (&[0, 0, 0, 1][..]..=&[0, 0, 0, 4]).contains(&key.as_slice())));
    }
    let _ = index.remove(entries(3..6)).await;
    let _ = index.insert(entries(2..4)).await;
}

async fn drive(which: u8, server: Arc<Server>) -> Result<(), IndexError> {
    let (key, width, prg) = (Key::take_from(&mut [2; Key::BYTES]), Width::Bits32, Prg::new(&[3; 16]));
    match which {
        0 => work(BPlus::new(server, INDEX, &key, Clww::new(&key, width), prg).create(256).await?).await,
        1 => work(StatefulBPlus::new(server, INDEX, &key, FhOpe::new(width), prg).create(256).await?).await,
        2 => work(KerschbaumTueno::create(server, INDEX, &key, width, 128, prg).await?).await,
        3 => {
            work(Standalone::create(server, Keyed { index: INDEX, key: &key, width }, 256, prg).await?).await
        }
        4 => {
            let parameters = Parameters { domain_bits: 8, page_bytes: 256, ..Parameters::new(width) };
            work(LogarithmicBrc::new(INDEX, parameters, &key, Arc::new(server), prg)?).await;
        }
        _ => {
            let oram = OramParameters { cached_levels: 1, durable: false, ..OramParameters::of_blocks(120) };
            let parameters = OramTreeParameters { key_bytes: 4, oram_levels: 2, oram };
            work(OramTree::create(server, INDEX, &key, parameters, prg).await?).await;
        }
    }
    Ok(())
}

/// Drives an index to its end; no channel here waits.
fn run(which: u8, server: &Arc<Server>) {
    let driven = pin!(drive(which, Arc::clone(server)));
    assert!(matches!(driven.poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(_)));
}

fn seeds() -> Vec<Vec<u8>> {
    let seed = |which: u8| {
        let backend = Backend::open(Memory::new(), [0; 16]).expect("an empty store opens");
        let server = Arc::new(Server::Honest(backend, Mutex::default()));
        run(which, &server);
        let Server::Honest(_, replies) = &*server else { return Vec::new() };
        let replies = replies.lock().expect("nothing panicked");
        [&[which], replies.as_slice()].concat()
    };
    (0..INDEXES).map(seed).collect()
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    let Some((which, replies)) = bytes.split_first() else { return };
    run(which % INDEXES, &Arc::new(Server::Scripted(Mutex::new(replies.to_vec()))));
});
