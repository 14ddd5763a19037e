//! `kill -9` at random moments: of the proxy, of the server, of both, of a proxy that is just starting.
//!
//! After each: every acknowledged write is there, by scan and through every index; the write that was under way is
//! wholly there or wholly not; unique values are. Over all starts: nothing that must be used once was used twice.

use super::crowd::Crowd;
use super::definitions::Definer;
use super::dice::Dice;
use super::model::{DUPLICATE, Model, Operation};
use super::process::PATIENCE;
use super::system::{Making, System, is_unreachable, seed, until_answered};
use super::transcript::{self, Uses};
use arras_lab::wire_client::{ClientError, WireClient};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Small trees, and values of equality indexes cleaned with each deletion: the more happens between two kills.
const CONFIGURATION: &str = "
[range_indexes]
bucket_factor = 4
top_nodes = 4

[equality_indexes]
cleanup = \"each_delete\"
";
/// Kills in a run, at least.
const KILLS: usize = 50;
/// Longest time that writers run before a kill.
const WRITING_MS: u64 = 250;

fn pause(dice: &mut Dice, longest_ms: u64) {
    thread::sleep(Duration::from_millis(dice.below(longest_ms + 1)));
}

/// Writes until stopped, or until the outcome of a write is not known: that one.
fn write(model: &mut Model, address: &str, stop: &AtomicBool) -> Option<Operation> {
    let mut client = WireClient::connect(address, PATIENCE).ok()?;
    while !stop.load(Ordering::SeqCst) {
        let operation = model.operation();
        match client.command(&operation.command) {
            Ok(_) => {
                assert!(!operation.duplicate, "a unique value was taken twice by {}", operation.command);
                model.state = operation.after;
            }
            Err(error) if error.code() == Some(DUPLICATE) => {
                assert!(operation.duplicate, "{error} to {}", operation.command);
                model.state = operation.after;
            }
            Err(ClientError::Io(error)) => {
                assert_ne!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock,
                    "no answer to {}",
                    operation.command
                );
                return Some(operation);
            }
            Err(error) => {
                assert!(is_unreachable(&error), "{error} to {}", operation.command);
                return Some(operation);
            }
        }
    }
    None
}

/// Finds out what became of a write, and takes it into the model.
fn resolve(model: &mut Model, in_doubt: Option<Operation>, client: &mut WireClient) {
    let state = until_answered(|| model.scan(client));
    if let Some(operation) = in_doubt {
        let wholly = state == operation.after || state == model.state;
        assert!(wholly, "half there: {}\nbefore {:?}\nfound {state:?}", operation.command, model.state);
        model.state = state;
    }
}

struct Run {
    system: System,
    dice: Dice,
    models: [Model; 2],
    definer: Definer,
    crowd: Crowd,
    uses: Uses,
    kills: usize,
    rounds: u64,
}

impl Run {
    fn new(seed: u64) -> Self {
        let making = Making { transcript: true, configuration: CONFIGURATION, ..Making::default() };
        let system = System::start(making);
        let mut dice = Dice::new(seed);
        let mut models = ["first", "second"].map(|name| Model::new(name, dice.next()));
        let mut client = system.client();
        for model in &mut models {
            model.create_indexes(&mut client);
            model.check_plans(&mut client);
            model.check(&mut client).unwrap();
        }
        let crowd = Crowd::new(&mut dice);
        Self {
            system,
            dice,
            models,
            definer: Definer::new(),
            crowd,
            uses: Uses::default(),
            kills: 0,
            rounds: 0,
        }
    }

    fn kill_proxy(&mut self) {
        self.system.kill_proxy();
        self.kills += 1;
    }

    /// Kills the server and takes in what it wrote down.
    fn kill_server(&mut self) {
        self.system.kill_server();
        self.kills += 1;
        self.take_transcript();
    }

    fn take_transcript(&mut self) {
        let path = self.system.transcript();
        self.uses.take(&transcript::read(&path));
        let _ = std::fs::remove_file(path);
    }

    /// Starts the proxy; now and then kills it while it starts, once or more.
    fn restart_proxy(&mut self) {
        while self.dice.below(3) == 0 {
            let listening = self.system.begin_proxy();
            pause(&mut self.dice, 300);
            self.kill_proxy();
            drop(listening);
        }
        self.system.start_proxy();
    }

    fn kill_at_random(&mut self) {
        match self.dice.below(6) {
            0 | 1 => self.kill_proxy(),
            2 | 3 => {
                // The proxy stays, and finds the server again.
                self.kill_server();
                pause(&mut self.dice, 500);
                self.system.start_server();
                pause(&mut self.dice, WRITING_MS);
            }
            4 => {
                self.kill_proxy();
                pause(&mut self.dice, 10);
                self.kill_server();
            }
            _ => {
                self.kill_server();
                pause(&mut self.dice, 30);
                self.kill_proxy();
            }
        }
    }

    /// Writers in two collections, many of one, one that makes and drops a third, a kill, and what is left.
    fn round(&mut self) {
        let stop = AtomicBool::new(false);
        let mut models = std::mem::replace(&mut self.models, ["", ""].map(|name| Model::new(name, 0)));
        let mut definer = std::mem::replace(&mut self.definer, Definer::new());
        let address = self.system.address().to_owned();
        let client = self.system.client();
        let in_doubt = thread::scope(|scope| {
            let defining = scope.spawn(|| definer.run(client, || stop.load(Ordering::SeqCst)));
            let writers = models.each_mut().map(|model| scope.spawn(|| write(model, &address, &stop)));
            let crowd = std::mem::take(&mut self.crowd.writers);
            let crowd: Vec<_> = crowd
                .into_iter()
                .map(|mut writer| {
                    let (address, stop) = (&address, &stop);
                    scope.spawn(move || (writer.write(address, stop), writer))
                })
                .collect();
            pause(&mut self.dice, WRITING_MS);
            self.kill_at_random();
            stop.store(true, Ordering::SeqCst);
            defining.join().expect("its own message is above");
            for writer in crowd {
                let (acknowledged, writer) = writer.join().expect("its own message is above");
                self.crowd.acknowledged += acknowledged;
                self.crowd.writers.push(writer);
            }
            writers.map(|writer| writer.join().expect("its own message is above"))
        });
        (self.models, self.definer) = (models, definer);
        if self.system.server.is_none() {
            self.system.start_server();
        }
        if self.system.proxy.is_none() {
            self.restart_proxy();
        }
        let mut client = self.system.client();
        for (model, in_doubt) in self.models.iter_mut().zip(in_doubt) {
            resolve(model, in_doubt, &mut client);
        }
        self.crowd.check(&mut client);
        self.definer.check(&mut client);
        for model in &mut self.models {
            model.check(&mut client).unwrap_or_else(|error| panic!("{error}; {} kills", self.kills));
        }
        self.system.assert_no_panic();
        self.rounds += 1;
    }
}

#[test]
fn acknowledged_writes_survive_kills_and_no_write_is_half_there() {
    let mut run = Run::new(seed());
    while run.kills < KILLS {
        run.round();
    }
    run.kill_server();
    eprintln!(
        "{} kills in {} rounds, {} writes seen by the server, {} acknowledged to the crowd, {} circuits opened, {} blobs sealed, {} and {} documents",
        run.kills,
        run.rounds,
        run.uses.writes(),
        run.crowd.acknowledged,
        run.uses.circuits_opened(),
        run.uses.sealed(),
        run.models[0].state.len(),
        run.models[1].state.len(),
    );
    assert!(run.uses.writes() > 100 && run.uses.sealed() > 1000);
    // After each kill every collection is asked for several ranges, by walks down trees.
    assert!(run.uses.circuits_opened() > run.rounds, "{} circuits", run.uses.circuits_opened());
    assert!(run.crowd.acknowledged > 100);
}
