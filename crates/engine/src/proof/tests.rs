#[test]
fn nothing_yet() {}
