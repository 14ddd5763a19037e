//! Whether a statement can touch anything encrypted at all, by its tokens alone.

use super::substrings::Substrings;
use crate::column_type::ColumnType;
use crate::text::{Lexemes, name_of};
use sqlparser::tokenizer::{Token, Word};
use std::cell::LazyCell;
use std::collections::BTreeSet;

/// Names whose tokens make a statement one to analyse.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sensitive {
    /// Tables with encrypted columns, there or declared.
    tables: BTreeSet<String>,
    /// The same in small letters, and others whose statements are read, to be looked for in a text.
    folded: Substrings,
}

impl Sensitive {
    pub(crate) fn new(tables: impl IntoIterator<Item = String>) -> Self {
        let tables: BTreeSet<String> = tables.into_iter().collect();
        // In quotes, a quote is written twice.
        let written = |name: &String| [name.to_lowercase(), name.to_lowercase().replace('"', "\"\"")];
        let folded = tables.iter().flat_map(written).collect();
        Self { tables, folded }
    }

    /// With further names.
    pub(crate) fn with(self, names: impl IntoIterator<Item = String>) -> Self {
        let with = Self::new(self.tables.into_iter().chain(names));
        Self { folded: with.folded.with(self.folded.names()), ..with }
    }

    /// With names of what is not encrypted: statements that have one are read into tokens.
    pub(crate) fn also_read(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.folded = self.folded.with(names.into_iter().map(|name| name.to_lowercase()));
        self
    }

    /// Is nothing encrypted, nor declared to be?
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Is it the name of an encrypted table?
    pub(crate) fn holds(&self, name: &str) -> bool {
        self.tables.contains(name)
    }

    /// Quickly, from the text: can any of its tokens be one of the names, or, where the catalogue
    /// is shown otherwise, a name of it? A name in the middle
    /// of another word says yes, too; a name spelt in escapes is not looked for, so every such spelling says yes.
    pub(crate) fn may_be_in(&self, text: &str, is_shown: bool) -> bool {
        if self.tables.is_empty() {
            return false;
        }
        let folded = text.to_lowercase();
        self.may_name(&folded) || (is_shown && super::shown::may_be_in(&folded))
    }

    /// May a text in small letters name an encrypted table?
    fn may_name(&self, folded: &str) -> bool {
        folded.contains("u&\"") || holds_word(folded, OWN_SCHEMA) || self.folded.are_in(folded)
    }

    /// Does code in small letters have the name of an encrypted table as a word of its own?
    fn names_within(&self, folded: &str) -> bool {
        folded.contains("u&\"") || self.tables.iter().any(|name| holds_word(folded, &name.to_lowercase()))
    }

    /// The first token that mentions an encrypted table, or what may be one. A name inside a string in dollars counts, and in
    /// any string of a statement that runs or makes code: the string may be the body of a function or a block.
    pub(super) fn mention(&self, statement: &Lexemes) -> Option<usize> {
        let makes_code = makes_code(statement);
        statement.list.iter().enumerate().position(|(at, lexeme)| match &lexeme.token.token {
            Token::Word(word) => {
                (self.tables.contains(&name_of(word)) && !is_keyword(statement, at))
                    || is_escaped(statement, at)
            }
            Token::DollarQuotedString(string) => self.names_within(&string.value.to_lowercase()),
            Token::SingleQuotedString(string)
            | Token::EscapedStringLiteral(string)
            | Token::UnicodeStringLiteral(string)
            | Token::NationalStringLiteral(string)
                if makes_code =>
            {
                self.names_within(&string.to_lowercase())
            }
            _ => false,
        })
    }
}

/// Is it a block, or does it make a function or procedure? Their code may be a string of any kind.
pub(super) fn makes_code(statement: &Lexemes) -> bool {
    let is = |at: usize, words: &[&str]| words.iter().any(|word| statement.is_word(at, word));
    let made = if is(1, &["or"]) && is(2, &["replace"]) { 3 } else { 1 };
    let calls = |at: usize| is(at, &RUNS_CODE) && matches!(statement.token(at + 1), Some(Token::LParen));
    is(0, &["do"])
        || (is(0, &["create"]) && is(made, &["function", "procedure"]))
        || (0..statement.list.len()).any(calls)
}

/// Functions that run a statement that is a string, or read a table whose name is one.
const RUNS_CODE: [&str; 15] = [
    "query_to_xml",
    "query_to_xmlschema",
    "query_to_xml_and_xmlschema",
    "table_to_xml",
    "table_to_xmlschema",
    "table_to_xml_and_xmlschema",
    "ts_stat",
    "ts_rewrite",
    "dblink",
    "dblink_exec",
    "dblink_open",
    "dblink_send_query",
    "crosstab",
    "crosstabn",
    "connectby",
];

/// First words of statements in which a name of the proxy's own schema is what they are about.
const DEFINES: [&str; 8] = ["create", "alter", "drop", "comment", "lock", "truncate", "grant", "revoke"];

/// The token of the proxy's own schema in a statement that would change what is in it, or it: a definition that names it,
/// a change of rows wherever it stands (behind `EXPLAIN ANALYZE`, within `WITH`), or code that names it.
pub(super) fn changes_own_schema(statement: &Lexemes) -> Option<usize> {
    let defines = DEFINES.iter().any(|word| statement.is_word(0, word));
    let of_schemas = LazyCell::new(|| (0..statement.list.len()).any(|at| statement.is_word(at, "schema")));
    let reads_from = LazyCell::new(|| alias_begins(statement));
    let roles = LazyCell::new(|| roles_begin(statement));
    let makes_code = LazyCell::new(|| makes_code(statement));
    let is_code = |string: &str| holds_word(string, OWN_SCHEMA) && *makes_code && code_changes(string);
    statement.list.iter().enumerate().position(|(at, lexeme)| match &lexeme.token.token {
        Token::Word(word) if name_of(word) == OWN_SCHEMA => {
            let is_qualifier = matches!(statement.token(at + 1), Some(Token::Period));
            let is_alias = || reads_from.is_some_and(|from| from < at);
            let is_role = || roles.is_some_and(|roles| roles < at);
            (is_qualifier && is_target(statement, at))
                || (defines && !is_role() && (*of_schemas || (is_qualifier && !is_alias())))
        }
        token => string_of(token).is_some_and(|string| is_code(&string.to_lowercase())),
    })
}

/// Where the roles begin that `GRANT` and `REVOKE` name.
fn roles_begin(statement: &Lexemes) -> Option<usize> {
    let is = |at: usize, words: &[&str]| words.iter().any(|word| statement.is_word(at, word));
    let grants = is(0, &["grant", "revoke"]);
    (1..statement.list.len()).find(|at| grants && is(*at, &["to", "from"]))
}

/// The text of a string.
fn string_of(token: &Token) -> Option<&str> {
    match token {
        Token::DollarQuotedString(string) => Some(&string.value),
        Token::SingleQuotedString(string)
        | Token::EscapedStringLiteral(string)
        | Token::UnicodeStringLiteral(string)
        | Token::NationalStringLiteral(string) => Some(string),
        _ => None,
    }
}

/// Where the query begins of which a view or table is made that has an alias of the proxy's own schema's name: what is behind
/// qualifies columns by it.
fn alias_begins(statement: &Lexemes) -> Option<usize> {
    let is = |at: usize, words: &[&str]| words.iter().any(|word| statement.is_word(at, word));
    let makes = is(0, &["create"]) && (1..6).any(|at| is(at, &["table", "view"]));
    let begins = (1..statement.list.len()).find(|at| makes && is(*at, &["as"]))?;
    let is_alias = |at: usize| {
        matches!(statement.token(at), Some(Token::Word(word)) if name_of(word) == OWN_SCHEMA)
            && !matches!(statement.token(at + 1), Some(Token::Period))
    };
    (begins..statement.list.len()).any(is_alias).then_some(begins)
}

/// Does code in small letters change something, and name what is in the proxy's own schema? By its tokens, of which a string is
/// code where the code runs strings; by its words if it has no tokens.
fn code_changes(folded: &str) -> bool {
    let Ok(statements) = crate::text::statements(folded) else { return qualifies(folded) };
    let any = |is: &dyn Fn(&Lexemes, usize) -> bool| {
        statements.iter().any(|statement| (0..statement.list.len()).any(|at| is(statement, at)))
    };
    if any(&|statement, at| statement.is_word(at, "execute")) || statements.iter().any(makes_code) {
        return qualifies(folded);
    }
    let is_change = |statement: &Lexemes, at: usize| CHANGES.iter().any(|word| statement.is_word(at, word));
    let is_qualifier = |statement: &Lexemes, at: usize| {
        matches!(statement.token(at), Some(Token::Word(word)) if name_of(word) == OWN_SCHEMA)
            && matches!(statement.token(at + 1), Some(Token::Period))
    };
    any(&is_qualifier) && any(&is_change)
        || any(
            &|statement, at| matches!(statement.token(at), Some(Token::DollarQuotedString(code)) if code_changes(&code.value)),
        )
}

/// Does the name of what rows are put into, changed in or taken from begin at a token?
fn is_target(statement: &Lexemes, at: usize) -> bool {
    let is = |at: usize, words: &[&str]| words.iter().any(|word| statement.is_word(at, word));
    // The name of the database may stand before it.
    let is_point = |at: usize| matches!(statement.token(at), Some(Token::Period));
    let at = if at >= 2 && is_point(at - 1) { at - 2 } else { at };
    let skipped =
        |at: &usize| is(*at, &["only", "binary"]) || matches!(statement.token(*at), Some(Token::LParen));
    let Some(before) = (0..at).rev().find(|at| !skipped(at)) else { return false };
    is(before, &["into", "update", "copy"])
        || (is(before, &["from"]) && before.checked_sub(1).is_some_and(|at| is(at, &["delete"])))
}

/// Does code in small letters change something, and name what is in the proxy's own schema?
fn qualifies(folded: &str) -> bool {
    folded.match_indices(OWN_SCHEMA).any(|(at, _)| {
        let before = folded.get(..at).and_then(|before| before.chars().next_back());
        let behind = folded.get(at + OWN_SCHEMA.len()..).unwrap_or_default();
        let behind = behind.strip_prefix('"').unwrap_or(behind).trim_start();
        behind.starts_with('.')
            && !before.is_some_and(|letter| letter.is_alphanumeric() || "_$@".contains(letter))
    }) && CHANGES.iter().any(|word| holds_word(folded, word))
}

/// Words of code that changes something.
const CHANGES: [&str; 12] = [
    "insert", "update", "delete", "truncate", "drop", "alter", "create", "merge", "copy", "lock", "comment",
    "execute",
];

/// The schema of what the proxy keeps in the database.
const OWN_SCHEMA: &str = "arras";

/// Is a name in a text in small letters, as a word of its own?
fn holds_word(folded: &str, name: &str) -> bool {
    let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '$';
    folded.match_indices(name).any(|(at, _)| {
        let (before, behind) = (folded.get(..at), folded.get(at + name.len()..));
        !before.is_some_and(|before| before.ends_with(is_letter))
            && !behind.is_some_and(|behind| behind.starts_with(is_letter))
    })
}

/// PostgreSQL's own types that no encrypted column is of.
const OTHER_TYPES: [&str; 24] = [
    "bit", "box", "bpchar", "char", "cidr", "circle", "inet", "interval", "jsonpath", "line", "lseg",
    "macaddr", "macaddr8", "money", "name", "oid", "path", "point", "polygon", "time", "timetz", "tsquery",
    "tsvector", "xml",
];

/// Words that PostgreSQL reserves since long: without quotes they name a column only behind a point, and a table never.
const RESERVED: [&str; 77] = [
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "column",
    "constraint",
    "create",
    "current_catalog",
    "current_date",
    "current_role",
    "current_time",
    "current_timestamp",
    "current_user",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "fetch",
    "for",
    "foreign",
    "from",
    "grant",
    "group",
    "having",
    "in",
    "initially",
    "intersect",
    "into",
    "lateral",
    "leading",
    "limit",
    "localtime",
    "localtimestamp",
    "not",
    "null",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "placing",
    "primary",
    "references",
    "returning",
    "select",
    "session_user",
    "some",
    "symmetric",
    "table",
    "then",
    "to",
    "trailing",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "variadic",
    "when",
    "where",
    "window",
    "with",
];

/// Is the token a word of SQL itself or a type, whatever columns and tables are called?
pub(super) fn is_keyword(statement: &Lexemes, at: usize) -> bool {
    let before = at.checked_sub(1);
    if before.is_some_and(|before| matches!(statement.token(before), Some(Token::Period))) {
        return false;
    }
    // Not reserved, but nothing else there.
    let follows = |word: &&str| before.is_some_and(|before| statement.is_word(before, word));
    // A type before its text: `date '2024-05-31'`. One that is not PostgreSQL's own may be that of a table's rows.
    let is_type = |word: &Word| {
        let name = name_of(word);
        ColumnType::parse(&name).is_some() || OTHER_TYPES.contains(&name.as_str())
    };
    let is_typed = matches!(statement.token(at + 1), Some(Token::SingleQuotedString(_)))
        && matches!(statement.token(at), Some(Token::Word(word)) if is_type(word));
    is_typed
        || (statement.is_word(at, "by") && ["order", "group", "partition"].iter().any(follows))
        || is_reserved(statement, at)
}

/// Is it a word that PostgreSQL reserves, without quotes?
pub(super) fn is_reserved(statement: &Lexemes, at: usize) -> bool {
    RESERVED.iter().any(|word| statement.is_word(at, word))
}

/// Does an identifier in Unicode escapes (`U&"..."`) begin at a token? The tokens of it are others than PostgreSQL's.
pub(super) fn is_escaped(statement: &Lexemes, at: usize) -> bool {
    statement.is_word(at, "u")
        && matches!(statement.token(at + 1), Some(Token::Ampersand))
        && matches!(statement.token(at + 2), Some(Token::Word(word)) if word.quote_style.is_some())
        && statement.bytes(at).end == statement.bytes(at + 1).start
}
