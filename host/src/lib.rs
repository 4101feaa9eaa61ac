//! What applications link, and everything that needs an operating system.
