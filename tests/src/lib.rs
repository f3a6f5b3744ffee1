//! What the proofs under `tests/` share.
