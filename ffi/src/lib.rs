//! The C face of Umbra.
