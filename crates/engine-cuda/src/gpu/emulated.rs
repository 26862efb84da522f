//! The emulation.
