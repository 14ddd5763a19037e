//! `arras search query`.

use crate::failure::Failure;
use crate::journal::{JournalFile, Opened};
use crate::progress::{counted, grouped};
use crate::store::{self, COLLECTION, Store};
use crate::{QueryArguments, Rank};
use arras_protocol::text::name;
use arras_schemes::bisen::message::Hit;
use arras_schemes::bisen::query::Ranking;
use arras_search::condition::Condition;
use arras_search::corpus::{Ledger, Place, Reread, reread};
use arras_search::formula::Formula;
use arras_search::grammar::parse;
use arras_search::language::Language;
use arras_search::profile::ProfileError;
use arras_search::search::{Wanted, request};
use arras_search::service::{Collection, SearchService, ServiceError};
use arras_search::snippets::{Finder, Snippet};
use std::io::{self, BufWriter, IsTerminal, Write};

/// How many documents are printed where a formula is named and no number.
const TOP: u32 = 10;

pub(crate) fn run(arguments: &QueryArguments) -> Result<(), Failure> {
    match answer(arguments) {
        // Whoever reads has enough, as `head`.
        Err(Failure::Print(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done,
    }
}

fn answer(arguments: &QueryArguments) -> Result<(), Failure> {
    // What is wrong with it is said without starting anything.
    let formula: Formula = parse(&arguments.query)
        .map_err(|error| Failure::Query { pointer: error.pointer(&arguments.query), error })?;
    let store = Store::existing(&arguments.store)?;
    let (_host, mut connection) = store.start()?;
    let mut collection = Collection::existing(&mut connection, COLLECTION)?;
    let language = collection.profile.language;
    if let Some(wanted) = arguments.language.filter(|wanted| *wanted != language) {
        return Err(ServiceError::from(ProfileError::OtherLanguage { found: language, wanted }).into());
    }
    let condition = Condition::new(&formula, language)?;
    let top = arguments.top.or(arguments.rank.map(|_| TOP));
    let ranking = match (top, arguments.rank) {
        (None, _) => Ranking::None,
        (Some(_), None | Some(Rank::Bm25)) => Ranking::Bm25,
        (Some(_), Some(Rank::TfIdf)) => Ranking::TfIdf,
    };
    let wanted = Wanted { ranking, top: top.unwrap_or(0), padding: arguments.padding };
    let search = request(&condition, collection.opened.collection, &collection.opened.salt, wanted)?;
    let ledger = ledger(&store, &collection)?;
    let output = io::stdout();
    let printer = Printer {
        json: arguments.json,
        scores: top.is_some(),
        marks: if output.is_terminal() { ("\x1b[1m", "\x1b[0m") } else { ("", "") },
        lines: arguments.lines,
        condition: &condition,
        language,
    };
    let mut printed = 0;
    let mut output = BufWriter::new(output.lock());
    let mut results = collection.search(search)?;
    while let Some(hits) = results.next_page()? {
        let places = ledger.find(&hits.iter().map(|hit| hit.name).collect());
        for hit in &hits {
            // One that the record does not have was put in by a run that was killed before it could say so.
            if let Some(place) = places.get(&hit.name) {
                printer.print(hit, place, &mut output)?;
                printed += 1;
            }
        }
    }
    output.flush()?;
    if !arguments.json {
        let matches = u64::from(results.matches);
        let said = counted(matches, "document matches", "documents match");
        let best = if top.is_some() && printed < matches {
            format!("; the best {} are shown", grouped(printed))
        } else {
            String::new()
        };
        writeln!(io::stderr(), "{said}{best}")?;
    }
    Ok(())
}

/// What was indexed into a collection, which is not to be older than that.
pub(crate) fn ledger<S: SearchService>(
    store: &Store,
    collection: &Collection<'_, S>,
) -> Result<Ledger, Failure> {
    let (path, salt) = (store.journal(), &collection.opened.salt);
    match JournalFile::open(&path, &store.aead, salt).map_err(|error| store::failed(&path, &error))? {
        Opened::Known(_, ledger) => {
            collection.expect(ledger.revision())?;
            Ok(ledger)
        }
        Opened::New(_) => Ok(Ledger::default()),
    }
}

/// Prints what was found.
struct Printer<'c> {
    json: bool,
    scores: bool,
    /// Around a word that was looked for.
    marks: (&'static str, &'static str),
    lines: usize,
    condition: &'c Condition,
    language: Language,
}

impl Printer<'_> {
    fn print(&self, hit: &Hit, place: &Place, to: &mut impl Write) -> io::Result<()> {
        let path = place.path.display().to_string();
        if self.json {
            let mut object = serde_json::Map::new();
            object.insert("path".into(), path.into());
            if let Some(message) = place.message {
                object.insert("message".into(), message.to_string().into());
            }
            if self.scores {
                object.insert("score".into(), f64::from(hit.score).into());
            }
            return writeln!(to, "{}", serde_json::Value::Object(object));
        }
        write!(to, "{}", name(&path))?;
        if let Some(message) = place.message {
            write!(to, " message {message}")?;
        }
        if self.scores {
            write!(to, " ({:.3})", hit.score)?;
        }
        writeln!(to)?;
        if self.lines == 0 {
            return Ok(());
        }
        let mut finder = Finder::new(self.condition, self.language, self.lines);
        match reread(place, |piece| finder.feed(piece)) {
            Reread::Whole => finder.finish().iter().try_for_each(|snippet| self.snippet(snippet, to)),
            other => writeln!(to, "      ({other})"),
        }
    }

    fn snippet(&self, snippet: &Snippet, to: &mut impl Write) -> io::Result<()> {
        write!(to, "{:>6}: ", snippet.line)?;
        let mut at = 0;
        for mark in &snippet.marks {
            let (before, word) = (&snippet.text[at..mark.start], &snippet.text[mark.clone()]);
            write!(to, "{before}{}{word}{}", self.marks.0, self.marks.1)?;
            at = mark.end;
        }
        writeln!(to, "{}", &snippet.text[at..])
    }
}
