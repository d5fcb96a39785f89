//! Loads a shared library as a [`System`].
#![expect(unsafe_code, reason = "the C boundary")]

mod block;
mod description;

use crate::raw::*;
use crate::{
    DaemonCommand, Description, Error, Limits, Link, LinkOptions, Loan, Message, Node, NodeOptions, Result, Role,
    Status, System, UnauthorizedPeer,
};
use block::read_block;
use description::read_description;
use libloading::Library;
use std::ffi::{CStr, c_char};
use std::fmt;
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path as FilePath, PathBuf};
use std::ptr;
use std::sync::Arc;

/// Error while loading a transport.
#[derive(Debug)]
pub enum LoadError {
    /// The dynamic linker refused the file; the text names a missing library, if that is the reason.
    Open(PathBuf, String),
    /// The file exports no `tripmeter_transport`.
    NoEntry(PathBuf),
    /// The transport was built against this other version of the header.
    AbiVersion(PathBuf, u32),
    /// The table or description breaks the contract, for this reason.
    Broken(PathBuf, String),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Open(file, why) => write!(f, "transport '{}' cannot be loaded: {why}", file.display()),
            LoadError::NoEntry(file) => write!(
                f,
                "'{}' is not a transport: it does not export the function 'tripmeter_transport'; see \
                 tripmeter_transport.h",
                file.display()
            ),
            LoadError::AbiVersion(file, version) => write!(
                f,
                "transport '{}' has interface version {version}, this tripmeter has {TM_ABI_VERSION}; rebuild the \
                 transport against the header of this tripmeter",
                file.display()
            ),
            LoadError::Broken(file, why) => {
                write!(f, "transport '{}' breaks the contract of tripmeter_transport.h: {why}", file.display())
            }
        }
    }
}

impl std::error::Error for LoadError {}

#[derive(Clone, Copy)]
struct Functions {
    probe: unsafe extern "C" fn(*const tm_node_options, *mut tm_limits, *mut tm_error) -> i32,
    daemon_command: Option<unsafe extern "C" fn(*const tm_node_options, *mut tm_daemon_command, *mut tm_error) -> i32>,
    node_open: unsafe extern "C" fn(*const tm_node_options, *mut *mut tm_node, *mut tm_error) -> i32,
    node_close: unsafe extern "C" fn(*mut tm_node),
    link_open: unsafe extern "C" fn(*mut tm_node, *const tm_link_options, *mut *mut tm_link, *mut tm_error) -> i32,
    link_address: unsafe extern "C" fn(*mut tm_link, *mut u8, usize, *mut usize, *mut tm_error) -> i32,
    link_connect: unsafe extern "C" fn(*mut tm_link, *const tm_bytes, usize, u64, *mut tm_error) -> i32,
    link_close: unsafe extern "C" fn(*mut tm_link),
    loan: unsafe extern "C" fn(*mut tm_link, usize, *const tm_message, *mut tm_loan, *mut tm_error) -> i32,
    publish: unsafe extern "C" fn(*mut tm_link, *mut tm_loan, u64, *mut tm_error) -> i32,
    discard: unsafe extern "C" fn(*mut tm_link, *mut tm_loan),
    take: unsafe extern "C" fn(*mut tm_link, u64, *mut tm_message, *mut tm_error) -> i32,
    release: unsafe extern "C" fn(*mut tm_link, *mut tm_message),
}

impl Functions {
    /// Entries of a table; the error names an entry that is NULL or beyond the end.
    fn from_table(table: &tm_transport) -> std::result::Result<Self, String> {
        macro_rules! entry {
            ($name:ident) => {
                table.$name.ok_or_else(|| format!("the entry '{}' of its table is NULL", stringify!($name)))?
            };
        }
        Ok(Self {
            probe: entry!(probe),
            daemon_command: table.daemon_command,
            node_open: entry!(node_open),
            node_close: entry!(node_close),
            link_open: entry!(link_open),
            link_address: entry!(link_address),
            link_connect: entry!(link_connect),
            link_close: entry!(link_close),
            loan: entry!(loan),
            publish: entry!(publish),
            discard: entry!(discard),
            take: entry!(take),
            release: entry!(release),
        })
    }
}

/// Size of the shortest valid table: up to the last entry that every transport must have. Entries that are appended to
/// the header do not change it.
const SHORTEST_TABLE: usize = offset_of!(tm_transport, release) + size_of::<usize>();
/// Largest message or packet, in bytes: results files store larger numbers inexactly.
const MOST_BYTES: u64 = 1 << 53;
/// All bits of `unauthorized_peers`.
const ALL_UNAUTHORIZED: u32 = UnauthorizedPeer::Plain.code() | UnauthorizedPeer::Foreign.code() | TM_UNAUTHORIZED_LEADS;

/// A loaded transport.
#[derive(Clone)]
pub struct Plugin {
    functions: Functions,
    description: Description,
    file: PathBuf,
    // Dropped last: the functions are part of it.
    library: Arc<Library>,
}

impl Plugin {
    /// Loads `file` and checks its table.
    ///
    /// # Errors
    /// If the file is not a shared library or a transport, has another interface version, or breaks the contract.
    pub fn load(file: &FilePath) -> std::result::Result<Self, LoadError> {
        let file = file.to_path_buf();
        // SAFETY: loading runs the library's initialisers; the user named this file as a transport.
        let library =
            unsafe { Library::new(&file) }.map_err(|error| LoadError::Open(file.clone(), refusal(&file, &error)))?;
        type EntryPoint = unsafe extern "C" fn() -> *const tm_transport;
        // SAFETY: the header fixes the type of this symbol.
        let table = match unsafe { library.get::<EntryPoint>(b"tripmeter_transport\0") } {
            // SAFETY: the entry takes nothing and returns a table that lives as long as the library.
            Ok(entry) => unsafe { entry() },
            Err(_) => return Err(LoadError::NoEntry(file)),
        };
        // SAFETY: the table is valid as long as the library, with all that it points to.
        unsafe { Self::of_table(table, library, file) }
    }

    /// Checks the table of a library.
    ///
    /// # Errors
    /// If it has another interface version, or breaks the contract.
    ///
    /// # Safety
    /// The table is NULL or valid as long as the library, with all that it points to, as the header says.
    #[doc(hidden)]
    pub unsafe fn of_table(
        table: *const tm_transport,
        library: Library,
        file: PathBuf,
    ) -> std::result::Result<Self, LoadError> {
        if table.is_null() {
            return Err(LoadError::Broken(file, "'tripmeter_transport' returned NULL".to_owned()));
        }
        // SAFETY: the table is not NULL, and its first two fields have the same place in every version.
        let (version, size) = unsafe { ((*table).abi_version, (*table).struct_size as usize) };
        if version != TM_ABI_VERSION {
            return Err(LoadError::AbiVersion(file, version));
        }
        if size < SHORTEST_TABLE {
            let why = format!("its table has {size} bytes, {SHORTEST_TABLE} at least are needed");
            return Err(LoadError::Broken(file, why));
        }
        // SAFETY: the table has our version and `size` bytes; all of its fields may be zero.
        let table = unsafe { read_block(table, size) };
        let functions = Functions::from_table(&table).map_err(|why| LoadError::Broken(file.clone(), why))?;
        // SAFETY: the description is valid as long as the library, which is still loaded.
        let description =
            unsafe { read_description(table.description) }.map_err(|why| LoadError::Broken(file.clone(), why))?;
        Ok(Self { functions, description, file, library: Arc::new(library) })
    }

    /// Shared library that this transport was loaded from.
    pub fn file(&self) -> &FilePath {
        &self.file
    }
}

/// Reason that a file was not loaded. For a text or an empty file the dynamic linker only reports that it is too short.
fn refusal(file: &FilePath, error: &libloading::Error) -> String {
    match file.is_file() && !is_of_this_machine(file).unwrap_or(true) {
        true => {
            format!("it is not a shared library for this machine ({}, {} bit)", std::env::consts::ARCH, usize::BITS)
        }
        false => reason_of(error),
    }
}

/// True if the ELF header of a file has the class, byte order and machine of this program.
fn is_of_this_machine(file: &FilePath) -> std::io::Result<bool> {
    use std::io::Read as _;
    let header = |path: &FilePath| {
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(20).read_to_end(&mut bytes)?;
        std::io::Result::Ok(bytes)
    };
    let (theirs, ours) = (header(file)?, header(FilePath::new("/proc/self/exe"))?);
    Ok([0..6, 18..20]
        .into_iter()
        .all(|part| theirs.get(part.clone()).is_some_and(|bytes| ours.get(part) == Some(bytes))))
}

fn reason_of(error: &libloading::Error) -> String {
    use std::error::Error as _;
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

fn str_of(text: &str) -> tm_str {
    tm_str { data: text.as_ptr().cast(), length: text.len() }
}

/// Calls `use_raw` with the C form of `options`, which is valid only during that call.
fn with_options<T>(options: &NodeOptions, use_raw: impl FnOnce(&tm_node_options) -> T) -> T {
    let settings: Vec<tm_key_value> =
        options.settings.iter().map(|(key, value)| tm_key_value { key: str_of(key), value: str_of(value) }).collect();
    let scratch = options.scratch_dir.as_os_str().as_bytes();
    let address = options.local_address.map(|address| address.to_string()).unwrap_or_default();
    use_raw(&tm_node_options {
        struct_size: size_of::<tm_node_options>() as u32,
        role: match options.role {
            Role::Leader => TM_LEADER,
            Role::Follower => TM_FOLLOWER,
        },
        pattern: options.pattern.code(),
        wait: options.wait.code(),
        variant: str_of(&options.variant),
        settings: settings.as_ptr(),
        setting_count: settings.len(),
        run_id: str_of(&options.run_id),
        scratch_dir: tm_str { data: scratch.as_ptr().cast(), length: scratch.len() },
        max_payload_bytes: options.max_payload_bytes,
        link_count: options.link_count,
        follower_count: options.follower_count,
        follower_index: options.follower_index,
        unauthorized_peer: options.unauthorized_peer.map_or(0, UnauthorizedPeer::code),
        publisher_count: options.publisher_count,
        reserved: 0,
        local_address: str_of(&address),
    })
}

fn no_error() -> tm_error {
    tm_error { text: [0; 512] }
}

fn text_of(buffer: &[c_char]) -> String {
    // SAFETY: c_char and u8 have the same size and alignment.
    let bytes = unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), buffer.len()) };
    let text = CStr::from_bytes_until_nul(bytes).map_or(bytes, CStr::to_bytes);
    String::from_utf8_lossy(text).into_owned()
}

fn name_of(status: i32) -> Option<&'static str> {
    Some(match status {
        TM_OK => "TM_OK",
        TM_AGAIN => "TM_AGAIN",
        TM_CLOSED => "TM_CLOSED",
        TM_UNAVAILABLE => "TM_UNAVAILABLE",
        TM_NO_DAEMON => "TM_NO_DAEMON",
        TM_LIMIT => "TM_LIMIT",
        TM_INVALID => "TM_INVALID",
        TM_FAILED => "TM_FAILED",
        _ => return None,
    })
}

/// Error for a status that the function may not return on success.
#[cold]
fn failure(function: &str, status: i32, error: &tm_error) -> Error {
    let text = if status < 0 { text_of(&error.text) } else { String::new() };
    let told = if text.is_empty() { String::new() } else { format!(": {text}") };
    let message = match name_of(status) {
        // A missing capability is not a failure of `probe`, which reports it.
        Some(_) if function == "probe" && !text.is_empty() => text,
        Some(_) if !text.is_empty() => format!("`{function}`{told}"),
        Some(name) if status < 0 => format!("`{function}` returned {name} and no text"),
        Some(name) => format!("`{function}` returned {name}, which it must not"),
        None => format!("`{function}` returned the unknown status {status}{told}"),
    };
    Error::new(Status::from_code(status), message)
}

fn check(function: &str, status: i32, error: &tm_error) -> Result<()> {
    if status == TM_OK { Ok(()) } else { Err(failure(function, status, error)) }
}

#[cold]
fn bad_loan(loan: &Loan, length: usize) -> Error {
    Error::failed(if loan.data.is_null() {
        "`loan` returned TM_OK and a loan whose data is NULL".to_owned()
    } else if loan.length != length {
        format!("`loan` gave {} bytes, {length} were asked for", loan.length)
    } else {
        "`loan` gave data that is not aligned to 8 bytes".to_owned()
    })
}

#[cold]
fn bad_message(message: &Message) -> Error {
    Error::failed(if message.data.is_null() {
        "`take` returned TM_OK and a message whose data is NULL".to_owned()
    } else {
        format!("`take` gave a message of {} bytes, more than there is memory", message.length)
    })
}

impl System for Plugin {
    type Node = PluginNode;

    fn description(&self) -> Description {
        self.description.clone()
    }

    fn probe(&self, options: &NodeOptions) -> Result<Limits> {
        let mut limits = tm_limits {
            struct_size: size_of::<tm_limits>() as u32,
            unauthorized_peers: 0,
            max_payload_bytes: 0,
            packet_bytes: 0,
        };
        let mut error = no_error();
        // SAFETY: all blocks are valid during the call, as the header asks.
        let status = with_options(options, |raw| unsafe { (self.functions.probe)(raw, &mut limits, &mut error) });
        check("probe", status, &error)?;
        let tm_limits { max_payload_bytes, packet_bytes, unauthorized_peers, .. } = limits;
        let bounded = [
            ("max_payload_bytes", max_payload_bytes, MOST_BYTES),
            ("packet_bytes", packet_bytes, MOST_BYTES),
            ("unauthorized_peers", unauthorized_peers.into(), ALL_UNAUTHORIZED.into()),
        ];
        if let Some((name, value, most)) = bounded.into_iter().find(|(_, value, most)| value > most) {
            let plugin = self.file.display();
            let text = format!("plugin '{plugin}': `probe` gave limits whose {name} is {value}, {most} at most");
            return Err(Error::failed(text));
        }
        Ok(Limits { max_payload_bytes, packet_bytes, unauthorized_peers })
    }

    fn daemon_command(&self, options: &NodeOptions) -> Result<Option<DaemonCommand>> {
        let Some(function) = self.functions.daemon_command.filter(|_| self.description.daemon.is_some()) else {
            return Ok(None);
        };
        let mut command = tm_daemon_command {
            struct_size: size_of::<tm_daemon_command>() as u32,
            reserved: 0,
            program: [0; 256],
            arguments: [0; 2048],
        };
        let mut error = no_error();
        // SAFETY: all blocks are valid during the call.
        let status = with_options(options, |raw| unsafe { function(raw, &mut command, &mut error) });
        check("daemon_command", status, &error)?;
        let arguments = command
            .arguments
            .split(|&unit| unit == 0)
            .take_while(|argument| !argument.is_empty())
            .map(text_of)
            .collect();
        Ok(Some(DaemonCommand { program: text_of(&command.program), arguments }))
    }

    fn open(&self, options: &NodeOptions) -> Result<PluginNode> {
        let mut node = ptr::null_mut();
        let mut error = no_error();
        // SAFETY: all blocks are valid during the call.
        let status = with_options(options, |raw| unsafe { (self.functions.node_open)(raw, &mut node, &mut error) });
        check("node_open", status, &error)?;
        if node.is_null() {
            return Err(Error::failed("`node_open` returned TM_OK and a node that is NULL"));
        }
        Ok(PluginNode(Arc::new(NodeHandle { node, functions: self.functions, _library: self.library.clone() })))
    }
}

/// Closes the node when the node and all links are dropped.
struct NodeHandle {
    node: *mut tm_node,
    functions: Functions,
    _library: Arc<Library>,
}

// SAFETY: the node is only used through `PluginNode`, which is not shared; links merely keep it alive, and the engine drops
// them and the node in the thread that opened them, as the contract says.
unsafe impl Send for NodeHandle {}
// SAFETY: as above.
unsafe impl Sync for NodeHandle {}

impl Drop for NodeHandle {
    fn drop(&mut self) {
        // SAFETY: the node was opened, all its links are closed, and this happens once.
        unsafe { (self.functions.node_close)(self.node) }
    }
}

/// Node of a loaded transport.
pub struct PluginNode(Arc<NodeHandle>);

impl Node for PluginNode {
    type Link = PluginLink;

    fn link(&mut self, options: &LinkOptions) -> Result<PluginLink> {
        let raw = tm_link_options {
            struct_size: size_of::<tm_link_options>() as u32,
            index: options.index,
            on_message: options.callback.map(|callback| callback.function),
            context: options.callback.map_or(ptr::null_mut(), |callback| callback.context),
        };
        let mut link = ptr::null_mut();
        let mut error = no_error();
        // SAFETY: the node is open and used by one thread; the blocks are valid.
        let status = unsafe { (self.0.functions.link_open)(self.0.node, &raw, &mut link, &mut error) };
        check("link_open", status, &error)?;
        if link.is_null() {
            return Err(Error::failed("`link_open` returned TM_OK and a link that is NULL"));
        }
        Ok(PluginLink { link, functions: self.0.functions, error: Box::new(no_error()), _node: self.0.clone() })
    }
}

/// Link of a loaded transport.
pub struct PluginLink {
    link: *mut tm_link,
    functions: Functions,
    error: Box<tm_error>,
    _node: Arc<NodeHandle>,
}

// SAFETY: the contract lets a link move between threads, used by one at a time.
unsafe impl Send for PluginLink {}

impl Drop for PluginLink {
    fn drop(&mut self) {
        // SAFETY: the link was opened and is closed once, before its node.
        unsafe { (self.functions.link_close)(self.link) }
    }
}

impl Link for PluginLink {
    fn address(&mut self) -> Result<Vec<u8>> {
        let mut buffer = vec![0; 4096];
        let mut length = 0;
        // SAFETY: the link is open; `buffer` has the capacity given.
        let status = unsafe {
            (self.functions.link_address)(self.link, buffer.as_mut_ptr(), buffer.len(), &mut length, &mut *self.error)
        };
        check("link_address", status, &self.error)?;
        if length > buffer.len() {
            let most = buffer.len();
            return Err(Error::failed(format!("`link_address` gave an address of {length} bytes, {most} at most")));
        }
        buffer.truncate(length);
        Ok(buffer)
    }

    fn connect(&mut self, peers: &[Vec<u8>], timeout_ns: u64) -> Result<()> {
        let raw: Vec<tm_bytes> =
            peers.iter().map(|peer| tm_bytes { data: peer.as_ptr(), length: peer.len() }).collect();
        // SAFETY: the link is open; the addresses are valid during the call.
        let status =
            unsafe { (self.functions.link_connect)(self.link, raw.as_ptr(), raw.len(), timeout_ns, &mut *self.error) };
        check("link_connect", status, &self.error)
    }

    #[inline(always)]
    fn loan(&mut self, length: usize, in_reply_to: Option<&Message>) -> Result<Loan> {
        let mut loan = Loan { data: ptr::null_mut(), length: 0, token: ptr::null_mut() };
        let in_reply_to = in_reply_to.map_or(ptr::null(), ptr::from_ref);
        // SAFETY: the link is open and used by one thread; the blocks are valid.
        let status = unsafe { (self.functions.loan)(self.link, length, in_reply_to, &mut loan, &mut *self.error) };
        check("loan", status, &self.error)?;
        if loan.data.is_null() || loan.length != length || !loan.data.cast::<u64>().is_aligned() {
            let error = bad_loan(&loan, length);
            // Without this, loans run out, and that error hides this one.
            if !loan.data.is_null() {
                self.discard(loan);
            }
            return Err(error);
        }
        Ok(loan)
    }

    #[inline(always)]
    fn publish(&mut self, mut loan: Loan, timeout_ns: u64) -> Result<bool> {
        // SAFETY: the link is open and used by one thread; the loan is one of its own.
        let status = unsafe { (self.functions.publish)(self.link, &mut loan, timeout_ns, &mut *self.error) };
        match status {
            TM_OK => Ok(true),
            TM_AGAIN => Ok(false),
            _ => Err(failure("publish", status, &self.error)),
        }
    }

    fn discard(&mut self, mut loan: Loan) {
        // SAFETY: as for `publish`.
        unsafe { (self.functions.discard)(self.link, &mut loan) }
    }

    #[inline(always)]
    fn take(&mut self, timeout_ns: u64) -> Result<Option<Message>> {
        let mut message = Message { data: ptr::null(), length: 0, token: ptr::null_mut() };
        // SAFETY: the link is open and used by one thread; the message is writable.
        let status = unsafe { (self.functions.take)(self.link, timeout_ns, &mut message, &mut *self.error) };
        match status {
            TM_OK if message.data.is_null() || message.length > isize::MAX as usize => Err(bad_message(&message)),
            TM_OK => Ok(Some(message)),
            TM_AGAIN => Ok(None),
            _ => Err(failure("take", status, &self.error)),
        }
    }

    #[inline(always)]
    fn release(&mut self, mut message: Message) {
        // SAFETY: the message was taken from this link and is released once.
        unsafe { (self.functions.release)(self.link, &mut message) }
    }
}

#[cfg(test)]
mod tests {
    use super::description::SHORTEST_DESCRIPTION;
    use super::*;

    /// Table of a later header.
    #[repr(C)]
    struct Later {
        today: tm_transport,
        appended: Option<unsafe extern "C" fn()>,
        more: u64,
    }

    #[test]
    fn a_table_of_today_is_read_after_entries_were_appended() {
        unsafe extern "C" fn node_close(_: *mut tm_node) {}
        // SAFETY: all fields of a table may be zero.
        let mut today: tm_transport = unsafe { std::mem::zeroed() };
        today.struct_size = size_of::<tm_transport>() as u32;
        today.node_close = Some(node_close);
        // Memory after it belongs to others.
        let memory = [today, tm_transport { abi_version: u32::MAX, ..today }];
        // SAFETY: the first table has its own size.
        let read = unsafe { read_block(memory.as_ptr().cast::<Later>(), today.struct_size as usize) };
        assert!(read.today.node_close.is_some() && read.today.struct_size == today.struct_size);
        assert!(read.appended.is_none() && read.more == 0);
    }

    /// Transports built with the first header remain loadable, whatever is appended.
    #[test]
    fn the_shortest_table_and_description_stay_as_they_are() {
        const FUNCTIONS: usize = 13;
        assert_eq!(SHORTEST_TABLE, 8 + size_of::<usize>() * (1 + FUNCTIONS));
        assert_eq!(SHORTEST_DESCRIPTION, 8 + 5 * size_of::<tm_str>() + 4 * size_of::<usize>());
        assert!(SHORTEST_TABLE <= size_of::<tm_transport>() && SHORTEST_DESCRIPTION <= size_of::<tm_description>());
    }
}
