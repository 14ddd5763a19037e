//! Names of relations in a text that touches nothing which is known to be encrypted: one that is not known may be a view that was made
//! meanwhile, by a function of the session's own or by others at the database.

use super::mention::is_reserved;
use super::spelling::names_relation;
use crate::text::{Lexemes, fold, name_of};
use sqlparser::tokenizer::Token;
use std::collections::BTreeSet;

/// Words that a relation's name may follow.
const BEFORE: [&str; 9] = ["from", "join", "into", "update", "table", "view", "using", "copy", "only"];
/// Those of them behind which a name is a relation's though a parenthesis follows it.
const OF_TARGETS: [&str; 3] = ["into", "copy", "update"];
/// Words before `UPDATE` where it changes nothing.
const OF_LOCKS: [&str; 7] = ["for", "on", "do", "key", "before", "after", "or"];
/// Words that stand where a relation's name may, and are none.
const NO_NAMES: [&str; 16] = [
    "select", "values", "with", "set", "of", "skip", "nowait", "stdin", "stdout", "lateral", "if", "exists",
    "insert", "update", "delete", "truncate",
];
/// Those of them that are no name without quotes anywhere.
const NEVER_NAMES: [&str; 2] = ["select", "with"];
/// Words, all reserved, behind which relations are not listed any more.
const ENDS_LIST: [&str; 13] = [
    "where",
    "order",
    "group",
    "having",
    "limit",
    "offset",
    "fetch",
    "window",
    "for",
    "union",
    "intersect",
    "except",
    "returning",
];
/// Schemas in which nobody makes views of encrypted tables.
const OF_THE_SYSTEM: [&str; 3] = ["pg_catalog", "information_schema", "arras"];

fn is_one_of(word: &str, words: &[&str]) -> bool {
    words.iter().any(|other| word.eq_ignore_ascii_case(other))
}

/// Is it a number, or a word that is no name there?
fn is_no_name(word: &str) -> bool {
    is_one_of(word, &NO_NAMES) || begins_as_number(word)
}

fn begins_as_number(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_digit() || first == '$')
}

/// What a text is made of, roughly.
enum Part<'t> {
    Word(&'t str, bool),
    Sign(u8),
}

/// The parts of a text that has neither comments nor escapes.
struct Parts<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Iterator for Parts<'t> {
    type Item = Part<'t>;

    fn next(&mut self) -> Option<Part<'t>> {
        let bytes = self.text.as_bytes();
        let is_letter =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || !byte.is_ascii();
        loop {
            let rest = bytes.get(self.at..)?;
            let first = rest.first()?;
            if is_letter(first) {
                let length = rest.iter().position(|byte| !is_letter(byte)).unwrap_or(rest.len());
                let word = self.text.get(self.at..self.at + length)?;
                self.at += length;
                return Some(Part::Word(word, false));
            }
            if matches!(first, b'\'' | b'"') {
                let length = rest.iter().skip(1).position(|byte| byte == first)?;
                let inside = self.text.get(self.at + 1..self.at + 1 + length)?;
                self.at += length + 2;
                if *first == b'"' {
                    return Some(Part::Word(inside, true));
                }
                continue;
            }
            self.at += 1;
            if !first.is_ascii_whitespace() {
                return Some(Part::Sign(*first));
            }
        }
    }
}

/// Quickly, from the text: may it name a relation that is not known? What is not read quickly may.
pub(crate) fn may_name_unknown(text: &str, is_known: impl Fn(Option<&str>, &str) -> bool) -> bool {
    let has = |part: &str| text.contains(part);
    // `$$` or `$tag$` begins a string.
    let begins = |pair: &[u8]| matches!(pair, [b'$', b'$' | b'_' | b'a'..=b'z' | b'A'..=b'Z']);
    let has_tag = text.as_bytes().windows(2).any(begins) || (has("$") && !text.is_ascii());
    let begins = |word: &str| {
        text.trim_start().get(..word.len()).is_some_and(|first| first.eq_ignore_ascii_case(word))
    };
    if begins("create") || has("--") || has("/*") || has("\\") || has_tag || has("\"\"") || has("&\"") {
        return true;
    }
    let copies = begins("copy");
    let (mut place, mut parts) = (Place::default(), Parts { text, at: 0 }.peekable());
    while let Some(part) = parts.next() {
        let (word, quoted) = match part {
            Part::Sign(sign) => {
                place.sign(sign);
                continue;
            }
            Part::Word(word, quoted) => (word, quoted),
        };
        match place.word(word, quoted, copies) {
            Expected::Nothing => {}
            Expected::Unknown => return true,
            Expected::Name if matches!(parts.peek(), Some(Part::Sign(b'.'))) => {
                if is_one_of(word, &OF_THE_SYSTEM) {
                    place.expects = false;
                } else {
                    parts.next();
                    place.schema = Some(fold(word, quoted));
                }
            }
            Expected::Name => {
                // `(VALUES (1))`
                let lists = is_one_of(word, &["values"]) && matches!(parts.peek(), Some(Part::Sign(b'(')));
                let is_list = lists && !quoted && place.before == Some(b'(');
                let schema = place.schema.take();
                if !is_list && !is_known(schema.as_deref(), &fold(word, quoted)) {
                    return true;
                }
                place.expects = false;
            }
        }
        place.before = None;
    }
    false
}

/// What a word is where it stands.
enum Expected {
    /// No relation's name.
    Nothing,
    /// One.
    Name,
    /// It cannot be told.
    Unknown,
}

/// Where a search through a text has come.
#[derive(Default)]
struct Place {
    /// May a relation's name come?
    expects: bool,
    /// Does a comma stand between relations?
    lists: bool,
    /// The same around the parentheses that are open.
    around: Vec<bool>,
    /// The sign that is just before.
    before: Option<u8>,
    /// Is a word just before that makes the next one no clause's: `AS`; or no table's: `FOR UPDATE`, `COPY ... FROM STDIN`?
    names: bool,
    locks: bool,
    moves: bool,
    schema: Option<String>,
}

impl Place {
    fn sign(&mut self, sign: u8) {
        match sign {
            b',' => self.expects = self.lists,
            b'(' => self.around.push(self.lists),
            b')' => {
                self.lists = self.around.pop().unwrap_or(self.lists);
                self.expects = false;
            }
            _ => self.expects = false,
        }
        (self.before, self.names, self.locks, self.moves, self.schema) =
            (Some(sign), false, false, false, None);
    }

    fn word(&mut self, word: &str, quoted: bool, copies: bool) -> Expected {
        let is = |words: &[&str]| !quoted && is_one_of(word, words);
        let (named, locked, moved) = (self.names || self.before == Some(b'.'), self.locks, self.moves);
        (self.names, self.locks) = (is(&["as"]), is(&OF_LOCKS));
        self.moves = copies && is(&["from", "to"]);
        if is(&BEFORE) {
            // `FROM ONLY t`, and two of them of which one is a name.
            if self.expects && !is(&["only"]) {
                return Expected::Unknown;
            }
            self.expects = !(is(&["update"]) && locked);
            self.lists |= is(&["from", "join", "using"]);
            return Expected::Nothing;
        }
        if is(&ENDS_LIST) && !named {
            (self.lists, self.expects) = (false, false);
            return Expected::Nothing;
        }
        if is(&["lateral"]) || !self.expects {
            return Expected::Nothing;
        }
        let is_none =
            is(&NEVER_NAMES) || (moved && is(&["stdin", "stdout"])) || (!quoted && begins_as_number(word));
        if is_none {
            self.expects = false;
            return Expected::Nothing;
        }
        Expected::Name
    }
}

/// Names that a rough search looks for at most.
const ROUGH_NAMES_MAX: usize = 64;

/// Roughly, without reading it: names that are not known behind the words that name relations, in a text that goes on as it is. What
/// is within strings counts, too, and what is behind a comma does not.
pub(crate) fn rough(text: &str, is_known: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let is_letter = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '$');
    let mut words = text.split(|letter: char| !is_letter(letter)).filter(|word| !word.is_empty()).peekable();
    let mut found = BTreeSet::new();
    while let Some(word) = words.next() {
        if found.len() == ROUGH_NAMES_MAX {
            break;
        }
        if !is_one_of(word, &BEFORE) {
            continue;
        }
        // The schema may stand before it.
        for name in words.clone().take(2).filter(|name| !is_no_name(name)) {
            let names = [fold(name, false), fold(name, true)];
            found.extend(names.into_iter().filter(|name| !is_known(name)));
        }
    }
    found
}

/// The names of relations in a statement that are not known, common table expressions and functions aside.
pub(crate) fn unknown(
    statement: &Lexemes,
    is_known: impl Fn(Option<&str>, &str) -> bool,
) -> BTreeSet<String> {
    let named = named(statement).into_iter();
    named.filter(|(schema, name)| !is_known(schema.as_deref(), name)).map(|(_, name)| name).collect()
}

/// The name of a relation, behind that of its schema if one is written.
pub(crate) type Relation = (Option<String>, String);

/// The relations that a statement names where relations are named, common table expressions and functions aside.
pub(super) fn named(statement: &Lexemes) -> BTreeSet<Relation> {
    let is = |at: usize, words: &[&str]| words.iter().any(|word| statement.is_word(at, word));
    let mut found = BTreeSet::new();
    if is(0, &["fetch", "move"]) {
        return found;
    }
    let common = common_names(statement);
    for at in 1..statement.list.len() {
        let Some(Token::Word(_)) = statement.token(at) else { continue };
        let before = before(statement, at);
        let is_target = is(before, &OF_TARGETS);
        // `JOIN ... USING (c)` lists columns.
        let lists_columns = is(before, &["using"]) && before + 1 < at && !is(0, &["delete", "merge"]);
        if lists_columns || !is_place(statement, before) || is(at, &NO_NAMES) || is_reserved(statement, at) {
            continue;
        }
        let mut last = at;
        while matches!(statement.token(last + 1), Some(Token::Period)) {
            last += 2;
        }
        let calls = matches!(statement.token(last + 1), Some(Token::LParen)) && !is_target;
        let schema = (last > at).then(|| part(statement, last - 2));
        let is_common = last == at && !is_target && common.contains(&part(statement, at));
        let of_system = schema.as_ref().is_some_and(|schema| OF_THE_SYSTEM.contains(&schema.as_str()));
        if !(calls || is_common || of_system) {
            found.insert((schema, part(statement, last)));
        }
    }
    found
}

/// The name that a token is.
fn part(statement: &Lexemes, at: usize) -> String {
    match statement.token(at) {
        Some(Token::Word(word)) => name_of(word),
        _ => String::new(),
    }
}

/// The token before a name, parentheses and `ONLY` left out.
fn before(statement: &Lexemes, at: usize) -> usize {
    let passed = |at: &usize| {
        matches!(statement.token(*at), Some(Token::LParen))
            || ["only", "lateral", "if", "exists"].iter().any(|word| statement.is_word(*at, word))
    };
    (0..at).rev().find(|at| !passed(at)).unwrap_or(0)
}

/// Does a relation's name follow a token?
fn is_place(statement: &Lexemes, before: usize) -> bool {
    let is = |at: usize, words: &[&str]| words.iter().any(|word| statement.is_word(at, word));
    let behind = |words: &[&str]| before.checked_sub(1).is_some_and(|at| is(at, words));
    let makes = is(0, &["create"]);
    names_relation(statement, before) && !(is(before, &["update"]) && behind(&OF_LOCKS))
        || is(before, &["into", "using"])
        || (is(before, &["table", "view"]) && !makes)
        || (before == 0 && is(0, &["copy", "table", "update"]))
        || (makes && is(before, &["on", "to"]))
}

/// The names of common table expressions.
fn common_names(statement: &Lexemes) -> BTreeSet<String> {
    let is = |at: usize, words: &[&str]| words.iter().any(|word| statement.is_word(at, word));
    let name = |at: usize| {
        let Some(Token::Word(word)) = statement.token(at) else { return None };
        let follows = at.checked_sub(1).is_some_and(|before| {
            is(before, &["with", "recursive"]) || matches!(statement.token(before), Some(Token::Comma))
        });
        let listed = matches!(statement.token(at + 1), Some(Token::LParen));
        let behind = if listed { statement.after_parentheses(at + 1)? } else { at + 1 };
        let words = (1..3).take_while(|more| is(behind + more, &["not", "materialized"])).count();
        let is_query = matches!(statement.token(behind + 1 + words), Some(Token::LParen));
        (follows && is(behind, &["as"]) && is_query).then(|| name_of(word))
    };
    let begins = (0..statement.list.len()).any(|at| is(at, &["with"]));
    if begins { (0..statement.list.len()).filter_map(name).collect() } else { BTreeSet::new() }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{may_name_unknown, unknown};

    fn is_known(name: &str) -> bool {
        ["known", "other"].contains(&name)
    }

    fn may_name(text: &str) -> bool {
        may_name_unknown(text, |_, name| is_known(name) || name == "pgbench_accounts")
    }

    fn names(text: &str) -> Vec<String> {
        let statements = crate::text::statements(text).unwrap();
        statements.iter().flat_map(|statement| unknown(statement, |_, name| is_known(name))).collect()
    }

    #[test]
    fn relations_that_are_not_known_are_found() {
        for text in [
            "SELECT * FROM made",
            "SELECT a FROM known k, made m WHERE a = 'x'",
            "SELECT a FROM known k JOIN other o ON k.a = o.b, made",
            "SELECT a FROM (known CROSS JOIN public.made)",
            "SELECT (SELECT max(b) FROM ONLY \"made\") FROM known",
            "INSERT INTO made (a) VALUES ('x')",
            "UPDATE made SET a = 'x'",
            "UPDATE known SET a = 'x' FROM made",
            "DELETE FROM known USING made WHERE a = 'x'",
            "TABLE made",
            "COPY made (a) FROM STDIN",
            "WITH w AS (SELECT 1) SELECT * FROM w, made",
            "WITH made AS (SELECT 1) INSERT INTO made VALUES (1)",
            "ALTER VIEW made ALTER a SET DEFAULT 'x'",
            "CREATE RULE r AS ON INSERT TO made DO NOTHING",
            "EXPLAIN ANALYZE SELECT 1 FROM made -- so",
            "SELECT 1; SELECT 2 FROM made",
        ] {
            assert_eq!(names(text), ["made"], "{text}");
            assert!(may_name(text), "{text}");
        }
    }

    #[test]
    fn a_long_text_is_searched_roughly() {
        let found = super::rough(
            "SELECT a FROM known, b JOIN public.\"Made\" m; INSERT INTO more VALUES (1)",
            is_known,
        );
        assert!(["Made", "more"].iter().all(|name| found.contains(*name)), "{found:?}");
    }

    #[test]
    fn what_is_no_relation_is_not_looked_up() {
        for text in [
            "SELECT a FROM known WHERE b IS DISTINCT FROM made",
            "SELECT extract(day FROM made), substring(made FROM 2) FROM other",
            "SELECT a FROM known ORDER BY made, other LIMIT 1 FOR UPDATE OF known SKIP LOCKED",
            "SELECT * FROM generate_series(1, 2) made, known, pg_catalog.made, information_schema.tables",
            "WITH made (a) AS (SELECT 1), more AS MATERIALIZED (SELECT 2) SELECT * FROM made JOIN more USING (a)",
            "INSERT INTO known (a) VALUES (1) ON CONFLICT (a) DO UPDATE SET a = 2",
            "FETCH 1 FROM made",
            "CREATE TABLE made (a int)",
            "SELECT 'FROM made' FROM known",
        ] {
            assert_eq!(names(text), [""; 0], "{text}");
        }
        for text in [
            "SELECT abalance FROM pgbench_accounts WHERE aid = 1",
            "UPDATE known SET a = a + 1, b = 'it', c = $1 WHERE d = 5",
            "INSERT INTO public.known (a, b) VALUES (1, 'FROM made')",
            "SELECT count(DISTINCT a) FROM known k, \"other\" o WHERE k.a = o.a FOR UPDATE",
            "SELECT a FROM known WHERE b IN (1, c) ORDER BY a, d LIMIT 1 FOR UPDATE SKIP LOCKED",
            "SELECT a FROM (SELECT a FROM known GROUP BY a, b) x, other WHERE a IN (VALUES (1), (2)) ORDER BY a, b",
            "INSERT INTO known (a, b) VALUES (1, 2) ON CONFLICT (a) DO UPDATE SET a = 1, b = 2 RETURNING a, b",
            "COPY known (a, b) FROM STDIN",
        ] {
            assert!(!may_name(text), "{text}");
        }
        for text in [
            "INSERT INTO skip (a) VALUES ('x')",
            "INSERT INTO values VALUES ('x')",
            "INSERT INTO view SELECT 'x'",
            "INSERT INTO public.update VALUES ('x')",
            "COPY stdin FROM STDIN",
            "SELECT 1 FROM known JOIN known y ON y.order = a, made",
            "SELECT 1 FROM (SELECT b AS where FROM known WHERE c) x, made",
            "SELECT 1 FROM known x, (known CROSS JOIN made)",
            "SELECT 1 FROM known WHERE a IN (SELECT b FROM known, made)",
            "TABLE values",
            "UPDATE set SET a = 'x'",
        ] {
            assert!(may_name(text), "{text}");
        }
    }
}
