//! Commits that several writes share.
#![allow(clippy::unwrap_used)]

use super::*;
use arras_keys::Key;
use arras_storage::{Accounted, Failing, Faults, Memory, Table, Tally};
use tokio::task::JoinHandle;

const RECORDS: Table = Table("records");

type Store = Failing<Accounted<Memory>>;

struct World {
    local: Arc<LocalStore<Store>>,
    commits: Arc<Commits<Store>>,
    tally: Tally,
    faults: Faults,
}

impl World {
    fn new() -> Self {
        let store = Accounted::new(Memory::new());
        let tally = store.tally();
        let store = Failing::new(store);
        let faults = store.faults();
        let local = Arc::new(LocalStore::open(store, &Key::generate()).unwrap());
        let commits = Arc::new(Commits::new(Arc::clone(&local)));
        Self { local, commits, tally, faults }
    }

    /// Has writes wait until all of them do.
    async fn gather(&self, sequences: &[u64]) -> Vec<JoinHandle<Result<(), LocalError>>> {
        loop {
            // The thread that served the last one may still be looking for more.
            if !std::mem::replace(&mut self.commits.shared.queue().is_served, true) {
                break;
            }
            tokio::task::yield_now().await;
        }
        let mut recorded = Vec::new();
        for &sequence in sequences {
            let commits = Arc::clone(&self.commits);
            let changes = vec![self.local.set(RECORDS, &[sequence as u8], &sequence)];
            recorded.push(tokio::spawn(async move { commits.record(operation(sequence), changes).await }));
        }
        while self.commits.shared.queue().waiting.len() < sequences.len() {
            tokio::task::yield_now().await;
        }
        recorded
    }

    fn serve(&self) {
        Serving { shared: Arc::clone(&self.commits.shared) }.run();
    }

    fn records(&self) -> Vec<u64> {
        let mut records: Vec<u64> = self.local.all(RECORDS).unwrap();
        records.sort_unstable();
        records
    }

    fn newest(&self) -> Option<OperationId> {
        self.local.get(STATE, NEWEST).unwrap()
    }
}

fn operation(sequence: u64) -> OperationId {
    OperationId { epoch: 1, sequence }
}

#[tokio::test]
async fn writes_that_wait_share_one_commit_and_the_newest_is_recorded() {
    let world = World::new();
    let before = world.tally.counts();
    let waiting = world.gather(&[3, 9, 4]).await;
    world.serve();
    for recorded in waiting {
        recorded.await.unwrap().unwrap();
    }
    let counts = world.tally.counts() - before;
    assert_eq!((counts.durable_commits, counts.relaxed_commits), (1, 0));
    assert_eq!(world.records(), [3, 4, 9]);
    assert_eq!(world.newest(), Some(operation(9)));
    // One that was named earlier and comes later is not the newest. It finds the queue unserved.
    let changes = vec![world.local.set(RECORDS, &[5], &5_u64)];
    world.commits.record(operation(5), changes).await.unwrap();
    assert_eq!(world.records(), [3, 4, 5, 9]);
    assert_eq!(world.newest(), Some(operation(9)));
}

#[tokio::test]
async fn what_goes_along_is_there_no_later_than_what_comes_after() {
    let world = World::new();
    world.commits.record(operation(1), vec![world.local.set(RECORDS, &[1], &1_u64)]).await.unwrap();
    let before = world.tally.counts();
    world.commits.send_along(vec![world.local.unset(RECORDS, &[1])]);
    assert_eq!(world.records(), [1], "nobody waits for it");
    world.commits.record(operation(2), vec![world.local.set(RECORDS, &[2], &2_u64)]).await.unwrap();
    assert_eq!(world.records(), [2]);
    assert_eq!((world.tally.counts() - before).durable_commits, 1);
}

#[tokio::test]
async fn a_commit_that_fails_fails_all_and_what_goes_along_is_tried_again() {
    let world = World::new();
    world.commits.record(operation(1), vec![world.local.set(RECORDS, &[1], &1_u64)]).await.unwrap();
    world.commits.send_along(vec![world.local.unset(RECORDS, &[1])]);
    let waiting = world.gather(&[2, 3]).await;
    world.faults.fail_commit_after(0);
    world.serve();
    for recorded in waiting {
        recorded.await.unwrap().unwrap_err();
    }
    assert_eq!(world.records(), [1]);
    assert_eq!(world.newest(), Some(operation(1)));
    world.commits.record(operation(4), vec![world.local.set(RECORDS, &[4], &4_u64)]).await.unwrap();
    assert_eq!(world.records(), [4]);
}

#[tokio::test]
async fn what_goes_along_is_applied_when_the_proxy_stops() {
    let World { local, commits, .. } = World::new();
    commits.record(operation(1), vec![local.set(RECORDS, &[1], &1_u64)]).await.unwrap();
    commits.send_along(vec![local.unset(RECORDS, &[1])]);
    drop(commits);
    assert!(local.all::<u64>(RECORDS).unwrap().is_empty());
}
