//! Carries attacks out, scores them, and measures what the protocol costs.

use super::request::{AttackPlan, Auxiliary, NO_GROUP};
use super::result::{AttackEnding, AttackResult, AttackRunResult, CurvePoint, QueryCost, UpTo};
use super::score::{baseline, score, up_to_symmetry};
use super::{Assumption, Attack, AttackFailure, Recovery, Target};
use crate::datasets::Dataset;
use crate::protocols::ProtocolEntry;
use crate::run::{self, Ending, RunRequest, Stage, Watch};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Queries of the run that shows what a query costs.
const COST_QUERIES: usize = 20;

/// How far attacks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttackProgress {
    /// Which attack.
    pub attack: &'static str,
    /// Against which protocol.
    pub protocol: &'static str,
    /// Attacks done.
    pub done: usize,
    /// Attacks there are.
    pub of: usize,
}

/// Who looks on: is told which attack is next, and can have them stopped.
#[derive(Clone, Copy)]
pub struct AttackWatch<'a> {
    progress: &'a (dyn Fn(&AttackProgress) + Sync),
    stop: &'a AtomicBool,
}

impl std::fmt::Debug for AttackWatch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AttackWatch(stopped: {})", self.stopped())
    }
}

impl<'a> AttackWatch<'a> {
    /// Calls `progress` before each attack; attacks end soon after `stop` is set.
    pub fn new(progress: &'a (dyn Fn(&AttackProgress) + Sync), stop: &'a AtomicBool) -> Self {
        Self { progress, stop }
    }

    /// Whether to stop.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Ends what is under way if it is to stop.
    ///
    /// # Errors
    /// [`AttackFailure::Stopped`].
    pub fn check(&self) -> Result<(), AttackFailure> {
        if self.stopped() { Err(AttackFailure::Stopped) } else { Ok(()) }
    }
}

/// Carries the attacks of a plan out one after the other. What goes wrong is in the results; one that fails does not
/// keep the next from being carried out.
#[must_use]
pub fn run(plan: &AttackPlan, watch: &AttackWatch<'_>) -> AttackRunResult {
    let mut attacks = Vec::new();
    for (done, (attack, protocol, obstacle)) in plan.pairs.iter().enumerate() {
        if watch.stopped() {
            break;
        }
        let (attack, protocol) = (*attack, *protocol);
        (watch.progress)(&AttackProgress {
            attack: attack.name,
            protocol: protocol.name,
            done,
            of: plan.pairs.len(),
        });
        attacks.push(match obstacle {
            Some(why) => {
                let ending = AttackEnding::Skipped(why.clone());
                AttackResult { ending, ..AttackResult::new(attack, protocol) }
            }
            None => one(plan, attack, protocol, watch),
        });
    }
    AttackRunResult {
        environment: run::environment(),
        request: plan.request.clone(),
        shared: plan.shared,
        warnings: plan.warnings.clone(),
        attacks,
    }
}

fn one(
    plan: &AttackPlan,
    attack: &'static Attack,
    protocol: &'static ProtocolEntry,
    watch: &AttackWatch<'_>,
) -> AttackResult {
    let target = &plan.target;
    let began = Instant::now();
    let mut result = AttackResult::new(attack, protocol);
    result.records = target.values.len() as u64;
    result.baseline = baseline(&target.values);
    result.knowledge = knowledge(plan, attack, "");
    let carried = (attack.carry)(target, protocol, watch);
    result.elapsed_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    match carried {
        Ok(recovery) => {
            result.knowledge = knowledge(plan, attack, &recovery.saw);
            scored(&mut result, target, recovery);
            result.cost = cost(target, protocol, watch);
        }
        Err(AttackFailure::Stopped) => result.ending = AttackEnding::Stopped,
        Err(failure) => result.ending = AttackEnding::Failed(failure.to_string()),
    }
    result
}

fn scored(result: &mut AttackResult, target: &Target, recovery: Recovery) {
    let (values, knowledge) = (&target.values, &target.knowledge);
    if recovery.guesses.len() != values.len() {
        result.ending = AttackEnding::Failed("a guess is missing".to_owned());
        return;
    }
    result.queries = recovery.queries;
    let of = |recovery: &Recovery| {
        up_to_symmetry(values, recovery, knowledge).unwrap_or_else(|| score(values, &recovery.guesses))
    };
    result.up_to = UpTo::of(&recovery.symmetry);
    result.score = of(&recovery);
    result.as_guessed = result.up_to.map(|_| score(values, &recovery.guesses));
    for (queries, guesses) in recovery.earlier {
        let earlier = Recovery { guesses, symmetry: recovery.symmetry.clone(), ..Recovery::default() };
        result.curve.push(CurvePoint { queries, score: of(&earlier) });
    }
    if result.curve.last().is_some_and(|last| last.queries < recovery.queries) {
        result.curve.push(CurvePoint { queries: recovery.queries, score: result.score });
    }
}

/// What the attacker has, in words.
fn knowledge(plan: &AttackPlan, attack: &Attack, saw: &str) -> String {
    let known = &plan.target.knowledge;
    let parts = match plan.request.group.as_deref() {
        None | Some(NO_GROUP) => "the other half of the data, split by row".to_owned(),
        Some(group) => format!("the other half of the data, split by {group}"),
    };
    let source = match (plan.request.auxiliary, plan.request.dataset) {
        (Auxiliary::Supplied, _) => "supplied",
        (Auxiliary::SameDistribution, Dataset::Supplied | Dataset::RandIncome) => &parts,
        (Auxiliary::SameDistribution, _) => "another sample of the same distribution",
    };
    let mut text = attack.attacker.to_owned();
    if attack.assumes.contains(&Assumption::Distribution) {
        let _ = write!(text, "; auxiliary data: {} values, {source}", known.auxiliary.len());
    }
    if attack.assumes.contains(&Assumption::Extremes) {
        let (least, greatest) = (known.least, known.greatest);
        let _ = write!(text, "; values from {least} to {greatest}: {}", plan.request.extremes.describe());
    }
    if !saw.is_empty() {
        text.push_str("; ");
        text.push_str(saw);
    }
    text
}

/// A short run on the same records.
fn cost(target: &Target, protocol: &'static ProtocolEntry, watch: &AttackWatch<'_>) -> Option<QueryCost> {
    let request = RunRequest {
        protocols: vec![protocol.name.to_owned()],
        records: 0,
        queries: COST_QUERIES,
        dataset: Dataset::Supplied,
        data: Some(target.values.clone()),
        numbers: target.knowledge.numbers,
        seed: target.seed,
        page_bytes: target.page_bytes,
        ..RunRequest::default()
    };
    let plan = request.plan().ok()?;
    let result = run::run_protocol(&plan, protocol, &Watch::new(&|_| {}, watch.stop));
    let queries = result.stage(Stage::Queries).filter(|_| result.ending == Ending::Finished)?;
    Some(QueryCost { bytes: queries.bytes(), messages: queries.messages(), page_io: queries.page_io() })
}
