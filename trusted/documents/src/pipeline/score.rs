//! Where a pipeline may use the text score of its first `$match`: until a stage makes other documents of those that were found.

use super::{Pipeline, Stage};
use crate::QueryError;
use crate::error::location;
use crate::text::TextCondition;

/// The stages, those that use the score bound to the `$text` of the first.
///
/// # Errors
/// 17313 for a `$text` that is not in the first stage, 40218 for a score without one, 238 for one behind a stage that
/// changes documents.
pub(super) fn scored(stages: Vec<Stage>) -> Result<Vec<Stage>, QueryError> {
    let condition = match stages.first() {
        Some(Stage::Match(filter)) => filter.text().cloned(),
        _ => None,
    };
    let mut scorer = Scorer { condition, intact: true };
    let each = stages.into_iter().enumerate();
    each.map(|(position, stage)| scorer.stage(stage, position == 0)).collect()
}

#[derive(Clone)]
struct Scorer {
    condition: Option<TextCondition>,
    /// Documents are as they are stored.
    intact: bool,
}

impl Scorer {
    fn stage(&mut self, stage: Stage, first: bool) -> Result<Stage, QueryError> {
        let condition = self.condition.as_ref();
        Ok(match stage {
            Stage::Match(filter) if filter.text().is_some() && !first => {
                let message = "$match with $text is only allowed as the first pipeline stage";
                return Err(location!(17313, "{message}"));
            }
            Stage::Match(_) | Stage::Limit(_) | Stage::Skip(_) | Stage::Sample(_) => stage,
            Stage::Sort(sort) => Stage::Sort(match self.intact {
                true => sort.scored_by(condition)?,
                false => sort.scored_by(None).map_err(|_| late())?,
            }),
            Stage::AddFields(projection) | Stage::Project(projection)
                if projection.has_score() && !self.intact =>
            {
                return Err(late());
            }
            Stage::AddFields(projection) => {
                let bound = projection.scored_by(condition)?;
                self.intact = false;
                Stage::AddFields(bound)
            }
            Stage::Project(projection) => {
                let bound = projection.scored_by(condition)?;
                self.intact = false;
                Stage::Project(bound)
            }
            Stage::Facet(facets) => {
                let scored = |(name, pipeline): (String, Pipeline)| {
                    let mut inner = self.clone();
                    let stages = pipeline.stages.into_iter().map(|stage| inner.stage(stage, false));
                    Ok((name, Pipeline { stages: stages.collect::<Result<_, QueryError>>()? }))
                };
                let facets = facets.into_iter().map(scored).collect::<Result<_, QueryError>>()?;
                self.intact = false;
                Stage::Facet(facets)
            }
            Stage::Bucket(_)
            | Stage::Count(_)
            | Stage::Group(_)
            | Stage::ReplaceRoot(_)
            | Stage::SortByCount(_)
            | Stage::Unwind(_) => {
                self.intact = false;
                stage
            }
        })
    }
}

fn late() -> QueryError {
    QueryError::unsupported(
        "the text score behind a stage that changes documents: take it into a field in the first $addFields or $project",
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::pipeline::Pipeline;
    use bson::{Document, doc};

    fn code(stages: &[Document]) -> i32 {
        Pipeline::parse(stages).map_or_else(|error| error.code, |_| 0)
    }

    #[test]
    fn the_score_is_there_until_documents_change() {
        let found = doc! { "$match": { "$text": { "$search": "a" } } };
        let score = doc! { "s": { "$meta": "textScore" } };
        let sorted = doc! { "$sort": score.clone() };
        let added = doc! { "$addFields": score.clone() };
        let projected = doc! { "$project": score.clone() };
        let group = doc! { "$group": { "_id": "$a" } };
        assert_eq!(code(&[found.clone(), sorted.clone(), doc! { "$limit": 3 }, projected.clone()]), 0);
        assert_eq!(code(&[found.clone(), added.clone(), doc! { "$sort": { "s": -1 } }]), 0);
        assert_eq!(code(&[found.clone(), doc! { "$facet": { "a": [sorted.clone()] } }]), 0);
        assert_eq!(code(&[found.clone(), group, sorted.clone()]), 238);
        assert_eq!(code(&[found.clone(), added.clone(), projected]), 238);
        assert_eq!(code(&[sorted]), 40218);
        assert_eq!(code(&[added]), 40218);
        assert_eq!(code(&[doc! { "$limit": 3 }, found.clone()]), 17313);
        assert_eq!(code(&[doc! { "$facet": { "a": [found] } }]), 17313);
    }
}
