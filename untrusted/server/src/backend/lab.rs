//! Requests of the protocols that only the laboratory runs.

use super::{request, unknown};
use crate::{kerschbaum_tueno, logarithmic_brc, path_oram};
use arras_protocol::kerschbaum_tueno::KerschbaumTueno;
use arras_protocol::logarithmic_brc::LogarithmicBrc;
use arras_protocol::path_oram::PathOram;
use arras_protocol::{Protocol, ProtocolId, Refusal, codec};
use arras_storage::Storage;

/// Answers one request.
pub(super) fn answer<S: Storage>(store: &S, protocol: ProtocolId, body: &[u8]) -> Result<Vec<u8>, Refusal> {
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
