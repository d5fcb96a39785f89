//! A plugin whose table, description and answers are of arbitrary contents, as far as the header lets them be read: what
//! it points to is there, and strings are as long as they say.
#![expect(unsafe_code, reason = "the C boundary")]

use crate::input::Input;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_char;
use std::path::PathBuf;
use std::ptr;
use tripmeter_abi::raw::*;
use tripmeter_abi::{Description, Link, LinkOptions, Node, NodeOptions, Pattern, Plugin, Role, System, Wait};

const ROOM: usize = 256;
/// Longer than the longest string that is taken.
const TOO_LONG: usize = 5000;

/// What the functions of the table answer with.
struct PluginAnswers {
    bytes: Vec<u8>,
    next: usize,
    room: [u64; ROOM / 8],
}

thread_local! {
    static ANSWERS: RefCell<PluginAnswers> =
        const { RefCell::new(PluginAnswers { bytes: Vec::new(), next: 0, room: [0; ROOM / 8] }) };
}

/// Gives the next values, and room that lives as long as the thread.
fn answer<T>(give: impl FnOnce(&mut Input<'_>, *mut u8) -> T) -> T {
    ANSWERS.with_borrow_mut(|answers| {
        let PluginAnswers { bytes, next, room } = answers;
        let mut input = Input(bytes.get(*next..).unwrap_or_default());
        let before = input.0.len();
        let given = give(&mut input, room.as_mut_ptr().cast());
        *next += before - input.0.len();
        given
    })
}

fn put(text: &mut [c_char], bytes: &[u8]) {
    text.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from as c_char);
}

/// A status, perhaps with a text. Half of all calls succeed.
fn status(input: &mut Input<'_>, error: *mut tm_error) -> i32 {
    let status = match input.u8() {
        0..128 => return TM_OK,
        value @ 128..250 => i32::from(value) - 240,
        _ => input.u32() as i32,
    };
    let count = input.u8() as usize * 2;
    // SAFETY: the host gives room for an error.
    put(unsafe { &mut (*error).text }, input.bytes(count));
    status
}

/// NULL, or what nobody looks at.
fn handle<T>(input: &mut Input<'_>) -> *mut T {
    if input.u8() < 240 { ptr::dangling_mut() } else { ptr::null_mut() }
}

unsafe extern "C" fn probe(_: *const tm_node_options, limits: *mut tm_limits, error: *mut tm_error) -> i32 {
    answer(|input, _| {
        // SAFETY: the host gives room for limits.
        let limits = unsafe { &mut *limits };
        limits.max_payload_bytes = u64::from(input.u32()) << (input.u8() % 33);
        (limits.packet_bytes, limits.unauthorized_peers) = (input.u32().into(), input.u32());
        status(input, error)
    })
}

unsafe extern "C" fn daemon_command(
    _: *const tm_node_options,
    command: *mut tm_daemon_command,
    error: *mut tm_error,
) -> i32 {
    answer(|input, _| {
        let (program, arguments) = (input.u8() as usize + 1, input.u8() as usize * 9);
        // SAFETY: the host gives room for a command.
        let command = unsafe { &mut *command };
        put(&mut command.program, input.bytes(program));
        put(&mut command.arguments, input.bytes(arguments));
        status(input, error)
    })
}

unsafe extern "C" fn node_open(_: *const tm_node_options, node: *mut *mut tm_node, error: *mut tm_error) -> i32 {
    answer(|input, _| {
        // SAFETY: the host gives room for a pointer.
        unsafe { *node = handle(input) };
        status(input, error)
    })
}

unsafe extern "C" fn node_close(_: *mut tm_node) {}

unsafe extern "C" fn link_open(
    _: *mut tm_node,
    _: *const tm_link_options,
    link: *mut *mut tm_link,
    error: *mut tm_error,
) -> i32 {
    answer(|input, _| {
        // SAFETY: the host gives room for a pointer.
        unsafe { *link = handle(input) };
        status(input, error)
    })
}

unsafe extern "C" fn link_address(
    _: *mut tm_link,
    room: *mut u8,
    capacity: usize,
    length: *mut usize,
    error: *mut tm_error,
) -> i32 {
    answer(|input, _| {
        let claimed = if input.u8() < 200 { input.u8() as usize } else { input.u32() as usize };
        let bytes = input.bytes(claimed.min(capacity));
        // SAFETY: the host gives that capacity, and room for the length.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), room, bytes.len());
            *length = claimed;
        }
        status(input, error)
    })
}

unsafe extern "C" fn link_connect(_: *mut tm_link, _: *const tm_bytes, _: usize, _: u64, error: *mut tm_error) -> i32 {
    answer(|input, _| status(input, error))
}

unsafe extern "C" fn link_close(_: *mut tm_link) {}

unsafe extern "C" fn loan(
    _: *mut tm_link,
    length: usize,
    _: *const tm_message,
    loan: *mut tm_loan,
    error: *mut tm_error,
) -> i32 {
    answer(|input, room| {
        let (data, length) = match input.u8() {
            0..200 => (room, length),
            200..220 => (ptr::null_mut(), length),
            // SAFETY: the room has more bytes.
            220..240 => (unsafe { room.add(1) }, length),
            _ => (room, input.u32() as usize),
        };
        // SAFETY: the host gives room for a loan.
        unsafe { loan.write(tm_loan { data, length, token: ptr::null_mut() }) };
        status(input, error)
    })
}

unsafe extern "C" fn publish(_: *mut tm_link, _: *mut tm_loan, _: u64, error: *mut tm_error) -> i32 {
    answer(|input, _| status(input, error))
}

unsafe extern "C" fn discard(_: *mut tm_link, _: *mut tm_loan) {}

unsafe extern "C" fn take(_: *mut tm_link, _: u64, message: *mut tm_message, error: *mut tm_error) -> i32 {
    answer(|input, room| {
        let (data, length) = match input.u8() {
            0..200 => (room, input.u8() as usize),
            200..230 => (ptr::null_mut(), input.u8() as usize),
            _ => (room, usize::MAX - input.u32() as usize),
        };
        // SAFETY: the host gives room for a message.
        unsafe { message.write(tm_message { data, length, token: ptr::null_mut() }) };
        status(input, error)
    })
}

unsafe extern "C" fn release(_: *mut tm_link, _: *mut tm_message) {}

/// Strings are slices of the input, NULL, or of a length that is refused before they are read.
fn string(input: &mut Input<'_>) -> tm_str {
    let kind = input.u8();
    let (data, length) = match kind {
        0..240 => {
            let bytes = input.bytes(kind as usize % 32);
            (bytes.as_ptr(), bytes.len())
        }
        240..248 => (ptr::null(), input.u8() as usize),
        _ => (ptr::dangling(), TOO_LONG + input.u32() as usize),
    };
    tm_str { data: data.cast(), length }
}

fn variant(input: &mut Input<'_>) -> tm_variant {
    tm_variant {
        name: string(input),
        summary: string(input),
        path: u32::from(input.u8()) % 16,
        patterns: input.u32(),
        waits: input.u32(),
        flags: input.u32(),
        reserved: [0; 4],
    }
}

fn setting(input: &mut Input<'_>) -> tm_setting {
    let [name, default_value, values, summary] = [(); 4].map(|()| string(input));
    tm_setting { name, default_value, values, summary, names: summary.length as u64, reserved: [0; 3] }
}

/// A list and its number of entries: NULL with any, or no more than there are, or more than is taken.
fn list<T>(input: &mut Input<'_>, of: &[T]) -> (*const T, usize) {
    match input.u8() {
        0..230 => (of.as_ptr(), of.len()),
        230..245 => (ptr::null(), input.u8() as usize),
        _ => (of.as_ptr(), 257 + input.u32() as usize),
    }
}

/// The size of this header's block; sometimes that of another.
fn size<T>(input: &mut Input<'_>) -> u32 {
    if input.u8() < 240 { size_of::<T>() as u32 } else { input.u32() }
}

pub(crate) fn table(bytes: &[u8]) {
    let mut input = Input(bytes);
    let input = &mut input;
    let (variant_count, setting_count) = (input.u8() as usize % 4, input.u8() as usize % 4);
    let variants: Vec<tm_variant> = (0..variant_count).map(|_| variant(input)).collect();
    let settings: Vec<tm_setting> = (0..setting_count).map(|_| setting(input)).collect();
    let [system, summary, version, system_version, daemon] = [(); 5].map(|()| string(input));
    let ((variants, variant_count), (settings, setting_count)) = (list(input, &variants), list(input, &settings));
    let description = tm_description {
        struct_size: size::<tm_description>(input),
        reserved: input.u32(),
        system,
        summary,
        version,
        system_version,
        variants,
        variant_count,
        settings,
        setting_count,
        daemon,
    };
    let missing = input.u8();
    let is_there = |entry: u8| missing != 240 + entry;
    let table = tm_transport {
        abi_version: if input.u8() < 250 { TM_ABI_VERSION } else { input.u32() },
        struct_size: size::<tm_transport>(input),
        description: if is_there(0) { &raw const description } else { ptr::null() },
        probe: is_there(1).then_some(probe),
        daemon_command: is_there(2).then_some(daemon_command),
        node_open: is_there(3).then_some(node_open),
        node_close: is_there(4).then_some(node_close),
        link_open: is_there(5).then_some(link_open),
        link_address: is_there(6).then_some(link_address),
        link_connect: is_there(7).then_some(link_connect),
        link_close: is_there(8).then_some(link_close),
        loan: is_there(9).then_some(loan),
        publish: is_there(10).then_some(publish),
        discard: is_there(11).then_some(discard),
        take: is_there(12).then_some(take),
        release: is_there(13).then_some(release),
    };
    ANSWERS.with_borrow_mut(|answers| {
        answers.bytes.clear();
        answers.bytes.extend_from_slice(input.0);
        answers.next = 0;
    });
    let library = libloading::os::unix::Library::this().into();
    // SAFETY: all that the table points to lives until the end of this function, and the functions as long as the program.
    let loaded = unsafe { Plugin::of_table(&raw const table, library, PathBuf::from("x.so")) };
    match loaded {
        Ok(plugin) => used(&plugin),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Calls every function, as the engine does.
fn used(plugin: &Plugin) {
    let description = plugin.description();
    // As the process that loads a plugin says it to the supervisor.
    let text = serde_json::to_string(&description).expect("a description is written");
    let again: Description = serde_json::from_str(&text).expect("a description that was written is read");
    assert_eq!(serde_json::to_string(&again).ok(), Some(text));
    let options = options(&description);
    let _ = (plugin.probe(&options), plugin.daemon_command(&options));
    let Ok(mut node) = plugin.open(&options) else { return };
    let Ok(mut link) = node.link(&LinkOptions { index: 0, callback: None }) else { return };
    let address = link.address().unwrap_or_default();
    assert!(address.len() <= 4096);
    let _ = link.connect(&[address], 0);
    for length in [64, ROOM] {
        if let Ok(loan) = link.loan(length, None) {
            // SAFETY: a loan is writable for the length that was asked for.
            unsafe { loan.data.write_bytes(1, length) };
            let _ = link.publish(loan, 0);
        }
        if let Ok(Some(message)) = link.take(0) {
            assert!(!message.data.is_null() && message.length <= isize::MAX as usize);
            link.release(message);
        }
    }
}

fn options(description: &Description) -> NodeOptions {
    NodeOptions {
        role: Role::Leader,
        pattern: Pattern::Ping,
        wait: Wait::Poll,
        variant: description.variants[0].name.clone(),
        settings: description
            .settings
            .iter()
            .map(|one| (one.name.clone(), one.default.clone()))
            .collect::<BTreeMap<_, _>>(),
        run_id: "tripmeter-fuzz".to_owned(),
        scratch_dir: PathBuf::from("/"),
        max_payload_bytes: 64,
        link_count: 1,
        follower_count: 1,
        follower_index: 0,
        unauthorized_peer: None,
        publisher_count: 1,
        local_address: None,
    }
}
