//! A computer and its disk, in memory: what is durable survives the end of its process, what is relaxed in part, and
//! copies of a moment are cheap.

use crate::flag::Flag;
use arras_storage::{
    Bytes, Changes, Direction, Durability, Engine, KeyRange, Read, Staged, Storage, StorageError, Table,
    Turn, Visit, selects_nothing,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Tables = BTreeMap<Table, Arc<BTreeMap<Bytes, Bytes>>>;

/// What is on a disk at one moment.
#[derive(Clone, Debug, Default)]
pub struct Content(Arc<Tables>);

impl Content {
    /// How many entries a table has.
    #[cfg(test)]
    pub(crate) fn count(&self, table: Table) -> usize {
        self.0.get(&table).map_or(0, |entries| entries.len())
    }
}

/// What goes wrong at an operation of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The process is killed there. If it is a commit, then before it or behind it.
    Killed,
    /// The disk is full for so many commits.
    Full(u32),
    /// The device fails at the next commit, of which nobody can tell whether it is there; the store goes on from what
    /// is.
    Undecided,
}

/// A process: alive until it is killed.
#[derive(Debug)]
pub struct Process {
    number: u64,
    killed: Flag,
}

impl Process {
    /// True once it was killed.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.killed.is_raised()
    }

    /// Completes when it is killed.
    pub async fn dies(&self) {
        self.killed.raised().await;
    }
}

#[derive(Debug)]
struct State {
    current: Content,
    durable: Content,
    /// After each relaxed commit since the last durable one.
    relaxed: Vec<Content>,
    processes: u64,
    running: Option<Arc<Process>>,
    operations: u64,
    planned: BTreeMap<u64, Trouble>,
    full: u32,
    undecided: bool,
    setbacks: u64,
    /// How often something went wrong.
    troubles: u64,
    dice: StdRng,
}

impl State {
    /// What a crash leaves: what is durable, and of what is relaxed the first part.
    fn crash(&mut self) {
        let kept = self.dice.random_range(0..=self.relaxed.len());
        if let Some(last) = kept.checked_sub(1).and_then(|last| self.relaxed.get(last)) {
            self.durable = last.clone();
        }
        self.relaxed.clear();
        self.current = self.durable.clone();
    }

    fn kill(&mut self) {
        if let Some(process) = self.running.take() {
            process.killed.raise();
            self.crash();
        }
    }

    fn commit(&mut self, changes: Changes, durability: Durability) {
        let mut tables = (*self.current.0).clone();
        for (table, changes) in changes {
            let entries = Arc::make_mut(tables.entry(table).or_default());
            for (key, value) in changes {
                match value {
                    Some(value) => drop(entries.insert(key.into(), value)),
                    None => drop(entries.remove(key.as_slice())),
                }
            }
        }
        self.current = Content(Arc::new(tables));
        match durability {
            Durability::Durable => {
                self.durable = self.current.clone();
                self.relaxed.clear();
            }
            Durability::Relaxed => self.relaxed.push(self.current.clone()),
        }
    }
}

/// A computer with one disk.
#[derive(Clone, Debug)]
pub struct Machine(Arc<Mutex<State>>);

fn environment(what: &str) -> StorageError {
    StorageError::Environment(format!("injected: {what}"))
}

impl Machine {
    /// An empty disk, whose luck is of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            current: Content::default(),
            durable: Content::default(),
            relaxed: Vec::new(),
            processes: 0,
            running: None,
            operations: 0,
            planned: BTreeMap::new(),
            full: 0,
            undecided: false,
            setbacks: 0,
            troubles: 0,
            dice: StdRng::seed_from_u64(seed),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a process, and kills the one before.
    #[must_use]
    pub fn start(&self) -> (Arc<Process>, Disk) {
        let mut state = self.state();
        state.kill();
        state.processes += 1;
        let process = Arc::new(Process { number: state.processes, killed: Flag::default() });
        state.running = Some(Arc::clone(&process));
        state.full = 0;
        state.undecided = false;
        let disk = Disk { machine: self.clone(), process: process.number, turn: Turn::default() };
        (process, disk)
    }

    /// Kills the process, if one runs.
    pub fn kill(&self) {
        self.state().kill();
    }

    /// Ends the process in order, once it has dropped what it had: everything is on the disk.
    pub fn stop(&self) {
        let mut state = self.state();
        state.durable = state.current.clone();
        state.relaxed.clear();
        state.kill();
    }

    /// Something goes wrong at the operation after the next `passing` ones.
    pub fn plan(&self, passing: u64, trouble: Trouble) {
        let mut state = self.state();
        let at = state.operations + passing;
        state.planned.insert(at, trouble);
    }

    /// Nothing goes wrong any more.
    pub fn heal(&self) {
        let mut state = self.state();
        state.planned.clear();
        state.full = 0;
        state.undecided = false;
    }

    /// How often something went wrong so far.
    #[must_use]
    pub fn troubles(&self) -> u64 {
        self.state().troubles
    }

    /// What is durable now.
    #[must_use]
    pub fn copy(&self) -> Content {
        self.state().durable.clone()
    }

    /// Sets the disk back to a copy. No process may run.
    pub fn restore(&self, content: &Content) {
        let mut state = self.state();
        state.kill();
        state.relaxed.clear();
        (state.durable, state.current) = (content.clone(), content.clone());
    }
}

/// The store of one process.
#[derive(Debug)]
pub struct Disk {
    machine: Machine,
    process: u64,
    turn: Turn,
}

impl Disk {
    /// Counts an operation of this process.
    fn operation(&self) -> Result<MutexGuard<'_, State>, StorageError> {
        let mut state = self.machine.state();
        let alive = state.running.as_ref().is_some_and(|running| running.number == self.process);
        if !alive {
            return Err(environment("the process is dead"));
        }
        let number = state.operations;
        state.operations += 1;
        while let Some(entry) = state.planned.first_entry().filter(|planned| *planned.key() <= number) {
            let trouble = entry.remove();
            state.troubles += 1;
            match trouble {
                Trouble::Killed => {
                    state.kill();
                    return Err(environment("killed"));
                }
                Trouble::Full(commits) => state.full = commits,
                Trouble::Undecided => state.undecided = true,
            }
        }
        Ok(state)
    }
}

/// What a transaction sees.
#[derive(Debug)]
pub struct Snapshot<'d> {
    disk: &'d Disk,
    content: Content,
    setbacks: u64,
}

impl Read for Snapshot<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>, StorageError> {
        drop(self.disk.operation()?);
        Ok(self.content.0.get(&table).and_then(|entries| entries.get(key)).cloned())
    }

    fn scan(
        &self,
        table: Table,
        range: KeyRange<'_>,
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<(), StorageError> {
        drop(self.disk.operation()?);
        let Some(entries) = self.content.0.get(&table).filter(|_| !selects_nothing(&range)) else {
            return Ok(());
        };
        let mut entries = entries.range::<[u8], _>(range);
        let _ended: ControlFlow<()> = match direction {
            Direction::Ascending => entries.try_for_each(|(key, value)| visit(key, value)),
            Direction::Descending => entries.rev().try_for_each(|(key, value)| visit(key, value)),
        };
        Ok(())
    }
}

impl Engine for Disk {
    type Snapshot<'a> = Snapshot<'a>;

    fn snapshot(&self) -> Result<Snapshot<'_>, StorageError> {
        let state = self.operation()?;
        Ok(Snapshot { disk: self, content: state.current.clone(), setbacks: state.setbacks })
    }

    fn setbacks_at(snapshot: &Snapshot<'_>) -> u64 {
        snapshot.setbacks
    }

    fn apply(&self, changes: Changes, durability: Durability, setbacks: u64) -> Result<(), StorageError> {
        let about_to_die = {
            let state = self.machine.state();
            state.planned.get(&state.operations) == Some(&Trouble::Killed)
        };
        if about_to_die && self.machine.state().dice.random_bool(0.5) {
            // Behind the commit: it is there, and nobody hears of it.
            let mut state = self.machine.state();
            if state.running.as_ref().is_some_and(|running| running.number == self.process)
                && state.setbacks == setbacks
            {
                state.commit(changes, durability);
            }
            drop(state);
            return self.operation().map(drop);
        }
        let mut state = self.operation()?;
        if state.setbacks != setbacks {
            return Err(environment("the store was set back since this transaction began"));
        }
        if state.full > 0 {
            state.full -= 1;
            return Err(environment("no space left on device"));
        }
        if std::mem::take(&mut state.undecided) {
            if state.dice.random_bool(0.5) {
                state.commit(changes, durability);
            }
            state.crash();
            state.setbacks += 1;
            return Err(StorageError::Undecided("injected: the device failed".into()));
        }
        state.commit(changes, durability);
        Ok(())
    }
}

impl Storage for Disk {
    type Reader<'a> = Snapshot<'a>;
    type Writer<'a> = Staged<'a, Self>;

    fn read(&self) -> Result<Snapshot<'_>, StorageError> {
        self.snapshot()
    }

    fn write(&self) -> Result<Staged<'_, Self>, StorageError> {
        Staged::begin(self, &self.turn)
    }

    fn engine(&self) -> String {
        "simulated".to_owned()
    }

    fn setbacks(&self) -> u64 {
        self.machine.state().setbacks
    }
}
