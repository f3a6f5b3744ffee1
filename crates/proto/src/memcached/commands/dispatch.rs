//! Answers any request.

use super::context::Commands;
use super::line::Output;
use crate::memcached::items::{Items, Key};
use crate::memcached::request::{MetaCommand, Request};

impl<I: Items> Commands<'_, I> {
    /// Answers a request. The key is [`Request::key`], decoded if it was sent as base64.
    ///
    /// The value of a [`Store`](crate::memcached::request::Store) must be there; otherwise see [`Commands::begin`].
    pub fn answer(&mut self, request: &Request<'_>, key: Key<'_>, out: &mut impl Output) {
        match request {
            Request::Get(get) => self.get(get, key, out),
            Request::Store(store) => self.store(store, key, out),
            Request::Delete(delete) => self.delete(delete, key, out),
            Request::Arithmetic(arithmetic) => self.arithmetic(arithmetic, key, out),
            Request::Touch(touch) => self.touch(touch, key, out),
            Request::Meta(meta) => match meta.command {
                MetaCommand::Get => self.meta_get(meta, key, out),
                MetaCommand::Delete => self.meta_delete(meta, key, out),
                MetaCommand::Arithmetic => self.meta_arithmetic(meta, key, out),
                MetaCommand::Debug => self.meta_debug(meta, key, out),
            },
        }
    }
}
