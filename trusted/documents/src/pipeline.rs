//! Aggregation pipelines.

use crate::QueryError;
use crate::clock;
use crate::expression::Expression;
use crate::filter::Filter;
use crate::limits;
use crate::projection::Projection;
use crate::sort::Sort;
use crate::spill::{Spool, SpoolReader, Workspace};
use bson::{Bson, DateTime, Document};

mod group;
mod parse;
mod score;
mod stages;
mod unwind;

/// Most bytes a blocking stage may hold (MongoDB's 100 MB).
pub const MEMORY_BYTES_MAX: usize = 100 * 1024 * 1024;

/// Most stages of a pipeline.
pub const STAGES_MAX: usize = 1000;

/// A parsed pipeline.
#[derive(Clone, Debug, Default)]
pub struct Pipeline {
    stages: Vec<Stage>,
}

/// A stage.
#[derive(Clone, Debug)]
pub enum Stage {
    /// `$addFields`, `$set`.
    AddFields(Projection),
    /// `$bucket`.
    Bucket(Bucket),
    /// `$count`: name of the output field.
    Count(String),
    /// `$facet`: names and sub-pipelines.
    Facet(Vec<(String, Pipeline)>),
    /// `$group`.
    Group(Group),
    /// `$limit`.
    Limit(u64),
    /// `$match`.
    Match(Filter),
    /// `$project` and `$unset`.
    Project(Projection),
    /// `$replaceRoot`, `$replaceWith`.
    ReplaceRoot(Expression),
    /// `$sample`: so many documents at random.
    Sample(u64),
    /// `$skip`.
    Skip(u64),
    /// `$sort`.
    Sort(Sort),
    /// `$sortByCount`.
    SortByCount(Expression),
    /// `$unwind`.
    Unwind(Unwind),
}

/// `$group`.
#[derive(Clone, Debug)]
pub struct Group {
    /// What documents are grouped by.
    pub id: Expression,
    /// Output fields.
    pub fields: Vec<GroupField>,
}

/// One output field of a group.
#[derive(Clone, Debug)]
pub struct GroupField {
    /// Where the document of the group has it.
    pub name: String,
    /// The accumulator's name with its dollar sign, such as `$sum`.
    pub operator: &'static str,
    /// What is accumulated.
    pub argument: Expression,
}

/// `$unwind`.
#[derive(Clone, Debug)]
pub struct Unwind {
    /// Dotted path of the array, without the dollar sign.
    pub path: String,
    /// Field that receives the offset.
    pub include_array_index: Option<String>,
    /// Keep documents whose array is missing, null or empty.
    pub preserve_null_and_empty_arrays: bool,
}

/// `$bucket`.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// What is looked up between the boundaries.
    pub group_by: Expression,
    /// Ascending, of one type class; a bucket includes its lower bound.
    pub boundaries: Vec<Bson>,
    /// Bucket of everything else; without it a value outside is an error.
    pub default: Option<Bson>,
    /// Output fields.
    pub output: Vec<GroupField>,
}

/// Documents on their way through a pipeline.
pub type Stream<'p> = Box<dyn Iterator<Item = Result<Document, QueryError>> + 'p>;

impl Pipeline {
    /// Reads a pipeline. In all stages `$$NOW` stands for the time of this call.
    ///
    /// # Errors
    /// 40324 for an unknown stage; `$lookup`, `$out`, `$merge` and others that need a collection are named as not
    /// supported here (238).
    pub fn parse(stages: &[Document]) -> Result<Self, QueryError> {
        Self::parse_at(stages, clock::now())
    }

    /// [`Pipeline::parse`] with the time given.
    ///
    /// # Errors
    /// As [`Pipeline::parse`].
    pub fn parse_at(stages: &[Document], now: DateTime) -> Result<Self, QueryError> {
        parse::pipeline(stages, now)
    }

    /// The stages.
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// The stages, owned.
    pub fn into_stages(self) -> Vec<Stage> {
        self.stages
    }

    /// A pipeline of these stages: what is left after a caller has taken some off the front.
    pub fn from_stages(stages: Vec<Stage>) -> Self {
        Pipeline { stages }
    }

    /// Runs over documents.
    ///
    /// # Errors
    /// Those of expressions; 292 when a blocking stage or the result holds more than [`MEMORY_BYTES_MAX`].
    pub fn run(&self, documents: impl IntoIterator<Item = Document>) -> Result<Vec<Document>, QueryError> {
        let workspace = Workspace::default();
        let mut result = self.run_in(documents.into_iter().map(Ok), &workspace)?;
        std::iter::from_fn(|| result.next().transpose()).collect()
    }

    /// Runs over documents, holding and spilling what the workspace allows.
    ///
    /// # Errors
    /// Those of expressions and of the documents; 292 when a blocking stage or the result does not fit.
    pub fn run_in(
        &self,
        documents: impl IntoIterator<Item = Result<Document, QueryError>>,
        workspace: &Workspace,
    ) -> Result<SpoolReader, QueryError> {
        let mut result = Spool::new(workspace.clone(), "the result of an aggregation");
        for document in self.stream_in(documents, workspace) {
            let document = document?;
            limits::check_built(&document)?;
            result.push(document)?;
        }
        result.finish()
    }

    /// Runs lazily: documents are taken and results made as they are asked for, save by stages that need all
    /// documents first (`$group`, `$sort`, `$bucket`, `$facet`, `$sample`, `$sortByCount`, `$count`). After an error
    /// nothing more is to be asked for.
    pub fn stream<'p, I>(&'p self, documents: I) -> Stream<'p>
    where
        I: IntoIterator<Item = Result<Document, QueryError>>,
        I::IntoIter: 'p,
    {
        self.stream_in(documents, &Workspace::default())
    }

    /// The same in a workspace.
    pub fn stream_in<'p, I>(&'p self, documents: I, workspace: &Workspace) -> Stream<'p>
    where
        I: IntoIterator<Item = Result<Document, QueryError>>,
        I::IntoIter: 'p,
    {
        let mut stream: Stream<'p> = Box::new(documents.into_iter());
        for (position, stage) in self.stages.iter().enumerate() {
            let following = self.stages.get(position + 1..).unwrap_or_default();
            stream = stages::apply(stage, following, stream, workspace);
        }
        stream
    }
}

/// Most bytes of a document made in a pipeline.
const MADE_BYTES_MAX: usize = 4 * limits::DOCUMENT_BYTES_MAX;

/// Checks a document a stage has made: it may exceed what can be stored, but not without end.
fn check_made(document: Document) -> Result<Document, QueryError> {
    let bytes = limits::document_bytes(&document, limits::DEPTH_MAX)?;
    if bytes > MADE_BYTES_MAX {
        return Err(QueryError::new(
            10334,
            "BSONObjectTooLarge",
            format!("a document of {bytes} bytes was made in the pipeline; the limit is {MADE_BYTES_MAX}"),
        ));
    }
    Ok(document)
}

#[cfg(test)]
mod tests;
