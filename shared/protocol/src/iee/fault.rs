//! What ends the enclave: a host that breaks the interface, or a state that is not the newest. The enclave's process ends with its code,
//! by which its host says what it was.

/// Why the enclave goes no further. A fault is an attack or a loss of data; entries that a storage altered are the search's
/// error and no fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u8)]
pub enum Fault {
    /// A message that does not decode, or is longer than its bound.
    #[error("the host sent what is not a message")]
    Malformed = 16,
    /// An answer to nothing that was asked, a second answer, or no value where one was asked for.
    #[error("the host answered what was not asked, or twice, or something else")]
    Unasked,
    /// A message that has no place here: a second launch, a connection that is open or is not.
    #[error("the host sent a message out of turn")]
    OutOfTurn,
    /// The memory that the host gives is too little to work with.
    #[error("the enclave was given too little memory")]
    Memory,
    /// A piece of sealed state does not open: altered, of another enclave, or in another's place.
    #[error("the sealed state was altered, or is not this enclave's")]
    StateAltered,
    /// The log ends before the monotonic counter's value: an old state.
    #[error("the sealed state was set back: the newest records are missing")]
    StateSetBack,
    /// The log goes further than the monotonic counter can have followed.
    #[error("the monotonic counter was set back, or is not this enclave's")]
    CounterSetBack,
    /// The counter has another value than it was raised to: another enclave uses it.
    #[error("the monotonic counter is not where it was raised to: another enclave runs on this state")]
    Forked,
    /// The launch names another administrator, or another authority, than the first one did.
    #[error("the launch names another administrator or authority than the first one")]
    Administrator,
    /// The launch's authority is no certificate of one.
    #[error("the launch's authority is no certificate of one")]
    Authority,
    /// The enclave has ended before.
    #[error("the enclave has ended")]
    Ended,
    /// The state is in no format that this build reads: another build sealed it, or it was altered where it says that.
    #[error(
        "the sealed state is not in this build's format: begin with an empty one, and index again, if another build made it"
    )]
    StateEarlier,
    /// Under Gramine: what should give the enclave its sealing key does not.
    #[error(
        "Gramine gives the enclave no sealing key (keys/_sgx_mrenclave of the folder that --gramine names): it does not run in SGX"
    )]
    NoSealingKey,
    /// Under Gramine: what should give the enclave its quote does not.
    #[error(
        "Gramine gives the enclave no quote (user_report_data and quote of the folder that --gramine names): its manifest has to \
         ask for sgx.remote_attestation = \"dcap\", and this machine needs Intel's quoting service (aesmd)"
    )]
    NoQuote,
}

impl Fault {
    /// All of them, by code.
    const ALL: [Self; 14] = [
        Self::Malformed,
        Self::Unasked,
        Self::OutOfTurn,
        Self::Memory,
        Self::StateAltered,
        Self::StateSetBack,
        Self::CounterSetBack,
        Self::Forked,
        Self::Administrator,
        Self::Authority,
        Self::Ended,
        Self::StateEarlier,
        Self::NoSealingKey,
        Self::NoQuote,
    ];

    /// The code that a process ends with.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// From the code that a process ended with; none if that is another reason's.
    #[must_use]
    pub fn of_code(code: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| i32::from(fault.code()) == code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_comes_back_from_its_code() {
        assert!(Fault::ALL.into_iter().all(|fault| Fault::of_code(fault.code().into()) == Some(fault)));
        for other in [-1, 0, 1, 101, 16 + Fault::ALL.len() as i32] {
            assert_eq!(Fault::of_code(other), None);
        }
    }
}
