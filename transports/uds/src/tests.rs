use super::*;
use tripmeter_abi::Link;
use tripmeter_abi::testing::{self, Case};

const SETTINGS: &[&[(&str, &str)]] = &[&[], &[("packet", "4096")], &[("packet", "256")], &[("buffer", "1000000")]];

#[test]
fn datagram() {
    testing::conformance(&Uds, "datagram", SETTINGS);
}

#[test]
fn stream() {
    testing::conformance(&Uds, "stream", SETTINGS);
}

#[test]
fn seqpacket() {
    testing::conformance(&Uds, "seqpacket", SETTINGS);
}

fn case<'a>(variant: &'a str, settings: &'a [(&'a str, &'a str)]) -> Case<'a> {
    Case { variant, settings, wait: Wait::Poll, pattern: Pattern::Ping, payloads: &[(16, 1)] }
}

#[test]
fn probe_tells_the_packet_size_that_the_kernel_takes() {
    let packet = |variant, settings| testing::probe(&Uds, &case(variant, settings)).unwrap().packet_bytes;
    let native = packet("datagram", &[]);
    assert!(native > 4096);
    assert_eq!(packet("seqpacket", &[]), native);
    assert_eq!(packet("stream", &[]), 0);
    for variant in ["datagram", "stream", "seqpacket"] {
        assert_eq!(packet(variant, &[("packet", "4096")]), 4096);
    }
    assert!(packet("datagram", &[("buffer", "8192")]) < native);
}

#[test]
fn a_packet_beyond_the_kernel_s_limit_is_refused() {
    let error = testing::probe(&Uds, &case("datagram", &[("packet", "100000000")])).unwrap_err();
    assert_eq!(error.status, Status::Limit);
}

#[test]
fn connecting_to_nobody_fails() {
    let scratch = testing::Scratch::new();
    for variant in ["datagram", "stream", "seqpacket"] {
        let mut node = Uds.open(&testing::options(&Uds, Role::Follower, &case(variant, &[]), &scratch)).unwrap();
        let mut link = node.link(&LinkOptions { index: 0, callback: None }).unwrap();
        let nobody = b"/nowhere/uds-0-l".to_vec();
        let error = link.connect(&[nobody], testing::PATIENCE_NS).unwrap_err();
        assert_eq!(error.status, Status::Closed, "{error}");
    }
    let mut node = Uds.open(&testing::options(&Uds, Role::Leader, &case("stream", &[]), &scratch)).unwrap();
    let mut link = node.link(&LinkOptions { index: 0, callback: None }).unwrap();
    assert_eq!(link.connect(&[Vec::new()], 1_000_000).unwrap_err().status, Status::Failed);
}

#[test]
fn sockets_are_in_the_scratch_folder_where_nobody_else_comes() {
    let scratch = testing::Scratch::new();
    for variant in ["datagram", "stream", "seqpacket"] {
        let options = testing::options(&Uds, Role::Leader, &case(variant, &[]), &scratch);
        let mut link = Uds.open(&options).unwrap().link(&LinkOptions { index: 3, callback: None }).unwrap();
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(&link.address().unwrap()));
        assert_eq!((path.parent(), path.exists()), (Some(&*options.scratch_dir), true));
        drop(link);
        assert!(!path.exists());
    }
}
