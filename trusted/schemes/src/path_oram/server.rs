//! A server for tests: keeps buckets and what it saw, fails and lies as told.

use arras_protocol::path_oram::{PathOram, Request, Response, Shape};
use arras_protocol::{Channel, ChannelError, codec};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    LostReply,
    LostRequest,
}

/// Changes a reply.
pub(super) type Lie = Box<dyn FnMut(&Shape, &[u32], &mut Vec<u8>) + Send>;

#[derive(Default)]
pub(super) struct State {
    pub(super) shape: Option<Shape>,
    pub(super) epoch: u64,
    pub(super) buckets: BTreeMap<u32, Vec<u8>>,
    /// Leaves read, request by request.
    pub(super) reads: Vec<Vec<u32>>,
    /// Sizes of requests and replies that access.
    pub(super) sizes: Vec<(usize, usize)>,
    pub(super) fault: Option<Fault>,
    /// The request that met the last fault.
    pub(super) unanswered: Option<Request>,
    /// Whether a request that follows one without an answer was ever another one.
    pub(super) inconsistent: bool,
    pub(super) lie: Option<Lie>,
}

/// The channel to it.
#[derive(Clone, Default)]
pub(super) struct Server(Arc<Mutex<State>>);

impl Server {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test panicked here")
    }
}

impl State {
    fn answer(&mut self, request: &Request) -> Response {
        match request {
            Request::Create { shape, .. } => {
                assert!(shape.is_valid());
                (self.shape, self.epoch) = (Some(*shape), 0);
                self.buckets.clear();
            }
            Request::Drop { .. } => self.shape = None,
            Request::Grow { levels, .. } => {
                let shape = self.shape.as_mut().expect("a tree");
                assert!(*levels == shape.levels || *levels == shape.levels + 1);
                shape.levels = *levels;
            }
            Request::Load { first, buckets, .. } => {
                let shape = self.shape.expect("a tree");
                for (place, bucket) in (*first..).zip(buckets.as_slice().chunks(shape.bucket_bytes as usize))
                {
                    assert!((shape.first_place()..shape.end_place()).contains(&place));
                    self.buckets.insert(place, bucket.to_vec());
                }
            }
            Request::Access { epoch, write, read, .. } => {
                let shape = self.shape.expect("a tree");
                if let Some(write) = write
                    && *epoch == self.epoch + 1
                {
                    let buckets = write.buckets.as_slice().chunks(shape.bucket_bytes as usize);
                    for (place, bucket) in shape.places(&write.leaves).into_iter().zip(buckets) {
                        self.buckets.insert(place, bucket.to_vec());
                    }
                    self.epoch = *epoch;
                }
                assert_eq!(self.epoch, *epoch, "write-backs come in turn");
                let mut found: Vec<u8> =
                    shape.places(read).iter().flat_map(|place| &self.buckets[place]).copied().collect();
                if let Some(lie) = &mut self.lie {
                    lie(&shape, read, &mut found);
                }
                return Response::Paths(found.into());
            }
        }
        Response::Done
    }
}

impl Channel<PathOram> for Server {
    async fn call(&self, request: Request) -> Result<Response, ChannelError> {
        let mut state = self.state();
        if state.unanswered.take().is_some_and(|last| last != request) {
            state.inconsistent = true;
        }
        let lost = || Err(ChannelError::Lost("the test's channel".into()));
        if state.fault == Some(Fault::LostRequest) {
            state.unanswered = Some(request);
            return lost();
        }
        let response = state.answer(&request);
        if state.fault == Some(Fault::LostReply) {
            state.unanswered = Some(request);
            return lost();
        }
        if let Request::Access { read, .. } = &request {
            state.reads.push(read.clone());
            state.sizes.push((codec::encode(&request).len(), codec::encode(&response).len()));
        }
        Ok(response)
    }
}

/// Runs a future that never waits.
pub(super) fn run<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}
