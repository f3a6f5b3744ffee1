//! The integration tests of this crate, in one program.

mod captures;
mod common;
mod cut_short;
mod driver_log;
mod edits;
mod etherparse;
mod integrity;
mod mutation;
mod rules;
mod tunnels;
mod unfinished;
mod verify;
