//! Proof of the path.
