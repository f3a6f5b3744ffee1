//! The protocol in every interleaving.

mod model;
