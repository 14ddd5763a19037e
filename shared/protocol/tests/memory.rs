//! What decoding takes in memory, as the operating system counts it: one test in a process of its own.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use arras_protocol::codec::{self, EXPANSION, MEMORY_FLOOR_BYTES, memory_max};
use arras_protocol::limits::FRAME_BYTES_MAX;
use arras_protocol::write::Write;
use arras_protocol::{IndexId, NodeId, OperationId, Protocol, arx_eq, arx_range, unique, write};
use serde::{Serialize, de::DeserializeOwned};

/// Beside the lists: what the allocator rounds up and the process takes anyway.
const SLACK_BYTES: usize = 8 * 1024 * 1024;

/// A line of `/proc/self/status`, in bytes.
fn status(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches("kB").trim().parse::<usize>().unwrap() * 1024
}

/// Most memory that `run` had beyond what there was before.
fn peak_of<T>(run: impl FnOnce() -> T) -> (T, usize) {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = status("VmRSS");
    let result = run();
    (result, status("VmHWM").saturating_sub(before))
}

/// A largest frame: `head` without its last byte, which is the length of an empty list, and then a list of as many
/// elements of one zero byte as fit.
fn full_of_nothing<T: Serialize>(head: &T) -> Vec<u8> {
    let mut bytes = codec::encode(head);
    assert_eq!(bytes.pop(), Some(0), "an empty list ends it");
    let count = FRAME_BYTES_MAX - bytes.len() - 4;
    bytes.extend(codec::encode(&count));
    bytes.resize(FRAME_BYTES_MAX, 0);
    bytes
}

fn is_refused_within_bounds<T: DeserializeOwned>(bytes: &[u8], expansion: usize) {
    let name = std::any::type_name::<T>();
    let (refused, peak) = peak_of(|| codec::decode_expanding::<T>(bytes, expansion).is_err());
    let max = memory_max(bytes.len(), expansion);
    // A list that grows has room for twice its elements.
    assert!(peak <= 2 * max + SLACK_BYTES, "{name}: {peak} bytes for a message of {}", bytes.len());
    assert!(refused, "{name} was decoded");
}

#[test]
fn a_message_full_of_nothing_takes_no_more_than_its_bytes_allow() {
    let index = IndexId([1; 8]);
    is_refused_within_bounds::<arx_eq::Request>(
        &full_of_nothing(&arx_eq::Request { index, values: Vec::new() }),
        EXPANSION,
    );
    is_refused_within_bounds::<arx_eq::Response>(
        &full_of_nothing(&arx_eq::Response { values: Vec::new() }),
        EXPANSION,
    );
    is_refused_within_bounds::<unique::Response>(
        &full_of_nothing(&unique::Response { rows: Vec::new() }),
        EXPANSION,
    );
    // A list of nothing at all, of any length.
    is_refused_within_bounds::<Vec<()>>(&codec::encode(&u64::MAX), EXPANSION);
    // One cover with an impossible number of tokens reserves none of them.
    let mut claimed = codec::encode(&arx_eq::Request { index, values: Vec::new() });
    claimed.pop();
    claimed.extend([1, 0xff, 0xff, 0xff, 0xff, 0x0f]);
    let (refused, peak) = peak_of(|| codec::decode::<arx_eq::Request>(&claimed).is_err());
    assert!(refused && peak <= 2 * MEMORY_FLOOR_BYTES, "{peak}");

    // What the proxy does send and get at most is decoded: a hundred thousand values, most without a match, and a write
    // of nothing but removals, the shortest of steps.
    let values = arx_eq::Request { index, values: vec![Vec::new(); 200_000] };
    assert_eq!(codec::decode(&codec::encode(&values)), Ok(values));
    let absent = unique::Response { rows: vec![None; 500_000] };
    assert_eq!(codec::decode(&codec::encode(&absent)), Ok(absent));
    let remove = |number: u128| {
        let node = NodeId(number.to_be_bytes());
        write::Step::ArxRange(arx_range::Change::RemoveNode { index, node })
    };
    let operation = OperationId { epoch: 1, sequence: 1 };
    let removals = write::Request {
        operation: Some(operation),
        finished_below: operation,
        acknowledged: 1,
        steps: (0..700_000).map(remove).collect(),
    };
    let bytes = codec::encode(&removals);
    assert_eq!(codec::decode_expanding(&bytes, Write::REQUEST_EXPANSION), Ok(removals));
}
