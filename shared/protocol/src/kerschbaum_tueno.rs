//! Kerschbaum-Tueno (ESORICS 2019), a rotated array searched by the client.

use crate::channel::{Protocol, ProtocolId};
use serde::{Deserialize, Serialize};

/// The protocol.
#[derive(Debug)]
pub struct KerschbaumTueno;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {}

impl Protocol for KerschbaumTueno {
    const ID: ProtocolId = ProtocolId(8);
    const NAME: &'static str = "kerschbaum_tueno";
    type Request = Request;
    type Response = Response;
}
