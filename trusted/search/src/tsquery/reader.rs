//! Texts of queries as trees.

use super::{DEPTH_MAX, PARTS_MAX, PREFIX, Query, TsQueryError, WEIGHT};

/// Words of PostgreSQL's widest distance.
const DISTANCE_MAX: u32 = 16_384;

/// What `to_tsquery` reads; none of a text without anything.
pub(super) fn formula(text: &str) -> Result<Option<Query>, TsQueryError> {
    let mut reader = Reader { text, rest: text, parts: 0, depth: 0 };
    reader.blank();
    if reader.rest.is_empty() {
        return Ok(None);
    }
    let query = reader.any()?;
    if reader.rest.is_empty() { Ok(Some(query)) } else { Err(reader.wrong()) }
}

struct Reader<'t> {
    text: &'t str,
    rest: &'t str,
    parts: usize,
    depth: usize,
}

impl Reader<'_> {
    fn wrong(&self) -> TsQueryError {
        TsQueryError::Syntax(self.text.to_owned())
    }

    fn blank(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Takes a sign, if it comes next.
    fn takes(&mut self, sign: char) -> bool {
        let Some(rest) = self.rest.strip_prefix(sign) else { return false };
        self.rest = rest;
        self.blank();
        true
    }

    fn any(&mut self) -> Result<Query, TsQueryError> {
        let mut parts = vec![self.all()?];
        while self.takes('|') {
            parts.push(self.all()?);
        }
        Ok(one_or(parts, Query::Any))
    }

    fn all(&mut self) -> Result<Query, TsQueryError> {
        let mut parts = vec![self.near()?];
        while self.takes('&') {
            parts.push(self.near()?);
        }
        Ok(one_or(parts, Query::All))
    }

    fn near(&mut self) -> Result<Query, TsQueryError> {
        let mut query = self.part()?;
        while let Some(distance) = self.distance()? {
            query = Query::Near(Box::new(query), distance, Box::new(self.part()?));
        }
        Ok(query)
    }

    /// `<->` or `<2>`, if one comes next.
    fn distance(&mut self) -> Result<Option<u32>, TsQueryError> {
        let Some(behind) = self.rest.strip_prefix('<') else { return Ok(None) };
        let (inside, rest) = behind.split_once('>').ok_or_else(|| self.wrong())?;
        let distance = match inside {
            "-" => 1,
            digits if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => digits
                .parse()
                .ok()
                .filter(|distance| *distance <= DISTANCE_MAX)
                .ok_or_else(|| self.wrong())?,
            _ => return Err(self.wrong()),
        };
        self.rest = rest;
        self.blank();
        Ok(Some(distance))
    }

    fn part(&mut self) -> Result<Query, TsQueryError> {
        if self.takes('!') {
            return self.within(|reader| Ok(Query::Not(Box::new(reader.part()?))));
        }
        if self.takes('(') {
            let inside = self.within(Self::any)?;
            return if self.takes(')') { Ok(inside) } else { Err(self.wrong()) };
        }
        self.parts += 1;
        if self.parts > PARTS_MAX {
            return Err(TsQueryError::TooManyParts);
        }
        let words = if self.rest.starts_with('\'') { self.quoted()? } else { self.word()? };
        self.class()?;
        self.blank();
        Ok(Query::Words(words))
    }

    fn within(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<Query, TsQueryError>,
    ) -> Result<Query, TsQueryError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(TsQueryError::TooDeep);
        }
        let query = read(self)?;
        self.depth -= 1;
        Ok(query)
    }

    /// `'what is in quotes'`, which are doubled or behind a backslash inside.
    fn quoted(&mut self) -> Result<String, TsQueryError> {
        let (mut words, mut letters) = (String::new(), self.rest.char_indices().skip(1).peekable());
        while let Some((at, letter)) = letters.next() {
            match letter {
                '\'' => match letters.next_if(|(_, next)| *next == '\'') {
                    Some(_) => words.push('\''),
                    None => {
                        self.rest = self.rest.get(at + 1..).unwrap_or_default();
                        return if words.is_empty() { Err(self.wrong()) } else { Ok(words) };
                    }
                },
                '\\' => words.push(letters.next().ok_or_else(|| self.wrong())?.1),
                letter => words.push(letter),
            }
        }
        Err(self.wrong())
    }

    /// A word without quotes.
    fn word(&mut self) -> Result<String, TsQueryError> {
        let (mut word, mut letters, mut end) = (String::new(), self.rest.char_indices(), self.rest.len());
        while let Some((at, letter)) = letters.next() {
            match letter {
                '\\' => word.push(letters.next().ok_or_else(|| self.wrong())?.1),
                '!' | '&' | '|' | '(' | ')' | ':' | '<' => {
                    end = at;
                    break;
                }
                letter if letter.is_whitespace() => {
                    end = at;
                    break;
                }
                letter => word.push(letter),
            }
        }
        self.rest = self.rest.get(end..).unwrap_or_default();
        if word.is_empty() { Err(self.wrong()) } else { Ok(word) }
    }

    /// `:*` and `:AB` behind a word.
    fn class(&mut self) -> Result<(), TsQueryError> {
        let Some(behind) = self.rest.strip_prefix(':') else { return Ok(()) };
        match behind.chars().next() {
            Some('*') => Err(TsQueryError::Unsupported(PREFIX)),
            Some('A'..='D' | 'a'..='d') => Err(TsQueryError::Unsupported(WEIGHT)),
            // Of no class.
            Some(_) | None => {
                self.rest = behind;
                Ok(())
            }
        }
    }
}

fn one_or(mut parts: Vec<Query>, join: fn(Vec<Query>) -> Query) -> Query {
    match (parts.len(), parts.pop()) {
        (1, Some(only)) => only,
        (_, last) => {
            parts.extend(last);
            join(parts)
        }
    }
}

/// What `websearch_to_tsquery` reads.
pub(super) fn web(text: &str) -> Result<Query, TsQueryError> {
    let (mut any, mut all, mut rest, mut count) = (Vec::new(), Vec::new(), text, 0);
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            break;
        }
        let behind = rest.strip_prefix('-').filter(|behind| !behind.starts_with(char::is_whitespace));
        let from = behind.unwrap_or(rest);
        let (words, is_quoted, after) = match from.strip_prefix('"') {
            Some(inside) => {
                let (words, after) = inside.split_once('"').unwrap_or((inside, ""));
                (words, true, after)
            }
            None => {
                let end =
                    from.find(|letter: char| letter.is_whitespace() || letter == '"').unwrap_or(from.len());
                let (words, after) = from.split_at(end);
                (words, false, after)
            }
        };
        rest = after;
        if !is_quoted && behind.is_none() && words.eq_ignore_ascii_case("or") && !all.is_empty() {
            any.push(one_or(std::mem::take(&mut all), Query::All));
            continue;
        }
        count += 1;
        if count > PARTS_MAX {
            return Err(TsQueryError::TooManyParts);
        }
        let words = Query::Words(words.to_owned());
        all.push(if behind.is_some() { Query::Not(Box::new(words)) } else { words });
    }
    any.push(Query::All(all));
    Ok(Query::Any(any))
}
