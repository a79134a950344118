"""Golden cases: recorded behaviour of the reference, replayed on feedline through its public API."""
