//! Path ORAM beside crate `oram` (Meta Platforms), which leaves encryption and integrity to an enclave's memory. 65,536
//! blocks of 4 KiB, read in random order.

use crate::table::{Table, Target};
use arras_keys::{Key, Purpose};
use arras_primitives::prg::Prg;
use arras_protocol::path_oram::{PathOram, Request, Response, Shape};
use arras_protocol::{Channel, ChannelError, IndexId, Protocol, codec};
use arras_schemes::path_oram::{Oram, OramParameters};
use arras_server::Backend;
use arras_storage::Memory;
use oram::{BlockValue, DefaultOram, Oram as _};
use rand08::rngs::StdRng;
use rand08::{Rng, SeedableRng};
use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

const BLOCKS: u32 = 65_536;
const BLOCK_BYTES: usize = 4096;

/// Buckets in an array: what the opponent's memory is to it.
#[derive(Default)]
struct Array(Mutex<(Option<Shape>, Vec<u8>)>);

impl Channel<PathOram> for Array {
    async fn call(&self, request: Request) -> Result<Response, ChannelError> {
        let mut state = self.0.lock().expect("one thread");
        let (shape, memory) = &mut *state;
        match request {
            Request::Create { shape: new, .. } => {
                *memory = vec![0; new.end_place() as usize * new.bucket_bytes as usize];
                *shape = Some(new);
            }
            Request::Load { first, buckets, .. } => {
                let start = first as usize * shape.expect("made").bucket_bytes as usize;
                memory[start..start + buckets.len()].copy_from_slice(buckets.as_slice());
            }
            Request::Access { write, read, .. } => {
                let shape = shape.expect("made");
                let bytes = shape.bucket_bytes as usize;
                if let Some(write) = write {
                    let buckets = write.buckets.as_slice().chunks_exact(bytes);
                    for (place, bucket) in shape.places(&write.leaves).into_iter().zip(buckets) {
                        memory[place as usize * bytes..][..bytes].copy_from_slice(bucket);
                    }
                }
                let places = shape.places(&read);
                let mut found = Vec::with_capacity(places.len() * bytes);
                for place in places {
                    found.extend_from_slice(&memory[place as usize * bytes..][..bytes]);
                }
                return Ok(Response::Paths(found.into()));
            }
            Request::Drop { .. } | Request::Grow { .. } => {}
        }
        Ok(Response::Done)
    }
}

/// The server half over a store in memory, messages encoded as on the wire.
struct Server(Backend<Memory>);

impl Channel<PathOram> for Server {
    async fn call(&self, request: Request) -> Result<Response, ChannelError> {
        let reply = self.0.handle(PathOram::ID, &codec::encode(&request))?;
        codec::decode(&reply).map_err(|error| ChannelError::Malformed(error.to_string()))
    }
}

fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("nothing here waits"),
    }
}

/// An access to a random block of ours, whose content is checked.
fn ours<C: Channel<PathOram>>(channel: C, cached_levels: u8) -> impl FnMut() {
    let key = Key::generate().child(Purpose::PathOramSeal);
    let parameters = OramParameters { cached_levels, ..OramParameters::of_blocks(BLOCK_BYTES) };
    let mut fill =
        |id: u32, block: &mut [u8]| block.copy_from_slice(&id.to_le_bytes().repeat(BLOCK_BYTES / 4));
    let (random, blocks) = (Prg::new(&[7; 16]), BLOCKS as usize);
    let made = Oram::create(channel, IndexId([1; 8]), &key, parameters, random, blocks, &mut fill);
    let mut oram = now(made).expect("an honest server");
    let mut order = StdRng::seed_from_u64(1);
    move || {
        let id: u32 = order.gen_range(0..BLOCKS);
        let mut found = [0; 4];
        let copy = |block: &mut [u8]| found.copy_from_slice(&block[..4]);
        now(oram.access(id, copy)).expect("an honest server");
        assert_eq!(found, id.to_le_bytes(), "the right block");
    }
}

/// Measures accesses.
pub(crate) fn measure(table: &mut Table) {
    let mut random = StdRng::seed_from_u64(2);
    let mut oram =
        DefaultOram::<BlockValue<BLOCK_BYTES>>::new(u64::from(BLOCKS), &mut random).expect("a size it takes");
    let mut order = StdRng::seed_from_u64(1);
    let mut theirs = || {
        let id = u64::from(order.gen_range(0..BLOCKS));
        std::hint::black_box(oram.read(id, &mut random).expect("an access"));
    };
    let target = [Target::Faster(5.0)];
    let name = "oram 0.1, without encryption";
    table.row("Path ORAM, 8 levels cached", &target, 1, ours(Array::default(), 8), Some((name, &mut theirs)));
    table.row("Path ORAM, nothing cached", &[], 1, ours(Array::default(), 0), Some((name, &mut theirs)));
    let server = || Server(Backend::open(Memory::new(), [1; 16]).expect("memory does not fail"));
    table.row("Path ORAM, 8 cached, server half", &[], 1, ours(server(), 8), Some((name, &mut theirs)));
}
