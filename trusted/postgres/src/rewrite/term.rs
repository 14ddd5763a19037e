//! Which term of a column an operation uses, and how values are put beside it.

use super::analysis::{Analysis, Reference};
use super::constant::{Constant, Written, cast_agrees};
use super::moment::{assigned_moment, compared_moment};
use crate::catalog::{EQUALITY_SUFFIX, Encryption, ORDER_SUFFIX, Order, TEXT_SUFFIX};
use crate::column_type::ColumnType;
use crate::error::{SqlError, sqlstate};
use crate::plan::{Form, Gap, Piece, Side, Source, Value};
use crate::values::{MOMENT, is_finer};
use std::sync::Arc;

/// A term of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Term {
    /// Equality terms.
    Equality,
    /// Labels or ciphertexts of the column's order.
    Order,
    /// Names that words of texts are entered under.
    Text,
}

impl Term {
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Equality => EQUALITY_SUFFIX,
            Self::Order => ORDER_SUFFIX,
            Self::Text => TEXT_SUFFIX,
        }
    }

    /// The type of its column.
    pub(crate) fn kind(self, encryption: &Encryption) -> &'static str {
        match self {
            Self::Equality | Self::Text => "bytea",
            Self::Order => encryption.order.unwrap_or_default().kind(),
        }
    }

    /// Any one of the terms of a group's rows, which are of equal values.
    pub(super) fn any_of(self, encryption: &Encryption, text: &str) -> String {
        match self.kind(encryption) {
            "bigint" => format!("min({text})"),
            _ => format!("arras.any_of({text})"),
        }
    }

    /// The operation that asks for it.
    pub(crate) fn operation(self) -> &'static str {
        match self {
            Self::Equality => "equality",
            Self::Order => "order",
            Self::Text => "text",
        }
    }
}

impl Encryption {
    /// The term by which equal values are found: that of the order if there is nothing else and the same values share one.
    pub(super) fn equal_by(&self) -> Option<Term> {
        let ordered = self.order.filter(|order| order.is_deterministic());
        self.equality.map(|_| Term::Equality).or(ordered.map(|_| Term::Order))
    }

    pub(super) fn has(&self, term: Term) -> bool {
        match term {
            Term::Equality => self.equality.is_some(),
            Term::Order => self.order.is_some(),
            Term::Text => self.text.is_some(),
        }
    }

    /// The terms that equal values share, and groups are made by.
    pub(super) fn shared_terms(&self) -> impl Iterator<Item = Term> {
        let random = self.order.is_some_and(|order| !order.is_deterministic());
        self.terms().filter(move |term| match term {
            Term::Equality => true,
            Term::Order => !random,
            Term::Text => false,
        })
    }

    /// Are values found by an index of the term? One that a function compares serves equality only, where nothing else does.
    pub(super) fn is_found_by(&self, term: Term) -> bool {
        match (term, self.order) {
            (Term::Equality | Term::Text, _) | (Term::Order, None) => true,
            (Term::Order, Some(order)) => order.sorts() || self.equal_by() == Some(Term::Order),
        }
    }

    /// The terms that are stored beside the sealed value.
    pub(crate) fn terms(&self) -> impl Iterator<Item = Term> {
        [Term::Equality, Term::Order, Term::Text].into_iter().filter(|term| self.has(*term))
    }
}

/// What the database calls to find the label of a stored ciphertext.
const LABEL_OF: &str = "arras.mope_order";
/// What the database calls to find what labels are compared with.
const BOUND_OF: &str = "arras.mope_bound";
/// What the database calls to see that a name may still be stored.
const NAME_OF: &str = "arras.text_name";

/// The name that is stored of a text, an expression of what [`arras_service::words::Words::enter`] gives.
pub(super) fn stored_name(encryption: &Encryption, entered: &str) -> String {
    format!("{NAME_OF}('{}'::bigint, {entered})", i64::from_be_bytes(encryption.id))
}

/// What is stored of a term of order, a ciphertext or an expression of one: the label that the database has for it, or itself.
pub(super) fn stored_order(encryption: &Encryption, ciphertext: &str) -> String {
    if encryption.labels().is_none() {
        return ciphertext.to_owned();
    }
    format!("{LABEL_OF}('{}'::bigint, {ciphertext})", i64::from_be_bytes(encryption.id))
}

/// A value's place in a text, as it stands there in its form.
pub(super) fn form_pieces(form: &Form, position: usize) -> Vec<Piece> {
    let call = |function: &str, encryption: &Encryption| {
        let id = i64::from_be_bytes(encryption.id);
        vec![
            Piece::Text(format!("{function}('{id}'::bigint, ")),
            Piece::Value(position),
            Piece::Text(")".into()),
        ]
    };
    let of_labels = |function: &str, encryption: &Encryption| match encryption.labels() {
        None => vec![Piece::Value(position)],
        Some(_) => call(function, encryption),
    };
    match form {
        Form::Plain
        | Form::Presence
        | Form::Sealed(_)
        | Form::SealedArray(_)
        | Form::Equality(_)
| Form::EqualTo(_)
        | Form::EqualityArray(_)
| Form::EqualToArray(_)
        // Each member is one's that is taken out.
        | Form::OrderArray(_)
        | Form::TextArray(_)
        | Form::Found(..)
        | Form::FoundEmpty(..) => vec![Piece::Value(position)],
        Form::Order(encryption) => of_labels(LABEL_OF, encryption),
        Form::Bound(encryption, ..) => of_labels(BOUND_OF, encryption),
        Form::Text(encryption) => call(NAME_OF, encryption),
        Form::Default(_) => {
            let [before, behind] = MOMENT.map(|text| Piece::Text(text.into()));
            vec![before, Piece::Value(position), behind]
        }
    }
}

impl Analysis<'_> {
    /// That terms which a function compares are not sorted by, or that equal values have none in common.
    pub(super) fn unsorted(&self, reference: &Reference, reader: &str, order: Order) -> SqlError {
        if order.hides_frequency() {
            return self.scattered(reference, reader);
        }
        let (label, name) = (&reference.encryption.label, order.name());
        let message = format!(
            "column {label} is encrypted with order = \"{name}\", whose ciphertexts are compared and not sorted: {reader} needs \
             another"
        );
        let hint = format!(
            "Sort in the application, or add a column with order = \"mope\" to the schema file and copy the values of {label}."
        );
        self.unsupported(reference.tokens.end.saturating_sub(1), message, &hint)
    }

    /// The term of a reference by which values are sorted, or found equal, or why there is none.
    pub(super) fn need(
        &self,
        reference: &Reference,
        reader: &str,
        term: Option<Term>,
    ) -> Result<Term, SqlError> {
        let found = self.need_compared(reference, reader, term)?;
        match reference.encryption.order {
            Some(order) if term == Some(Term::Order) && !order.sorts() => {
                Err(self.unsorted(reference, reader, order))
            }
            Some(_) | None => Ok(found),
        }
    }

    /// The same of a term that need not be sorted by.
    pub(super) fn need_compared(
        &self,
        reference: &Reference,
        reader: &str,
        term: Option<Term>,
    ) -> Result<Term, SqlError> {
        let wanted = term.or(reference.encryption.equal_by()).filter(|term| reference.encryption.has(*term));
        let Some(found) = wanted else {
            let operation = term.unwrap_or(Term::Equality).operation();
            return Err(self.undeclared(reference, reader, operation));
        };
        if !reference.terms {
            return Err(self.unreadable(reference, &format!("outside the query that computes it, {reader}")));
        }
        Ok(found)
    }

    /// The pieces of a constant as a value of a column in a form; the constant may be one.
    pub(super) fn value_pieces(&mut self, constant: &Constant, form: Form) -> Result<Vec<Piece>, SqlError> {
        let encryption = form.encryption().cloned();
        // Beside moments a day is its first, in the session's zone.
        let compares = matches!(form, Form::Bound(..) | Form::EqualTo(_));
        let of_moments = encryption.as_ref().filter(|of| of.kind != ColumnType::Date);
        let moment = of_moments.and_then(|of| match compares {
            true => compared_moment(constant, of.kind),
            false => assigned_moment(constant, of.kind),
        });
        let constant = moment.as_ref().unwrap_or(constant);
        if let Some(encryption) = &encryption {
            let sent_as = sent_as(constant, &form).filter(|_| compares);
            if !sent_as.is_some_and(|sent| is_finer(sent, encryption.kind)) {
                self.check_constant(constant, encryption)?;
            }
            if matches!(form, Form::Bound(..)) {
                self.check_compared(constant, encryption)?;
                self.type_compared(constant, encryption);
            }
            let array = form.is_array();
            let oid = if array { encryption.kind.array_oid() } else { encryption.kind.oid() };
            let cast = constant.cast_kind().map(|kind| if array { kind.array_oid() } else { kind.oid() });
            self.type_parameter(&constant.source, cast.unwrap_or(oid));
        }
        let at = self.lexemes.bytes(constant.tokens.start).start;
        let sent_as = sent_as(constant, &form);
        let pieces_of = form.clone();
        let position = self.edits.value(Value { source: constant.source.clone(), form, sent_as, at });
        Ok(form_pieces(&pieces_of, position))
    }

    /// The same where nothing beside it says its type: NULL alone would be a text.
    pub(super) fn typed_pieces(&mut self, constant: &Constant, form: Form) -> Result<Vec<Piece>, SqlError> {
        let is_null = constant.source == Source::Constant(None);
        let untyped = is_null
            && match &form {
                Form::Sealed(_) | Form::Equality(_) | Form::EqualTo(_) => true,
                Form::Order(encryption) => encryption.order_is_ciphertext(),
                // The function says its type.
                _ => false,
            };
        let mut pieces = self.value_pieces(constant, form)?;
        pieces.extend(untyped.then(|| Piece::Text("::bytea".into())));
        Ok(pieces)
    }

    /// A constant becomes a value of a column in a form.
    pub(super) fn replace_constant(&mut self, constant: &Constant, form: Form) -> Result<(), SqlError> {
        let pieces = self.value_pieces(constant, form)?;
        let bytes = self.bytes(&constant.tokens);
        self.edits.replace(bytes, pieces);
        Ok(())
    }

    /// A constant that a column is compared with becomes a value of it.
    pub(super) fn replace_compared(&mut self, constant: &Constant, form: Form) -> Result<(), SqlError> {
        if let Some(encryption) = form.encryption().cloned() {
            self.check_compared(constant, &encryption)?;
            self.type_compared(constant, &encryption);
        }
        self.replace_constant(constant, form)
    }

    /// Texts are compared as `text`, whatever the column's type is: so is a parameter whose type is left open.
    fn type_compared(&mut self, constant: &Constant, encryption: &Encryption) {
        if let (ColumnType::Varchar(_), None) = (encryption.kind, &constant.cast) {
            self.type_parameter(&constant.source, ColumnType::Text.oid());
        }
    }

    /// Beside a `real` digits are a number of double precision, which may be no `real` at all: `0.1` is not `0.1::real`.
    fn check_compared(&self, constant: &Constant, encryption: &Encryption) -> Result<(), SqlError> {
        let Constant { source: Source::Constant(Some(digits)), written: Written::Number, cast: None, tokens } =
            constant
        else {
            return Ok(());
        };
        #[allow(clippy::cast_possible_truncation, reason = "whether it is one is what is asked")]
        let is_one = digits.parse::<f64>().is_ok_and(|number| f64::from(number as f32) == number);
        if encryption.kind != ColumnType::Real || is_one {
            return Ok(());
        }
        Err(self.unsupported(
            tokens.start,
            format!(
                "column {} is of type real, and {digits} beside it is of double precision",
                encryption.label
            ),
            "Cast the constant to real, or write it in quotes.",
        ))
    }

    pub(super) fn check_constant(
        &self,
        constant: &Constant,
        encryption: &Encryption,
    ) -> Result<(), SqlError> {
        let fits = match constant.written {
            Written::Any => true,
            Written::Boolean => encryption.kind == ColumnType::Boolean,
            Written::Number => match encryption.kind {
                ColumnType::SmallInt
                | ColumnType::Integer
                | ColumnType::BigInt
                | ColumnType::Real
                | ColumnType::DoublePrecision
                | ColumnType::Numeric(_) => true,
                ColumnType::Text
                | ColumnType::Varchar(_)
                | ColumnType::Date
                | ColumnType::Timestamp(_)
                | ColumnType::TimestampTz(_)
                | ColumnType::Uuid
                | ColumnType::Boolean
                | ColumnType::Bytea
                | ColumnType::Json
                | ColumnType::Jsonb => false,
            },
        };
        let label = &encryption.label;
        if !fits {
            let message = format!("column {label} is of type {}, and this is none", encryption.kind.name());
            return Err(self.at(SqlError::new(sqlstate::DATATYPE_MISMATCH, message), constant.tokens.start));
        }
        match &constant.cast {
            Some(_) if is_whole(constant) && takes_integers(encryption.kind) => Ok(()),
            // As the session's time zone has it.
            Some(_)
                if constant.cast_kind().is_some_and(|kind| kind.is_time() && encryption.kind.is_time()) =>
            {
                Ok(())
            }
            Some(name) if !cast_agrees(name, encryption.kind) => Err(self.unsupported(
                constant.tokens.start,
                format!(
                    "column {label} is of type {}, and a value is cast to {name}",
                    encryption.kind.name()
                ),
                "Leave out the cast, or cast to the column's type.",
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// The form in which a constant is compared with a term for equality.
    pub(super) fn equal_form(encryption: &Arc<Encryption>, term: Term) -> Form {
        match term {
            // A name is compared with no constant.
            Term::Equality | Term::Text => Form::EqualTo(encryption.clone()),
            Term::Order => Form::Bound(encryption.clone(), Side::Equal, Gap::Outside),
        }
    }
}

/// Is it a value cast to a type of integers?
fn is_whole(constant: &Constant) -> bool {
    let is_array = constant.cast.as_deref().is_some_and(|name| name.ends_with("[]"));
    constant.cast_kind().is_some_and(ColumnType::is_integer) && !is_array
}

/// Is an integer that is compared with the column, or stored in it, the same number there?
fn takes_integers(kind: ColumnType) -> bool {
    matches!(kind, ColumnType::Numeric(_))
}

/// The type that a constant is cast to, or that its digits have beside a column that is compared with it, if that has values between
/// the column's.
pub(super) fn sent_as(constant: &Constant, form: &Form) -> Option<ColumnType> {
    let encryption = form.encryption()?;
    if constant.cast.is_some() {
        return constant.cast_kind();
    }
    let Source::Constant(Some(digits)) = &constant.source else { return None };
    let is_decimal = constant.written == Written::Number && digits.parse::<i64>().is_err();
    let kind = ColumnType::Numeric(None);
    let compares = matches!(form, Form::Bound(..) | Form::EqualTo(_));
    (compares && is_decimal && is_finer(kind, encryption.kind)).then_some(kind)
}
