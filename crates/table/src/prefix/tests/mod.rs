//! The protocol in every interleaving, and the trie against a plain search.

mod model;
mod oracle;
