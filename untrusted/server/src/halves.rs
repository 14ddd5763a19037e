//! The table of halves: what answers the requests of each protocol, and what makes the steps of each in a write. Besides the
//! greeting and the write itself, which concern the whole server.

use crate::{arx_eq, arx_range, bplus, documents, mope, pope, unique};
#[cfg(feature = "lab")]
use crate::{kerschbaum_tueno, logarithmic_brc, path_oram};
use arras_protocol::write::Step;
use arras_protocol::{Protocol, ProtocolId, Refusal, codec};
use arras_storage::{Memory, Storage, Table, Write};
use serde::Serialize;
use std::marker::PhantomData;

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

/// Answers a body. The number: of the server's incarnation, for what is valid in one only.
type Answer<S> = fn(&S, u64, &[u8]) -> Result<Vec<u8>, Refusal>;

/// What answers the requests of a protocol, and what drops leave of it.
struct Half<S> {
    protocol: ProtocolId,
    /// Tables that drops empty.
    emptied: &'static [Table],
    answer: Answer<S>,
}

/// A row of the table.
const fn half<P: Protocol, S>(emptied: &'static [Table], answer: Answer<S>) -> Half<S> {
    Half { protocol: P::ID, emptied, answer }
}

/// The table, for a store.
struct Halves<S>(PhantomData<S>);

impl<S: Storage + 'static> Halves<S> {
    const ALL: &'static [Half<S>] = &[
        half::<Documents, S>(documents::EMPTIED, |store, _, body| {
            documents::answer(store, request::<Documents>(body)?)
        }),
        half::<Unique, S>(unique::EMPTIED, |store, _, body| {
            encoded(&unique::answer(store, &request::<Unique>(body)?)?)
        }),
        half::<ArxEq, S>(arx_eq::EMPTIED, |store, _, body| {
            encoded(&arx_eq::answer(store, &request::<ArxEq>(body)?)?)
        }),
        half::<ArxEqEntries, S>(&[], |store, _, body| {
            encoded(&arx_eq::count(store, request::<ArxEqEntries>(body)?)?)
        }),
        half::<ArxRange, S>(arx_range::EMPTIED, |store, _, body| {
            encoded(&arx_range::answer(store, &request::<ArxRange>(body)?)?)
        }),
        half::<BPlus, S>(bplus::EMPTIED, |store, _, body| {
            encoded(&bplus::answer(store, no_change::<BPlus>(body, bplus::is_change)?)?)
        }),
        half::<Pope, S>(pope::EMPTIED, |store, incarnation, body| {
            encoded(&pope::answer(store, incarnation, no_change::<Pope>(body, pope::is_change)?)?)
        }),
        half::<Mope, S>(mope::EMPTIED, |store, _, body| {
            encoded(&mope::answer(store, no_change::<Mope>(body, mope::is_change)?)?)
        }),
        #[cfg(feature = "lab")]
        half::<KerschbaumTueno, S>(&[], |store, _, body| {
            encoded(&kerschbaum_tueno::answer(store, request::<KerschbaumTueno>(body)?)?)
        }),
        #[cfg(feature = "lab")]
        half::<LogarithmicBrc, S>(&[], |store, _, body| {
            encoded(&logarithmic_brc::answer(store, request::<LogarithmicBrc>(body)?)?)
        }),
        #[cfg(feature = "lab")]
        half::<PathOram, S>(&[], |store, _, body| {
            encoded(&path_oram::answer(store, request::<PathOram>(body)?)?)
        }),
    ];
}

/// The name of a protocol, for the log.
#[cfg(feature = "process")]
pub(crate) fn name(protocol: ProtocolId) -> &'static str {
    arras_protocol::table::of(protocol).map_or("unknown", |row| row.name())
}

/// The table of that name that drops empty.
pub(crate) fn emptied(name: &[u8]) -> Option<Table> {
    let mut tables = Halves::<Memory>::ALL.iter().flat_map(|half| half.emptied);
    tables.find(|table| table.0.as_bytes() == name).copied()
}

/// Answers a request of the protocol of a number. `incarnation`: of the server, for what is valid in one only.
pub(crate) fn answer<S: Storage + 'static>(
    store: &S,
    incarnation: u64,
    protocol: ProtocolId,
    body: &[u8],
) -> Result<Vec<u8>, Refusal> {
    let half = Halves::ALL.iter().find(|half| half.protocol == protocol).ok_or_else(|| unknown(protocol))?;
    (half.answer)(store, incarnation, body)
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

/// Decodes a request. Outside of the laboratory, what an index holds is changed by writes alone: in the lease's transaction,
/// at most once.
fn no_change<P: Protocol>(body: &[u8], is_change: fn(&P::Request) -> bool) -> Result<P::Request, Refusal> {
    let request = request::<P>(body)?;
    if is_change(&request) && !cfg!(feature = "lab") {
        return Err(Refusal::Malformed("a change of an index that is not a step of a write".into()));
    }
    Ok(request)
}

/// A response as it travels.
fn encoded(response: &impl Serialize) -> Result<Vec<u8>, Refusal> {
    Ok(codec::encode(response))
}

/// Decodes a request, or refuses it as malformed.
pub(crate) fn request<P: Protocol>(body: &[u8]) -> Result<P::Request, Refusal> {
    codec::decode_expanding(body, P::REQUEST_EXPANSION)
        .map_err(|_| Refusal::Malformed(format!("not a request of {}", P::NAME)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arras_protocol::table;

    #[test]
    fn every_row_of_the_table_is_answered_once_and_nothing_else() {
        let store = Memory::new();
        // What concerns the whole server is answered elsewhere.
        let of_all = [table::HELLO.id(), table::WRITE.id()];
        let mut answered = 0;
        for protocol in (0..=u8::MAX).map(ProtocolId) {
            let built = |row: &&table::Row| cfg!(feature = "lab") || !row.is_laboratory();
            let expected = table::of(protocol).filter(built).filter(|_| !of_all.contains(&protocol));
            let halves = Halves::<Memory>::ALL.iter().filter(|half| half.protocol == protocol).count();
            let reply = answer(&store, 1, protocol, &[]);
            let unknown = matches!(&reply, Err(Refusal::Malformed(why)) if why.starts_with("no protocol"));
            assert_eq!(
                (halves, unknown),
                (usize::from(expected.is_some()), expected.is_none()),
                "{protocol:?}"
            );
            answered += halves;
        }
        assert_eq!(answered, Halves::<Memory>::ALL.len());
    }
}
