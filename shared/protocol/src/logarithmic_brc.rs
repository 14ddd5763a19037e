//! Logarithmic-BRC (Demertzis et al., SIGMOD 2016), range covers over an encrypted multimap.

use crate::channel::{Protocol, ProtocolId};
use serde::{Deserialize, Serialize};

/// The protocol.
#[derive(Debug)]
pub struct LogarithmicBrc;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {}

impl Protocol for LogarithmicBrc {
    const ID: ProtocolId = ProtocolId(10);
    const NAME: &'static str = "logarithmic_brc";
    type Request = Request;
    type Response = Response;
}
