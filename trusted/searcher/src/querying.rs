//! `arras search query`.

use crate::connection::Connection;
use crate::failure::Failure;
use crate::journal::{JournalFile, Opened};
use crate::progress::{counted, grouped};
use crate::showing::{self, Showing, Shown};
use crate::store::{self, COLLECTION, Store};
use crate::{QueryArguments, Rank};
use arras_protocol::text::{line, name};
use arras_schemes::bisen::message::{Hit, PAGE_HITS};
use arras_schemes::bisen::query::Ranking;
use arras_search::condition::Condition;
use arras_search::corpus::{About, Ledger, Place};
use arras_search::formula::Formula;
use arras_search::grammar::parse;
use arras_search::profile::ProfileError;
use arras_search::search::{Wanted, request};
use arras_search::service::{Collection, SearchService, ServiceError};
use arras_search::snippets::Snippet;
use std::io::{self, BufWriter, IsTerminal, Write};

/// The fields of a line of JSON.
type Object = serde_json::Map<String, serde_json::Value>;

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
    store.serving(|connection| print(arguments, &formula, &store, connection))
}

/// Prints what is found.
fn print(
    arguments: &QueryArguments,
    formula: &Formula,
    store: &Store,
    connection: &mut Connection,
) -> Result<(), Failure> {
    let mut collection = Collection::existing(connection, COLLECTION)?;
    let language = collection.profile.language;
    if let Some(wanted) = arguments.language.filter(|wanted| *wanted != language) {
        return Err(ServiceError::from(ProfileError::OtherLanguage { found: language, wanted }).into());
    }
    let condition = Condition::new(formula, language)?;
    let top = arguments.top.or(arguments.rank.map(|_| TOP));
    let ranking = match (top, arguments.rank) {
        (None, _) => Ranking::None,
        (Some(_), None | Some(Rank::Bm25)) => Ranking::Bm25,
        (Some(_), Some(Rank::TfIdf)) => Ranking::TfIdf,
    };
    let wanted = Wanted { ranking, top: top.unwrap_or(0), padding: arguments.padding };
    let search = request(&condition, collection.opened.collection, &collection.opened.salt, wanted)?;
    let ledger = ledger(store, &collection)?;
    let output = io::stdout();
    let printer = Printer {
        json: arguments.json,
        scores: top.is_some(),
        marks: if output.is_terminal() { ("\x1b[1m", "\x1b[0m") } else { ("", "") },
    };
    let lines = if arguments.json { 0 } else { arguments.lines };
    let shown = showing::Wanted { condition: &condition, language, lines };
    let mut printed = 0;
    let mut output = BufWriter::new(output.lock());
    let results = collection.search(search)?;
    let mut unknown = 0;
    for hits in results.hits.chunks(PAGE_HITS) {
        let places = ledger.find(&hits.iter().map(|hit| hit.name).collect());
        let mut showing = Showing::new(places.values(), shown);
        for hit in hits {
            match places.get(&hit.name) {
                Some(place) => {
                    printer.print(hit, place, &showing.show(place), &mut output)?;
                    printed += 1;
                }
                None => unknown += 1,
            }
        }
    }
    output.flush()?;
    if !arguments.json {
        let matches = u64::from(results.matches);
        let said = counted(matches, "document matches", "documents match");
        let best = if top.is_some() && printed + unknown < matches {
            format!("; the best {} are shown", grouped(printed))
        } else {
            String::new()
        };
        writeln!(io::stderr(), "{said}{best}")?;
    }
    if unknown > 0 {
        return Err(Failure::Unrecorded(unknown));
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
struct Printer {
    json: bool,
    scores: bool,
    /// Around a word that was looked for.
    marks: (&'static str, &'static str),
}

impl Printer {
    fn print(&self, hit: &Hit, place: &Place, shown: &Shown, to: &mut impl Write) -> io::Result<()> {
        let path = place.path.display().to_string();
        if self.json {
            let mut object = self.object(hit, place, shown.about.as_ref());
            object.insert("path".into(), path.into());
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
        if let Some(told) = shown.about.as_ref().and_then(told) {
            writeln!(to, "      {told}")?;
        }
        match &shown.lines {
            Ok(lines) => lines.iter().try_for_each(|snippet| self.snippet(snippet, to)),
            Err(why) => writeln!(to, "      ({why})"),
        }
    }

    /// All but the path.
    fn object(&self, hit: &Hit, place: &Place, about: Option<&About>) -> Object {
        let mut object = Object::new();
        if let Some(message) = place.message {
            object.insert("message".into(), message.to_string().into());
        }
        let date = about.and_then(About::date).unwrap_or_default();
        let of = |text: fn(&About) -> &str| about.map_or("", text);
        for (field, text) in
            [("from", of(|one| &one.from)), ("subject", of(|one| &one.subject)), ("date", &date)]
        {
            if !text.is_empty() {
                object.insert(field.into(), text.into());
            }
        }
        if self.scores {
            object.insert("score".into(), f64::from(hit.score).into());
        }
        object
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

/// From whom a message is, when it was sent and about what, on one line; nothing if it does not say.
pub(crate) fn told(about: &About) -> Option<String> {
    let date = about.date().map(|date| date.replace('T', " ")).unwrap_or_default();
    let joined = |parts: [String; 2], between: &str| {
        let said: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        said.join(between)
    };
    let told = joined([joined([line(&about.from), date], ", "), line(&about.subject)], ": ");
    (!told.is_empty()).then_some(told)
}
