//! The engine over a server's half in this process: what large and many writes come to.

mod beside;
mod bulk;
mod definitions;
mod elements;
mod interrupted;
mod large;
mod orders;
mod plans;
mod points;
mod random;
mod retried;
mod searched;
mod unrecorded;
mod world;
