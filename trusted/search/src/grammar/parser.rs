//! Lexemes to a formula.
//!
//! ```text
//! any  = all ("OR" all)*
//! all  = not ("AND"? not)*
//! not  = ("NOT" | "-") not | part
//! part = word | "phrase" | field:word | field:"phrase" | date:range | size:range | "(" any ")"
//! ```

use super::lexemes::{Kind, Lexeme, Lexemes};
use super::{DEPTH_MAX, Mistake, PARTS_MAX, QUERY_BYTES_MAX, QueryError, numbers};
use crate::formula::{Field, Formula, Number};
use std::ops::Range;

/// Reads a query.
///
/// # Errors
/// What is wrong with it, and where.
pub fn parse(query: &str) -> Result<Formula, QueryError> {
    if query.len() > QUERY_BYTES_MAX {
        return Err(QueryError::new(query, 0..0, Mistake::TooLong(query.len())));
    }
    let mut parser = Parser { query, lexemes: Lexemes::new(query), next: None, parts: 0 };
    parser.advance()?;
    if parser.next.is_none() {
        return Err(parser.wrong(0..0, Mistake::Empty));
    }
    let formula = parser.any(0, "at the beginning")?;
    match parser.next.take() {
        None => Ok(formula),
        // Whatever else can follow was taken by an AND that needs no word.
        Some(lexeme) => Err(parser.wrong(lexeme.place, Mistake::UnopenedParenthesis)),
    }
}

struct Parser<'q> {
    query: &'q str,
    lexemes: Lexemes<'q>,
    next: Option<Lexeme<'q>>,
    parts: usize,
}

impl<'q> Parser<'q> {
    fn advance(&mut self) -> Result<Option<Lexeme<'q>>, QueryError> {
        let next = self.lexemes.next()?;
        Ok(std::mem::replace(&mut self.next, next))
    }

    fn wrong(&self, place: Range<usize>, mistake: Mistake) -> QueryError {
        QueryError::new(self.query, place, mistake)
    }

    fn sees(&self, kind: Kind<'_>) -> bool {
        self.next.as_ref().is_some_and(|lexeme| lexeme.kind == kind)
    }

    fn any(&mut self, depth: usize, after: &'static str) -> Result<Formula, QueryError> {
        let mut parts = vec![self.all(depth, after)?];
        while self.sees(Kind::Or) {
            self.advance()?;
            parts.push(self.all(depth, "behind OR")?);
        }
        Ok(one_or(parts, Formula::Any))
    }

    fn all(&mut self, depth: usize, after: &'static str) -> Result<Formula, QueryError> {
        let mut parts = vec![self.not(depth, after)?];
        loop {
            let after = match self.next.as_ref().map(|lexeme| lexeme.kind) {
                None | Some(Kind::Or | Kind::Close) => break,
                Some(Kind::And) => {
                    self.advance()?;
                    "behind AND"
                }
                Some(Kind::Open | Kind::Not | Kind::Word(_) | Kind::Phrase(_) | Kind::Filter(..)) => "here",
            };
            parts.push(self.not(depth, after)?);
        }
        Ok(one_or(parts, Formula::All))
    }

    fn not(&mut self, depth: usize, after: &'static str) -> Result<Formula, QueryError> {
        if !self.sees(Kind::Not) {
            return self.part(depth, after);
        }
        let lexeme = self.advance()?;
        self.check_depth(depth, lexeme.map(|lexeme| lexeme.place))?;
        Ok(Formula::Not(Box::new(self.not(depth + 1, "behind NOT")?)))
    }

    fn check_depth(&self, depth: usize, place: Option<Range<usize>>) -> Result<(), QueryError> {
        if depth < DEPTH_MAX { Ok(()) } else { Err(self.wrong(place.unwrap_or_default(), Mistake::TooDeep)) }
    }

    fn part(&mut self, depth: usize, after: &'static str) -> Result<Formula, QueryError> {
        let Some(lexeme) = self.advance()? else {
            let end = self.query.len();
            return Err(self.wrong(end..end, Mistake::MissingPart(after)));
        };
        let formula = match lexeme.kind {
            Kind::Word(word) => Formula::Word(word.into()),
            Kind::Phrase(words) if words.trim().is_empty() => {
                return Err(self.wrong(lexeme.place, Mistake::MissingPart("between the quotation marks")));
            }
            Kind::Phrase(words) => Formula::Phrase(words.into()),
            Kind::Filter(name, value) => self.filter(name, value, &lexeme.place)?,
            Kind::Open => {
                self.check_depth(depth, Some(lexeme.place.clone()))?;
                let inside = self.any(depth + 1, "in the parenthesis")?;
                if !self.sees(Kind::Close) {
                    return Err(self.wrong(lexeme.place, Mistake::UnclosedParenthesis));
                }
                self.advance()?;
                return Ok(inside);
            }
            Kind::Close if depth == 0 => return Err(self.wrong(lexeme.place, Mistake::UnopenedParenthesis)),
            Kind::Close | Kind::And | Kind::Or | Kind::Not => {
                return Err(self.wrong(lexeme.place, Mistake::MissingPart(after)));
            }
        };
        self.parts += 1;
        if self.parts > PARTS_MAX {
            return Err(self.wrong(lexeme.place, Mistake::TooManyParts));
        }
        Ok(formula)
    }

    fn filter(&self, name: &str, value: &str, place: &Range<usize>) -> Result<Formula, QueryError> {
        let is = |known: &str| known.eq_ignore_ascii_case(name);
        let behind = place.start + name.len() + 1..place.end;
        let empty = value.trim().is_empty();
        if let Some(field) = Field::ALL.into_iter().find(|field| is(field.name())) {
            if empty {
                return Err(self.wrong(place.clone(), Mistake::EmptyFilter(field.name())));
            }
            return Ok(Formula::Field(field, value.into()));
        }
        let Some(number) = Number::ALL.into_iter().find(|number| is(number.name())) else {
            let name_place = place.start..place.start + name.len();
            let shown = name.chars().take(40).collect();
            return Err(self.wrong(name_place, Mistake::UnknownFilter(shown)));
        };
        if empty {
            return Err(self.wrong(place.clone(), Mistake::EmptyFilter(number.name())));
        }
        numbers::range(number, value).map(Formula::Range).map_err(|mistake| self.wrong(behind, mistake))
    }
}

fn one_or(mut parts: Vec<Formula>, join: fn(Vec<Formula>) -> Formula) -> Formula {
    if parts.len() == 1
        && let Some(only) = parts.pop()
    {
        return only;
    }
    join(parts)
}
