//! A run: a proxy, a server and applications, by a plan.

use crate::application::{self, compare, judge, namespace};
use crate::disk::{Content, Disk, Machine, Process};
use crate::hosting::{Kept, Searching};
use crate::indexes;
use crate::model::Model;
use crate::network::{Network, Serving, Wire};
use crate::plan::{Action, Fault, Plan, Round, Which};
use crate::talking::Way;
use crate::trace::Trace;
use arras_engine::history::History;
use arras_engine::mutations::{Mutation, Mutations};
use arras_engine::text::TextService;
use arras_engine::{Engine, OpenError, Settings};
use arras_keys::{Key, Keyring};
use arras_schemes::random::Randomness;
use arras_server::Backend;
use arras_service::error::Blame;
use arras_service::interrupt::Interrupt;
use arras_service::store::{IndexDefinition, Store};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

/// Longest virtual time of anything that must end.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(600);

/// What a run breaks is said in words.
pub type Checked<T> = Result<T, String>;

/// A proxy that runs.
#[derive(Clone)]
pub struct Proxy {
    /// Its engine.
    pub engine: Engine<Disk, Wire>,
    wire: Arc<Wire>,
    pub(crate) process: Arc<Process>,
    restarts: AbortHandle,
}

/// The world of a run.
pub struct World {
    pub(crate) plan: Plan,
    mutation: Option<Mutation>,
    pub(crate) network: Arc<Network>,
    pub(crate) server: Machine,
    pub(crate) local: Machine,
    pub(crate) search: Arc<Searching>,
    proxy: Mutex<Option<Proxy>>,
    dice: Mutex<StdRng>,
    pub(crate) models: Mutex<Vec<Model>>,
    /// What went wrong first.
    wrong: Mutex<Option<String>>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    /// The world of a plan, before anything happened.
    #[must_use]
    pub fn new(plan: Plan, mutation: Option<Mutation>, trace: Arc<Trace>) -> Arc<Self> {
        let seed = plan.seed;
        let network = Network::new(StdRng::seed_from_u64(seed ^ 1), trace);
        let applications = plan.rounds.first().map_or(1, |round| round.actions.len());
        Arc::new(Self {
            mutation,
            search: Searching::new(Arc::clone(&network), seed ^ 5),
            network,
            server: Machine::new(seed ^ 2),
            local: Machine::new(seed ^ 3),
            proxy: Mutex::new(None),
            dice: Mutex::new(StdRng::seed_from_u64(seed ^ 4)),
            models: Mutex::new(vec![Model::default(); applications]),
            wrong: Mutex::new(None),
            plan,
        })
    }

    pub(crate) fn note(&self, what: impl FnOnce() -> String) {
        self.network.trace.note(what);
    }

    pub(crate) fn random(&self) -> u64 {
        lock(&self.dice).next_u64()
    }

    fn machine(&self, which: Which) -> &Machine {
        match which {
            Which::Proxy => &self.local,
            Which::Server => &self.server,
            Which::Search => &self.search.machine,
        }
    }

    /// Remembers the first thing that went wrong.
    fn fail(&self, why: String) {
        self.note(|| format!("WRONG: {why}"));
        lock(&self.wrong).get_or_insert(why);
    }

    pub(crate) fn fine(&self) -> Checked<()> {
        if let Some(why) = self.network.watch.wrong() {
            return Err(why);
        }
        if let Some(fault) = self.search.take_fault() {
            return Err(format!("the enclave of an honest host ends: {fault}"));
        }
        lock(&self.wrong).clone().map_or(Ok(()), Err)
    }

    /// Starts a server, which may die of what is planned for its disk.
    pub(crate) fn start_server(&self) -> bool {
        let (process, disk) = self.server.start();
        match Backend::open(disk, [7; 16]) {
            Ok(backend) => {
                self.note(|| "the server starts".into());
                self.network.set_server(Some(Arc::new(Serving { backend, process })));
                true
            }
            Err(error) => {
                self.note(|| format!("the server does not start: {error}"));
                self.network.set_server(None);
                false
            }
        }
    }

    /// The service of text indexes as a proxy sees it, if there is one.
    fn text_service(&self, process: &Arc<Process>) -> Option<Arc<dyn TextService>> {
        let way = Way { searching: Arc::clone(&self.search), process: Arc::clone(process) };
        self.plan.texts.then(|| Arc::new(arras_text::Service::new(Arc::new(way))) as Arc<dyn TextService>)
    }

    fn settings(&self, history: Arc<History>, process: &Arc<Process>) -> Settings {
        let Plan { request_bytes, patience, .. } = self.plan;
        Settings {
            range: self.plan.range(),
            request_bytes,
            patience,
            history,
            random: Randomness::seeded(self.random()),
            keep_schema_applied: false,
            text: self.text_service(process),
            mutations: Mutations::only(self.mutation),
            ..Settings::default()
        }
    }

    pub(crate) fn keyring() -> Keyring {
        Keyring::simulated(Key::take_from(&mut [42; Key::BYTES]))
    }

    /// Starts a proxy once.
    pub(crate) async fn start_proxy(&self) -> Result<(), StartError> {
        if let Some(before) = lock(&self.proxy).take() {
            before.wire.hang_up();
            before.restarts.abort();
        }
        let (process, disk) = self.local.start();
        let mut instance = [0; 16];
        instance[..8].copy_from_slice(&self.random().to_be_bytes());
        let history = Arc::new(History::named(instance, false));
        let wire = Wire::new(Arc::clone(&self.network), Arc::clone(&process), Arc::clone(&history));
        let greeting = wire.greet().await.map_err(|error| StartError::Passing(error.to_string()))?;
        let settings = self.settings(history, &process);
        let opened = Engine::open(disk, Self::keyring(), Arc::clone(&wire), &greeting, settings).await;
        let engine = match opened {
            Ok(engine) => engine,
            Err(error) => {
                wire.hang_up();
                return Err(StartError::of(&error, &process));
            }
        };
        let restarts = tokio::spawn(follow_restarts(engine.clone(), wire.restarts())).abort_handle();
        self.note(|| "the proxy starts".into());
        *lock(&self.proxy) = Some(Proxy { engine, wire, process, restarts });
        Ok(())
    }

    /// Keeps both sides running: what dies is started again after a while.
    pub(crate) async fn keep_alive(self: Arc<Self>) {
        loop {
            self.revive().await;
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Until somebody has noticed that a process is gone.
    async fn pause(&self) {
        let ms = self.random() % 200;
        sleep(Duration::from_millis(ms)).await;
    }

    async fn revive(&self) {
        if !self.network.serves() {
            self.pause().await;
            self.start_server();
        }
        if self.plan.texts && !self.search.runs() {
            self.pause().await;
            self.search.start();
        }
        let dead = lock(&self.proxy).as_ref().is_none_or(|proxy| proxy.process.is_dead());
        if dead {
            self.pause().await;
            match self.start_proxy().await {
                Ok(()) => {}
                Err(StartError::Passing(why)) => self.note(|| format!("the proxy does not start yet: {why}")),
                Err(StartError::Halted(why) | StartError::Failed(why)) => {
                    self.fail(format!("the proxy does not start: {why}"));
                    sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }

    /// The proxy, once there is one.
    pub(crate) async fn proxy(&self) -> Checked<Proxy> {
        loop {
            if let Some(proxy) = lock(&self.proxy).clone().filter(|proxy| !proxy.process.is_dead()) {
                return Ok(proxy);
            }
            self.fine()?;
            sleep(Duration::from_millis(7)).await;
        }
    }

    /// Runs the plan.
    ///
    /// # Errors
    /// What does not hold.
    pub async fn run(self: Arc<Self>) -> Checked<()> {
        self.start_server();
        if self.plan.texts {
            self.search.start();
        }
        self.start_proxy().await.map_err(|error| format!("a new proxy does not start: {error:?}"))?;
        self.prepare().await?;
        let mut before = None;
        for (number, round) in self.plan.rounds.iter().enumerate() {
            self.note(|| format!("round {number}"));
            before = Some(self.copies());
            self.round(round).await?;
            self.check().await?;
            for told in &round.lies {
                self.lie(told).await?;
            }
        }
        match before {
            Some(before) => self.end(&before).await,
            None => Ok(()),
        }
    }

    /// What is on all disks.
    pub(crate) fn copies(&self) -> Copies {
        Copies { server: self.server.copy(), local: self.local.copy(), search: self.search.copy() }
    }

    async fn prepare(&self) -> Checked<()> {
        let proxy = self.proxy().await?;
        let mut requests = vec![indexes::unique()];
        requests.extend(self.plan.indexes.iter().map(|number| indexes::optional(*number, self.plan.order)));
        let made = self.made(&proxy, requests).await;
        made.map_err(|error| format!("indexes of a new collection: {error}"))
    }

    /// Makes indexes, once the host of boolean search is there.
    pub(crate) async fn made(&self, proxy: &Proxy, requests: Vec<IndexDefinition>) -> Checked<()> {
        let mut last = String::new();
        for _ in 0..50 {
            match proxy.engine.create_indexes(&namespace(), requests.clone(), Interrupt::default()).await {
                Ok(_) => return Ok(()),
                Err(error) if error.fault.blame() == Blame::Connection => last = error.message,
                Err(error) => return Err(error.message),
            }
            sleep(Duration::from_millis(100)).await;
        }
        Err(last)
    }

    /// One round: applications beside faults, until the applications are done.
    async fn round(self: &Arc<Self>, round: &Round) -> Checked<()> {
        let mut beside = JoinSet::new();
        for fault in &round.faults {
            match fault.clone() {
                Fault::Store(which, passing, trouble) => self.machine(which).plan(passing, trouble),
                Fault::Weather(weather) => self.network.set_weather(weather),
                Fault::Kill(which, ms) => {
                    let world = Arc::clone(self);
                    beside.spawn(async move {
                        sleep(Duration::from_millis(ms)).await;
                        world.note(|| format!("{which:?} is killed"));
                        world.machine(which).kill();
                    });
                }
            }
        }
        beside.spawn(Arc::clone(self).keep_alive());
        let mut applications = JoinSet::new();
        for (number, actions) in round.actions.iter().cloned().enumerate() {
            let world = Arc::clone(self);
            applications.spawn(async move { world.application(number, actions).await });
        }
        let done = async { while applications.join_next().await.is_some() {} };
        timeout(FOR_EVER, done)
            .await
            .map_err(|_| "the applications are not done after ten minutes".to_owned())?;
        drop(beside);
        self.fine()
    }

    async fn application(&self, number: usize, actions: Vec<Action>) {
        for action in actions {
            if let Err(why) = self.act(number, &action).await {
                return self.fail(format!("application {number}: {why}"));
            }
        }
    }

    /// Carries an action out, and compares what comes of it with the model.
    async fn act(&self, number: usize, action: &Action) -> Checked<()> {
        self.fine()?;
        if let Action::Wait(ms) = action {
            sleep(Duration::from_millis(*ms)).await;
            return Ok(());
        }
        let proxy = self.proxy().await?;
        self.note(|| format!("{number} asks {action:?}"));
        let done = async {
            tokio::select! {
                biased;
                () = proxy.process.dies() => None,
                done = self.ask(number, action, &proxy) => Some(done),
            }
        };
        let done = timeout(FOR_EVER, done).await.map_err(|_| format!("{action:?} does not end"))?;
        // What is told by a proxy that died meanwhile reaches nobody.
        let done = done.filter(|_| !proxy.process.is_dead());
        match done {
            None => {
                self.note(|| format!("{number} hears nothing"));
                self.doubt(number, action);
            }
            Some(Ok(())) => {}
            Some(Err(Answer::Wrong(why))) => return Err(why),
            Some(Err(Answer::Failed(error))) => {
                self.note(|| format!("{number} is refused: {:?}: {}", error.fault, error.message));
                let in_doubt = judge(&error, self.plan.drops_indexes())
                    .map_err(|why| format!("{action:?} is refused: {why}"))?;
                if in_doubt {
                    self.doubt(number, action);
                }
                sleep(Duration::from_millis(30)).await;
            }
        }
        Ok(())
    }

    fn doubt(&self, number: usize, action: &Action) {
        if let Action::Write(writing) = action
            && let Some(model) = lock(&self.models).get_mut(number)
        {
            model.doubted(writing);
        }
    }

    pub(crate) async fn ask(&self, number: usize, action: &Action, proxy: &Proxy) -> Result<(), Answer> {
        let application = i32::try_from(number).unwrap_or_default();
        let engine = &proxy.engine;
        let wrong = |compared: Checked<()>| compared.map_err(Answer::Wrong);
        // An answer that came when its proxy had died reached nobody.
        let reached = || !proxy.process.is_dead();
        match action {
            Action::Write(writing) => {
                let came = application::write(engine, application, writing).await.map_err(Answer::Failed)?;
                if !reached() {
                    return Ok(());
                }
                self.note(|| format!("{number} is told {came:?}"));
                let mut models = lock(&self.models);
                wrong(models.get_mut(number).map_or(Ok(()), |model| model.answered(writing, &came)))
            }
            Action::CreateIndex(index) => {
                let request = indexes::optional(*index, self.plan.order);
                engine
                    .create_indexes(&namespace(), vec![request], Interrupt::default())
                    .await
                    .map(drop)
                    .map_err(Answer::Failed)
            }
            Action::DropIndex(index) => {
                let name = indexes::optional(*index, self.plan.order).name;
                engine.drop_index(&namespace(), &name).await.map_err(Answer::Failed)
            }
            Action::Find(_) | Action::Sorted(..) | Action::Count(_) | Action::Sum(..) => {
                let found =
                    application::read(engine, Some(application), action).await.map_err(Answer::Failed)?;
                let Some(found) = found.filter(|_| reached()) else { return Ok(()) };
                self.note(|| format!("{number} is told {found:?}"));
                let mut models = lock(&self.models);
                wrong(models.get_mut(number).map_or(Ok(()), |model| compare(model, action, &found)))
            }
            Action::Wait(_) => Ok(()),
        }
    }

    /// Stops the proxy in order.
    pub(crate) async fn stop_proxy(&self) {
        let stopped = lock(&self.proxy).take();
        if let Some(Proxy { engine, wire, process, restarts }) = stopped {
            restarts.abort();
            drop(engine);
            sleep(Duration::from_secs(20)).await;
            wire.hang_up();
            drop(process);
        }
        self.local.stop();
    }

    /// Starts the proxy where nothing goes wrong.
    pub(crate) async fn start_again(&self) -> Checked<()> {
        let mut last = String::new();
        for _ in 0..40 {
            match self.start_proxy().await {
                Ok(()) => return Ok(()),
                // The connection of the one before may not have ended yet.
                Err(StartError::Passing(why)) => last = why,
                Err(StartError::Halted(why) | StartError::Failed(why)) => {
                    return Err(format!("the proxy does not start though all is well: {why}"));
                }
            }
            sleep(Duration::from_millis(300)).await;
        }
        Err(format!("the proxy does not start though all is well: {last}"))
    }
}

/// What all disks have at one moment.
pub(crate) struct Copies {
    pub(crate) server: Content,
    pub(crate) local: Content,
    pub(crate) search: Kept,
}

/// What a proxy's start came to.
#[derive(Debug)]
pub(crate) enum StartError {
    /// It may be tried again.
    Passing(String),
    /// The two sides are not of one history.
    Halted(String),
    /// Neither.
    Failed(String),
}

impl StartError {
    fn of(error: &OpenError, process: &Process) -> Self {
        let why = error.to_string();
        if process.is_dead() || why.contains("injected") {
            return Self::Passing(why);
        }
        match error {
            OpenError::History(_) | OpenError::Witness(_) => Self::Halted(why),
            OpenError::Intent(
                arras_engine::intents::WriteError::Unsettled(_)
                | arras_engine::intents::WriteError::InDoubt(_),
            ) => Self::Passing(why),
            OpenError::Index(arras_schemes::error::IndexError::Channel(channel))
                if channel.outcome_unknown() =>
            {
                Self::Passing(why)
            }
            OpenError::Count(_) => Self::Passing(why),
            OpenError::Local(_)
            | OpenError::Index(_)
            | OpenError::Intent(_)
            | OpenError::Restore(_)
            | OpenError::KeyVersion(_) => Self::Failed(why),
        }
    }
}

/// Why an application has no right answer.
#[derive(Debug)]
pub(crate) enum Answer {
    /// It has a wrong one.
    Wrong(String),
    /// It has an error.
    Failed(arras_service::ServiceError),
}

async fn follow_restarts(engine: Engine<Disk, Wire>, mut restarts: tokio::sync::watch::Receiver<u64>) {
    while restarts.changed().await.is_ok() {
        engine.server_restarted().await;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
