//! Pictures in another size.
