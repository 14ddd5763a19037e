//! The page: HTML without a script. Everything that is not its own text is escaped.

use super::searching::{Document, Found, Query, Wrong};
use crate::failure::Failure;
use crate::host::Seen;
use crate::progress::{counted, grouped};
use crate::querying::told;
use arras_search::grammar::QueryError;
use arras_search::snippets::Snippet;
use std::fmt::{Display, Write};

/// How many documents may be asked for.
pub(super) const SHOWN: [u32; 3] = [10, 50, 200];

/// Its style.
pub(super) const STYLE: &str = include_str!("style.css");

/// Text as HTML.
struct Escaped<'t>(&'t str);

impl Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '&' => formatter.write_str("&amp;")?,
                '<' => formatter.write_str("&lt;")?,
                '>' => formatter.write_str("&gt;")?,
                '"' => formatter.write_str("&quot;")?,
                '\'' => formatter.write_str("&#39;")?,
                other => formatter.write_char(other)?,
            }
        }
        Ok(())
    }
}

/// The page before anything is asked.
pub(super) fn empty(query: &Query) -> String {
    whole(query, "Search", false, "")
}

/// The page of what was found.
pub(super) fn found(query: &Query, found: &Found) -> String {
    let said = counted(u64::from(found.matches), "document matches", "documents match");
    let mut main = format!(
        "<section aria-labelledby=\"results\"><h2 id=\"results\">{said}</h2>{}<ol class=\"results\">",
        if found.documents.len() + found.unrecorded < found.matches as usize {
            format!("<p class=\"note\">The best {} are shown.</p>", grouped(found.documents.len() as u64))
        } else {
            String::new()
        }
    );
    if found.unrecorded > 0 {
        let failure = Failure::Unrecorded(found.unrecorded as u64);
        main.insert_str(
            0,
            &format!("<p role=\"alert\" class=\"wrong\">{}</p>", Escaped(&failure.to_string())),
        );
    }
    found.documents.iter().for_each(|one| document(one, &mut main));
    main.push_str("</ol></section>");
    main += &seen(found);
    whole(query, &said, false, &main)
}

/// The page of a query that cannot be answered.
pub(super) fn wrong(query: &Query, wrong: &Wrong) -> String {
    let (why, place) = match wrong {
        Wrong::Query(error) => (error.to_string(), marked(&query.text, error)),
        // Its first line says what; what is below is for a terminal.
        Wrong::Other(failure) => (failure.to_string(), String::new()),
    };
    refused(query, &why, &place)
}

/// The page of what failed for another reason.
pub(super) fn failed(query: &Query, why: &str) -> String {
    refused(query, why, "")
}

fn refused(query: &Query, why: &str, place: &str) -> String {
    let said =
        format!("<div id=\"wrong\" role=\"alert\" class=\"wrong\"><p>{}</p>{place}</div>", Escaped(why));
    whole(query, "Not searched", true, &said)
}

/// The query with the place of a mistake marked.
fn marked(query: &str, error: &QueryError) -> String {
    let place = &error.place;
    let parts = (query.get(..place.start), query.get(place.clone()), query.get(place.end..));
    let (Some(before), Some(here), Some(after)) = parts else { return String::new() };
    // At the query's end there is nothing to mark but the place itself.
    let here = if here.is_empty() { " " } else { here };
    format!("<pre>{}<mark>{}</mark>{}</pre>", Escaped(before), Escaped(here), Escaped(after))
}

fn document(document: &Document, to: &mut String) {
    let path = Escaped(&document.path);
    // Writing to a string does not fail, here and below.
    let _ = write!(to, "<li><h3>{path}</h3><p class=\"note\">");
    if let Some(message) = &document.message {
        let _ = write!(to, "message {} &middot; ", Escaped(message));
    }
    let _ = write!(to, "score {:.3}</p>", document.score);
    if let Some(told) = document.shown.about.as_ref().and_then(told) {
        let _ = write!(to, "<p class=\"note\">{}</p>", Escaped(&told));
    }
    match &document.shown.lines {
        Err(why) => {
            let _ = write!(to, "<p class=\"note\">{}</p>", Escaped(&why.to_string()));
        }
        Ok(lines) => lines.iter().for_each(|line| snippet(line, to)),
    }
    to.push_str("</li>");
}

fn snippet(snippet: &Snippet, to: &mut String) {
    let _ = write!(to, "<p class=\"line\"><span class=\"note\">line {}</span> ", snippet.line);
    let mut at = 0;
    for mark in &snippet.marks {
        let (before, word) = (&snippet.text[at..mark.start], &snippet.text[mark.clone()]);
        let _ = write!(to, "{}<mark>{}</mark>", Escaped(before), Escaped(word));
        at = mark.end;
    }
    let _ = write!(to, "{}</p>", Escaped(&snippet.text[at..]));
}

/// What the server saw of the query.
fn seen(found: &Found) -> String {
    let Some(seen) = &found.seen else {
        return "<aside><p>The host does not say what it saw.</p></aside>".into();
    };
    let Seen { requests, request_bytes, replies, reply_bytes, questions, entries_read, .. } = *seen;
    let Seen { entry_bytes_read, states_read, state_bytes_read, .. } = *seen;
    let rows = [
        ("Stored entries touched", grouped(entries_read)),
        ("Their bytes", grouped(entry_bytes_read)),
        ("Batches they were asked for in", grouped(questions)),
        (
            "Pieces of the enclave's sealed state",
            format!("{}, {} bytes", grouped(states_read), grouped(state_bytes_read)),
        ),
        ("Requests", format!("{}, {} bytes", grouped(requests), grouped(request_bytes))),
        ("Pages of results", format!("{}, {} bytes", grouped(replies), grouped(reply_bytes))),
        ("Time until the last page", format!("{:.1} ms", found.taken.as_secs_f64() * 1e3)),
    ];
    let mut text = String::from(
        "<aside aria-labelledby=\"seen\"><h2 id=\"seen\">What the server saw</h2>\
         <p class=\"note\">Counted by the host, which moves every byte between this page's process, the enclave and the storage.</p><dl>",
    );
    for (name, value) in rows {
        let _ = write!(text, "<dt>{name}</dt><dd>{value}</dd>");
    }
    text.push_str(
        "</dl><p class=\"note\">It sees which entries are touched, too, so that it knows two queries with a word in common, and when \
         these entries were written. Behind the attested channel it does not see the words, the formula, or which documents match; \
         lengths are filled up to steps.</p><p class=\"note\"><strong>The enclave is an ordinary process</strong>: whoever has this \
         machine can read more than is counted here.</p></aside>",
    );
    text
}

/// A whole page around its content.
fn whole(query: &Query, title: &str, invalid: bool, main: &str) -> String {
    let title = if query.text.trim().is_empty() {
        format!("{title} – Arras")
    } else {
        format!("{title}: {} – Arras", query.text)
    };
    let mut options = String::new();
    for count in SHOWN {
        let selected = if count == query.top { " selected" } else { "" };
        let _ = write!(options, "<option value=\"{count}\"{selected}>{count}</option>");
    }
    let state = if invalid {
        " aria-invalid=\"true\" aria-describedby=\"wrong help\""
    } else {
        " aria-describedby=\"help\""
    };
    let focus = if main.is_empty() || invalid { " autofocus" } else { "" };
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title}</title>\
         <link rel=\"icon\" href=\"data:,\"><link rel=\"stylesheet\" href=\"style.css\"></head><body>\
         <header><h1>Arras search</h1><form role=\"search\" method=\"get\" action=\"./\">\
         <label for=\"q\">Query</label><input id=\"q\" name=\"q\" type=\"search\" spellcheck=\"false\" autocomplete=\"off\" \
         value=\"{query}\"{state}{focus}>\
         <label for=\"top\">Documents shown</label><select id=\"top\" name=\"top\">{options}</select>\
         <button type=\"submit\">Search</button></form>\
         <p id=\"help\" class=\"note\">Words, AND, OR, NOT, (parentheses), &quot;phrases&quot;, from: to: subject: path: type: \
         date: size:</p></header><main>{main}</main></body></html>\n",
        title = Escaped(&title),
        query = Escaped(&query.text),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::showing::Shown;
    use arras_search::corpus::About;
    use arras_search::grammar::parse;
    use std::time::Duration;

    fn query(text: &str) -> Query {
        Query { text: text.into(), top: 10 }
    }

    #[test]
    fn what_comes_from_elsewhere_is_escaped() {
        let evil = "<script>alert('1')</script>\"&";
        let about = About { from: evil.into(), subject: format!("{evil}\n"), sent: Some(0) };
        let line = Snippet { line: 3, text: format!("{evil}whale"), marks: vec![0..8, 29..34], found: 1 };
        let document = Document {
            path: evil.into(),
            message: Some(evil.into()),
            score: 1.5,
            shown: Shown { about: Some(about), lines: Ok(vec![line]) },
        };
        let found = Found {
            documents: vec![document],
            matches: 7,
            unrecorded: 2,
            seen: Some(Seen { entries_read: 1234, ..Seen::default() }),
            taken: Duration::from_millis(2),
        };
        let pages = [super::found(&query(evil), &found), failed(&query(evil), evil), empty(&query(evil))];
        for page in &pages {
            assert!(!page.contains("<script") && !page.contains("alert('1')"), "{page}");
        }
        assert!(pages[0].contains("<mark>&lt;script&gt;</mark>alert(&#39;1&#39;)"), "{}", pages[0]);
        let told = "&amp;, 1970-01-01 00:00:00Z: &lt;script&gt;";
        assert!(pages[0].contains(told), "{}", pages[0]);
        assert!(pages[0].contains("7 documents match") && pages[0].contains("The best 1 are shown."));
        assert!(pages[0].contains("2 of the documents that match are not in the record"), "{}", pages[0]);
        assert!(pages[0].contains("<dt>Stored entries touched</dt><dd>1,234</dd>"));
    }

    #[test]
    fn a_mistake_is_marked_at_its_place() {
        for (text, marked) in
            [("whale AND (ship", "whale AND <mark>(</mark>ship"), ("a < b AND", "a &lt; b AND<mark> </mark>")]
        {
            let error = parse(text).unwrap_err();
            let page = wrong(&query(text), &Wrong::Query(error));
            assert!(page.contains("aria-invalid=\"true\"") && page.contains("role=\"alert\""), "{page}");
            assert!(page.contains("column ") && page.contains(marked), "{page}");
        }
    }
}
