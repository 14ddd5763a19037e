//! The real executables, as processes: killed at random moments, watched for plaintext, fed with nonsense and told
//! to stop. `cargo build -p arras-proxy -p arras-server` makes the executables; `ARRAS_TEST_SEED` chooses other
//! random numbers than the usual ones.
#![allow(clippy::unwrap_used)]

mod accepted;
mod apply;
#[path = "../arx_range/auditor.rs"]
#[allow(dead_code, reason = "shared with the tests of that protocol")]
mod auditor;
mod canaries;
mod canary;
mod certified;
mod crash;
mod crowd;
mod damage;
mod definitions;
mod dice;
mod doctor;
mod exit_codes;
mod faults;
mod forwarder;
mod full_disk;
mod history;
mod keys;
mod local_users;
mod model;
mod orders;
mod outages;
mod process;
mod renewal;
mod searching;
mod secrets;
mod small_disk;
mod spilled;
mod system;
mod text;
mod transcript;
