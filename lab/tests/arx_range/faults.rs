//! Crashes, lost calls, late repairs, dropped ones: afterwards the answers are right, and the attacker who kept
//! everything has opened no circuit twice.

use crate::answers::{Entries, Operation, Twin, any_parameters, compare, compare_sums, entries, operation};
use crate::world::{Client, Fault, World, cases, parameters, run};
use arras_protocol::Order;
use arras_protocol::write::{self, Write};
use arras_protocol::{Channel, OperationId};
use arras_schemes::arx_range::ArxRangeParameters;
use proptest::prelude::*;
use std::sync::Arc;

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![Just(Fault::LostRequest), Just(Fault::LostReply), Just(Fault::Late), Just(Fault::Crash)]
}

/// Makes a change that may fail half way: then the index must be as before, or as after.
async fn change(client: &Client, twin: &mut Twin, change: &Entries) {
    let (insert, remove) = entries(&client.parameters, change);
    let before = twin.amounts.clone();
    twin.change(&client.parameters, change).await;
    if client.own.change(insert, remove).await.is_ok() {
        return;
    }
    client.world.heal();
    let all = client.own.index.search(vec![0, 0], vec![255, 255], Order::Ascending, None).await;
    let (found, repair) = all.expect("the channel is healed");
    drop(repair);
    let found: std::collections::BTreeSet<_> =
        found.entries.iter().map(|(key, row)| (u16::from_be_bytes([key[0], key[1]]), row.0[0])).collect();
    if found != twin.amounts.keys().copied().collect() {
        assert_eq!(found, before.keys().copied().collect(), "neither as before nor as after");
        let back: Entries = (before.iter().map(|((k, r), a)| (*k, *r, *a)).collect(), Vec::new());
        *twin = Twin::default();
        twin.change(&client.parameters, &back).await;
    } else if before != twin.amounts && before.keys().eq(twin.amounts.keys()) {
        // Only sums differ: put the change again, as the proxy does.
        let (insert, remove) = entries(&client.parameters, change);
        client.own.change(insert, remove).await.expect("the channel is healed");
    }
}

async fn step(client: &mut Client, twin: &mut Twin, operation: Operation, drop_repair: bool) {
    match operation {
        Operation::Change { insert, remove } if drop_repair => {
            let (insert, remove) = entries(&client.parameters, &(insert, remove));
            // Neither written nor committed: nothing has changed.
            drop(client.own.index.stage(insert, remove).await);
        }
        Operation::Change { insert, remove } => change(client, twin, &(insert, remove)).await,
        Operation::Search { lower, upper, descending, limit } => {
            let order = if descending { Order::Descending } else { Order::Ascending };
            let [lower, upper] = [lower, upper].map(|key| key.to_be_bytes().to_vec());
            if let Ok((_, repair)) = client.own.index.search(lower, upper, order, limit).await
                && !drop_repair
            {
                let _ = repair.run().await;
            }
        }
        Operation::Sums { lower, upper } => {
            let [lower, upper] = [lower, upper].map(|key| key.to_be_bytes().to_vec());
            if let Ok((_, repair)) = client.own.index.sums(lower, upper).await
                && !drop_repair
            {
                let _ = repair.run().await;
            }
        }
        Operation::NewEpoch => client.own.index.new_epoch().await,
        Operation::Restart => {
            if client.restart().await.is_err() {
                client.world.heal();
                client.epoch += 1;
                client.restart().await.expect("the channel is healed");
            }
        }
        Operation::Crash { lost } => client.world.crash(lost),
    }
}

type Faulty = (Operation, Option<(u64, Fault)>, bool);

async fn play(parameters: ArxRangeParameters, history: Vec<Faulty>) {
    let world = World::new();
    let mut client = Client::create(&world, parameters).await;
    let mut twin = Twin::default();
    for (operation, fault, drop_repair) in history {
        if let Some((passing, fault)) = fault {
            world.fail_after(passing, fault);
        }
        step(&mut client, &mut twin, operation, drop_repair).await;
    }
    world.heal();
    compare(&client.own, &twin, (0, u16::MAX), false, None).await;
    compare(&client.own, &twin, (3, 30), true, Some(5)).await;
    compare_sums(&client, &twin, 2, 40000).await;
    world.shape().await;
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn after_any_faults_the_answers_are_right_and_no_circuit_was_opened_twice(
        parameters in any_parameters(),
        history in proptest::collection::vec(
            (operation(), proptest::option::of((0_u64..6, fault())), any::<bool>()),
            1..40,
        ),
    ) {
        run(play(parameters, history));
    }
}

/// A history that goes through every kind of call.
fn fixed_history() -> Vec<Operation> {
    let change = |insert: &[u16], remove: &[u16]| Operation::Change {
        insert: insert.iter().map(|key| (*key, 0, i32::from(*key))).collect(),
        remove: remove.iter().map(|key| (*key, 0)).collect(),
    };
    let search = |lower, upper| Operation::Search { lower, upper, descending: false, limit: None };
    let many: Vec<u16> = (0..60).map(|key| key * 5).collect();
    vec![
        change(&many, &[]),
        search(7, 90),
        search(0, 300),
        change(&[11], &[]),
        change(&[12], &[10]),
        Operation::Sums { lower: 20, upper: 200 },
        change(&[], &[50]),
        change(&[], &[55, 60, 65, 70, 75]),
        search(40, 80),
        Operation::Restart,
        search(30, 31),
        change(&[1, 2, 3], &[5]),
    ]
}

#[test]
fn a_fault_at_every_call_does_no_harm() {
    let parameters = parameters(2, 4, 1);
    let play = |fault: Option<(u64, Fault)>| {
        run(async move {
            let world = World::new();
            let mut client = Client::create(&world, parameters).await;
            let mut twin = Twin::default();
            if let Some((call, fault)) = fault {
                world.fail_after(call, fault);
            }
            for operation in fixed_history() {
                step(&mut client, &mut twin, operation, false).await;
            }
            world.heal();
            compare(&client.own, &twin, (0, u16::MAX), false, None).await;
            compare_sums(&client, &twin, 0, 500).await;
            assert!(fault.is_some() || world.auditor.opened() > 20, "walks took place");
            world.calls()
        })
    };
    let calls = play(None);
    for fault in [Fault::LostRequest, Fault::LostReply, Fault::Late, Fault::Crash] {
        for call in 0..calls {
            play(Some((call, fault)));
        }
    }
}

#[test]
fn a_process_that_comes_to_an_epoch_again_opens_no_circuit_twice() {
    run(async {
        let parameters = parameters(2, 0, 0);
        let world = World::new();
        let mut client = Client::create(&world, parameters).await;
        let mut twin = Twin::default();
        change(&client, &mut twin, &((0..40).map(|key| (key, 0, 0)).collect(), Vec::new())).await;
        for range in [(3, 9), (10, 30), (5, 5)] {
            compare(&client.own, &twin, range, false, None).await;
        }
        // The proxy's own store was set back; the randomness was not.
        let again = Client::open_seeded(&world, parameters, client.epoch, 77).await.expect("opens");
        client = again;
        for range in [(4, 9), (11, 30), (6, 6)] {
            compare(&client.own, &twin, range, false, None).await;
        }
        assert!(world.auditor.opened() > 20, "walks took place");
    });
}

#[test]
fn a_write_in_doubt_may_arrive_while_the_index_is_suspended() {
    run(async {
        for parameters in [parameters(1, 0, 1), parameters(2, 4, 1), parameters(2, 1024, 0)] {
            let world = World::new();
            let client = Client::create(&world, parameters).await;
            let mut twin = Twin::default();
            change(&client, &mut twin, &((0..40).map(|key| (key * 3, 0, 1)).collect(), Vec::new())).await;
            for turn in 0..20_u16 {
                let doubtful: Entries = (vec![(turn * 7 % 120 + 1, 1, 2)], vec![(turn * 6, 0)]);
                let (insert, remove) = entries(&parameters, &doubtful);
                let mut staged = client.own.index.stage(insert, remove).await.expect("stages");
                let steps = std::mem::take(&mut staged.steps);
                drop(staged);
                compare(&client.own, &twin, (turn, turn + 60), false, None).await;
                let suspended = client.own.index.suspend().await;
                let operation = OperationId { epoch: 50, sequence: u64::from(turn) };
                let request = write::Request {
                    operation: Some(operation),
                    finished_below: operation,
                    acknowledged: 0,
                    steps,
                };
                Channel::<Write>::call(&*world, request).await.expect("no fault is planned");
                drop(suspended);
                twin.change(&parameters, &doubtful).await;
                compare(&client.own, &twin, (turn, turn + 60), false, None).await;
                compare_sums(&client, &twin, turn, turn + 60).await;
            }
        }
    });
}

#[test]
fn searches_and_changes_run_side_by_side() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().expect("a runtime");
    runtime.block_on(async {
        let parameters = parameters(2, 8, 1);
        let world = World::new();
        let client = Arc::new(Client::create(&world, parameters).await);
        let mut twin = Twin::default();
        change(&client, &mut twin, &((0..300).map(|key| (key * 2, 0, 1)).collect(), Vec::new())).await;
        let mut tasks = Vec::new();
        for task in 0..8_u16 {
            let client = Arc::clone(&client);
            tasks.push(tokio::spawn(async move {
                for turn in 0..30_u16 {
                    let lower = (task * 131 + turn * 17) % 600;
                    let odd = (vec![(lower | 1, 9, 1)], Vec::new());
                    if turn % 5 == task % 5 {
                        let (insert, _) = entries(&client.parameters, &odd);
                        client.own.change(insert.clone(), Vec::new()).await.expect("inserts");
                        client.own.change(Vec::new(), insert).await.expect("removes");
                    }
                    let [low, high] = [lower, lower + 20].map(|key| key.to_be_bytes().to_vec());
                    let found = client.own.index.search(low, high, Order::Ascending, None).await;
                    let (found, repair) = found.expect("searches");
                    tokio::spawn(repair.run());
                    let even = found.entries.iter().filter(|(_, row)| row.0[0] == 0).count();
                    let expected = (lower..=lower + 20).filter(|key| key % 2 == 0 && *key < 600).count();
                    assert_eq!(even, expected);
                }
            }));
        }
        for task in tasks {
            task.await.expect("no task panics");
        }
        compare(&client.own, &twin, (0, u16::MAX), false, None).await;
        compare_sums(&client, &twin, 0, u16::MAX).await;
    });
}
