//! Rust mirror of `include/tripmeter_transport.h`, with its names, order and layout.
//!
//! A test compiles the header and compares size and offset of every field. Only the header documents their meaning.
#![allow(non_camel_case_types, missing_docs)]

use std::ffi::{c_char, c_void};

pub const TM_ABI_VERSION: u32 = 1;

pub const TM_OK: i32 = 0;
pub const TM_AGAIN: i32 = 1;
pub const TM_CLOSED: i32 = -1;
pub const TM_UNAVAILABLE: i32 = -2;
pub const TM_NO_DAEMON: i32 = -3;
pub const TM_LIMIT: i32 = -4;
pub const TM_INVALID: i32 = -5;
pub const TM_FAILED: i32 = -6;

pub const TM_LEADER: u32 = 1;
pub const TM_FOLLOWER: u32 = 2;

pub const TM_ZERO_COPY: u32 = 1 << 0;
pub const TM_LOSSY: u32 = 1 << 1;
pub const TM_REMOTE: u32 = 1 << 2;
pub const TM_SECURE: u32 = 1 << 3;
pub const TM_SAME_PROCESS: u32 = 1 << 4;
pub const TM_OWN_THREADS: u32 = 1 << 5;
pub const TM_FAN_OUT: u32 = 1 << 6;
pub const TM_INTERRUPT: u32 = 1 << 7;
pub const TM_PUBLISHERS: u32 = 1 << 8;
pub const TM_BROKER: u32 = 1 << 9;

pub const TM_UNAUTHORIZED_LEADS: u32 = 4;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct tm_str {
    pub data: *const c_char,
    pub length: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct tm_bytes {
    pub data: *const u8,
    pub length: usize,
}

#[repr(C)]
pub struct tm_error {
    pub text: [c_char; 512],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct tm_variant {
    pub name: tm_str,
    pub summary: tm_str,
    pub path: u32,
    pub patterns: u32,
    pub waits: u32,
    pub flags: u32,
    pub reserved: [u64; 4],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct tm_setting {
    pub name: tm_str,
    pub default_value: tm_str,
    pub values: tm_str,
    pub summary: tm_str,
    pub names: u64,
    pub reserved: [u64; 3],
}

#[repr(C)]
pub struct tm_description {
    pub struct_size: u32,
    pub reserved: u32,
    pub system: tm_str,
    pub summary: tm_str,
    pub version: tm_str,
    pub system_version: tm_str,
    pub variants: *const tm_variant,
    pub variant_count: usize,
    pub settings: *const tm_setting,
    pub setting_count: usize,
    pub daemon: tm_str,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct tm_key_value {
    pub key: tm_str,
    pub value: tm_str,
}

#[repr(C)]
pub struct tm_node_options {
    pub struct_size: u32,
    pub role: u32,
    pub pattern: u32,
    pub wait: u32,
    pub variant: tm_str,
    pub settings: *const tm_key_value,
    pub setting_count: usize,
    pub run_id: tm_str,
    pub scratch_dir: tm_str,
    pub max_payload_bytes: u64,
    pub link_count: u32,
    pub follower_count: u32,
    pub follower_index: u32,
    pub unauthorized_peer: u32,
    pub publisher_count: u32,
    pub reserved: u32,
    pub local_address: tm_str,
}

#[repr(C)]
pub struct tm_limits {
    pub struct_size: u32,
    pub unauthorized_peers: u32,
    pub max_payload_bytes: u64,
    pub packet_bytes: u64,
}

#[repr(C)]
#[derive(Debug)]
pub struct tm_loan {
    pub data: *mut u8,
    pub length: usize,
    pub token: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct tm_message {
    pub data: *const u8,
    pub length: usize,
    pub token: *mut c_void,
}

#[repr(C)]
pub struct tm_node {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct tm_link {
    _opaque: [u8; 0],
}

pub type tm_on_message = unsafe extern "C" fn(context: *mut c_void, message: *const tm_message);

#[repr(C)]
pub struct tm_link_options {
    pub struct_size: u32,
    pub index: u32,
    pub on_message: Option<tm_on_message>,
    pub context: *mut c_void,
}

#[repr(C)]
pub struct tm_daemon_command {
    pub struct_size: u32,
    pub reserved: u32,
    pub program: [c_char; 256],
    pub arguments: [c_char; 2048],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct tm_transport {
    pub abi_version: u32,
    pub struct_size: u32,
    pub description: *const tm_description,
    pub probe: Option<unsafe extern "C" fn(*const tm_node_options, *mut tm_limits, *mut tm_error) -> i32>,
    pub daemon_command:
        Option<unsafe extern "C" fn(*const tm_node_options, *mut tm_daemon_command, *mut tm_error) -> i32>,
    pub node_open: Option<unsafe extern "C" fn(*const tm_node_options, *mut *mut tm_node, *mut tm_error) -> i32>,
    pub node_close: Option<unsafe extern "C" fn(*mut tm_node)>,
    pub link_open:
        Option<unsafe extern "C" fn(*mut tm_node, *const tm_link_options, *mut *mut tm_link, *mut tm_error) -> i32>,
    pub link_address: Option<unsafe extern "C" fn(*mut tm_link, *mut u8, usize, *mut usize, *mut tm_error) -> i32>,
    pub link_connect: Option<unsafe extern "C" fn(*mut tm_link, *const tm_bytes, usize, u64, *mut tm_error) -> i32>,
    pub link_close: Option<unsafe extern "C" fn(*mut tm_link)>,
    pub loan: Option<unsafe extern "C" fn(*mut tm_link, usize, *const tm_message, *mut tm_loan, *mut tm_error) -> i32>,
    pub publish: Option<unsafe extern "C" fn(*mut tm_link, *mut tm_loan, u64, *mut tm_error) -> i32>,
    pub discard: Option<unsafe extern "C" fn(*mut tm_link, *mut tm_loan)>,
    pub take: Option<unsafe extern "C" fn(*mut tm_link, u64, *mut tm_message, *mut tm_error) -> i32>,
    pub release: Option<unsafe extern "C" fn(*mut tm_link, *mut tm_message)>,
}
