//! What becomes of a statement: the interface between the analysis of SQL and the session that runs it.
//!
//! Values are encrypted when a statement is bound, and that may take rounds. So what analysis makes of a statement is a
//! template: the client's own text, its tokens around encrypted columns replaced, with places for values, and a list of how
//! each is computed from the client's parameters and constants. A session either sends the template with parameters
//! ([`Rewritten::extended_text`]) or with the values written in ([`Rewritten::simple_text`]).

mod derived;
mod form;

use crate::catalog::{Encryption, Tables, Taken};
use crate::column_type::ColumnType;
use crate::error::SqlError;
use crate::moment::{Moment, OfTime};
use crate::named::Naming;
pub use derived::{Called, Compared, Derived, DerivedExpression, DerivedPart};
pub use form::{Form, Gap, Side};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// One statement of a client's text.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// Its bytes in the client's text, without the semicolon.
    pub span: Range<usize>,
    /// What is done with it.
    pub action: Action,
    /// What it does to what the session has named in SQL, once it is complete.
    pub naming: Option<Naming>,
    /// The name of the statement that it is to prepare in SQL.
    pub prepares: Option<String>,
    /// Tables whose columns may be others behind it, or in other places.
    pub changes: Tables,
}

/// What is done with a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// The client's text goes on as it is, and so do parameters and results.
    Unchanged,
    /// Another text goes on in its place.
    Rewritten(Rewritten),
    /// Several statements go on in its place.
    Program(Box<Program>),
    /// It is not run. A text's statements before it are.
    Refused(SqlError),
}

impl Action {
    /// Is one of the statements that go on so?
    pub(crate) fn any(&self, is_so: impl Fn(&Rewritten) -> bool) -> bool {
        match self {
            Self::Unchanged | Self::Refused(_) => false,
            Self::Rewritten(one) => is_so(one),
            Self::Program(program) => program.any(is_so),
        }
    }
}

impl Program {
    /// Is one of the statements so?
    pub(crate) fn any(&self, is_so: impl Fn(&Rewritten) -> bool) -> bool {
        match self {
            Self::Layout(layout) => layout.steps.iter().any(is_so),
            Self::Recompute(recompute) => is_so(&recompute.read) || is_so(&recompute.write),
            Self::CopyIn(copy) => is_so(&copy.insert),
            Self::CopyOut(copy) => is_so(&copy.read),
        }
    }
}

/// A statement in place of the client's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rewritten {
    /// The text, with the places of values.
    pub pieces: Vec<Piece>,
    /// The values that the pieces name: the physical parameters.
    pub values: Vec<Value>,
    /// For each of the client's parameters, from `$1`, what is known of its type.
    pub parameters: Vec<ParameterType>,
    /// What the result's columns are.
    pub outputs: Outputs,
    /// Columns whose labels it compares or copies while it writes or locks rows: a row that it waits for may come back with
    /// labels of another time than the rest of what it reads.
    pub locks: BTreeSet<[u8; 8]>,
    /// Columns whose defaults it stores, and those.
    pub defaults: BTreeMap<[u8; 8], Option<crate::catalog::Constant>>,
    /// Columns that it takes by their places.
    pub layouts: Vec<Taken>,
}

/// A part of a rewritten text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text as it stands.
    Text(String),
    /// The value of that position in [`Rewritten::values`].
    Value(usize),
}

/// A value that goes to the database: where it comes from, and as what it goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Where it comes from.
    pub source: Source,
    /// As what it goes.
    pub form: Form,
    /// The type that it is written or cast as: it is read by that, then becomes one of the column's, or is compared as what it is.
    pub sent_as: Option<ColumnType>,
    /// Byte of the client's text that an error of it is at.
    pub at: usize,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The client's parameter of that number, from 1.
    Parameter(u16),
    /// A constant of the text, in the type's text format; none is NULL.
    Constant(Option<String>),
    /// Constants of the text, members of an array.
    Constants(Vec<Option<String>>),
    /// A column of the row that a program has read, by its position in that step's outputs.
    Read(usize),
    /// What a program has computed, by its position in [`Recompute::computed`].
    Computed(usize),
    /// What hangs on when the transaction began.
    Moment(Moment),
}

/// What is known of a client's parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ParameterType {
    /// It is used as a plain value only: its type is what the database says of the physical parameter of that position in
    /// [`Rewritten::values`].
    Plain(usize),
    /// It is a value of an encrypted column: PostgreSQL's number of the type.
    Encrypted(u32),
    #[default]
    /// The statement does not use it.
    Unused,
}

/// What the columns of a result are.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Outputs {
    /// Nothing is encrypted: they go on as they are.
    #[default]
    AsSent,
    /// As listed, in order.
    Columns(Vec<Output>),
}

/// What a column of a result is.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// It goes on as it is.
    Plain,
    /// As many columns that go on as they are as the others leave: of a relation that is not known. Once at most.
    PlainRest,
    /// Sealed: opened by the proxy, shown as the column's logical type.
    Sealed(Arc<Encryption>),
    /// A `bytea[]` of sealed values, which the proxy opens and folds into one.
    Fold(Fold, Arc<Encryption>),
    /// A `bytea[]` of several parts, an empty member between two, which the proxy computes with.
    Derived(Arc<Derived>),
}

/// What the proxy makes of several values of a column; NULL is left out, and what is left of nothing is NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// Their sum.
    Sum,
    /// Their mean.
    Average,
}

/// Several statements in place of one.
#[derive(Clone, Debug, PartialEq)]
pub enum Program {
    /// A table's physical layout.
    Layout(Layout),
    /// New values from old ones.
    Recompute(Recompute),
    /// `COPY ... FROM`: rows that the proxy encrypts and stores.
    CopyIn(CopyIn),
    /// `COPY ... TO`: the rows of a query, which the proxy opens and writes.
    CopyOut(CopyOut),
}

/// Statements one after another, in the client's transaction or one of their own.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// The statements. Values are written into their texts, as PostgreSQL takes no parameters in them.
    pub steps: Vec<Rewritten>,
    /// The one whose tag and notices the client is answered with, by its position.
    pub answer: usize,
}

/// `UPDATE t SET c = c + 1`: rows are read under their locks, new values computed, and written, in one transaction.
/// `INSERT ... ON CONFLICT DO UPDATE SET c = t.c + 1`: rows are inserted, or those that are there locked and read, and written.
/// `INSERT INTO t SELECT ...`: rows are read, opened, sealed anew and written.
#[derive(Clone, Debug, PartialEq)]
pub struct Recompute {
    /// What is done with each row.
    pub verb: Verb,
    /// Reads what is computed with, and for an `UPDATE` last each row's `ctid`; an `UPDATE`'s locks the rows.
    pub read: Rewritten,
    /// What is computed of each row.
    pub computed: Vec<Computation>,
    /// Writes one row. Its values may be [`Source::Read`] (the `ctid`) and [`Source::Computed`]; what it returns is what
    /// the statement returns of the row. A client's parameter may be used by both statements, by one, or by what is computed:
    /// its type is that of the one that knows it.
    pub write: Rewritten,
}

/// What a program does with the rows that it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `UPDATE`
    Update,
    /// `INSERT`
    Insert,
    /// `INSERT` with `ON CONFLICT DO UPDATE`: the statement that is read from has written the rows already.
    Upsert,
}

impl Verb {
    /// What `CommandComplete` says before the number of rows.
    #[must_use]
    pub fn tag(self) -> &'static str {
        match self {
            Self::Update => "UPDATE",
            Self::Insert | Self::Upsert => "INSERT 0",
        }
    }
}

/// A value computed from a row and constants.
#[derive(Clone, Debug, PartialEq)]
pub struct Computation {
    /// What it is a value of, whose type it must have.
    pub column: Arc<Encryption>,
    /// What it is computed by, on the plaintext.
    pub expression: Expression,
}

/// An expression that the proxy computes.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// A column of the row that was read, by its position in the outputs, all of one type.
    Read(usize, Arc<Encryption>),
    /// The client's parameter of that number, beside values of the column's type, and what it is cast to.
    Parameter(u16, Arc<Encryption>, Option<ColumnType>),
    /// The same of a constant.
    Constant(String, Arc<Encryption>, Option<ColumnType>),
    /// A number in digits, of the type that they have beside values of the column's.
    Number(String, Arc<Encryption>),
    /// What hangs on when the transaction or the statement began, as a value of the column's type.
    Moment(Moment),
    /// A plain column of the row that was read: its type is not known, and is taken for the column's or a wider one.
    Plain(usize, Arc<Encryption>),
    /// Arithmetic as PostgreSQL's on that type.
    Arithmetic(Arithmetic, Box<Expression>, Box<Expression>),
    /// The first that is not NULL.
    Coalesce(Vec<Expression>),
    /// With the other sign.
    Negated(Box<Expression>),
    /// The one of the number, from 1, that a plain column of the row says; NULL without one.
    Chosen(usize, Vec<Expression>),
    /// What is made of a day or a moment.
    OfTime(OfTime, Box<Expression>),
    /// As a cast makes it.
    Cast(Box<Expression>, ColumnType),
    /// As a column has it that it is assigned to.
    Assigned(Box<Expression>, Arc<Encryption>),
    /// What is new where a row is there that was to be inserted, else what is kept.
    Upserted {
        /// The column of the row that was read which says whether one is there; the next says whether triggers would be run twice.
        is_there: usize,
        /// Of a row that is there.
        new: Box<Expression>,
        /// Of one that was inserted.
        kept: Box<Expression>,
    },
}

/// An operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `*`
    Times,
    /// `/`
    Over,
    /// `%`
    Modulo,
    /// `||`
    Concatenated,
}

/// Rows for an encrypted table, from the client's stream.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyIn {
    /// The table's name, and those of the columns, for errors.
    pub table: String,
    /// The columns' names.
    pub names: Vec<String>,
    /// For each column of the client's rows, what it is of; none of a plain one.
    pub columns: Vec<Option<Arc<Encryption>>>,
    /// How the rows are written.
    pub format: CopyFormat,
    /// Stores one row: values are [`Source::Read`], by the column of the client's row.
    pub insert: Rewritten,
}

/// Rows of a query, for the client's stream.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyOut {
    /// Reads them.
    pub read: Rewritten,
    /// How they are written.
    pub format: CopyFormat,
}

/// How rows of `COPY` are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyFormat {
    /// In binary, of which nothing else is said?
    pub binary: bool,
    /// Fields in quotes, doubled inside (`CSV`), or with backslashes (text)?
    pub csv: bool,
    /// Between fields.
    pub delimiter: u8,
    /// What NULL is.
    pub null: String,
    /// Is the first line of names?
    pub header: bool,
    /// Around fields (CSV).
    pub quote: u8,
    /// Before a quote inside a field (CSV).
    pub escape: u8,
}

impl CopyFormat {
    /// The text format, as it is without options.
    #[must_use]
    pub fn text() -> Self {
        let (quote, escape) = (b'"', b'"');
        Self { binary: false, csv: false, delimiter: b'\t', null: "\\N".into(), header: false, quote, escape }
    }

    /// CSV, as it is without options.
    #[must_use]
    pub fn csv() -> Self {
        Self { csv: true, delimiter: b',', null: String::new(), ..Self::text() }
    }

    /// Binary, which has no options.
    #[must_use]
    pub fn binary() -> Self {
        Self { binary: true, ..Self::text() }
    }
}

impl Rewritten {
    /// A statement without values.
    #[must_use]
    pub fn plain(text: impl Into<String>) -> Self {
        Self { pieces: vec![Piece::Text(text.into())], ..Self::default() }
    }

    /// The columns whose labels the statement stores, or compares where it writes or locks rows, rising: their order must be
    /// held to the transaction's end (`arras.mope_hold`, in a statement before).
    #[must_use]
    pub fn held(&self) -> Vec<[u8; 8]> {
        let stored = self.values.iter().filter_map(|value| match &value.form {
            Form::Order(encryption) | Form::OrderArray(encryption) => {
                encryption.labels().map(|_| encryption.id)
            }
            Form::Plain
            | Form::Presence
            | Form::Sealed(_)
            | Form::Default(_)
            | Form::SealedArray(_)
            | Form::Equality(_)
            | Form::EqualTo(_)
            | Form::EqualityArray(_)
            | Form::EqualToArray(_)
            | Form::Text(_)
            | Form::TextArray(_)
            | Form::Found(..)
            | Form::FoundEmpty(..)
            | Form::Bound(..) => None,
        });
        stored.chain(self.locks.iter().copied()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The text for the extended protocol: the value of position 0 is `$1`.
    #[must_use]
    pub fn extended_text(&self) -> String {
        self.render(|position| format!("${}", position + 1))
    }

    /// The text with the values written in, for the simple protocol.
    ///
    /// # Errors
    /// There are more places than values: a defect of the caller.
    pub fn simple_text(&self, values: &[PhysicalValue]) -> Result<String, SqlError> {
        let missing = || SqlError::new(crate::error::sqlstate::INTERNAL_ERROR, "a value was not computed");
        let fits = values.len() == self.values.len();
        fits.then(|| self.render(|position| values.get(position).map_or_else(String::new, literal)))
            .ok_or_else(missing)
    }

    fn render(&self, value: impl Fn(usize) -> String) -> String {
        let part = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Value(position) => value(*position),
        };
        self.pieces.iter().map(part).collect()
    }
}

/// A value as it goes to the database.
#[derive(Clone, PartialEq, Eq)]
pub enum PhysicalValue {
    /// NULL.
    Null,
    /// `bytea`.
    Bytes(Vec<u8>),
    /// `bytea[]`, of one dimension; none is a NULL in it.
    Array(Vec<Option<Vec<u8>>>),
    /// The client's parameter of that number, as it came.
    Client(u16),
    /// Text that PostgreSQL is to read as the type that the place has.
    Text(String),
}

/// A value as a constant of SQL.
fn literal(value: &PhysicalValue) -> String {
    match value {
        // What the client binds cannot be written into a text: a simple query binds nothing.
        PhysicalValue::Null | PhysicalValue::Client(_) => "NULL".into(),
        PhysicalValue::Bytes(bytes) => format!("'\\x{}'::bytea", hexadecimal(bytes)),
        PhysicalValue::Array(members) => {
            let member = |member: &Option<Vec<u8>>| {
                member.as_ref().map_or_else(|| "NULL".into(), |bytes| format!("'\\x{}'", hexadecimal(bytes)))
            };
            let members: Vec<String> = members.iter().map(member).collect();
            format!("ARRAY[{}]::bytea[]", members.join(","))
        }
        PhysicalValue::Text(text) => format!("'{}'", text.replace('\'', "''")),
    }
}

/// Bytes in hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or_default();
    let mut digits = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        digits.push(digit(byte >> 4));
        digits.push(digit(byte & 15));
    }
    digits
}
