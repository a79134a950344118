//! Crops, flips, turns: pixels that move and do not change.
