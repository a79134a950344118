//! From bytes to pixels and back: a file a format.
