//! What becomes of a write when the proxy's own store fails under its record.
#![allow(clippy::unwrap_used)]

use super::*;
use arras_keys::Key;
use arras_storage::{Failing, Faults, Memory};
use std::sync::atomic::{AtomicBool, Ordering};

type Store = Failing<Memory>;

/// A server that applies what it is sent, or refuses it.
#[derive(Default)]
struct Server {
    applied: Mutex<Vec<OperationId>>,
    refuses: AtomicBool,
}

impl Server {
    fn applied(&self) -> usize {
        self.applied.lock().unwrap().len()
    }
}

impl Channel<Write> for Server {
    async fn call(&self, request: arras_protocol::write::Request) -> Result<Response, ChannelError> {
        if self.refuses.load(Ordering::SeqCst) {
            return Err(ChannelError::Refused(Refusal::Conflict { step: 0 }));
        }
        let mut applied = self.applied.lock().unwrap();
        let operation = request.operation.unwrap();
        let new = !applied.contains(&operation);
        applied.extend(new.then_some(operation));
        Ok(Response { applied: new, commits: applied.len() as u64 })
    }
}

struct World {
    local: Arc<LocalStore<Store>>,
    faults: Faults,
    server: Server,
}

const VALUE: &[u8] = b"the record of a value";

impl World {
    fn new() -> Self {
        let store = Failing::new(Memory::new());
        let faults = store.faults();
        let local = Arc::new(LocalStore::open(store, &Key::generate()).unwrap());
        local.apply(&[local.set_as_named(COUNTERS, VALUE.to_vec(), &0_u64)], Durability::Durable).unwrap();
        Self { local, faults, server: Server::default() }
    }

    fn start(&self, epoch: u64) -> Intents<Store> {
        let history = Arc::new(History::new(false));
        Intents::open(Arc::clone(&self.local), epoch, Duration::ZERO, history, 1 << 20).unwrap()
    }

    /// A change that leaves 1 in the record of a value if the write is applied, 2 if not.
    fn changes(&self) -> Vec<Change> {
        let record = |number: u64| self.local.set_as_named(COUNTERS, VALUE.to_vec(), &number);
        vec![record(1).or_else(record(2))]
    }

    fn record(&self) -> u64 {
        self.local.get_as_named(COUNTERS, VALUE).unwrap().unwrap()
    }

    async fn settle(&self, intents: &Intents<Store>) -> Result<usize, WriteError> {
        intents.settle(&self.server, |_| std::future::ready(())).await
    }
}

#[tokio::test]
async fn a_write_that_may_be_recorded_stays_in_doubt_and_is_settled_by_what_is() {
    for stored in [true, false] {
        for restarted in [true, false] {
            let world = World::new();
            let mut intents = world.start(1);
            world.faults.leave_commit_undecided_after(0, stored);
            let told = intents.perform(&world.server, Vec::new(), world.changes()).await.unwrap_err();
            assert!(matches!(told, WriteError::Undecided(_)) && !told.nothing_applied(), "{told}");
            assert!(intents.in_doubt());
            // The store is still away: whoever comes next is told so, and nothing is sent past what is in doubt.
            world.settle(&intents).await.unwrap_err();
            assert_eq!(world.server.applied(), 0);
            world.faults.heal();
            if restarted {
                drop(intents);
                intents = world.start(2);
                assert_eq!(intents.in_doubt(), stored);
            }
            world.settle(&intents).await.unwrap();
            assert!(!intents.in_doubt());
            assert_eq!(world.server.applied(), usize::from(stored));
            let expected = if stored {
                1
            } else if restarted {
                0
            } else {
                2
            };
            assert_eq!(world.record(), expected, "stored: {stored}, restarted: {restarted}");
            // The next one goes on after it.
            intents.perform(&world.server, Vec::new(), world.changes()).await.unwrap();
            assert_eq!((world.server.applied(), world.record()), (usize::from(stored) + 1, 1));
        }
    }
}

#[tokio::test]
async fn a_refused_write_that_cannot_be_struck_off_stays_in_doubt() {
    let world = World::new();
    let intents = world.start(1);
    world.server.refuses.store(true, Ordering::SeqCst);
    // The first commit records it, the second strikes it off and takes back what it changed.
    world.faults.fail_commit_after(1);
    let told = intents.perform(&world.server, Vec::new(), world.changes()).await.unwrap_err();
    assert!(matches!(told, WriteError::Undecided(_)), "{told}");
    assert!(intents.in_doubt());
    // Before anybody goes by the record it is what the outcome makes of it.
    world.settle(&intents).await.unwrap();
    assert!(!intents.in_doubt());
    assert_eq!((world.server.applied(), world.record()), (0, 2));
    drop(intents);
    assert!(!world.start(2).in_doubt(), "no later start sends it again");
}
