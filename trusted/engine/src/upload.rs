//! Sends a write in one request, or in as many as its bytes need.

use arras_protocol::limits::{PART_BYTES, STEPS_MAX, WRITE_BYTES_MAX};
use arras_protocol::write::{Request, Response, Step, Write};
use arras_protocol::{Blob, Channel, ChannelError, OperationId, Refusal, codec};

/// What an engine takes for [`PART_BYTES`] unless told otherwise.
pub const REQUEST_BYTES: usize = PART_BYTES;

/// Why a write can never be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooLarge {
    /// Its bytes.
    #[error("{0} bytes; {WRITE_BYTES_MAX} are the most of one write")]
    Bytes(usize),
    /// Its steps.
    #[error("{0} steps; {STEPS_MAX} are the most of one write")]
    Steps(usize),
}

/// Checks that a write can be sent, before it is recorded.
///
/// # Errors
/// [`TooLarge`].
pub fn check(steps: &[Step]) -> Result<(), TooLarge> {
    if steps.len() > STEPS_MAX {
        return Err(TooLarge::Steps(steps.len()));
    }
    let bytes = steps.iter().fold(0_usize, |sum, step| sum.saturating_add(codec::encoded_bytes(step)));
    if bytes > WRITE_BYTES_MAX { Err(TooLarge::Bytes(bytes)) } else { Ok(()) }
}

/// What heads every request of a write.
#[derive(Clone, Copy, Debug)]
pub struct Heading {
    /// Its number among the writes of this client: what is repeated under it is applied once.
    pub operation: OperationId,
    /// See [`Request::finished_below`].
    pub finished_below: OperationId,
    /// See [`Request::acknowledged`].
    pub acknowledged: u64,
}

/// Brings a write to the server: whole, or its parts first and then the write that applies them.
///
/// # Errors
/// [`ChannelError`], of whichever request failed. Parts alone change nothing: all are sent again with the next attempt.
pub async fn send<C: Channel<Write>>(
    channel: &C,
    heading: Heading,
    steps: &[Step],
    request_bytes: usize,
) -> Result<Response, ChannelError> {
    let Heading { operation, finished_below, acknowledged } = heading;
    let parts = parts(steps, request_bytes);
    if let [_] | [] = parts.as_slice() {
        let request =
            Request { operation: Some(operation), finished_below, acknowledged, steps: steps.to_vec() };
        return channel.call(request).await;
    }
    for (part, steps) in (0_u32..).zip(&parts) {
        let steps = Blob(codec::encode(steps));
        let steps = vec![Step::Upload { operation, part, steps }];
        let nothing = OperationId { epoch: 0, sequence: 0 };
        channel.call(Request { operation: None, finished_below: nothing, acknowledged, steps }).await?;
    }
    let count = u32::try_from(parts.len()).unwrap_or(u32::MAX);
    let steps = vec![Step::Parts { count }];
    match channel.call(Request { operation: Some(operation), finished_below, acknowledged, steps }).await {
        // A crash of the server took them: as if the connection had been lost on the way.
        Err(ChannelError::Refused(Refusal::Incomplete)) => {
            Err(ChannelError::Lost("the server has restarted and lost part of the write".into()))
        }
        other => other,
    }
}

/// Cuts steps into runs of about so many bytes.
fn parts(steps: &[Step], request_bytes: usize) -> Vec<&[Step]> {
    let mut bytes = 0_usize;
    let mut parts = Vec::new();
    let mut begin = 0;
    for (position, step) in steps.iter().enumerate() {
        let step_bytes = codec::encoded_bytes(step);
        if position > begin && bytes.saturating_add(step_bytes) > request_bytes {
            parts.push(steps.get(begin..position).unwrap_or_default());
            (begin, bytes) = (position, 0);
        }
        bytes = bytes.saturating_add(step_bytes);
    }
    parts.push(steps.get(begin..).unwrap_or_default());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use arras_protocol::{CollectionId, IndexId, documents, unique};

    #[test]
    fn parts_are_cut_by_bytes_and_leave_nothing_out() {
        let drop = |number: u8| Step::Unique(unique::Change::DropIndex { index: IndexId([number; 8]) });
        let steps: Vec<Step> = (0..100).map(drop).collect();
        let one = codec::encoded_bytes(&drop(1));
        assert_eq!(parts(&steps, usize::MAX).len(), 1);
        let cut = parts(&steps, 10 * one);
        assert_eq!(cut.len(), 10);
        assert!(cut.iter().all(|part| codec::encoded_bytes(part) <= 10 * one + 1));
        assert_eq!(cut.concat(), steps);
        // A step longer than a part goes alone.
        assert_eq!(parts(&steps, 1).len(), 100);
        assert_eq!(parts(&[], 1), [&[] as &[Step]]);
    }

    #[test]
    fn what_can_never_be_sent_is_known_before() {
        let create = documents::Change::CreateCollection { collection: CollectionId([0; 8]) };
        assert_eq!(check(&vec![Step::Documents(create); 10]), Ok(()));
        let part = Step::Upload {
            operation: OperationId { epoch: 1, sequence: 1 },
            part: 0,
            steps: Blob(vec![0; WRITE_BYTES_MAX]),
        };
        assert!(matches!(check(&[part]), Err(TooLarge::Bytes(bytes)) if bytes > WRITE_BYTES_MAX));
    }
}
