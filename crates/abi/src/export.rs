//! A Rust transport as a C table. Every entry catches panics, so that none crosses the boundary.
#![expect(unsafe_code, reason = "the C boundary")]

use crate::raw::*;
use crate::{
    Callback, Description, Error, Link, LinkOptions, Node, NodeOptions, Pattern, Result, Role, Status, System,
    UnauthorizedPeer, Wait, panicked,
};
use std::ffi::{OsStr, c_char};
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// Exports a [`System`] with a `Default` as the shared library's `tripmeter_transport`.
#[macro_export]
macro_rules! export_transport {
    ($system:ty) => {
        /// Table of this transport.
        #[unsafe(no_mangle)]
        pub extern "C" fn tripmeter_transport() -> *const $crate::raw::tm_transport {
            static TABLE: ::std::sync::OnceLock<$crate::Export> = ::std::sync::OnceLock::new();
            TABLE.get_or_init($crate::table::<$system>).as_ptr()
        }
    };
}

/// Table that lives as long as the library.
pub struct Export(&'static tm_transport);

// SAFETY: the table and all it points to are immutable and never freed.
unsafe impl Sync for Export {}
// SAFETY: as above.
unsafe impl Send for Export {}

impl Export {
    /// Address of the table.
    pub fn as_ptr(&self) -> *const tm_transport {
        self.0
    }
}

/// Builds the table of a system, which is never freed; called once per process.
pub fn table<S: System + Default>() -> Export {
    let description = leak_description(S::default().description());
    Export(Box::leak(Box::new(tm_transport {
        abi_version: TM_ABI_VERSION,
        struct_size: size_of::<tm_transport>() as u32,
        description,
        probe: Some(probe::<S>),
        daemon_command: Some(daemon_command::<S>),
        node_open: Some(node_open::<S>),
        node_close: Some(node_close::<S>),
        link_open: Some(link_open::<S>),
        link_address: Some(link_address::<S>),
        link_connect: Some(link_connect::<S>),
        link_close: Some(link_close::<S>),
        loan: Some(loan::<S>),
        publish: Some(publish::<S>),
        discard: Some(discard::<S>),
        take: Some(take::<S>),
        release: Some(release::<S>),
    })))
}

pub(crate) type LinkOf<S> = <<S as System>::Node as Node>::Link;

fn leak_str(text: &str) -> tm_str {
    let text: &'static str = Box::leak(text.to_owned().into_boxed_str());
    tm_str { data: text.as_ptr().cast::<c_char>(), length: text.len() }
}

fn bits(codes: impl Iterator<Item = u32>) -> u32 {
    codes.fold(0, |all, bit| all | bit)
}

fn leak_description(description: Description) -> *const tm_description {
    let variants: Vec<tm_variant> = description
        .variants
        .iter()
        .map(|variant| tm_variant {
            name: leak_str(&variant.name),
            summary: leak_str(&variant.summary),
            path: variant.path.code(),
            patterns: bits(variant.patterns.iter().map(|pattern| pattern.code())),
            waits: bits(variant.waits.iter().map(|wait| wait.code())),
            flags: variant.flags(),
            reserved: [0; 4],
        })
        .collect();
    let settings: Vec<tm_setting> = description
        .settings
        .iter()
        .map(|setting| tm_setting {
            name: leak_str(&setting.name),
            default_value: leak_str(&setting.default),
            values: leak_str(&setting.values),
            summary: leak_str(&setting.summary),
            names: setting.names.map_or(0, |names| names.code().into()),
            reserved: [0; 3],
        })
        .collect();
    let (variants, settings) = (Box::leak(variants.into_boxed_slice()), Box::leak(settings.into_boxed_slice()));
    Box::leak(Box::new(tm_description {
        struct_size: size_of::<tm_description>() as u32,
        reserved: 0,
        system: leak_str(&description.system),
        summary: leak_str(&description.summary),
        version: leak_str(&description.version),
        system_version: leak_str(&description.system_version),
        variants: variants.as_ptr(),
        variant_count: variants.len(),
        settings: settings.as_ptr(),
        setting_count: settings.len(),
        daemon: leak_str(description.daemon.as_deref().unwrap_or("")),
    }))
}

/// Runs `call`, and converts errors and panics to a status and a text.
fn guard(error: *mut tm_error, call: impl FnOnce() -> Result<i32>) -> i32 {
    let failure = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(status)) => return status,
        Ok(Err(failure)) => failure,
        Err(panic) => Error::failed(panicked("the transport", &*panic)),
    };
    // SAFETY: the header guarantees that `error` is valid for writing and never NULL.
    write_text(unsafe { &mut (*error).text }, &failure.message);
    failure.status.code()
}

/// Writes `text` NUL-terminated, truncated at a character boundary.
fn write_text(buffer: &mut [c_char], text: &str) {
    let mut length = text.len().min(buffer.len() - 1);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    for (to, from) in buffer.iter_mut().zip(text.as_bytes()[..length].iter().chain(&[0])) {
        *to = *from as c_char;
    }
}

/// # Safety
/// `text` points to `length` readable bytes, or `length` is 0.
unsafe fn read_bytes<'a>(data: *const u8, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller's contract.
    unsafe { std::slice::from_raw_parts(data, length) }
}

/// # Safety
/// As for [`read_bytes`].
unsafe fn read_str(text: tm_str) -> Result<String> {
    // SAFETY: the caller's contract.
    let bytes = unsafe { read_bytes(text.data.cast(), text.length) };
    String::from_utf8(bytes.to_vec()).map_err(|_| Error::new(Status::Invalid, "a string is not UTF-8"))
}

/// True if the host's option block has the field `publisher_count`.
fn knows_publishers(raw: &tm_node_options) -> bool {
    let end = std::mem::offset_of!(tm_node_options, publisher_count) + size_of::<u32>();
    raw.struct_size as usize >= end
}

/// Requested interface address, if the host's option block has this field and sets it.
///
/// # Safety
/// As for [`read_options`].
unsafe fn local_address(raw: &tm_node_options) -> Result<Option<IpAddr>> {
    let end = std::mem::offset_of!(tm_node_options, local_address) + size_of::<tm_str>();
    if (raw.struct_size as usize) < end {
        return Ok(None);
    }
    // SAFETY: valid by contract.
    let text = unsafe { read_str(raw.local_address)? };
    let parsed = (!text.is_empty()).then(|| text.parse()).transpose();
    parsed.map_err(|_| Error::new(Status::Invalid, format!("local_address '{text}' is not an IP address")))
}

/// # Safety
/// `options` is a valid option block of the host, as the header says.
unsafe fn read_options(options: *const tm_node_options) -> Result<NodeOptions> {
    // SAFETY: valid by contract.
    let raw = unsafe { &*options };
    let invalid = |what: &str| Error::new(Status::Invalid, format!("unknown {what} in the node's options"));
    let mut settings = std::collections::BTreeMap::new();
    for index in 0..raw.setting_count {
        // SAFETY: `settings` has `setting_count` entries, whose strings are valid.
        let (key, value) = unsafe {
            let pair = *raw.settings.add(index);
            (read_str(pair.key)?, read_str(pair.value)?)
        };
        settings.insert(key, value);
    }
    // SAFETY: the strings of the block are valid during the call.
    let (variant, run_id, scratch) = unsafe {
        (read_str(raw.variant)?, read_str(raw.run_id)?, read_bytes(raw.scratch_dir.data.cast(), raw.scratch_dir.length))
    };
    Ok(NodeOptions {
        role: match raw.role {
            TM_LEADER => Role::Leader,
            TM_FOLLOWER => Role::Follower,
            _ => return Err(invalid("role")),
        },
        pattern: Pattern::from_code(raw.pattern).ok_or_else(|| invalid("pattern"))?,
        wait: Wait::from_code(raw.wait).ok_or_else(|| invalid("wait"))?,
        variant,
        settings,
        run_id,
        scratch_dir: OsStr::from_bytes(scratch).into(),
        max_payload_bytes: raw.max_payload_bytes,
        link_count: raw.link_count,
        follower_count: raw.follower_count,
        follower_index: raw.follower_index,
        // The block of an older host lacks this field: one publisher.
        publisher_count: if knows_publishers(raw) { raw.publisher_count.max(1) } else { 1 },
        unauthorized_peer: match raw.unauthorized_peer {
            0 => None,
            kind => Some(UnauthorizedPeer::from_code(kind).ok_or_else(|| invalid("unauthorized_peer"))?),
        },
        // SAFETY: as above.
        local_address: unsafe { local_address(raw)? },
    })
}

unsafe extern "C" fn probe<S: System + Default>(
    options: *const tm_node_options,
    limits: *mut tm_limits,
    error: *mut tm_error,
) -> i32 {
    guard(error, || {
        // SAFETY: options and limits are valid during the call.
        let found = S::default().probe(&unsafe { read_options(options) }?)?;
        // SAFETY: as above.
        let limits = unsafe { &mut *limits };
        (limits.max_payload_bytes, limits.packet_bytes) = (found.max_payload_bytes, found.packet_bytes);
        limits.unauthorized_peers = found.unauthorized_peers;
        Ok(TM_OK)
    })
}

unsafe extern "C" fn daemon_command<S: System + Default>(
    options: *const tm_node_options,
    command: *mut tm_daemon_command,
    error: *mut tm_error,
) -> i32 {
    guard(error, || {
        // SAFETY: options are valid during the call.
        let wanted = S::default().daemon_command(&unsafe { read_options(options) }?)?;
        let wanted = wanted.ok_or_else(|| Error::new(Status::Invalid, "this transport has no daemon"))?;
        let list: String = wanted.arguments.iter().map(|argument| format!("{argument}\0")).collect();
        // SAFETY: the command block is valid during the call.
        let command = unsafe { &mut *command };
        if list.len() + 1 >= command.arguments.len() || wanted.program.len() >= command.program.len() {
            return Err(Error::new(Status::Limit, "the daemon's command line is too long"));
        }
        write_text(&mut command.program, &wanted.program);
        write_text(&mut command.arguments, &list);
        Ok(TM_OK)
    })
}

unsafe extern "C" fn node_open<S: System + Default>(
    options: *const tm_node_options,
    node: *mut *mut tm_node,
    error: *mut tm_error,
) -> i32 {
    guard(error, || {
        // SAFETY: options are valid during the call.
        let opened = S::default().open(&unsafe { read_options(options) }?)?;
        // SAFETY: `node` is valid for writing.
        unsafe { *node = Box::into_raw(Box::new(opened)).cast() };
        Ok(TM_OK)
    })
}

unsafe extern "C" fn node_close<S: System>(node: *mut tm_node) {
    // SAFETY: `node` came from `node_open` and is closed once.
    let node = unsafe { Box::from_raw(node.cast::<S::Node>()) };
    let _ = catch_unwind(AssertUnwindSafe(|| drop(node)));
}

unsafe extern "C" fn link_open<S: System>(
    node: *mut tm_node,
    options: *const tm_link_options,
    link: *mut *mut tm_link,
    error: *mut tm_error,
) -> i32 {
    guard(error, || {
        // SAFETY: `node` came from `node_open`; its functions are called from one thread. `options` is valid.
        let (node, options) = unsafe { (&mut *node.cast::<S::Node>(), &*options) };
        let callback = options.on_message.map(|function| Callback { function, context: options.context });
        let opened = node.link(&LinkOptions { index: options.index, callback })?;
        // SAFETY: `link` is valid for writing.
        unsafe { *link = Box::into_raw(Box::new(opened)).cast() };
        Ok(TM_OK)
    })
}

/// # Safety
/// `link` came from `link_open` and no other thread uses it.
unsafe fn link_of<'a, S: System>(link: *mut tm_link) -> &'a mut LinkOf<S> {
    // SAFETY: the caller's contract.
    unsafe { &mut *link.cast::<LinkOf<S>>() }
}

unsafe extern "C" fn link_address<S: System>(
    link: *mut tm_link,
    buffer: *mut u8,
    capacity: usize,
    length: *mut usize,
    error: *mut tm_error,
) -> i32 {
    guard(error, || {
        // SAFETY: a link of ours, used by one thread.
        let address = unsafe { link_of::<S>(link) }.address()?;
        if address.len() > capacity {
            return Err(Error::new(Status::Limit, format!("address of {} bytes, {capacity} at most", address.len())));
        }
        // SAFETY: `buffer` has `capacity` writable bytes, `length` is writable.
        unsafe {
            ptr::copy_nonoverlapping(address.as_ptr(), buffer, address.len());
            *length = address.len();
        }
        Ok(TM_OK)
    })
}

unsafe extern "C" fn link_connect<S: System>(
    link: *mut tm_link,
    peers: *const tm_bytes,
    peer_count: usize,
    timeout_ns: u64,
    error: *mut tm_error,
) -> i32 {
    guard(error, || {
        let peers: Vec<Vec<u8>> = (0..peer_count)
            .map(|index| {
                // SAFETY: `peers` has `peer_count` entries, each with its bytes.
                unsafe {
                    let peer = *peers.add(index);
                    read_bytes(peer.data, peer.length).to_vec()
                }
            })
            .collect();
        // SAFETY: a link of ours, used by one thread.
        unsafe { link_of::<S>(link) }.connect(&peers, timeout_ns).map(|()| TM_OK)
    })
}

unsafe extern "C" fn link_close<S: System>(link: *mut tm_link) {
    // SAFETY: `link` came from `link_open` and is closed once.
    let link = unsafe { Box::from_raw(link.cast::<LinkOf<S>>()) };
    let _ = catch_unwind(AssertUnwindSafe(|| drop(link)));
}

unsafe extern "C" fn loan<S: System>(
    link: *mut tm_link,
    length: usize,
    in_reply_to: *const tm_message,
    out: *mut tm_loan,
    error: *mut tm_error,
) -> i32 {
    guard(error, || {
        // SAFETY: a link of ours; `in_reply_to` is NULL or a message of this link; `out` is writable.
        unsafe { *out = link_of::<S>(link).loan(length, in_reply_to.as_ref())? };
        Ok(TM_OK)
    })
}

unsafe extern "C" fn publish<S: System>(
    link: *mut tm_link,
    loan: *mut tm_loan,
    timeout_ns: u64,
    error: *mut tm_error,
) -> i32 {
    guard(error, || {
        // SAFETY: a link of ours and an open loan of it, which the host does not use again.
        let sent = unsafe { link_of::<S>(link).publish(loan.read(), timeout_ns)? };
        Ok(if sent { TM_OK } else { TM_AGAIN })
    })
}

unsafe extern "C" fn discard<S: System>(link: *mut tm_link, loan: *mut tm_loan) {
    // SAFETY: a link of ours and an open loan of it.
    let _ = catch_unwind(AssertUnwindSafe(|| unsafe { link_of::<S>(link).discard(loan.read()) }));
}

unsafe extern "C" fn take<S: System>(
    link: *mut tm_link,
    timeout_ns: u64,
    message: *mut tm_message,
    error: *mut tm_error,
) -> i32 {
    guard(error, || {
        // SAFETY: a link of ours, used by one thread.
        match unsafe { link_of::<S>(link) }.take(timeout_ns)? {
            None => Ok(TM_AGAIN),
            Some(taken) => {
                // SAFETY: `message` is writable.
                unsafe { *message = taken };
                Ok(TM_OK)
            }
        }
    })
}

unsafe extern "C" fn release<S: System>(link: *mut tm_link, message: *mut tm_message) {
    // SAFETY: a link of ours and a message taken from it, released once.
    let _ = catch_unwind(AssertUnwindSafe(|| unsafe { link_of::<S>(link).release(message.read()) }));
}
