//! Libraries written in C are loaded, refused with a reason, and their errors reported.
#![cfg(feature = "host")]
#![allow(clippy::unwrap_used)]
#![expect(unsafe_code, reason = "memory and calls as a host has them")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tripmeter_abi::{
    Link, LinkOptions, LoadError, Message, Node, NodeOptions, Pattern, Plugin, PluginLink, Role, Status, System, Wait,
};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Time-out of calls that must succeed: it ends a hang, and a busy machine does not reach it.
const PATIENCE: Duration = Duration::from_secs(60);
const PATIENCE_NS: u64 = PATIENCE.as_nanos() as u64;

fn build(folder: &TempDir, source: &str, define: &str) -> PathBuf {
    let library = folder.path().join("tripmeter_test.so");
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", define, "-I"]);
    command.arg(format!("{REPOSITORY}/crates/abi/include")).arg("-o").arg(&library);
    command.arg(format!("{REPOSITORY}/{source}")).args(["-pthread", "-lrt", "-ldl"]);
    let output = command.output().expect("a C compiler called 'cc'");
    assert!(output.status.success(), "{command:?}:\n{}", String::from_utf8_lossy(&output.stderr));
    library
}

fn refusal(define: &str) -> LoadError {
    let folder = tempfile::tempdir().unwrap();
    match Plugin::load(&build(&folder, "tests/plugins/trouble.c", define)) {
        Ok(_) => panic!("{define} was loaded"),
        Err(error) => error,
    }
}

fn options(plugin: &Plugin, scratch: &Path, role: Role, settings: &[(&str, &str)]) -> NodeOptions {
    let description = plugin.description();
    let defaults = description.settings.iter().map(|setting| (setting.name.as_str(), setting.default.as_str()));
    NodeOptions {
        role,
        pattern: Pattern::Ping,
        wait: Wait::Block,
        variant: description.variants[0].name.clone(),
        settings: defaults
            .chain(settings.iter().copied())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        run_id: format!("tm-loader-test-{}", scratch.file_name().unwrap().display()),
        scratch_dir: scratch.to_path_buf(),
        max_payload_bytes: 100_000,
        link_count: 1,
        follower_count: 1,
        follower_index: 0,
        unauthorized_peer: None,
        publisher_count: 1,
        local_address: None,
    }
}

#[test]
fn a_library_that_breaks_the_contract_is_refused() {
    for define in
        ["-DLOAD=NULL_FUNCTION", "-DLOAD=NULL_TABLE", "-DLOAD=SHORT_TABLE", "-DLOAD=NO_VARIANT", "-DLOAD=BAD_NAME"]
    {
        let error = refusal(define);
        assert!(matches!(error, LoadError::Broken(..)), "{define}: {error}");
    }
}

#[test]
fn a_list_that_is_missing_is_named() {
    let error = refusal("-DLOAD=NULL_VARIANTS").to_string();
    assert!(error.contains("the entry 'variants' of its description is NULL, and has"), "{error}");
}

#[test]
fn a_function_that_is_missing_is_named() {
    let error = refusal("-DLOAD=NULL_FUNCTION").to_string();
    assert!(error.contains("the entry 'take' of its table is NULL"), "{error}");
}

#[test]
fn a_table_of_a_later_header_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = Plugin::load(&build(&folder, "tests/plugins/trouble.c", "-DLOAD=LATER_TABLE")).unwrap();
    let mut node = plugin.open(&options(&plugin, folder.path(), Role::Leader, &[])).unwrap();
    assert!(node.link(&LinkOptions { index: 0, callback: None }).is_ok());
}

#[test]
fn a_library_of_another_version_is_refused_with_both_versions() {
    let error = refusal("-DLOAD=OTHER_ABI");
    assert!(matches!(error, LoadError::AbiVersion(..)), "{error}");
    assert!(error.to_string().contains("version 2, this tripmeter has 1"), "{error}");
}

#[test]
fn what_is_no_transport_is_refused() {
    let error = refusal("-DLOAD=NO_ENTRY");
    assert!(matches!(error, LoadError::NoEntry(_)), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("tripmeter_text.so");
    std::fs::write(&text, "no library").unwrap();
    for file in [text, folder.path().join("absent.so")] {
        let error = Plugin::load(&file).err().unwrap();
        assert!(matches!(error, LoadError::Open(..)), "{error}");
        assert_eq!(error.to_string().contains("not a shared library for this machine"), file.is_file(), "{error}");
    }
}

#[test]
fn errors_of_a_library_are_heard() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = Plugin::load(&build(&folder, "tests/plugins/trouble.c", "-DLOAD=LOADS")).unwrap();
    for (mode, text) in [
        ("open-error", "`node_open`: trouble on purpose in open; choose another mode"),
        ("open-mute", "`node_open` returned TM_FAILED and no text"),
        ("open-code", "`node_open` returned the unknown status -77"),
        ("open-odd", "`node_open` returned the unknown status 42"),
        ("open-again", "`node_open` returned TM_AGAIN, which it must not"),
        ("open-garbage", "`node_open`: \u{fffd}"),
    ] {
        let error = plugin.open(&options(&plugin, folder.path(), Role::Leader, &[("mode", mode)])).err().unwrap();
        assert_eq!(error.status, Status::Failed, "{mode}");
        assert!(error.message.starts_with(text), "{mode}: {error}");
    }
    let elsewhere = [("mode", "open-error"), ("side", "follower")];
    assert!(
        plugin.open(&options(&plugin, folder.path(), Role::Leader, &elsewhere)).is_ok(),
        "trouble at one side only"
    );
}

#[test]
fn limits_out_of_bounds_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = Plugin::load(&build(&folder, "tests/plugins/trouble.c", "-DLOAD=LOADS")).unwrap();
    for (mode, told) in [
        ("limits-payload", "max_payload_bytes is 18446744073709551615, 9007199254740992 at most"),
        ("limits-packet", "packet_bytes is 18446744073709551615, 9007199254740992 at most"),
        ("limits-peers", "unauthorized_peers is 4294967295, 7 at most"),
    ] {
        let error = plugin.probe(&options(&plugin, folder.path(), Role::Leader, &[("mode", mode)])).err().unwrap();
        let file = plugin.file().display();
        assert_eq!(error.message, format!("plugin '{file}': `probe` gave limits whose {told}"), "{mode}");
    }
}

#[test]
fn a_loan_that_cannot_be_written_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = Plugin::load(&build(&folder, "tests/plugins/trouble.c", "-DLOAD=LOADS")).unwrap();
    for (mode, text) in [
        ("loan-null", "`loan` returned TM_OK and a loan whose data is NULL"),
        ("loan-short", "`loan` gave 99 bytes, 100 were asked for"),
        ("loan-misaligned", "`loan` gave data that is not aligned to 8 bytes"),
        ("loan-again", "`loan` returned TM_AGAIN, which it must not"),
    ] {
        let mut node = plugin.open(&options(&plugin, folder.path(), Role::Leader, &[("mode", mode)])).unwrap();
        let mut link = node.link(&LinkOptions { index: 0, callback: None }).unwrap();
        let error = link.loan(100, None).err().unwrap();
        assert_eq!(error.message, text, "{mode}");
    }
}

fn take(link: &mut PluginLink) -> Message {
    let start = Instant::now();
    loop {
        match link.take(PATIENCE_NS).unwrap() {
            Some(message) => return message,
            None => assert!(start.elapsed() < PATIENCE, "no message"),
        }
    }
}

fn send(link: &mut PluginLink, content: &[u8]) {
    let loan = link.loan(content.len(), None).unwrap();
    // SAFETY: a loan is writable for its length.
    unsafe { loan.data.copy_from(content.as_ptr(), content.len()) };
    assert!(link.publish(loan, PATIENCE_NS).unwrap(), "the message was sent in time");
}

fn content(message: &Message) -> &[u8] {
    // SAFETY: a message is readable for its length until it is released, which takes it by value.
    unsafe { std::slice::from_raw_parts(message.data, message.length) }
}

#[test]
fn the_example_carries_messages() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = Plugin::load(&build(&folder, "examples/c-transport/example.c", "-DEXAMPLE")).unwrap();
    assert_eq!(plugin.description().system, "example");
    let open = |role| {
        let mut node = plugin.open(&options(&plugin, folder.path(), role, &[])).unwrap();
        node.link(&LinkOptions { index: 0, callback: None }).unwrap()
    };
    let (mut leader, mut follower) = (open(Role::Leader), open(Role::Follower));
    let (leads, follows) = (leader.address().unwrap(), follower.address().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            follower.connect(&[leads], PATIENCE_NS).unwrap();
            for _ in 0..3 {
                let message = take(&mut follower);
                send(&mut follower, content(&message));
                follower.release(message);
            }
        });
        leader.connect(&[follows], PATIENCE_NS).unwrap();
        for length in [1, 1000, 100_000] {
            let sent: Vec<u8> = (0..length).map(|index| (index % 251) as u8).collect();
            send(&mut leader, &sent);
            let message = take(&mut leader);
            assert!(content(&message) == sent, "{length} bytes came back as they went");
            leader.release(message);
        }
        assert!(leader.take(10_000_000).unwrap().is_none(), "nothing is left");
    });
}
