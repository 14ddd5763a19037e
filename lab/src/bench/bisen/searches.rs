//! Searches: participants' shares (figure 4), formulas (5), selectivity (6), ranking (7), negations (table 1).

use super::system::{Shares, System};
use super::texts::Texts;
use super::updates::networked;
use super::{BisenError, Lines, median};
use arras_schemes::bisen::KeywordHash;
use arras_schemes::bisen::message::{Reply, Request};
use arras_schemes::bisen::query::{Padding, Ranking, Search, Step};

/// Results of a ranked search, and of the exact one it is compared with.
const TOP: u32 = 100;

/// A million.
const MILLION: f64 = 1e6;

/// A formula over keywords, each by its place.
pub(super) struct Formula {
    name: String,
    keywords: usize,
    steps: Vec<Step>,
}

/// Steps that join as many operands as there are before them.
fn joined(count: usize, operator: &Step) -> impl Iterator<Item = Step> {
    std::iter::repeat_n(operator.clone(), count.saturating_sub(1))
}

/// All keywords of a range in one conjunction or disjunction.
fn of_all(keywords: std::ops::Range<usize>, operator: &Step) -> Vec<Step> {
    let count = keywords.len();
    let operands = keywords.map(|place| Step::Keyword(place as u16));
    operands.chain(joined(count, operator)).collect()
}

impl Formula {
    fn conjunction(keywords: usize) -> Self {
        let steps = of_all(0..keywords, &Step::And);
        Self { name: format!("conjunction of {keywords}"), keywords, steps }
    }

    /// Pairs of keywords, joined within by one operator and together by the other: with n of the outer ones, n + 1 pairs.
    pub(super) fn pairs(name: &str, outer_count: usize, inner: &Step, outer: &Step) -> Self {
        let pairs = outer_count + 1;
        let operands = (0..pairs).flat_map(|pair| of_all(2 * pair..2 * pair + 2, inner));
        let steps = operands.chain(joined(pairs, outer)).collect();
        Self { name: format!("{name}, {outer_count} of the outer operator"), keywords: 2 * pairs, steps }
    }

    /// Ten keywords, the first so many of them negated.
    fn negated(count: usize) -> Self {
        let operand = |place: usize| {
            let negation = (place < count).then_some(Step::Not);
            std::iter::once(Step::Keyword(place as u16)).chain(negation)
        };
        let steps = (0..10).flat_map(operand).chain(joined(10, &Step::And)).collect();
        Self { name: format!("{count} of 10 keywords negated"), keywords: 10, steps }
    }

    fn fully_negated() -> Self {
        let mut steps = of_all(0..10, &Step::And);
        steps.push(Step::Not);
        Self { name: "10 keywords, fully negated".into(), keywords: 10, steps }
    }

    pub(super) fn search(&self, system: &System, keywords: &[&str]) -> Search {
        let mut search = Search::new(system.opened.collection);
        let hashes = keywords.iter().take(self.keywords);
        search.keywords =
            hashes.map(|keyword| KeywordHash::of(&system.opened.salt, keyword.as_bytes())).collect();
        search.formula = self.steps.clone();
        search.padding = Padding::Fixed(TOP);
        search
    }
}

/// What a search took, the median of each of its rounds.
pub(super) struct Taken {
    pub(super) shares: Shares,
    matches: u32,
}

/// Searches so often and once before; all pages are read.
pub(super) fn searched(system: &mut System, search: &Search, rounds: usize) -> Result<Taken, BisenError> {
    let mut all: Vec<Shares> = Vec::new();
    let mut matches = 0;
    for round in 0..=rounds {
        let before = system.shares()?;
        let Reply::Found(page) = system.ask(Request::Search(search.clone()))? else {
            return Err(arras_search::service::ServiceError::Reply.into());
        };
        matches = page.matches();
        if round > 0 {
            all.push(system.shares()? - before);
        }
    }
    let of = |part: fn(&Shares) -> f64| median(all.iter().map(part).collect());
    let shares = Shares {
        client: of(|shares| shares.client),
        host: of(|shares| shares.host),
        enclave: of(|shares| shares.enclave),
        storage: of(|shares| shares.storage),
        passed: of(|shares| shares.passed),
        bytes: of(|shares| shares.bytes),
        trips: of(|shares| shares.trips),
    };
    Ok(Taken { shares, matches })
}

/// How many documents have a keyword, of all of them.
fn postings(system: &mut System, keywords: &[&str]) -> Result<u64, BisenError> {
    let one = Formula::conjunction(1);
    let mut all = 0;
    for keyword in keywords {
        let search = one.search(system, &[*keyword]);
        all += u64::from(searched(system, &search, 0)?.matches);
    }
    Ok(all)
}

/// The figures over sizes of the collection.
pub(super) fn at_size(
    system: &mut System,
    texts: &Texts,
    pairs: u64,
    rounds: usize,
    lines: &mut Lines<'_>,
) -> Result<(), BisenError> {
    let at = format!("{pairs} pairs");
    let popular = texts.popular(12);
    lines.begin("4, shares of a search");
    let search = Formula::conjunction(5).search(system, &popular);
    let postings = postings(system, &popular[..5])? as f64;
    let taken = searched(system, &search, rounds)?;
    let shares = &taken.shares;
    lines.add("postings of the five keywords", &at, postings, "", "");
    lines.add("conjunction of 5", &at, shares.passed, "s", "");
    let million = shares.passed * MILLION / postings;
    lines.wanted("a million postings of it", &at, million, "s", ["about 1", "0.4"]);
    lines.add("client", &at, shares.client * 1e6, "us of processor", "80");
    lines.add("host and its storage in memory", &at, shares.host, "s of processor", "less than the enclave");
    lines.add("enclave", &at, shares.enclave, "s of processor", "the largest");
    lines.add("network, between client and host", &at, shares.bytes, "bytes", "");
    let network = "close to 0 beside the round trip";
    lines.add("network, at the paper's 50 Mbit/s and 41.4 ms", &at, networked(shares), "s", network);
    formulas(system, &popular, &at, rounds, lines)?;
    selectivity(system, texts, rounds, lines)?;
    lines.begin("table 1, negations");
    let formulas = [
        (Formula::negated(1), "0.119, 0.122, 0.119, 0.157, 0.185"),
        (Formula::negated(5), "0.125, 0.121, 0.116, 0.174, 0.177"),
        (Formula::negated(10), "0.085, 0.125, 0.135, 0.152, 0.183"),
        (Formula::fully_negated(), "0.120, 0.094, 0.106, 0.156, 0.187"),
    ];
    for (formula, paper) in formulas {
        let search = formula.search(system, &popular);
        let taken = searched(system, &search, rounds)?;
        let each = taken.shares.passed * MILLION / pairs as f64;
        lines.add(formula.name, &at, each, "s a million pairs", paper);
    }
    Ok(())
}

/// Figure 5: both normal forms, with one, three and five of the outer operator.
fn formulas(
    system: &mut System,
    popular: &[&str],
    at: &str,
    rounds: usize,
    lines: &mut Lines<'_>,
) -> Result<(), BisenError> {
    lines.begin("5, formulas");
    for count in [1, 3, 5] {
        let forms = [
            Formula::pairs("conjunction of (A or B)", count, &Step::Or, &Step::And),
            Formula::pairs("disjunction of (A and B)", count, &Step::And, &Step::Or),
        ];
        let mut taken = Vec::new();
        for formula in forms {
            let search = formula.search(system, popular);
            let passed = searched(system, &search, rounds)?.shares.passed;
            taken.push(passed);
            lines.add(formula.name, at, passed, "s", "");
        }
        if let [conjunction, disjunction] = taken[..] {
            let what = format!("disjunction beside conjunction, {count} of the outer operator");
            lines.add(what, at, disjunction / conjunction, "times", "1 (equal performance)");
        }
    }
    Ok(())
}

/// Figure 6: one keyword, of a small share of the documents to a large one.
fn selectivity(
    system: &mut System,
    texts: &Texts,
    rounds: usize,
    lines: &mut Lines<'_>,
) -> Result<(), BisenError> {
    lines.begin("6, selectivity");
    let documents = system.collection()?.opened.documents as f64;
    let mut taken = Vec::new();
    for (share, paper) in [(0.002, "1"), (0.01, ""), (0.05, ""), (0.1, ""), (0.25, "16")] {
        let (keyword, _) = texts.nearest(share);
        let mut search = Formula::conjunction(1).search(system, &[keyword]);
        // All results, as the paper's.
        search.padding = Padding::None;
        let of = searched(system, &search, rounds)?;
        let at = format!("{:.1}% of {documents} documents", f64::from(of.matches) * 100.0 / documents);
        lines.add("one keyword, all results", at, of.shares.passed, "s", paper);
        taken.push(of.shares.passed);
    }
    if let [least, .., most] = taken[..] {
        lines.add("the most beside the least", format!("{documents} documents"), most / least, "times", "16");
    }
    Ok(())
}

/// The figures at the largest size.
pub(super) fn at_end(
    system: &mut System,
    texts: &Texts,
    rounds: usize,
    lines: &mut Lines<'_>,
) -> Result<(), BisenError> {
    lines.begin("7, ranked and exact");
    // The paper's axis: how many documents are scored.
    for share in [0.002, 0.01, 0.05, 0.25] {
        let (keyword, _) = texts.nearest(share);
        let name = format!("one keyword of {:.1}% of the documents", share * 100.0);
        ranked(system, (&name, &Formula::conjunction(1), &[keyword]), rounds, lines)?;
    }
    for keywords in [1, 2, 5] {
        let formula = Formula::conjunction(keywords);
        ranked(system, (&formula.name, &formula, &texts.popular(keywords)), rounds, lines)?;
    }
    Ok(())
}

/// The best results of a formula beside all of them.
fn ranked(
    system: &mut System,
    (name, formula, keywords): (&str, &Formula, &[&str]),
    rounds: usize,
    lines: &mut Lines<'_>,
) -> Result<(), BisenError> {
    let exact = formula.search(system, keywords);
    let ranked = Search { top: TOP, ..exact.clone() }.ranked_by(Ranking::Bm25);
    // In turns, as what else the machine does would weigh on one of them.
    let mut times: Vec<[f64; 4]> = Vec::new();
    let mut matches = 0;
    for _ in 0..rounds.max(3) {
        let (one, other) = (searched(system, &exact, 1)?, searched(system, &ranked, 1)?);
        matches = one.matches;
        let [exact, ranked] = [one.shares, other.shares];
        times.push([exact.enclave, ranked.enclave, exact.passed, ranked.passed]);
    }
    let of = |part: usize| median(times.iter().map(|times| times[part]).collect());
    let ratio = |part: usize| median(times.iter().map(|times| times[part + 1] / times[part]).collect());
    let at = format!("{matches} matches");
    let exact_paper = "at most 10 at 2,000,000 documents";
    lines.add(format!("{name}: exact, enclave"), &at, of(0), "s of processor", exact_paper);
    lines.add(format!("{name}: ranked, enclave"), &at, of(1), "s of processor", "");
    let paper = ["about 7 (85% is scoring)", "1.3"];
    lines.wanted(format!("{name}: ranked beside exact, enclave"), &at, ratio(0), "times", paper);
    lines.wanted(format!("{name}: ranked beside exact, answered in"), &at, ratio(2), "times", paper);
    Ok(())
}
