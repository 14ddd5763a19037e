//! The table of halves: what answers the requests of each protocol, and what makes the steps of each in a write. Besides the
//! greeting and the write itself, which concern the whole server.

use crate::{arx_eq, arx_range, bplus, documents, mope, pope, unique};
#[cfg(feature = "lab")]
use crate::{kerschbaum_tueno, logarithmic_brc, path_oram};
use arras_protocol::write::Step;
use arras_protocol::{Protocol, ProtocolId, Refusal, codec};
use arras_storage::{Storage, Table, Write};

type Documents = arras_protocol::documents::Documents;
type Unique = arras_protocol::unique::Unique;
type ArxEq = arras_protocol::arx_eq::ArxEq;
type ArxEqEntries = arras_protocol::arx_eq::Entries;
type ArxRange = arras_protocol::arx_range::ArxRange;
type BPlus = arras_protocol::bplus::BPlus;
type Pope = arras_protocol::pope::Pope;
type Mope = arras_protocol::mope::index::Mope;
#[cfg(feature = "lab")]
type KerschbaumTueno = arras_protocol::kerschbaum_tueno::KerschbaumTueno;
#[cfg(feature = "lab")]
type LogarithmicBrc = arras_protocol::logarithmic_brc::LogarithmicBrc;
#[cfg(feature = "lab")]
type PathOram = arras_protocol::path_oram::PathOram;

/// Number and name of a protocol.
#[cfg(feature = "process")]
const fn named<P: Protocol>() -> (ProtocolId, &'static str) {
    (P::ID, P::NAME)
}

/// Numbers and names of all that are answered here.
#[cfg(feature = "process")]
const NAMES: &[(ProtocolId, &str)] = &[
    named::<arras_protocol::hello::Hello>(),
    named::<arras_protocol::write::Write>(),
    named::<Documents>(),
    named::<Unique>(),
    named::<ArxEq>(),
    named::<ArxEqEntries>(),
    named::<ArxRange>(),
    named::<BPlus>(),
    named::<Pope>(),
    named::<Mope>(),
    #[cfg(feature = "lab")]
    named::<KerschbaumTueno>(),
    #[cfg(feature = "lab")]
    named::<LogarithmicBrc>(),
    #[cfg(feature = "lab")]
    named::<PathOram>(),
];

/// The name of a protocol, for the log.
#[cfg(feature = "process")]
pub(crate) fn name(protocol: ProtocolId) -> &'static str {
    NAMES.iter().find(|(known, _)| *known == protocol).map_or("unknown", |(_, name)| name)
}

/// Tables that drops empty, of each protocol.
const EMPTIED: &[&[Table]] = &[
    documents::EMPTIED,
    unique::EMPTIED,
    arx_eq::EMPTIED,
    arx_range::EMPTIED,
    bplus::EMPTIED,
    pope::EMPTIED,
    mope::EMPTIED,
];

/// The table of that name that drops empty.
pub(crate) fn emptied(name: &[u8]) -> Option<Table> {
    EMPTIED.concat().into_iter().find(|table| table.0.as_bytes() == name)
}

/// Answers a request of the protocol of a number. `incarnation`: of the server, for what is valid in one only.
pub(crate) fn answer<S: Storage>(
    store: &S,
    incarnation: u64,
    protocol: ProtocolId,
    body: &[u8],
) -> Result<Vec<u8>, Refusal> {
    match protocol {
        Documents::ID => documents::answer(store, request::<Documents>(body)?),
        Unique::ID => Ok(codec::encode(&unique::answer(store, &request::<Unique>(body)?)?)),
        ArxEq::ID => Ok(codec::encode(&arx_eq::answer(store, &request::<ArxEq>(body)?)?)),
        ArxEqEntries::ID => Ok(codec::encode(&arx_eq::count(store, request::<ArxEqEntries>(body)?)?)),
        ArxRange::ID => Ok(codec::encode(&arx_range::answer(store, &request::<ArxRange>(body)?)?)),
        BPlus::ID => {
            let bplus = request::<BPlus>(body)?;
            within_a_write(bplus::is_change(&bplus))?;
            Ok(codec::encode(&bplus::answer(store, bplus)?))
        }
        Pope::ID => {
            let pope = request::<Pope>(body)?;
            within_a_write(pope::is_change(&pope))?;
            Ok(codec::encode(&pope::answer(store, incarnation, pope)?))
        }
        Mope::ID => {
            let mope = request::<Mope>(body)?;
            within_a_write(mope::is_change(&mope))?;
            Ok(codec::encode(&mope::answer(store, mope)?))
        }
        #[cfg(feature = "lab")]
        other => answer_in_lab(store, other, body),
        #[cfg(not(feature = "lab"))]
        other => Err(unknown(other)),
    }
}

/// The same for protocols that only the laboratory runs.
#[cfg(feature = "lab")]
fn answer_in_lab<S: Storage>(store: &S, protocol: ProtocolId, body: &[u8]) -> Result<Vec<u8>, Refusal> {
    match protocol {
        KerschbaumTueno::ID => {
            Ok(codec::encode(&kerschbaum_tueno::answer(store, request::<KerschbaumTueno>(body)?)?))
        }
        LogarithmicBrc::ID => {
            Ok(codec::encode(&logarithmic_brc::answer(store, request::<LogarithmicBrc>(body)?)?))
        }
        PathOram::ID => Ok(codec::encode(&path_oram::answer(store, request::<PathOram>(body)?)?)),
        other => Err(unknown(other)),
    }
}

/// Makes one step of a write, at a position among all of its steps.
pub(crate) fn apply(writer: &mut impl Write, position: u32, step: Step) -> Result<(), Refusal> {
    match step {
        Step::Documents(change) => documents::apply(writer, position, change),
        Step::Unique(change) => unique::apply(writer, position, &change),
        Step::ArxEq(change) => arx_eq::apply(writer, position, &change),
        Step::ArxRange(change) => arx_range::apply(writer, &change),
        Step::Bplus(change) => bplus::apply(writer, &change),
        Step::Pope(change) => pope::apply(writer, &change),
        Step::Mope(change) => mope::apply(writer, &change),
        Step::Upload { .. } | Step::Parts { .. } => {
            Err(Refusal::Malformed("a part within a part, or in a write of the other kind".into()))
        }
    }
}

/// No protocol has this number, or none of those that this server was built with.
fn unknown(ProtocolId(number): ProtocolId) -> Refusal {
    let built = if cfg!(feature = "lab") {
        ""
    } else {
        " (those of the laboratory need a server built with `--features lab`)"
    };
    Refusal::Malformed(format!("no protocol {number}{built}"))
}

/// Outside of the laboratory, what an index holds is changed by writes alone: in the lease's transaction, at most once.
fn within_a_write(is_change: bool) -> Result<(), Refusal> {
    if is_change && !cfg!(feature = "lab") {
        return Err(Refusal::Malformed("a change of an index that is not a step of a write".into()));
    }
    Ok(())
}

/// Decodes a request, or refuses it as malformed.
pub(crate) fn request<P: Protocol>(body: &[u8]) -> Result<P::Request, Refusal> {
    codec::decode_expanding(body, P::REQUEST_EXPANSION)
        .map_err(|_| Refusal::Malformed(format!("not a request of {}", P::NAME)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arras_storage::Memory;

    #[test]
    fn every_number_that_is_answered_has_a_name_of_its_own() {
        let store = Memory::new();
        for number in 0..=u8::MAX {
            let protocol = ProtocolId(number);
            // What concerns the whole server is answered elsewhere.
            let of_all = ["hello", "write"].contains(&name(protocol));
            let answered = answer(&store, 1, protocol, &[]);
            let unknown = matches!(&answered, Err(Refusal::Malformed(why)) if why.starts_with("no protocol"));
            assert!(of_all || unknown == (name(protocol) == "unknown"), "{number}: {answered:?}");
        }
        let names: std::collections::BTreeSet<&str> = NAMES.iter().map(|(_, name)| *name).collect();
        assert_eq!(names.len(), NAMES.len());
    }
}
