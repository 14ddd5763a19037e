//! Path ORAM (Stefanov et al., CCS 2013), the store of an oblivious B+ tree.

use crate::channel::{Protocol, ProtocolId};
use serde::{Deserialize, Serialize};

/// The protocol.
#[derive(Debug)]
pub struct PathOram;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {}

impl Protocol for PathOram {
    const ID: ProtocolId = ProtocolId(11);
    const NAME: &'static str = "path_oram";
    type Request = Request;
    type Response = Response;
}
