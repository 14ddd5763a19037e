//! What goes to the database in place of a client's statement, encoded.

use super::reading::{Part, Statement, put_value};
use crate::error::{SqlError, sqlstate};
use crate::fields::Bind;
use crate::named::Naming;
use crate::plan::{Form, Layout, ParameterType, PhysicalValue, Program, Rewritten, Source, Value};
use crate::replies;

/// What has the columns' order held whose labels a statement stores, if it stores any.
pub(super) fn holding(rewritten: &Rewritten) -> Option<String> {
    crate::hold_statement(rewritten.held())
}

/// What a query is sent for a program.
pub(super) fn steps(program: Program, naming: Option<Naming>) -> Result<Vec<(String, Part)>, SqlError> {
    match program {
        Program::Layout(layout) => {
            let mut naming = naming;
            let part = |(place, step): (usize, Rewritten)| match place == layout.answer {
                true => (step.extended_text(), Part::Shown(step.outputs, naming.take())),
                false => (step.extended_text(), Part::Hidden),
            };
            Ok(layout.steps.into_iter().enumerate().map(part).collect())
        }
        Program::Recompute(_) | Program::CopyIn(_) | Program::CopyOut(_) => {
            Err(SqlError::new(sqlstate::INTERNAL_ERROR, "a program of rows is not run as a text"))
        }
    }
}

/// A layout's step that is answered, those before it and those behind it.
pub(super) fn laid_out(layout: Layout) -> Result<(Rewritten, Vec<String>, Vec<String>), SqlError> {
    let texts = |steps: &[Rewritten]| steps.iter().map(Rewritten::extended_text).collect::<Vec<_>>();
    let Layout { steps, answer } = layout;
    match (steps.get(..answer), steps.get(answer), steps.get(answer + 1..)) {
        (Some(before), Some(step), Some(after)) => Ok((step.clone(), texts(before), texts(after))),
        _ => Err(SqlError::new(sqlstate::INTERNAL_ERROR, "a layout without a step that is answered")),
    }
}

/// That a `COPY` cannot stand before other statements of a query.
pub(super) fn before_others(text: &str, at: usize) -> SqlError {
    SqlError::new(
        sqlstate::FEATURE_NOT_SUPPORTED,
        "COPY FROM STDIN is the last statement of a text in which values of encrypted columns are computed",
    )
    .hint("Send it by itself.")
    .at(text, at)
}

pub(super) fn format_of(formats: &[i16], place: usize) -> i16 {
    match formats {
        [] => 0,
        [all] => *all,
        each => each.get(place).copied().unwrap_or_default(),
    }
}

/// Types that the physical parameters are declared as.
pub(super) fn types_of(rewritten: &Rewritten, declared: &[u32]) -> Vec<u32> {
    let of = |value: &Value| match (&value.form, &value.source) {
        // What is also an encrypted column's is of the type that the client is told: in that it sends it.
        (Form::Plain, Source::Parameter(number)) => usize::from(*number).checked_sub(1).map_or(0, |place| {
            let declared = declared.get(place).copied().filter(|declared| *declared != 0);
            declared.unwrap_or_else(|| match rewritten.parameters.get(place) {
                Some(ParameterType::Encrypted(told)) => *told,
                Some(ParameterType::Plain(_) | ParameterType::Unused) | None => 0,
            })
        }),
        (form, _) => form.oid().unwrap_or_default(),
    };
    rewritten.values.iter().map(of).collect()
}

/// That a statement has as few values as the protocol counts.
pub(super) fn check_count(rewritten: &Rewritten) -> Result<(), SqlError> {
    let count = rewritten.values.len();
    if count <= usize::from(u16::MAX) {
        return Ok(());
    }
    let message = format!("{count} values of encrypted columns and others are too many for one statement");
    let hint = "A value of an encrypted column is up to three. Send fewer rows at a time.";
    Err(SqlError::new("54023", message).hint(hint))
}

/// The type of what a client binds: the one that it declared, or the one that it was told; 0 if neither is known.
pub(super) fn argument_type(statement: &Statement, place: usize) -> u32 {
    let declared = statement.types.get(place).copied().unwrap_or_default();
    match statement.rewritten.parameters.get(place) {
        Some(ParameterType::Encrypted(told)) if declared == 0 => *told,
        Some(ParameterType::Encrypted(_) | ParameterType::Plain(_) | ParameterType::Unused) | None => {
            declared
        }
    }
}

/// What the proxy prepares beside the client's statements is called.
pub(super) const HIDDEN: &[u8] = b"arras";

/// `Close` of a statement, and so of its portals.
pub(super) fn close(out: &mut Vec<u8>, name: &[u8]) {
    replies::message(out, b'C', |out| {
        out.push(b'S');
        replies::string(out, name);
    });
}

/// `Close` of a portal: under its name another can be made.
pub(super) fn close_portal(out: &mut Vec<u8>, name: &[u8]) {
    replies::message(out, b'C', |out| {
        out.push(b'P');
        replies::string(out, name);
    });
}

/// `Execute` of all rows of a portal.
pub(super) fn execute(out: &mut Vec<u8>, portal: &[u8]) {
    execute_some(out, portal, 0);
}

/// `Execute` of so many rows of a portal; of all that are left where that is 0.
pub(super) fn execute_some(out: &mut Vec<u8>, portal: &[u8], rows: i32) {
    replies::message(out, b'E', |out| {
        replies::string(out, portal);
        out.extend_from_slice(&rows.to_be_bytes());
    });
}

/// `Parse`.
pub(super) fn parse(out: &mut Vec<u8>, name: &[u8], text: &str, types: &[u32]) {
    replies::message(out, b'P', |out| {
        replies::string(out, name);
        replies::string(out, text.as_bytes());
        out.extend_from_slice(&u16::try_from(types.len()).unwrap_or(u16::MAX).to_be_bytes());
        for oid in types {
            out.extend_from_slice(&oid.to_be_bytes());
        }
    });
}

/// `Bind` with the values that go to the database; the formats of results are the client's.
pub(super) fn bind(out: &mut Vec<u8>, asked: &Bind<'_>, values: &[PhysicalValue]) {
    let count = |count: usize| u16::try_from(count).unwrap_or(u16::MAX).to_be_bytes();
    let place = |number: u16| usize::from(number).saturating_sub(1);
    replies::message(out, b'B', |out| {
        replies::string(out, asked.portal);
        replies::string(out, asked.statement);
        out.extend_from_slice(&count(values.len()));
        for value in values {
            let format = match value {
                PhysicalValue::Bytes(_) => 1,
                PhysicalValue::Client(number) => format_of(&asked.formats, place(*number)),
                PhysicalValue::Null | PhysicalValue::Array(_) | PhysicalValue::Text(_) => 0,
            };
            out.extend_from_slice(&format.to_be_bytes());
        }
        out.extend_from_slice(&count(values.len()));
        for value in values {
            match value {
                PhysicalValue::Null => put_value(out, None),
                PhysicalValue::Bytes(bytes) => put_value(out, Some(bytes)),
                PhysicalValue::Array(members) => put_value(out, Some(array(members).as_bytes())),
                PhysicalValue::Client(number) => {
                    put_value(out, asked.values.get(place(*number)).copied().flatten());
                }
                PhysicalValue::Text(text) => put_value(out, Some(text.as_bytes())),
            }
        }
        out.extend_from_slice(&count(asked.results.len()));
        for format in &asked.results {
            out.extend_from_slice(&format.to_be_bytes());
        }
    });
}

/// An array of `bytea` as text.
fn array(members: &[Option<Vec<u8>>]) -> String {
    let member = |member: &Option<Vec<u8>>| {
        member.as_ref().map_or_else(
            || "NULL".to_owned(),
            |bytes| format!("\"\\\\x{}\"", crate::plan::hexadecimal(bytes)),
        )
    };
    format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(","))
}
