//! Faults on demand, for the tests of what stands on a store.

use bytes::Bytes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Direction, Durability, KeyRange, Read, Storage, StorageError, Table, Take, Visit, Write};

#[derive(Debug, Default)]
struct Plan {
    operations: u64,
    commits: u64,
    operation: Option<u64>,
    commit: Option<u64>,
    undecided: Option<(u64, bool)>,
    down: bool,
}

/// A handle to the faults of a [`Failing`] store. Each call that reaches the store counts as an operation: the
/// opening of a transaction, `get`, `scan`, `put`, `delete`, `delete_prefix`, `commit`.
#[derive(Clone, Debug, Default)]
pub struct Faults(Arc<Mutex<Plan>>);

impl Faults {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails the operation after the next `passing` ones, once.
    pub fn fail_operation_after(&self, passing: u64) {
        let mut plan = self.plan();
        plan.operation = Some(plan.operations + passing);
    }

    /// Fails the commit after the next `passing` ones, once; nothing of it becomes visible.
    pub fn fail_commit_after(&self, passing: u64) {
        let mut plan = self.plan();
        plan.commit = Some(plan.commits + passing);
    }

    /// Fails the commit after the next `passing` ones, once, so that nobody can tell whether it is there, and every
    /// operation from then on until [`Faults::heal`]. `stored`: it is there.
    pub fn leave_commit_undecided_after(&self, passing: u64, stored: bool) {
        let mut plan = self.plan();
        plan.undecided = Some((plan.commits + passing, stored));
    }

    /// Fails every operation from now on, as a device that went away, until [`Faults::heal`].
    pub fn fail_all(&self) {
        self.plan().down = true;
    }

    /// Forgets every fault planned.
    pub fn heal(&self) {
        let mut plan = self.plan();
        *plan = Plan { operations: plan.operations, commits: plan.commits, ..Plan::default() };
    }

    /// Operations so far, failed ones too: a test that fails each in turn reads its limit here.
    pub fn operations(&self) -> u64 {
        self.plan().operations
    }

    /// Commits so far, failed ones too.
    pub fn commits(&self) -> u64 {
        self.plan().commits
    }

    fn operation(&self) -> Result<(), StorageError> {
        let mut plan = self.plan();
        let number = plan.operations;
        plan.operations += 1;
        if plan.down || plan.operation.take_if(|planned| *planned == number).is_some() {
            return Err(StorageError::Environment(format!("injected fault at operation {number}")));
        }
        Ok(())
    }

    fn commit(&self, commit: impl FnOnce() -> Result<(), StorageError>) -> Result<(), StorageError> {
        self.operation()?;
        let mut plan = self.plan();
        let number = plan.commits;
        plan.commits += 1;
        if let Some((_, stored)) = plan.undecided.take_if(|(planned, _)| *planned == number) {
            plan.down = true;
            drop(plan);
            if stored {
                commit()?;
            }
            return Err(StorageError::Undecided(format!("injected fault at commit {number}")));
        }
        if plan.commit.take_if(|planned| *planned == number).is_some() {
            return Err(StorageError::Environment(format!("injected fault at commit {number}")));
        }
        drop(plan);
        commit()
    }
}

/// A store whose operations fail as its [`Faults`] say.
#[derive(Debug)]
pub struct Failing<S> {
    store: S,
    faults: Faults,
}

impl<S> Failing<S> {
    /// Wraps `store`; without a planned fault nothing changes.
    pub fn new(store: S) -> Self {
        Self { store, faults: Faults::default() }
    }

    /// The faults.
    pub fn faults(&self) -> Faults {
        self.faults.clone()
    }

    /// The store inside.
    pub fn into_inner(self) -> S {
        self.store
    }
}

/// A transaction of a [`Failing`] store.
#[derive(Debug)]
pub struct FailingTransaction<T> {
    transaction: T,
    faults: Faults,
}

impl<T: Read> Read for FailingTransaction<T> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, StorageError> {
        self.faults.operation()?;
        self.transaction.get(table, key)
    }

    fn get_many(
        &self,
        table: Table,
        keys: &mut dyn Iterator<Item = Vec<u8>>,
        take: &mut Take<'_>,
    ) -> Result<(), StorageError> {
        let mut fault = None;
        // Each look-up may fail, those before it having been answered.
        let mut spared = keys.map_while(|key| match self.faults.operation() {
            Ok(()) => Some(key),
            Err(error) => {
                fault = Some(error);
                None
            }
        });
        self.transaction.get_many(table, &mut spared, take)?;
        fault.map_or(Ok(()), Err)
    }

    fn scan(
        &self,
        table: Table,
        range: KeyRange<'_>,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<(), StorageError> {
        self.faults.operation()?;
        self.transaction.scan(table, range, direction, visit)
    }
}

impl<T: Write> Write for FailingTransaction<T> {
    fn put_owned(&mut self, table: Table, key: &[u8], value: Bytes) -> Result<(), StorageError> {
        self.faults.operation()?;
        self.transaction.put_owned(table, key, value)
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<bool, StorageError> {
        self.faults.operation()?;
        self.transaction.delete(table, key)
    }

    fn delete_prefix(&mut self, table: Table, prefix: &[u8], keys_max: usize) -> Result<u64, StorageError> {
        self.faults.operation()?;
        self.transaction.delete_prefix(table, prefix, keys_max)
    }

    fn savepoint(&mut self) {
        self.transaction.savepoint();
    }

    fn roll_back(&mut self) {
        self.transaction.roll_back();
    }

    fn commit(self, durability: Durability) -> Result<(), StorageError> {
        let Self { transaction, faults } = self;
        faults.commit(|| transaction.commit(durability))
    }
}

impl<S: Storage> Storage for Failing<S> {
    type Reader<'a> = FailingTransaction<S::Reader<'a>>;
    type Writer<'a> = FailingTransaction<S::Writer<'a>>;

    fn read(&self) -> Result<Self::Reader<'_>, StorageError> {
        self.faults.operation()?;
        Ok(FailingTransaction { transaction: self.store.read()?, faults: self.faults() })
    }

    fn write(&self) -> Result<Self::Writer<'_>, StorageError> {
        self.faults.operation()?;
        Ok(FailingTransaction { transaction: self.store.write()?, faults: self.faults() })
    }

    fn engine(&self) -> String {
        self.store.engine()
    }

    fn is_ready(&self) -> bool {
        self.store.is_ready()
    }

    fn setbacks(&self) -> u64 {
        self.store.setbacks()
    }
}
