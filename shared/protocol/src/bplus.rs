//! B+ tree over any OPE or ORE scheme.

use crate::channel::{Protocol, ProtocolId};
use serde::{Deserialize, Serialize};

/// The protocol.
#[derive(Debug)]
pub struct BPlus;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {}

impl Protocol for BPlus {
    const ID: ProtocolId = ProtocolId(7);
    const NAME: &'static str = "bplus";
    type Request = Request;
    type Response = Response;
}
