//! POPE (Roche, Apon, Choi, Yerukhimovich, CCS 2016), a buffer tree sorted by queries.

use crate::channel::{Protocol, ProtocolId};
use serde::{Deserialize, Serialize};

/// The protocol.
#[derive(Debug)]
pub struct Pope;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {}

impl Protocol for Pope {
    const ID: ProtocolId = ProtocolId(9);
    const NAME: &'static str = "pope";
    type Request = Request;
    type Response = Response;
}
