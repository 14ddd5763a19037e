//! The attested channel beside a plain one: the same updates and searches on each, in turns.

use super::services::{Measured, load, search};
use super::system::{Channels, Service};
use super::texts::Texts;
use super::{BisenBench, BisenError, Lines, median};

/// Measures both.
pub(super) fn measure(bench: &BisenBench, texts: &Texts, lines: &mut Lines<'_>) -> Result<(), BisenError> {
    lines.begin("channel, attested and plain");
    let mut measured = Vec::new();
    for channels in [Channels::Attested, Channels::Plain] {
        measured.push(Measured::start(&bench.executables, Service::Memory, channels)?);
    }
    let entries = load(&mut measured, texts, bench.service_pairs)?;
    // A search of one keyword is mostly what the channel and the host take; one of many is the enclave's work.
    for keywords in [1, 200] {
        measured.iter_mut().for_each(|one| one.searches.clear());
        let labels = search(&mut measured, texts, keywords, bench.rounds.max(5))?;
        let at = format!("{keywords} keywords, {labels} entries");
        compared(&measured, "a search", &at, lines, |one| median(one.searches.clone()));
    }
    compared(&measured, "updates", &format!("{entries} entries"), lines, |one| one.updates);
    Ok(())
}

fn compared(
    measured: &[Measured],
    what: &str,
    at: &str,
    lines: &mut Lines<'_>,
    of: impl Fn(&Measured) -> f64,
) {
    let [attested, plain] = measured else { return };
    let (attested, plain) = (of(attested), of(plain));
    lines.add(format!("{what}: attested"), at, attested, "s", "");
    lines.add(format!("{what}: plain"), at, plain, "s", "");
    lines.add(format!("{what}: attested beside plain"), at, attested / plain, "times", "");
}
