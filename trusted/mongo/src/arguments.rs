//! The fields of a command, taken one by one; what is left over at the end is an error, so that no option a
//! client sends is ignored by accident.

use crate::error::CommandError;
use crate::wire::Sequence;
use arras_documents::order::type_name;
use bson::{Bson, Document};
use std::time::Duration;

/// Fields any command may carry. They are read by the dispatcher or, like `comment`, change nothing.
const GENERIC: &[&str] = &[
    "$clusterTime",
    "$db",
    "$readPreference",
    "apiDeprecationErrors",
    "apiStrict",
    "apiVersion",
    "autocommit",
    "comment",
    "lsid",
    "maxTimeMS",
    "mayBypassWriteBlocking",
    "readConcern",
    "startTransaction",
    "txnNumber",
    "writeConcern",
];

/// The fields of one command (or of one statement in it) that were not taken yet.
#[derive(Debug)]
pub(crate) struct Arguments {
    /// Command name, for error texts.
    command: &'static str,
    fields: Document,
    sequences: Vec<Sequence>,
}

impl Arguments {
    /// The fields of a command. Generic fields are removed; read them before.
    pub(crate) fn new(command: &'static str, mut fields: Document, sequences: Vec<Sequence>) -> Self {
        for name in GENERIC {
            fields.remove(name);
        }
        Self { command, fields, sequences }
    }

    /// The fields of a statement inside a command, such as an element of `updates`.
    pub(crate) fn of_statement(command: &'static str, fields: Document) -> Self {
        Self { command, fields, sequences: Vec::new() }
    }

    /// The command's name.
    pub(crate) fn command(&self) -> &'static str {
        self.command
    }

    /// Takes a field of any type. Null counts as absent where MongoDB lets it, that is nearly everywhere.
    pub(crate) fn take(&mut self, name: &str) -> Option<Bson> {
        self.fields.remove(name)
    }

    /// Takes a document.
    pub(crate) fn document(&mut self, name: &str) -> Result<Option<Document>, CommandError> {
        match self.take(name) {
            None | Some(Bson::Null) => Ok(None),
            Some(Bson::Document(document)) => Ok(Some(document)),
            Some(other) => Err(self.wrong_type(name, &other, "object")),
        }
    }

    /// Takes a string.
    pub(crate) fn string(&mut self, name: &str) -> Result<Option<String>, CommandError> {
        match self.take(name) {
            None | Some(Bson::Null) => Ok(None),
            Some(Bson::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong_type(name, &other, "string")),
        }
    }

    /// Takes a boolean; numbers count as booleans, as in MongoDB.
    pub(crate) fn boolean(&mut self, name: &str) -> Result<Option<bool>, CommandError> {
        match self.take(name) {
            None | Some(Bson::Null) => Ok(None),
            Some(Bson::Boolean(value)) => Ok(Some(value)),
            Some(Bson::Int32(value)) => Ok(Some(value != 0)),
            Some(Bson::Int64(value)) => Ok(Some(value != 0)),
            Some(Bson::Double(value)) => Ok(Some(value != 0.0)),
            Some(other) => Err(self.wrong_type(name, &other, "bool")),
        }
    }

    /// Takes a whole number of any numeric type.
    pub(crate) fn integer(&mut self, name: &str) -> Result<Option<i64>, CommandError> {
        match self.take(name) {
            None | Some(Bson::Null) => Ok(None),
            Some(value) => match whole_number(&value) {
                Some(number) => Ok(Some(number)),
                None => Err(self.wrong_type(name, &value, "long")),
            },
        }
    }

    /// Takes a whole number that is not negative.
    pub(crate) fn unsigned(&mut self, name: &str) -> Result<Option<u64>, CommandError> {
        self.integer(name)?
            .map(|number| {
                u64::try_from(number).map_err(|_| {
                    let text = format!("BSON field '{name}' value must be >= 0, actual value '{number}'");
                    CommandError::new(51024, "Location51024", text)
                })
            })
            .transpose()
    }

    /// Takes an array.
    pub(crate) fn array(&mut self, name: &str) -> Result<Option<Vec<Bson>>, CommandError> {
        match self.take(name) {
            None | Some(Bson::Null) => Ok(None),
            Some(Bson::Array(values)) => Ok(Some(values)),
            Some(other) => Err(self.wrong_type(name, &other, "array")),
        }
    }

    /// Takes an array of documents, from the command or from a document sequence of that name.
    pub(crate) fn documents(&mut self, name: &str) -> Result<Option<Vec<Document>>, CommandError> {
        if let Some(position) = self.sequences.iter().position(|sequence| sequence.identifier == name) {
            return Ok(Some(self.sequences.swap_remove(position).documents));
        }
        let Some(values) = self.array(name)? else {
            return Ok(None);
        };
        let element = |(position, value): (usize, Bson)| match value {
            Bson::Document(document) => Ok(document),
            other => Err(self.wrong_type(&format!("{name}.{position}"), &other, "object")),
        };
        values.into_iter().enumerate().map(element).collect::<Result<_, _>>().map(Some)
    }

    /// The error for a required field that is not there.
    pub(crate) fn missing(&self, name: &str) -> CommandError {
        let text = format!("BSON field '{}.{name}' is missing but a required field", self.command);
        CommandError::new(40414, "IDLFailedToParse", text)
    }

    /// Refuses fields that would change the result, unless their value asks for nothing (`false`, null, an
    /// empty document, the simple collation).
    pub(crate) fn refuse(&mut self, names: &[&str]) -> Result<(), CommandError> {
        for name in names {
            if self.take(name).is_some_and(|value| !asks_for_nothing(&value)) {
                return Err(CommandError::unsupported(format_args!("'{name}' in {}", self.command)));
            }
        }
        Ok(())
    }

    /// Drops fields that change nothing here.
    pub(crate) fn ignore(&mut self, names: &[&str]) {
        for name in names {
            self.fields.remove(name);
        }
    }

    /// Makes a field an empty document if it is absent.
    pub(crate) fn default_document(&mut self, name: &str) {
        if !self.fields.contains_key(name) {
            self.fields.insert(name, Document::new());
        }
    }

    /// Takes whatever is left.
    pub(crate) fn rest(self) -> Document {
        self.fields
    }

    /// Ends the taking: anything left is an unknown field.
    pub(crate) fn finish(self) -> Result<(), CommandError> {
        let left = self.fields.keys().next().or(self.sequences.first().map(|sequence| &sequence.identifier));
        match left {
            None => Ok(()),
            Some(name) => {
                let text = format!("BSON field '{}.{name}' is an unknown field.", self.command);
                Err(CommandError::new(40415, "IDLUnknownField", text))
            }
        }
    }

    fn wrong_type(&self, name: &str, value: &Bson, expected: &str) -> CommandError {
        CommandError::type_mismatch(format!(
            "BSON field '{}.{name}' is the wrong type '{}', expected type '{expected}'",
            self.command,
            type_name(value)
        ))
    }
}

fn asks_for_nothing(value: &Bson) -> bool {
    match value {
        Bson::Null | Bson::Boolean(false) => true,
        Bson::Document(document) => {
            document.is_empty() || (document.len() == 1 && matches!(document.get_str("locale"), Ok("simple")))
        }
        Bson::Array(values) => values.is_empty(),
        _ => false,
    }
}

/// The value as an integer if it is a number without a fraction.
pub(crate) fn whole_number(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(number) => Some(i64::from(*number)),
        Bson::Int64(number) => Some(*number),
        // The cast saturates only outside this range.
        #[allow(clippy::cast_possible_truncation)]
        Bson::Double(number) if number.fract() == 0.0 && number.abs() < 9.2e18 => Some(*number as i64),
        Bson::Decimal128(number) => {
            number.to_string().parse::<f64>().ok().and_then(|number| whole_number(&Bson::Double(number)))
        }
        _ => None,
    }
}

/// A command's `maxTimeMS`; zero means none, as in MongoDB.
pub(crate) fn time_limit(command: &Document) -> Result<Option<Duration>, CommandError> {
    let Some(value) = command.get("maxTimeMS") else {
        return Ok(None);
    };
    let limit =
        whole_number(value).ok_or_else(|| CommandError::bad_value("maxTimeMS must be a whole number"))?;
    let milliseconds = u64::try_from(limit)
        .ok()
        .filter(|limit| *limit <= i32::MAX.cast_unsigned().into())
        .ok_or_else(|| {
            CommandError::bad_value(format!("{limit} value for maxTimeMS is out of range [0, 2147483647]"))
        })?;
    Ok((milliseconds > 0).then(|| Duration::from_millis(milliseconds)))
}
