//! A channel on which other messages can come between those of an operation.

use crate::world::Wire;
use arras_protocol::{Channel, ChannelError, Protocol};
use arras_storage::{Failing, Memory};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

pub(crate) type Store = Failing<Memory>;

/// What happens before a request reaches the server.
type Before<P> = Box<dyn FnMut(&Wire<Store>, &<P as Protocol>::Request) + Send>;

/// A channel on which something may happen before each request.
pub(crate) struct Crossed<P: Protocol> {
    wire: Wire<Store>,
    before: Arc<Mutex<Option<Before<P>>>>,
}

impl<P: Protocol> Clone for Crossed<P> {
    fn clone(&self) -> Self {
        Self { wire: self.wire.clone(), before: Arc::clone(&self.before) }
    }
}

impl<P: Protocol> Crossed<P> {
    pub(crate) fn new(wire: &Wire<Store>) -> Self {
        Self { wire: wire.clone(), before: Arc::default() }
    }

    pub(crate) fn set(&self, before: impl FnMut(&Wire<Store>, &P::Request) + Send + 'static) {
        *self.before.lock().expect("no test panicked here") = Some(Box::new(before));
    }

    pub(crate) fn clear(&self) {
        *self.before.lock().expect("no test panicked here") = None;
    }
}

impl<P: Protocol> Channel<P> for Crossed<P> {
    async fn call(&self, request: P::Request) -> Result<P::Response, ChannelError> {
        if let Some(before) = &mut *self.before.lock().expect("no test panicked here") {
            before(&self.wire, &request);
        }
        Channel::<P>::call(&self.wire, request).await
    }
}

/// Runs a future that never waits.
pub(crate) fn now<F: Future>(future: F) -> F::Output {
    // In a task that has used up its budget tokio's locks would make it wait.
    match pin!(tokio::task::coop::unconstrained(future)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("a wire answers at once"),
    }
}
