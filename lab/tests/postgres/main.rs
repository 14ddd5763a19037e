//! The PostgreSQL side against a real PostgreSQL, started for the test.
#![allow(clippy::unwrap_used)]

mod access;
mod assigned;
mod bound;
#[path = "../processes/canaries.rs"]
mod canaries;
mod canary;
mod cancelled;
mod casts;
#[path = "../processes/certified.rs"]
mod certified;
mod chosen;
mod computed;
mod copied;
mod defaults;
mod demo;
mod dev;
mod differential;
mod digits;
mod doctor;
mod encrypted;
mod extended;
mod faults;
mod finer;
mod forged;
#[path = "../processes/forwarder.rs"]
#[allow(dead_code)]
mod forwarder;
mod given;
mod held;
mod history;
mod indexed;
mod keyrings;
mod killed;
mod late;
mod layouts;
mod mapped;
mod memory;
mod moments;
mod mope;
mod named;
mod namesakes;
mod of_time;
mod orders;
mod ordinary;
mod outages;
mod pages;
mod pair;
mod parts;
mod past;
mod private;
#[path = "../processes/process.rs"]
#[allow(dead_code)]
mod process;
mod programs;
mod proxy;
mod racing;
mod reset;
mod restored;
mod retyped;
mod search_path;
mod shown;
mod slow;
#[path = "../processes/small_disk.rs"]
mod small_disk;
mod sockets;
mod spelled;
mod stored;
mod summed;
mod told;
mod tools;
mod tpcc;
mod twins;
mod unset;
mod upserts;
mod views;
mod words;
mod zones;
