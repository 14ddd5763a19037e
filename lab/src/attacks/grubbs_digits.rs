//! Grubbs, Sekniqi, Bindschaedler, Naveed, Ristenpart, "Leakage-abuse attacks against order-revealing encryption", IEEE
//! S&P 2017, §6.2: schemes that show the first digit in which two values differ: CLWW (digits are bits, one copy of the
//! store) and Lewi-Wu (digits are blocks; the query ciphertexts are needed, which come with each insertion).
//!
//! Ciphertexts in order and their first differing digits are the shape of the trie of the values. It is laid over the trie of
//! the auxiliary values, children in order, so that frequencies agree best and values lie where their ranks say: what of
//! either has no counterpart costs its frequency. A matching of least cost is found by dynamic programming over pairs of
//! nodes. Without the ranks the shape could be laid anywhere where frequencies happen to agree, as they do where the
//! auxiliary data have none of the values.
//!
//! *Deviation.* The paper matches values whose known bits agree; here the trie makes them agree.

mod overlay;
mod position;
#[cfg(test)]
mod tests;

use self::overlay::{Leaf, Overlay, Trie};
use self::position::Estimate;
use super::matching::spread;
use super::snapshot::Column;
use super::tape::Exchange;
use super::watched::WatchedRun;
use super::{AttackFailure, AttackWatch, Knowledge, Recovery, Target};
use crate::protocols::ProtocolEntry;
use arras_protocol::bplus::{BPlus, Change, Request};
use arras_protocol::ore::Scheme;
use arras_protocol::ore::clww::Trits;
use arras_protocol::ore::lewi_wu::LEFT_BLOCK_BYTES;

/// Most records it is carried out on.
const RECORDS_MAX: usize = 20_000;

/// Why it cannot be attempted.
pub(super) fn obstacle(target: &Target) -> Option<String> {
    let most = target.values.len().max(target.knowledge.auxiliary.len());
    (most > RECORDS_MAX).then(|| format!("{most} records or auxiliary values; at most {RECORDS_MAX}"))
}

/// CLWW: the first trit that differs is at the first bit that does.
pub(super) fn bits(
    target: &Target,
    protocol: &'static ProtocolEntry,
    watch: &AttackWatch<'_>,
) -> Result<Recovery, AttackFailure> {
    let run = WatchedRun::new(target, protocol, &[], watch)?;
    let column = Column::read(&run)?;
    let Scheme::Clww(width) = column.scheme else {
        return Err(AttackFailure::Unreadable("a scheme without trits"));
    };
    let groups = column.groups()?;
    let ciphertexts = column.ciphertexts();
    let trits = |group: &Vec<usize>| Trits::from_bytes(width, ciphertexts[&group[0]]);
    let trits: Vec<Trits> = groups
        .iter()
        .map(trits)
        .collect::<Result<_, _>>()
        .map_err(|_| AttackFailure::Unreadable("a ciphertext"))?;
    let differing = |pair: &[Trits]| {
        let places = pair[0].differing(pair[1]);
        (places.leading_zeros() - (u64::BITS - width.bits())) as usize
    };
    let first = trits.windows(2).map(differing).collect();
    recovered(target, &groups, first, 1)
}

/// Lewi-Wu: left ciphertexts have equal parts up to the first block that differs, and compare with the stored ones.
pub(super) fn blocks(
    target: &Target,
    protocol: &'static ProtocolEntry,
    watch: &AttackWatch<'_>,
) -> Result<Recovery, AttackFailure> {
    let run = WatchedRun::new(target, protocol, &[], watch)?;
    let column = Column::read(&run)?;
    let Scheme::LewiWu { block_bits, .. } = column.scheme else {
        return Err(AttackFailure::Unreadable("a scheme without blocks"));
    };
    let lefts = lefts(&run)?;
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (_, record) in &column.entries {
        match groups.last_mut() {
            Some(group) if lefts[group[0]] == lefts[*record] => group.push(*record),
            _ => groups.push(vec![*record]),
        }
    }
    let differing = |pair: &[Vec<usize>]| {
        let parts = |group: &Vec<usize>| lefts[group[0]].chunks(LEFT_BLOCK_BYTES);
        parts(&pair[0]).zip(parts(&pair[1])).take_while(|(one, other)| one == other).count()
    };
    let first = groups.windows(2).map(differing).collect();
    recovered(target, &groups, first, u32::from(block_bits))
}

/// The left ciphertext that each record's insertion brought.
fn lefts(run: &WatchedRun) -> Result<Vec<Vec<u8>>, AttackFailure> {
    let left = |exchange: &Exchange| match exchange.of::<BPlus>()?.0 {
        Request::Change(Change::Insert { mut entries, .. }) => entries.pop().map(|entry| entry.query.0),
        _ => None,
    };
    let of = |exchanges: &Vec<Exchange>| {
        exchanges.iter().find_map(left).ok_or(AttackFailure::Unreadable("an insertion"))
    };
    run.insertions.iter().map(of).collect()
}

fn recovered(
    target: &Target,
    groups: &[Vec<usize>],
    first: Vec<usize>,
    digit_bits: u32,
) -> Result<Recovery, AttackFailure> {
    let guesses = laid_over(groups, first, digit_bits, &target.knowledge);
    Ok(Recovery { guesses: spread(groups, guesses.into_iter(), target.values.len()), ..Recovery::default() })
}

/// Guesses for groups of equal values, ascending; `first` are the first digits in which neighbours differ.
fn laid_over(groups: &[Vec<usize>], first: Vec<usize>, digit_bits: u32, knowledge: &Knowledge) -> Vec<i64> {
    let domain = knowledge.numbers.domain();
    let digits = (domain.width.bits() / digit_bits) as usize;
    let plaintext = |value: i64| domain.plaintext(i128::from(value)).unwrap_or_default();
    let records = groups.iter().map(Vec::len).sum::<usize>() as f64;
    // Both in records.
    let scale = records / knowledge.auxiliary.len() as f64;
    let leaf =
        |(value, count): (i64, usize)| Leaf { plaintext: plaintext(value), weight: count as f64 * scale };
    let sizes: Vec<usize> = groups.iter().map(Vec::len).collect();
    // Plaintexts are the domain's numbers, counted from the least one.
    let from = domain.limits().0 as f64;
    let place = |estimate: Estimate| Estimate { mean: estimate.mean - from, ..estimate };
    let places = position::estimates(&sizes, knowledge).into_iter().map(place).collect();
    let trie = Trie { weights: sizes.iter().map(|size| *size as f64).collect(), first, places };
    let leaves: Vec<Leaf> = knowledge.histogram().into_iter().map(leaf).collect();
    let plaintexts = Overlay::new(&trie, &leaves, digits, digit_bits).guesses();
    let number = |plaintext: u64| domain.number(plaintext).and_then(|number| i64::try_from(number).ok());
    plaintexts
        .into_iter()
        .map(|plaintext| number(plaintext).unwrap_or_default().clamp(knowledge.least, knowledge.greatest))
        .collect()
}
