//! The proxy's text indexes at a host that sets its disk and its counter back, holds updates back, loses acknowledgements or dies: step
//! by step, beside the simulator's random runs. The enclave's own code and the proxy's service of text indexes, in one process.
#![allow(clippy::unwrap_used)]

mod machine;
mod texts;
