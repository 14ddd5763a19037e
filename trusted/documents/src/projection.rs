//! Projections of finds, and the `$project`, `$addFields` and `$unset` stages.

use crate::expression::Expression;
use crate::filter::{Filter, Test};
use crate::path;
use crate::text::{self, TextCondition};
use crate::{QueryError, clock, limits};
use bson::{Bson, DateTime, Document};

mod apply;
mod parse;

/// A parsed projection.
#[derive(Clone, Debug)]
pub struct Projection {
    mode: Mode,
    fields: Vec<Field>,
}

/// What happens to fields the projection does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Kept; named ones are set in place (`$addFields`).
    Add,
    /// Kept.
    Exclude,
    /// Dropped.
    Include,
}

/// One named field at one level.
#[derive(Clone, Debug)]
struct Field {
    name: String,
    action: Action,
}

#[derive(Clone, Debug)]
enum Action {
    Compute(Expression),
    /// Only the first element that passes.
    ElemMatch(Test),
    Exclude,
    Include,
    Nested(Vec<Field>),
    /// Only the element the query matched; the path of the array.
    Positional(String),
    /// So many elements from a position, which counts from the end if negative.
    Slice {
        position: i64,
        count: i64,
    },
    /// The text score: of this `$text`, once there is one.
    TextScore(Option<TextCondition>),
}

impl Projection {
    /// Reads the projection of a find: inclusion or exclusion, `$slice`, `$elemMatch`, positional `$`, expressions.
    /// `$$NOW` stands for the time of this call.
    ///
    /// # Errors
    /// 31253/31254 for mixed inclusion and exclusion, 31249/31250 for paths that collide, others as MongoDB.
    pub fn parse(specification: &Document) -> Result<Self, QueryError> {
        Self::parse_at(specification, clock::now())
    }

    /// [`Projection::parse`] with the time given.
    ///
    /// # Errors
    /// As [`Projection::parse`].
    pub fn parse_at(specification: &Document, now: DateTime) -> Result<Self, QueryError> {
        limits::check_built(specification)?;
        parse::projection(specification, parse::Dialect::Find, now)
    }

    /// Reads the argument of a `$project` stage; `now` is what `$$NOW` stands for.
    ///
    /// # Errors
    /// As [`Projection::parse`]; 51272 if it is empty.
    pub fn parse_stage(specification: &Document, now: DateTime) -> Result<Self, QueryError> {
        limits::check_built(specification)?;
        parse::projection(specification, parse::Dialect::Stage, now)
    }

    /// Reads the argument of an `$addFields` or `$set` stage; `now` is what `$$NOW` stands for.
    ///
    /// # Errors
    /// 40177 if it is empty; those of its expressions.
    pub fn parse_added(specification: &Document, now: DateTime) -> Result<Self, QueryError> {
        limits::check_built(specification)?;
        parse::added(specification, now)
    }

    /// A projection that drops these paths, as `$unset` does.
    ///
    /// # Errors
    /// As [`Projection::parse`] for malformed or colliding paths.
    pub fn without(paths: &[&str]) -> Result<Self, QueryError> {
        let specification: Document = paths.iter().map(|path| ((*path).to_owned(), Bson::Int32(0))).collect();
        if specification.len() != paths.len() {
            return Err(crate::error::location!(31250, "Path collision in $unset"));
        }
        // There is no expression in it.
        Self::parse_stage(&specification, DateTime::MIN)
    }

    /// True if every document is left as it is.
    pub fn is_identity(&self) -> bool {
        self.mode != Mode::Include && self.fields.is_empty()
    }

    /// The same projection, where a field may be the score of this `$text`.
    ///
    /// # Errors
    /// 40218 if a field is the score and there is no `$text`.
    pub fn scored_by(mut self, condition: Option<&TextCondition>) -> Result<Self, QueryError> {
        score(&mut self.fields, condition)?;
        Ok(self)
    }

    /// True if a field is the text score.
    pub fn has_score(&self) -> bool {
        has_score(&self.fields)
    }

    /// The top-level fields of a document it needs, sorted; none if it needs all. A positional `$` also needs those
    /// of the filter.
    pub fn fields(&self) -> Option<Vec<String>> {
        if self.mode != Mode::Include {
            return None;
        }
        let mut names: Vec<String> = Vec::new();
        for field in &self.fields {
            if !matches!(field.action, Action::Compute(_) | Action::Exclude) {
                names.push(field.name.clone());
            }
            names.extend(read_by(&field.action)?);
        }
        names.sort();
        names.dedup();
        Some(names)
    }

    /// The projected document. `filter` is the query's, for the positional `$`.
    ///
    /// # Errors
    /// Those of its expressions; 51246 for a positional `$` that matched nothing.
    pub fn apply(&self, document: &Document, filter: Option<&Filter>) -> Result<Document, QueryError> {
        if self.is_identity() {
            return Ok(document.clone());
        }
        apply::project(self, document, filter)
    }
}

fn score(fields: &mut [Field], condition: Option<&TextCondition>) -> Result<(), QueryError> {
    for field in fields {
        match &mut field.action {
            Action::TextScore(of) => *of = Some(condition.ok_or_else(text::no_score)?.clone()),
            Action::Nested(children) => score(children, condition)?,
            Action::Compute(_)
            | Action::ElemMatch(_)
            | Action::Exclude
            | Action::Include
            | Action::Positional(_)
            | Action::Slice { .. } => {}
        }
    }
    Ok(())
}

fn has_score(fields: &[Field]) -> bool {
    fields.iter().any(|field| match &field.action {
        Action::TextScore(_) => true,
        Action::Nested(children) => has_score(children),
        Action::Compute(_)
        | Action::ElemMatch(_)
        | Action::Exclude
        | Action::Include
        | Action::Positional(_)
        | Action::Slice { .. } => false,
    })
}

/// Top-level fields the expressions of an action read; none if all.
fn read_by(action: &Action) -> Option<Vec<String>> {
    match action {
        Action::Compute(expression) => expression.fields(),
        // Which ones the index says.
        Action::TextScore(_) => None,
        Action::Nested(children) => {
            let mut names = Vec::new();
            for child in children {
                names.extend(read_by(&child.action)?);
            }
            Some(names)
        }
        _ => Some(Vec::new()),
    }
}

#[cfg(test)]
mod tests;
