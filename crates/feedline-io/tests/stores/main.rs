//! Sources and sinks against files, a cache, and servers that behave badly.

#[cfg(feature = "remote")]
mod bucket;
mod conform;
#[cfg(feature = "remote")]
mod faults;
mod local;
#[cfg(feature = "remote")]
mod server;
