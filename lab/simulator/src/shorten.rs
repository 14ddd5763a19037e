//! The shortest run that still fails.

use crate::plan::{Ending, Plan};
use arras_engine::mutations::Mutation;

/// Runs that are tried, at most.
const TRIES_MAX: usize = 1500;

/// Leaves out whatever a plan fails without.
#[must_use]
pub fn shorten(plan: &Plan, mutation: Option<Mutation>) -> Plan {
    let mut shortest = plan.clone();
    let mut tries = 0;
    loop {
        let mut shorter = false;
        for candidate in candidates(&shortest).into_iter().rev() {
            // What was left out meanwhile moved what comes behind it: positions are those of the plan before, from its end.
            let Some(candidate) = candidate(&shortest) else { continue };
            tries += 1;
            if tries > TRIES_MAX {
                return shortest;
            }
            if crate::run(&candidate, mutation, false).wrong.is_some() {
                shortest = candidate;
                shorter = true;
            }
        }
        if !shorter {
            return shortest;
        }
    }
}

type LeaveOut = Box<dyn Fn(&Plan) -> Option<Plan>>;

/// Everything that can be left out, in the order of the plan.
fn candidates(plan: &Plan) -> Vec<LeaveOut> {
    let mut all: Vec<LeaveOut> = Vec::new();
    for index in 0..plan.indexes.len() {
        all.push(Box::new(move |plan| without(plan, |plan| remove(&mut plan.indexes, index))));
    }
    for (number, round) in plan.rounds.iter().enumerate() {
        for (application, actions) in round.actions.iter().enumerate() {
            for action in 0..actions.len() {
                all.push(Box::new(move |plan| {
                    without(plan, |plan| {
                        let actions = plan.rounds.get_mut(number)?.actions.get_mut(application)?;
                        remove(actions, action)
                    })
                }));
            }
        }
        for fault in 0..round.faults.len() {
            all.push(Box::new(move |plan| {
                without(plan, |plan| remove(&mut plan.rounds.get_mut(number)?.faults, fault))
            }));
        }
        for lie in 0..round.lies.len() {
            all.push(Box::new(move |plan| {
                without(plan, |plan| remove(&mut plan.rounds.get_mut(number)?.lies, lie))
            }));
        }
        all.push(Box::new(move |plan| without(plan, |plan| remove(&mut plan.rounds, number))));
    }
    all.push(Box::new(|plan| {
        (plan.ending != Ending::Well).then(|| Plan { ending: Ending::Well, ..plan.clone() })
    }));
    all
}

fn without(plan: &Plan, leave_out: impl Fn(&mut Plan) -> Option<()>) -> Option<Plan> {
    let mut shorter = plan.clone();
    leave_out(&mut shorter)?;
    (!shorter.rounds.is_empty()).then_some(shorter)
}

fn remove<T>(list: &mut Vec<T>, position: usize) -> Option<()> {
    (position < list.len()).then(|| drop(list.remove(position)))
}
