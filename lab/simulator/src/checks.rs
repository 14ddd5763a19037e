//! What is compared when all is well: answers with the models, indexes with the documents, lies with the truth.

use crate::application::{self, Found, expected};
use crate::indexes::{self, TEXT};
use crate::model::Items;
use crate::network::{Weather, Wire};
use crate::plan::{Action, Told};
use crate::texts::{STEMS, Sought};
use crate::world::{Answer, Checked, FOR_EVER, Proxy, World, lock};
use arras_engine::history::History;
use arras_engine::inspection;
use arras_engine::local::LocalStore;
use arras_schemes::random::Randomness;
use arras_service::error::{Blame, Fault as Failing};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

impl World {
    /// Ends everything that goes wrong, and compares everything with the models.
    pub(crate) async fn check(self: &Arc<Self>) -> Checked<()> {
        self.network.set_weather(Weather::default());
        self.server.heal();
        self.local.heal();
        self.search.machine.heal();
        self.note(|| "all is well again".into());
        let alive = tokio::spawn(Arc::clone(self).keep_alive());
        let checked = timeout(FOR_EVER, self.check_all()).await;
        alive.abort();
        checked.unwrap_or_else(|_| Err("nothing settles, though all is well again".into()))?;
        self.inspect().await?;
        self.fine()
    }

    /// Everything that can be asked of everybody's documents, through every index.
    pub(crate) async fn check_all(&self) -> Checked<()> {
        let applications = lock(&self.models).len();
        for number in 0..applications {
            self.settle(number).await?;
        }
        let all = self.items();
        let proxy = self.proxy().await?;
        if self.plan.texts {
            let request = indexes::optional(TEXT, self.plan.order);
            let made = self.made(&proxy, vec![request]).await;
            made.map_err(|why| format!("no text index though all is well: {why}"))?;
        }
        for action in questions(self.plan.texts) {
            compare_all(&action, &all, self.answered(&proxy, &action).await?)?;
        }
        Ok(())
    }

    /// What a question is answered with once the connection holds.
    async fn answered(&self, proxy: &Proxy, action: &Action) -> Checked<Option<Found>> {
        let mut last = String::new();
        for _ in 0..50 {
            match application::read(&proxy.engine, None, action).await {
                Ok(found) => return Ok(found),
                Err(error) if error.fault.blame() == Blame::Connection => last = format!("{error:?}"),
                Err(error) => return Err(format!("{action:?} failed though all is well: {error:?}")),
            }
            sleep(Duration::from_millis(100)).await;
        }
        Err(format!("{action:?} failed though all is well: {last}"))
    }

    /// Reads an application's documents until that is answered: then one of the ways they may be is true.
    async fn settle(&self, number: usize) -> Checked<()> {
        let action = Action::Find(crate::model::Choice::All);
        for _ in 0..200 {
            let proxy = self.proxy().await?;
            match self.ask(number, &action, &proxy).await {
                Ok(()) if lock(&self.models).get(number).is_none_or(|model| model.ways.len() == 1) => {
                    return Ok(());
                }
                Ok(()) => {}
                Err(Answer::Wrong(why)) => {
                    return Err(format!("when all is well, of application {number}: {why}"));
                }
                Err(Answer::Failed(error)) if error.fault.blame() == Blame::Connection => {}
                Err(Answer::Failed(error))
                    if proxy.process.is_dead() || error.message.contains("injected") => {}
                Err(Answer::Failed(error)) => return Err(format!("when all is well: {error:?}")),
            }
            sleep(Duration::from_millis(100)).await;
        }
        Err("reading does not succeed though all is well again".into())
    }

    /// The documents of all applications.
    fn items(&self) -> Items {
        let models = lock(&self.models);
        models.iter().flat_map(|model| model.ways.first().cloned().unwrap_or_default()).collect()
    }

    /// Stops the proxy in order, compares every index with the documents, and starts a new one.
    async fn inspect(&self) -> Checked<()> {
        // What runs behind answers comes to its end.
        sleep(Duration::from_secs(20)).await;
        self.stop_proxy().await;
        let (process, disk) = self.local.start();
        let history = Arc::new(History::observer());
        let wire = Wire::new(Arc::clone(&self.network), process, history);
        let keyring = Self::keyring();
        let root = keyring.current().1;
        let local = LocalStore::open_with(disk, root, Randomness::seeded(self.random()));
        let local = local.map_err(|error| format!("the proxy's store: {error}"))?;
        let inspected = inspection::inspect(&local, &keyring, &wire, self.plan.range()).await;
        let inspected = inspected.map_err(|error| format!("inspecting: {error}"))?;
        wire.hang_up();
        let wrong: Vec<String> = inspected.into_iter().flat_map(|collection| collection.wrong).collect();
        if !wrong.is_empty() {
            return Err(format!("indexes and documents do not agree: {}", wrong.join("; ")));
        }
        self.start_again().await
    }

    /// Asks while the server lies: the answer is right, or an error.
    pub(crate) async fn lie(&self, told: &Told) -> Checked<()> {
        let proxy = self.proxy().await?;
        self.note(|| format!("{told:?}"));
        self.network.arm(told.lie);
        let outcome = timeout(FOR_EVER, application::read(&proxy.engine, None, &told.asked)).await;
        let lies = self.network.disarm();
        let outcome = outcome.map_err(|_| format!("{told:?}: it does not end"))?;
        self.note(|| format!("after {lies} lies: {outcome:?}"));
        match outcome {
            Ok(found) => {
                compare_all(&told.asked, &self.items(), found).map_err(|why| format!("{told:?}: {why}"))?
            }
            Err(error) if lies == 0 => {
                return Err(format!("{told:?}: an honest server is refused: {error:?}"));
            }
            Err(error) if error.fault == Failing::Internal => return Err(format!("{told:?}: {error:?}")),
            Err(_) => {}
        }
        // A lie does not last.
        let again = application::read(&proxy.engine, None, &told.asked).await;
        let again = again.map_err(|error| format!("{told:?}: it lasts: {error:?}"))?;
        compare_all(&told.asked, &self.items(), again).map_err(|why| format!("{told:?}: it lasts: {why}"))
    }
}

/// Questions through every index.
fn questions(texts: bool) -> Vec<Action> {
    use crate::model::Choice;
    let mut all = vec![Action::Find(Choice::All), Action::Count(Choice::All), Action::Sum(0, 9)];
    all.push(Action::Sorted(Choice::All, false, 5));
    all.push(Action::Sorted(Choice::V(3, 15), true, 100));
    all.extend((0..3).flat_map(|b| [Action::Find(Choice::B(b)), Action::Count(Choice::B(b))]));
    all.extend([
        Action::Find(Choice::A(1, 3)),
        Action::Find(Choice::A(4, 4)),
        Action::Count(Choice::A(0, 2)),
    ]);
    all.extend([
        Action::Sum(1, 2),
        Action::Find(Choice::Both(1, 2)),
        Action::Find(Choice::OneOfA(vec![0, 3])),
    ]);
    if texts {
        all.extend((0..STEMS).map(|stem| Action::Find(Choice::Text(Sought::word(2 * stem)))));
        let phrases = (0..STEMS).map(|stem| vec![2 * stem, (2 * stem + 2) % (2 * STEMS)]);
        all.extend(phrases.map(|phrase| {
            let phrases = vec![phrase];
            Action::Find(Choice::Text(Sought { phrases, ..Sought::default() }))
        }));
        let denied = vec![vec![0]];
        all.push(Action::Count(Choice::Text(Sought { denied, ..Sought::word(3) })));
    }
    all
}

fn compare_all(action: &Action, items: &Items, found: Option<Found>) -> Checked<()> {
    let Some(found) = found else { return Ok(()) };
    let expected = expected(action, items, &found);
    if found == expected { Ok(()) } else { Err(format!("{action:?} gave {found:?}, not {expected:?}")) }
}
