//! A Rust transport used through its C table: all calls arrive, and panics and errors cross it only as a status.
#![allow(clippy::unwrap_used)]
#![expect(unsafe_code, reason = "memory and calls as a host has them")]

use std::cell::Cell;
use std::collections::VecDeque;
use std::ffi::CStr;
use std::ptr;
use tripmeter_abi::raw::*;
use tripmeter_abi::{
    DaemonCommand, Description, Error, Export, Limits, Link, LinkOptions, Loan, Message, Names, Node, NodeOptions,
    Path, Result, Setting, Status, System, UnauthorizedPeer, Variant, table,
};

thread_local! {
    static OPEN: Cell<i32> = const { Cell::new(0) };
}

/// Trouble that the setting `mode` requests for calls named by the setting `call`.
#[derive(Clone)]
struct Trouble {
    call: String,
    mode: String,
}

impl Trouble {
    fn from_options(options: &NodeOptions) -> Self {
        Self { call: options.setting("call").to_owned(), mode: options.setting("mode").to_owned() }
    }

    fn at(&self, call: &str) -> Result<()> {
        if self.call != call {
            return Ok(());
        }
        match self.mode.as_str() {
            "panic" => panic!("on purpose"),
            "long" => Err(Error::failed(format!("x{}", "é".repeat(300)))),
            "long-odd" => Err(Error::failed("é".repeat(300))),
            "closed" => Err(Error::closed("gone")),
            "no-daemon" => Err(Error::new(Status::NoDaemon, "no daemon")),
            _ => Err(Error::new(Status::Limit, "too much")),
        }
    }
}

#[derive(Default)]
struct Echo;

struct EchoNode(Trouble);

struct EchoLink {
    trouble: Trouble,
    queue: VecDeque<Box<[u8]>>,
}

impl Drop for EchoNode {
    fn drop(&mut self) {
        OPEN.set(OPEN.get() - 1);
        self.0.at("node_close").unwrap();
    }
}

impl Drop for EchoLink {
    fn drop(&mut self) {
        OPEN.set(OPEN.get() - 1);
        self.trouble.at("link_close").unwrap();
    }
}

impl System for Echo {
    type Node = EchoNode;

    fn description(&self) -> Description {
        let mut variant = Variant::new("loop", "to itself", Path::Memory);
        variant.same_process = true;
        variant.zero_copy = true;
        Description {
            system: "echo".to_owned(),
            summary: "delivers to itself".to_owned(),
            version: "1.2.3".to_owned(),
            system_version: "none".to_owned(),
            variants: vec![variant],
            settings: vec![Setting::new("mode", "off", "off | panic", "trouble", Names::Nothing)],
            daemon: Some("echod".to_owned()),
        }
    }

    fn probe(&self, options: &NodeOptions) -> Result<Limits> {
        Trouble::from_options(options).at("probe")?;
        Ok(Limits { max_payload_bytes: 4096, packet_bytes: 7, unauthorized_peers: 3 })
    }

    fn daemon_command(&self, options: &NodeOptions) -> Result<Option<DaemonCommand>> {
        Trouble::from_options(options).at("daemon_command")?;
        Ok(Some(DaemonCommand { program: "echod".to_owned(), arguments: vec!["-c".to_owned(), "a b".to_owned()] }))
    }

    fn open(&self, options: &NodeOptions) -> Result<EchoNode> {
        assert_eq!(options.unauthorized_peer, Some(UnauthorizedPeer::Foreign));
        let is_old = options.max_payload_bytes == BYTES_OF_OLD_HOST;
        assert_eq!(options.publisher_count, if is_old { 1 } else { 3 });
        assert_eq!(options.address().to_string(), if is_old { "127.0.0.1" } else { "2001:db8::7" });
        let trouble = Trouble::from_options(options);
        trouble.at("node_open")?;
        OPEN.set(OPEN.get() + 1);
        Ok(EchoNode(trouble))
    }
}

impl Node for EchoNode {
    type Link = EchoLink;

    fn link(&mut self, _options: &LinkOptions) -> Result<EchoLink> {
        self.0.at("link_open")?;
        OPEN.set(OPEN.get() + 1);
        Ok(EchoLink { trouble: self.0.clone(), queue: VecDeque::new() })
    }
}

fn boxed(data: *mut u8, length: usize) -> Box<[u8]> {
    // SAFETY: every buffer of this test was leaked from a boxed slice of that length, and is taken back once.
    unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(data, length)) }
}

impl Link for EchoLink {
    fn address(&mut self) -> Result<Vec<u8>> {
        self.trouble.at("link_address").map(|()| b"here".to_vec())
    }

    fn connect(&mut self, peers: &[Vec<u8>], _timeout_ns: u64) -> Result<()> {
        self.trouble.at("link_connect")?;
        assert_eq!(peers, [b"there".to_vec(), Vec::new()]);
        Ok(())
    }

    fn loan(&mut self, length: usize, in_reply_to: Option<&Message>) -> Result<Loan> {
        self.trouble.at("loan")?;
        assert!(in_reply_to.is_none());
        let data = Box::leak(vec![0; length].into_boxed_slice()).as_mut_ptr();
        Ok(Loan { data, length, token: ptr::null_mut() })
    }

    fn publish(&mut self, loan: Loan, _timeout_ns: u64) -> Result<bool> {
        let message = boxed(loan.data, loan.length);
        self.trouble.at("publish")?;
        let room = self.queue.len() < 2;
        if room {
            self.queue.push_back(message);
        }
        Ok(room)
    }

    fn discard(&mut self, loan: Loan) {
        drop(boxed(loan.data, loan.length));
        self.trouble.at("discard").unwrap();
    }

    fn take(&mut self, _timeout_ns: u64) -> Result<Option<Message>> {
        self.trouble.at("take")?;
        let message = self.queue.pop_front().map(|message| {
            let length = message.len();
            Message { data: Box::leak(message).as_ptr(), length, token: ptr::null_mut() }
        });
        Ok(message)
    }

    fn release(&mut self, message: Message) {
        drop(boxed(message.data.cast_mut(), message.length));
        self.trouble.at("release").unwrap();
    }
}

fn str_of(text: &[u8]) -> tm_str {
    tm_str { data: text.as_ptr().cast(), length: text.len() }
}

macro_rules! ok {
    ($call:expr) => {
        match $call {
            TM_OK => {}
            status => return status,
        }
    };
}

/// Table as held by a host in C, and its error block.
struct Host {
    table: &'static tm_transport,
    error: tm_error,
    node: *mut tm_node,
    link: *mut tm_link,
}

impl Host {
    fn new() -> Self {
        let export: Export = table::<Echo>();
        // SAFETY: the table is leaked, so that it lives for ever.
        let table = unsafe { &*export.as_ptr() };
        Self { table, error: tm_error { text: [b'?' as _; 512] }, node: ptr::null_mut(), link: ptr::null_mut() }
    }

    fn text(&self) -> &str {
        // SAFETY: the callee ends the text with a NUL, which the test of the longest text relies on, too.
        unsafe { CStr::from_ptr(self.error.text.as_ptr()) }.to_str().unwrap()
    }

    fn options(settings: &[tm_key_value]) -> tm_node_options {
        tm_node_options {
            struct_size: size_of::<tm_node_options>() as u32,
            role: TM_LEADER,
            pattern: 1,
            wait: 1,
            variant: str_of(b"loop"),
            settings: settings.as_ptr(),
            setting_count: settings.len(),
            run_id: str_of(b"run"),
            scratch_dir: str_of(b"/nowhere"),
            max_payload_bytes: 64,
            link_count: 1,
            follower_count: 1,
            follower_index: 0,
            unauthorized_peer: 2,
            publisher_count: 3,
            reserved: 0,
            local_address: str_of(b"2001:db8::7"),
        }
    }

    /// Calls every function of the table, in the order of a node's life; returns the status of `call`, or the first
    /// error.
    fn live(&mut self, call: &str, mode: &str) -> i32 {
        let pair = |key: &'static [u8], value: &str| tm_key_value { key: str_of(key), value: str_of(value.as_bytes()) };
        let settings = [pair(b"call", call), pair(b"mode", mode)];
        self.live_with(&Self::options(&settings))
    }

    fn live_with(&mut self, options: &tm_node_options) -> i32 {
        let status = self.begin(options);
        let status = if status == TM_OK { self.exchange() } else { status };
        // SAFETY: what was opened is closed once, links before the node.
        unsafe {
            if !self.link.is_null() {
                self.table.link_close.unwrap()(self.link);
            }
            if !self.node.is_null() {
                self.table.node_close.unwrap()(self.node);
            }
        }
        status
    }

    fn begin(&mut self, options: &tm_node_options) -> i32 {
        let mut limits = tm_limits { struct_size: 24, unauthorized_peers: 0, max_payload_bytes: 0, packet_bytes: 0 };
        let mut command = tm_daemon_command { struct_size: 2312, reserved: 0, program: [1; 256], arguments: [1; 2048] };
        let link_options = tm_link_options { struct_size: 24, index: 0, on_message: None, context: ptr::null_mut() };
        let (mut buffer, mut length) = ([0; 16], 0);
        let peers = [tm_bytes { data: b"there".as_ptr(), length: 5 }, tm_bytes { data: ptr::null(), length: 0 }];
        let t = self.table;
        // SAFETY: all blocks are valid during their call, and handles come from the call before.
        unsafe {
            ok!(t.probe.unwrap()(options, &mut limits, &mut self.error));
            ok!(t.daemon_command.unwrap()(options, &mut command, &mut self.error));
            ok!(t.node_open.unwrap()(options, &mut self.node, &mut self.error));
            ok!(t.link_open.unwrap()(self.node, &link_options, &mut self.link, &mut self.error));
            let room = buffer.len();
            ok!(t.link_address.unwrap()(self.link, buffer.as_mut_ptr(), room, &mut length, &mut self.error));
            ok!(t.link_connect.unwrap()(self.link, peers.as_ptr(), peers.len(), 1, &mut self.error));
        }
        assert_eq!((limits.max_payload_bytes, limits.packet_bytes, limits.unauthorized_peers), (4096, 7, 3));
        assert_eq!(&buffer[..length], b"here");
        let list = command.arguments.map(|unit| unit as u8);
        assert!(list.starts_with(b"-c\0a b\0\0"), "{list:?}");
        TM_OK
    }

    fn exchange(&mut self) -> i32 {
        let (t, link) = (self.table, self.link);
        let mut loan = tm_loan { data: ptr::null_mut(), length: 0, token: ptr::null_mut() };
        let mut message = tm_message { data: ptr::null(), length: 0, token: ptr::null_mut() };
        // SAFETY: as in `begin`; a loan is published or discarded once, a message released once.
        unsafe {
            ok!(t.loan.unwrap()(link, 5, ptr::null(), &mut loan, &mut self.error));
            loan.data.copy_from(b"hello".as_ptr(), 5);
            ok!(t.publish.unwrap()(link, &mut loan, 0, &mut self.error));
            ok!(t.take.unwrap()(link, 0, &mut message, &mut self.error));
            assert_eq!(std::slice::from_raw_parts(message.data, message.length), b"hello");
            t.release.unwrap()(link, &mut message);
            assert_eq!(t.take.unwrap()(link, 0, &mut message, &mut self.error), TM_AGAIN);
            ok!(t.loan.unwrap()(link, 3, ptr::null(), &mut loan, &mut self.error));
            t.discard.unwrap()(link, &mut loan);
        }
        TM_OK
    }
}

const FALLIBLE: [&str; 9] =
    ["probe", "daemon_command", "node_open", "link_open", "link_address", "link_connect", "loan", "publish", "take"];

/// Payload size that marks an old host, without `publisher_count`.
const BYTES_OF_OLD_HOST: u64 = 65;

#[test]
fn a_host_that_knows_nothing_of_publishers_and_addresses_has_one_and_the_loopback() {
    let options = Host::options(&[]);
    let known = std::mem::offset_of!(tm_node_options, publisher_count) as u32;
    let options = tm_node_options { struct_size: known, max_payload_bytes: BYTES_OF_OLD_HOST, ..options };
    assert_eq!(Host::new().live_with(&options), TM_OK);
}

#[test]
fn the_table_describes_the_transport() {
    let t = Host::new().table;
    assert_eq!((t.abi_version, t.struct_size as usize), (TM_ABI_VERSION, size_of::<tm_transport>()));
    // SAFETY: table and description live as long as the process.
    let (description, variant, setting) = unsafe {
        let description = &*t.description;
        (description, *description.variants, *description.settings)
    };
    let read = |text: tm_str| {
        // SAFETY: the strings of a description are valid UTF-8 of the length given.
        unsafe { str::from_utf8(std::slice::from_raw_parts(text.data.cast(), text.length)) }.unwrap()
    };
    assert_eq!(read(description.system), "echo");
    assert_eq!(read(description.daemon), "echod");
    assert_eq!((description.variant_count, description.setting_count), (1, 1));
    assert_eq!((read(variant.name), variant.path, variant.patterns), ("loop", Path::Memory.code(), 1));
    assert_eq!((variant.waits, variant.flags), (3, TM_SAME_PROCESS | TM_ZERO_COPY));
    assert_eq!((read(setting.name), read(setting.default_value)), ("mode", "off"));
}

#[test]
fn a_node_lives_through_the_table() {
    let mut host = Host::new();
    assert_eq!(host.live("", ""), TM_OK, "{}", host.text());
    assert_eq!(OPEN.get(), 0, "node and link were dropped");
}

#[test]
fn errors_arrive_as_status_and_text() {
    for call in FALLIBLE {
        for (mode, status, text) in
            [("closed", TM_CLOSED, "gone"), ("no-daemon", TM_NO_DAEMON, "no daemon"), ("limit", TM_LIMIT, "too much")]
        {
            let mut host = Host::new();
            assert_eq!((host.live(call, mode), host.text()), (status, text), "{call}");
        }
    }
    assert_eq!(OPEN.get(), 0, "nothing stays open after an error");
}

#[test]
fn panics_do_not_cross() {
    std::panic::set_hook(Box::new(|info| {
        if info.payload_as_str() != Some("on purpose") {
            eprintln!("{info}");
        }
    }));
    for call in FALLIBLE {
        let mut host = Host::new();
        assert_eq!(host.live(call, "panic"), TM_FAILED, "{call}");
        assert_eq!(host.text(), "the transport panicked: \"on purpose\"", "{call}");
    }
    for call in ["release", "discard", "link_close", "node_close"] {
        assert_eq!(Host::new().live(call, "panic"), TM_OK, "{call} has no status to give");
    }
    assert_eq!(OPEN.get(), 0, "nodes and links were dropped");
}

#[test]
fn texts_are_cut_between_characters() {
    let mut host = Host::new();
    assert_eq!(host.live("take", "long"), TM_FAILED);
    assert_eq!(host.text(), format!("x{}", "é".repeat(255)), "511 bytes, all of them whole characters");
    // One byte less before it, and the cut is within a character, which is omitted.
    let mut host = Host::new();
    assert_eq!(host.live("take", "long-odd"), TM_FAILED);
    assert_eq!(host.text(), "é".repeat(255), "510 bytes: half a character more would fit");
}

#[test]
fn a_full_transport_says_again() {
    let mut host = Host::new();
    assert_eq!(host.begin(&Host::options(&[])), TM_OK);
    let mut loan = tm_loan { data: ptr::null_mut(), length: 0, token: ptr::null_mut() };
    let mut publish = || {
        // SAFETY: the link is open, and each loan is published once.
        unsafe {
            assert_eq!(host.table.loan.unwrap()(host.link, 1, ptr::null(), &mut loan, &mut host.error), TM_OK);
            host.table.publish.unwrap()(host.link, &mut loan, 0, &mut host.error)
        }
    };
    assert_eq!([publish(), publish(), publish()], [TM_OK, TM_OK, TM_AGAIN]);
    // SAFETY: both are open and closed once.
    unsafe {
        host.table.link_close.unwrap()(host.link);
        host.table.node_close.unwrap()(host.node);
    }
}

#[test]
fn options_that_break_the_contract_are_invalid() {
    let mut host = Host::new();
    type Spoil = fn(&mut tm_node_options);
    let broken: [(&str, Spoil); 4] = [
        ("role", |options| options.role = 3),
        ("pattern", |options| options.pattern = 3),
        ("wait", |options| options.wait = 0),
        ("UTF-8", |options| options.variant = str_of(b"\xff")),
    ];
    for (what, spoil) in broken {
        let mut options = Host::options(&[]);
        spoil(&mut options);
        assert_eq!(host.begin(&options), TM_INVALID, "{what}");
        assert!(host.text().contains(what), "{}", host.text());
    }
}

#[test]
fn an_address_larger_than_its_buffer_is_refused() {
    let mut host = Host::new();
    assert_eq!(host.begin(&Host::options(&[])), TM_OK);
    let (mut buffer, mut length) = ([7; 3], 0);
    let t = host.table;
    // SAFETY: the link is open; the buffer has the capacity given.
    unsafe {
        let status =
            t.link_address.unwrap()(host.link, buffer.as_mut_ptr(), buffer.len(), &mut length, &mut host.error);
        assert_eq!((status, buffer), (TM_LIMIT, [7; 3]), "{}", host.text());
        t.link_close.unwrap()(host.link);
        t.node_close.unwrap()(host.node);
    }
}
