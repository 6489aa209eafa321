//! Checkpoints that cannot be used.
