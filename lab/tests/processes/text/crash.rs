//! Random writes and searches against a model: undisturbed, and with `kill -9` of proxy, host and server in their midst.

use super::super::dice::Dice;
use super::super::process::PATIENCE;
use super::super::system::{is_unreachable, seed};
use super::model::{self, Operation, Search, State};
use super::{Client, Texts, until};
use arras_lab::wire_client::{ClientError, WireClient};
use bson::doc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Writes and searches of the undisturbed session.
const STEPS: usize = 400;
/// Kills of the other.
const KILLS: usize = 24;
/// Searches after each.
const SEARCHES: usize = 40;

fn prepare(client: &mut Client) {
    client.create_index("words", doc! { "t": "text" }, doc! { "default_language": "none" }).unwrap();
}

fn compare(client: &mut Client, state: &State, dice: &mut Dice) {
    let search = Search::random(dice);
    assert_eq!(client.found("words", &search.text()), search.of(state), "{:?} of {state:?}", search.text());
}

#[test]
fn random_writes_and_searches_agree_with_a_model() {
    let texts = Texts::start();
    let (mut client, mut dice) = (texts.client(), Dice::new(seed()));
    prepare(&mut client);
    let (mut state, mut next) = (State::new(), 0);
    for _ in 0..STEPS {
        let Operation { command, after } = Operation::random(&state, &mut next, &mut dice);
        client.command(command).unwrap();
        state = after;
        compare(&mut client, &state, &mut dice);
    }
    assert!(state.len() > 20, "{}", state.len());
    texts.system.assert_no_panic();
}

/// Writes until stopped or until the outcome of a write is not known: that one.
fn write(
    address: &str,
    state: &mut State,
    next: &mut i32,
    dice: &mut Dice,
    stop: &AtomicBool,
) -> Option<Operation> {
    let mut client = Client(WireClient::connect(address, PATIENCE).ok()?);
    while !stop.load(Ordering::SeqCst) {
        let operation = Operation::random(state, next, dice);
        match client.command(operation.command.clone()) {
            Ok(_) => *state = operation.after,
            Err(ClientError::Io(_)) => return Some(operation),
            Err(error) => {
                assert!(is_unreachable(&error), "{error} to {}", operation.command);
                return Some(operation);
            }
        }
    }
    None
}

#[test]
fn what_is_acknowledged_is_found_whatever_is_killed() {
    let mut texts = Texts::start();
    let mut dice = Dice::new(seed());
    prepare(&mut texts.client());
    let (mut state, mut next) = (State::new(), 0);
    for round in 0..KILLS {
        let (stop, address) = (AtomicBool::new(false), texts.system.address().to_owned());
        let longest = Duration::from_millis(dice.below(150));
        let mut writer_dice = Dice::new(dice.below(u64::MAX));
        let in_doubt = thread::scope(|scope| {
            let writing = scope.spawn(|| write(&address, &mut state, &mut next, &mut writer_dice, &stop));
            thread::sleep(longest);
            match round % 4 {
                0 | 1 => texts.system.kill_proxy(),
                2 => texts.kill_host(),
                _ => texts.system.kill_server(),
            }
            if round % 8 == 5 {
                texts.kill_host();
            }
            stop.store(true, Ordering::SeqCst);
            writing.join().unwrap()
        });
        if texts.host.is_none() {
            texts.start_host();
        }
        if texts.system.server.is_none() {
            texts.system.start_server();
        }
        if texts.system.proxy.is_none() {
            texts.system.start_proxy();
        }
        let mut client = texts.client();
        let mut found = Vec::new();
        until(|| match client.query(doc! { "find": "words" }) {
            Ok(documents) => {
                found = documents;
                true
            }
            Err(error) => {
                assert!(is_unreachable(&error), "{error}");
                false
            }
        });
        let there = model::state(&found);
        if let Some(operation) = in_doubt {
            let wholly = there == operation.after || there == state;
            assert!(wholly, "half there: {}\nbefore {state:?}\nfound {there:?}", operation.command);
            state = there;
        } else {
            assert_eq!(there, state, "round {round}");
        }
        (0..SEARCHES).for_each(|_| compare(&mut client, &state, &mut dice));
    }
    texts.system.assert_no_panic();
}
