//! Pictures turned, moved, sheared and zoomed by a matrix.
