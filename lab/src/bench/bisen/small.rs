//! Table 2: small collections, and queries of eight keywords that are drawn, not chosen. Each size is a collection of its own.

use super::searches::{Formula, searched};
use super::system::{Channels, Service, System};
use super::texts::Texts;
use super::updates::Loading;
use super::{BisenBench, BisenError, Lines, median};
use arras_schemes::bisen::message::Request;
use arras_schemes::bisen::query::Step;
use arras_schemes::bisen::update::Update;
use std::convert::Infallible;
use std::time::Instant;

/// The paper's sizes in pairs, with what it says of updates, CNF and DNF: BISEN's seconds, and IEX-2LEV's.
const SIZES: [(u64, [&str; 3]); 3] = [
    (9_793, ["0.151; IEX-2LEV 5,143", "0.004; IEX-2LEV 12", "0.004; IEX-2LEV 15"]),
    (27_446, ["0.423; IEX-2LEV 15,568", "0.021; IEX-2LEV 173", "0.012; IEX-2LEV 249"]),
    (56_238, ["0.862; IEX-2LEV 29,274", "0.061; IEX-2LEV 216", "0.034; IEX-2LEV 427"]),
];

/// Queries that are drawn.
const QUERIES: usize = 20;
/// Keywords of each.
const KEYWORDS: usize = 8;

/// Measures all sizes.
pub(super) fn measure(bench: &BisenBench, texts: &Texts, lines: &mut Lines<'_>) -> Result<(), BisenError> {
    lines.begin("table 2, small collections");
    for (pairs, paper) in SIZES {
        let mut system = System::start(&bench.executables, Service::Memory, Channels::Attested)?;
        let mut loading = Loading::new(texts);
        let begun = Instant::now();
        let mut updates: Vec<Update> = Vec::new();
        let filled = loading.fill(&system.opened, pairs, |update| {
            updates.push(update);
            Ok::<(), Infallible>(())
        });
        let Ok(()) = filled;
        for update in updates {
            system.ask(Request::Update(update))?;
        }
        let at = format!("{} pairs", loading.pairs());
        let [of_updates, of_cnf, of_dnf] = paper;
        lines.add("updates, with analysis", &at, begun.elapsed().as_secs_f64(), "s", of_updates);
        for (name, inner, outer, paper) in
            [("CNF", Step::Or, Step::And, of_cnf), ("DNF", Step::And, Step::Or, of_dnf)]
        {
            let formula = Formula::pairs(name, KEYWORDS / 2 - 1, &inner, &outer);
            let mut taken = Vec::new();
            for query in 0..QUERIES {
                let search = formula.search(&system, &texts.drawn(KEYWORDS, query));
                taken.push(searched(&mut system, &search, bench.rounds)?.shares.passed);
            }
            let what = format!("{name} of {KEYWORDS} keywords, median of {QUERIES} queries");
            lines.add(what, &at, median(taken), "s", paper);
        }
    }
    Ok(())
}
