//! Bounds on what crosses a process. Both sides check them.

/// Version of the messages in this crate. Peers of another version are refused at the handshake.
pub const PROTOCOL_VERSION: u16 = 1;

/// Largest frame body, in bytes.
pub const FRAME_BYTES_MAX: usize = 48 * 1024 * 1024;

/// Size at which a server half stops adding documents or buckets to a reply; the rest is asked for again.
pub const REPLY_BYTES_SOFT: usize = 8 * 1024 * 1024;

/// Largest sealed document, in bytes: MongoDB's 16 MiB and room for sealing.
pub const DOCUMENT_BYTES_MAX: usize = 20 * 1024 * 1024;

/// Entries of an equality index that are counted for one request.
pub const ENTRIES_COUNTED_MAX: u32 = 100_000;

/// Most steps in one write, those of its parts included.
pub const STEPS_MAX: usize = 1_000_000;

/// Most bytes of the steps of one write, as encoded: what the server holds in memory until it commits.
pub const WRITE_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Bytes of steps above which a write goes in parts, and of each part, about. A step that is longer goes alone.
pub const PART_BYTES: usize = 16 * 1024 * 1024;

/// Requests in flight on one connection; a further one waits.
pub const IN_FLIGHT_MAX: usize = 256;

/// Widest key an ArxRange circuit compares, in bytes, tie-break included.
pub const KEY_BYTES_MAX: usize = 64;

/// Height of the ArxEq token tree: counters are below 2^32.
pub const ARX_EQ_LEVELS: u8 = 32;
