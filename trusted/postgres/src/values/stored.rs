//! What a statement stores under terms of equality, so that an error about a key can say the key.

use super::Inputs;
use super::given::{given, given_members};
use crate::catalog::Encryption;
use crate::codec::Datum;
use crate::plan::{Form, PhysicalValue, Value};

/// Terms that are kept of a statement, and bytes of the text of each.
const TERMS_MAX: usize = 256;
const TEXT_BYTES_MAX: usize = 256;

/// A value's text, as its column has it.
fn shown(given: Datum, encryption: &Encryption, inputs: Inputs<'_>) -> Option<String> {
    let datum = given.storable(encryption).ok()?;
    Some(datum.to_text_in(encryption.kind, inputs.asker.viewer.zone))
}

/// The terms of equality of what a statement stores, and what they are terms of: no more than are worth keeping.
pub(crate) fn stored_terms(
    values: &[Value],
    physical: &[PhysicalValue],
    inputs: Inputs<'_>,
) -> Vec<(Vec<u8>, String)> {
    let mut found = Vec::new();
    let mut keep = |term: &[u8], text: String| {
        if text.len() <= TEXT_BYTES_MAX {
            found.push((term.to_vec(), text));
        }
        found.len() < TERMS_MAX
    };
    // What is stored is sealed first, and has its terms beside that.
    for (pair, physical) in values.windows(2).zip(physical.iter().skip(1)) {
        let [sealed, value] = pair else { continue };
        if sealed.source != value.source {
            continue;
        }
        let goes_on = match (&sealed.form, &value.form, physical) {
            (Form::Sealed(_), Form::Equality(encryption), PhysicalValue::Bytes(term)) => {
                match given(value, encryption, inputs)
                    .map(|datum| datum.and_then(|datum| shown(datum, encryption, inputs)))
                {
                    Ok(Some(text)) => keep(term, text),
                    Ok(None) | Err(_) => true,
                }
            }
            (Form::SealedArray(_), Form::EqualityArray(encryption), PhysicalValue::Array(terms)) => {
                let list = given_members(value, encryption, inputs).ok().flatten().unwrap_or_default();
                let mut pairs = terms.iter().zip(list);
                pairs.all(|(term, datum)| match (term, datum) {
                    (Some(term), Some(datum)) => {
                        shown(datum, encryption, inputs).is_none_or(|text| keep(term, text))
                    }
                    (None, _) | (_, None) => true,
                })
            }
            _ => true,
        };
        if !goes_on {
            break;
        }
    }
    found
}
