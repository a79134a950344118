//! Every input that fuzzing has kept.

#[path = "../../../fuzz/replay.rs"]
mod replay;

#[test]
fn kept_inputs_run() {
    replay::kept_inputs_run(feedline_formats::fuzzing::TARGETS);
}
