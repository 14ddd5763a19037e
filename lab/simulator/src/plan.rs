//! What a seed stands for: settings, what each application does, and what goes wrong.

use crate::disk::Trouble;
use crate::lies::Lie;
use crate::model::{Change, Choice, Item, Writing};
use crate::network::Weather;
use crate::texts;
use arras_engine::index::RangeSettings;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::time::Duration;

/// One thing an application does.
#[derive(Clone, Debug)]
pub enum Action {
    /// Writes.
    Write(Writing),
    /// Reads documents, all that are chosen.
    Find(Choice),
    /// Reads the first of them by `v`.
    Sorted(Choice, bool, u64),
    /// Counts.
    Count(Choice),
    /// Sums `v`.
    Sum(i32, i32),
    /// Makes an index of the table.
    CreateIndex(usize),
    /// Drops one.
    DropIndex(usize),
    /// Does nothing for so many milliseconds.
    Wait(u64),
}

/// Which machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The proxy's machine.
    Proxy,
    /// The server's.
    Server,
    /// That of the host of boolean search.
    Search,
}

/// One thing that goes wrong.
#[derive(Clone, Debug)]
pub enum Fault {
    /// At so many operations of a machine's store from the beginning of the round.
    Store(Which, u64, Trouble),
    /// A process is killed so many milliseconds into the round.
    Kill(Which, u64),
    /// The network is bad in this round.
    Weather(Weather),
}

/// What is done while the server lies.
#[derive(Clone, Debug)]
pub struct Told {
    /// The lie.
    pub lie: Lie,
    /// What is asked meanwhile.
    pub asked: Action,
}

/// How the last round ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Well.
    Well,
    /// The server's disk is set back to what it was at the end of the round before, under a running proxy.
    ServerSetBack,
    /// The same, and the proxy is started anew.
    ServerSetBackAtStart,
    /// The proxy's disk is set back.
    ProxySetBack,
    /// The disk of the host of boolean search is set back, and the monotonic counter is not.
    SearchSetBack,
    /// Both are, under a running proxy.
    SearchAndCounterSetBack,
    /// The same, and the proxy is started anew.
    SearchAndCounterSetBackAtStart,
}

/// What happens between two comparisons of everything.
#[derive(Clone, Debug)]
pub struct Round {
    /// Of each application, one after the other; the applications side by side.
    pub actions: Vec<Vec<Action>>,
    /// What goes wrong meanwhile.
    pub faults: Vec<Fault>,
    /// Lies, when all is quiet.
    pub lies: Vec<Told>,
}

/// A whole run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its seed.
    pub seed: u64,
    /// Mean entries of a bucket of range indexes.
    pub bucket_factor: u64,
    /// Their separators that the proxy keeps.
    pub top_nodes: usize,
    /// Trees of other protocols split, merge and move by few entries.
    pub small_trees: bool,
    /// Bytes of a request above which a write is cut.
    pub request_bytes: usize,
    /// Patience of a write.
    pub patience: Duration,
    /// Which protocol keeps orders.
    pub order: &'static str,
    /// Indexes there are from the beginning.
    pub indexes: Vec<usize>,
    /// Documents have texts, and there is a host of boolean search.
    pub texts: bool,
    /// Rounds.
    pub rounds: Vec<Round>,
    /// The end.
    pub ending: Ending,
}

/// Bytes of a request in which a write of this workload is whole.
const WHOLE: usize = 1 << 20;

/// Values of `_id`, of one application.
const IDS: i32 = 14;

struct Dice(StdRng);

impl Dice {
    fn below(&mut self, end: i32) -> i32 {
        self.0.random_range(0..end)
    }

    fn one_in(&mut self, of: u32) -> bool {
        self.0.random_range(0..of) == 0
    }

    fn item(&mut self, application: i32) -> Item {
        Item {
            id: application * 1000 + self.below(IDS),
            u: application * 1000 + self.below(IDS + 4),
            a: self.below(5),
            b: self.below(3),
            v: self.below(20),
            t: Vec::new(),
        }
    }

    fn choice(&mut self, application: i32) -> Choice {
        let a = self.below(5);
        match self.below(10) {
            0 => Choice::All,
            1 => Choice::Id(application * 1000 + self.below(IDS)),
            2 => Choice::Unique(application * 1000 + self.below(IDS + 4)),
            3 | 4 => Choice::A(a, a + self.below(3)),
            5 => Choice::OneOfA(vec![a, self.below(5)]),
            6 | 7 => Choice::B(self.below(3)),
            8 => Choice::Both(self.below(3), a),
            _ => {
                let low = self.below(20);
                Choice::V(low, low + self.below(8))
            }
        }
    }

    fn change(&mut self) -> Change {
        match self.below(3) {
            0 => Change::A(self.below(5)),
            1 => Change::B(self.below(3)),
            _ => Change::V(self.below(7) - 3),
        }
    }

    fn writing(&mut self, application: i32) -> Writing {
        match self.below(12) {
            0..=3 => {
                let count = if self.one_in(3) { 1 + self.below(5) } else { 1 };
                Writing::Insert((0..count).map(|_| self.item(application)).collect())
            }
            4 | 5 => Writing::Update(self.choice(application), self.change()),
            6 | 7 => {
                let change = if self.one_in(3) {
                    Change::U(application * 1000 + self.below(IDS + 4))
                } else {
                    self.change()
                };
                Writing::UpdateOne(application * 1000 + self.below(IDS), change)
            }
            8 | 9 => Writing::Delete(Choice::Id(application * 1000 + self.below(IDS))),
            10 => Writing::Delete(self.choice(application)),
            _ => Writing::FindAndModify(self.choice(application), self.one_in(2), self.change()),
        }
    }

    fn reading(&mut self, application: i32) -> Action {
        let choice = self.choice(application);
        match self.below(5) {
            0 | 1 => Action::Find(choice),
            2 => Action::Sorted(choice, self.one_in(2), 1 + u64::from(self.below(4).unsigned_abs())),
            3 => Action::Count(choice),
            _ => {
                let low = self.below(5);
                Action::Sum(low, low + self.below(4))
            }
        }
    }

    fn action(&mut self, application: i32) -> Action {
        match self.below(20) {
            0..=11 => Action::Write(self.writing(application)),
            12..=16 => self.reading(application),
            17 if application == 0 => Action::CreateIndex(self.index()),
            18 if application == 0 => Action::DropIndex(self.index()),
            _ => Action::Wait(self.below(50).unsigned_abs().into()),
        }
    }

    fn index(&mut self) -> usize {
        self.0.random_range(0..crate::indexes::OPTIONAL)
    }

    fn trouble(&mut self) -> Trouble {
        match self.below(5) {
            0 => Trouble::Full(1 + self.below(4).unsigned_abs()),
            kind => trouble(kind, 0),
        }
    }

    fn which(&mut self) -> Which {
        if self.one_in(2) { Which::Proxy } else { Which::Server }
    }

    fn fault(&mut self) -> Fault {
        match self.below(8) {
            0..=4 => {
                let which = self.which();
                // The server's store does more for each request.
                let span = if which == Which::Server { 500 } else { 120 };
                Fault::Store(which, u64::from(self.below(span).unsigned_abs()), self.trouble())
            }
            5 => Fault::Kill(self.which(), u64::from(self.below(600).unsigned_abs())),
            _ => {
                let mut chance = |most: i32| self.below(most).unsigned_abs();
                let (cut, lost, late, delay) = (chance(60), chance(30), chance(30), chance(30).into());
                Fault::Weather(Weather { cut, lost, late, delay })
            }
        }
    }

    fn lie(&mut self) -> Told {
        let lie = match self.below(7) {
            0 => Lie::Repeat,
            1 => Lie::Drop,
            2 => Lie::Reverse,
            3 => Lie::Withhold,
            _ => Lie::Flip(self.0.random_range(0..1 << 20)),
        };
        loop {
            let asked = self.reading(0);
            let (Action::Find(choice) | Action::Sorted(choice, ..) | Action::Count(choice)) = &asked else {
                return Told { lie, asked };
            };
            if !choice.is_deniable() {
                return Told { lie, asked };
            }
        }
    }
}

/// One trouble in five fills the disk for `commits`, one leaves a commit undecided, the others kill.
pub(crate) fn trouble(kind: i32, commits: u32) -> Trouble {
    match kind {
        0 => Trouble::Full(commits),
        1 => Trouble::Undecided,
        _ => Trouble::Killed,
    }
}

/// Changes of several documents, which would be cut into several writes, become changes of one: each is atomic, all are
/// not.
fn of_one_document(round: &mut Round) {
    for (application, actions) in (0..).zip(&mut round.actions) {
        for action in actions {
            let Action::Write(Writing::Update(choice, _) | Writing::Delete(choice)) = action else {
                continue;
            };
            if !matches!(choice, Choice::Id(_)) {
                *choice = Choice::Id(application * 1000 + 1);
            }
        }
    }
}

impl Plan {
    /// The same with another protocol's order. An entry of one that a build is asked for may count as much as a whole write,
    /// so that changes of several documents are cut whatever they come to.
    #[must_use]
    pub fn with_order(mut self, order: &'static str) -> Self {
        self.order = order;
        if !crate::indexes::orders().contains(&order) {
            self.rounds.iter_mut().for_each(of_one_document);
        }
        self
    }

    /// The plan of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut plan = Self::without_texts(seed);
        texts::add(&mut plan);
        plan
    }

    /// The same with trees of the sizes that ship: what a seed showed before there were others, it shows so.
    #[must_use]
    pub fn with_whole_trees(self) -> Self {
        Self { small_trees: false, ..self }
    }

    /// Parameters of range indexes.
    pub(crate) fn range(&self) -> RangeSettings {
        let Self { bucket_factor, top_nodes, small_trees, .. } = *self;
        RangeSettings { bucket_factor, top_nodes, small_trees }
    }

    /// True if writes are cut into small requests.
    pub(crate) fn is_cut(&self) -> bool {
        self.request_bytes < WHOLE
    }

    /// True if an application drops an index.
    #[must_use]
    pub fn drops_indexes(&self) -> bool {
        let mut actions = self.rounds.iter().flat_map(|round| round.actions.iter().flatten());
        actions.any(|action| matches!(action, Action::DropIndex(_)))
    }

    /// The same without what texts add.
    #[must_use]
    pub fn without_texts(seed: u64) -> Self {
        let mut dice = Dice(StdRng::seed_from_u64(seed));
        let applications = 1 + dice.below(3);
        let rounds = 1 + dice.below(3);
        let faulty = !dice.one_in(8);
        let request_bytes = if dice.one_in(4) { 3000 } else { WHOLE };
        let round = |dice: &mut Dice| Round {
            actions: (0..applications)
                .map(|application| (0..4 + dice.below(10)).map(|_| dice.action(application)).collect())
                .collect(),
            faults: if faulty { (0..dice.below(4)).map(|_| dice.fault()).collect() } else { Vec::new() },
            lies: if dice.one_in(3) {
                (0..1 + dice.below(5)).map(|_| dice.lie()).collect()
            } else {
                Vec::new()
            },
        };
        let mut rounds: Vec<Round> = (0..rounds).map(|_| round(&mut dice)).collect();
        if request_bytes < WHOLE {
            rounds.iter_mut().for_each(of_one_document);
        }
        let indexes = (0..crate::indexes::OPTIONAL).filter(|_| dice.one_in(2)).collect();
        let orders = crate::indexes::orders();
        let order = orders.get(dice.0.random_range(0..orders.len())).copied().unwrap_or_default();
        let ending = match dice.below(8) {
            0 => Ending::ServerSetBack,
            1 => Ending::ServerSetBackAtStart,
            2 => Ending::ProxySetBack,
            _ => Ending::Well,
        };
        Self {
            seed,
            bucket_factor: if dice.one_in(2) { 2 } else { 4 },
            top_nodes: if dice.one_in(2) { 2 } else { 4 },
            request_bytes,
            patience: Duration::from_millis(if dice.one_in(2) { 0 } else { 1500 }),
            small_trees: dice.one_in(2),
            order,
            indexes,
            texts: false,
            rounds,
            ending,
        }
    }
}
