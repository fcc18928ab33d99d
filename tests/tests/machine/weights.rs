//! Recordings without the weights that nearly all threads have.

use fxt_reader::record::{ABSENT_WEIGHT_ARG, IDLE_WEIGHT, WEIGHT_INFO};
use fxtrec_tests::binary;
use fxtrec_tests::folder::Folder;
use fxtrec_tests::recording::record_in;
use fxtrec_tests::root::may_record;

const NICE_5: i32 = 335;

#[test]
fn usual_weights_are_left_out_and_all_others_reported() {
    if !may_record() {
        return;
    }
    let folder = Folder::new();
    let command = ["sh", "-c", "for i in 1 2 3; do nice -n 5 sleep 0.01; sleep 0.01; done"];
    let recording = record_in(&folder, &["--scope", "all", "--weights", "special"], &command);
    let trace = &recording.trace;
    let sides = trace.switches.iter().flat_map(|switch| {
        [(switch.outgoing, switch.weights.0), (switch.incoming, switch.weights.1)]
    });
    let (mut usual, mut nice) = (0, 0);
    for (thread, weight) in sides {
        assert_eq!(weight == Some(IDLE_WEIGHT), thread == 0, "{thread} has {weight:?}");
        assert_ne!(weight, Some(1024), "{thread}");
        usual += usize::from(weight.is_none());
        nice += usize::from(weight == Some(NICE_5));
    }
    assert!(usual > 0 && nice >= 6, "{usual} and {nice}");
    let said: Vec<_> = trace.own.iter().filter(|event| event.name == WEIGHT_INFO).collect();
    assert_eq!(said.len(), 1);
    assert_eq!(said[0].arg(ABSENT_WEIGHT_ARG), "1024");

    let sound = folder.run(binary::command().args(["dump", "--check", "t.fxt"])).expect(0);
    assert!(sound.stdout.contains("valid"), "{}", sound.stdout);
    // A rotated file states it as well.
    let cut = ["cut", "t.fxt", "piece.fxt", "--from", "+10ms"];
    folder.run(binary::command().args(cut)).expect(0);
    let sound = folder.run(binary::command().args(["dump", "--check", "piece.fxt"])).expect(0);
    assert!(sound.stdout.contains("valid"), "{}", sound.stdout);
}
