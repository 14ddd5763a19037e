//! What people are told of what the enclave refuses.

use super::super::message::{Refused, Tampering};
use super::Unreadable;
use super::formulas::{Malformed, MalformedWhy};
use std::error::Error;
use std::fmt::{Display, Formatter, Result};

impl Error for Refused {}
impl Error for Malformed {}
impl Error for Unreadable {}

impl Display for Refused {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::NotAllowed => f.write_str("no such collection, or no right to do that with it"),
            Self::Formula => f.write_str("the formula cannot be evaluated, or is out of bounds"),
            Self::Document(slot) => write!(f, "document {slot} of the update is not there, or comes twice"),
            Self::Bound => f.write_str(
                "a name, a profile, an update, a list or a setting is too long or out of bounds, or there are as many rights, collections or documents as there may be",
            ),
            Self::OtherSettings => f.write_str("the collection is there with other settings"),
            Self::Stale(revision) => {
                write!(
                    f,
                    "the change supposes another revision of the collection than {revision}, where it is"
                )
            }
            Self::Memory { needed, budget } => {
                write!(
                    f,
                    "it takes {needed} bytes of the enclave's memory, of which {budget} are free at most"
                )
            }
            Self::Busy => f.write_str("the enclave has too much under way"),
            Self::Keywords(spilled_max) => write!(
                f,
                "the enclave's memory does not hold so many keywords, and no more than {spilled_max} may be kept beside it"
            ),
            Self::Storage(how) => write!(f, "the storage is not to be trusted: {how}"),
        }
    }
}

impl Display for Tampering {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Self::Missing => "an entry is missing",
            Self::Altered => "an entry was altered, or is another's",
            Self::Length => "an answer has another number of entries than its question",
        })
    }
}

impl Display for Malformed {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let why = match self.why {
            MalformedWhy::Operand => "lacks an operand",
            MalformedWhy::End => "is its end, where it has not come to one result",
            MalformedWhy::Keyword => "names a keyword that is not listed, or lists one twice",
            MalformedWhy::Phrase => {
                "is a phrase of no word, of too many, or that does not begin with its first"
            }
            MalformedWhy::Depth => "is nested too deeply",
            MalformedWhy::Bound => "is beyond what a search may hold",
        };
        write!(f, "step {} of the formula {why}", self.step)
    }
}

impl Display for Unreadable {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Malformed => f.write_str("the message does not decode"),
            Self::TooLong(what) => write!(f, "the message holds more than its bound of {what}"),
        }
    }
}
