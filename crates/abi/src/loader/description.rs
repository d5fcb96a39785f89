//! Reads the description of a transport from a shared library, with bounds on lengths and counts.
#![expect(unsafe_code, reason = "the C boundary")]

use super::block::read_block;
use crate::raw::*;
use crate::{Description, Names, Path, Pattern, Setting, Variant, Wait};
use std::collections::HashSet;
use std::mem::offset_of;

/// Size of the shortest valid description: up to the last field that every transport must have.
pub(super) const SHORTEST_DESCRIPTION: usize = offset_of!(tm_description, daemon) + size_of::<tm_str>();
const MOST_TEXT_BYTES: usize = 4096;
const MOST_ENTRIES: usize = 256;
/// Longest name of a daemon, in bytes: it becomes part of a file name.
const MOST_DAEMON_BYTES: usize = 100;

/// Reads a text, called `what` in errors.
///
/// # Safety
/// `text` points to `length` readable bytes, or `length` is 0.
unsafe fn read_str(what: &str, text: tm_str) -> std::result::Result<String, String> {
    let length = text.length;
    if length == 0 {
        return Ok(String::new());
    }
    if length > MOST_TEXT_BYTES {
        return Err(format!("'{what}' of its description has {length} bytes, {MOST_TEXT_BYTES} at most"));
    }
    if text.data.is_null() {
        return Err(format!("'{what}' of its description is NULL, and has {length} bytes"));
    }
    // SAFETY: the caller's contract.
    let bytes = unsafe { std::slice::from_raw_parts(text.data.cast::<u8>(), length) };
    String::from_utf8(bytes.to_vec()).map_err(|_| format!("'{what}' of its description is not UTF-8"))
}

/// Reads the entries of a list, each by `read`.
///
/// # Safety
/// `list` has `count` entries, which `read` can read, or is NULL.
unsafe fn read_list<R, T>(
    what: &str,
    list: *const R,
    count: usize,
    read: impl Fn(&R) -> std::result::Result<T, String>,
) -> std::result::Result<Vec<T>, String> {
    if count > MOST_ENTRIES {
        return Err(format!("its description has {count} {what}, {MOST_ENTRIES} at most"));
    }
    if list.is_null() && count > 0 {
        return Err(format!("the entry '{what}' of its description is NULL, and has {count} entries"));
    }
    // SAFETY: the caller's contract.
    (0..count).map(|index| read(unsafe { &*list.add(index) })).collect()
}

/// Reads and checks a description.
///
/// # Errors
/// Text that names the part that breaks the contract, with value and limit.
///
/// # Safety
/// `description` is NULL or valid, with all that it points to.
pub(super) unsafe fn read_description(description: *const tm_description) -> std::result::Result<Description, String> {
    if description.is_null() {
        return Err("its description is NULL".to_owned());
    }
    // SAFETY: the caller's contract; the size has the same place in every version of the description.
    let size = unsafe { (*description).struct_size as usize };
    if size < SHORTEST_DESCRIPTION {
        return Err(format!("its description has {size} bytes, {SHORTEST_DESCRIPTION} at least are needed"));
    }
    // SAFETY: the description is as long as it says; all of its fields may be zero.
    let raw = unsafe { read_block(description, size) };
    // SAFETY: lists and texts of the description are valid.
    let description = unsafe {
        Description {
            system: read_str("system", raw.system)?,
            summary: read_str("summary", raw.summary)?,
            version: read_str("version", raw.version)?,
            system_version: read_str("system_version", raw.system_version)?,
            variants: read_list("variants", raw.variants, raw.variant_count, |raw| read_variant(raw))?,
            settings: read_list("settings", raw.settings, raw.setting_count, |raw| read_setting(raw))?,
            daemon: Some(read_str("daemon", raw.daemon)?).filter(|name| !name.is_empty()),
        }
    };
    check_names(&description)?;
    Ok(description)
}

/// Checks names, which users type in commands and which become parts of paths.
fn check_names(description: &Description) -> std::result::Result<(), String> {
    let Description { system, variants, settings, daemon, .. } = description;
    let is_plain = |name: &str, mark| {
        let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == mark;
        !name.is_empty() && name.bytes().all(is_letter)
    };
    if !is_plain(system, b'-') || variants.iter().any(|variant| !is_plain(&variant.name, b'-')) {
        return Err("the names of system and variants must be of a-z, 0-9 and '-'".to_owned());
    }
    if settings.iter().any(|setting| !is_plain(&setting.name, b'_')) {
        return Err("the names of settings must be of a-z, 0-9 and '_'".to_owned());
    }
    let variant_names = variants.iter().map(|variant| ("variant", &variant.name));
    let setting_names = settings.iter().map(|setting| ("setting", &setting.name));
    let mut seen = HashSet::new();
    if let Some((kind, name)) = variant_names.chain(setting_names).find(|one| !seen.insert(*one)) {
        return Err(format!("it describes {kind} '{name}' twice"));
    }
    if variants.is_empty() {
        return Err("it describes no variant".to_owned());
    }
    match daemon.as_ref().map(|name| (name.len(), name.contains('/'))) {
        Some((length, _)) if length > MOST_DAEMON_BYTES => {
            Err(format!("the name of its daemon has {length} bytes, {MOST_DAEMON_BYTES} at most"))
        }
        Some((_, true)) => Err("the name of its daemon must be without '/'".to_owned()),
        _ => Ok(()),
    }
}

/// # Safety
/// The texts of `raw` are valid.
unsafe fn read_setting(raw: &tm_setting) -> std::result::Result<Setting, String> {
    // SAFETY: the caller's contract.
    unsafe {
        Ok(Setting {
            name: read_str("settings.name", raw.name)?,
            default: read_str("settings.default_value", raw.default_value)?,
            values: read_str("settings.values", raw.values)?,
            summary: read_str("settings.summary", raw.summary)?,
            names: u32::try_from(raw.names).ok().and_then(Names::from_code),
        })
    }
}

/// # Safety
/// The texts of `raw` are valid.
unsafe fn read_variant(raw: &tm_variant) -> std::result::Result<Variant, String> {
    // SAFETY: the caller's contract.
    let (name, summary) = unsafe { (read_str("variants.name", raw.name)?, read_str("variants.summary", raw.summary)?) };
    let has = |bit| raw.flags & bit != 0;
    Ok(Variant {
        name,
        summary,
        path: Path::from_code(raw.path).ok_or_else(|| format!("unknown path {}", raw.path))?,
        patterns: Pattern::from_bits(raw.patterns),
        waits: Wait::from_bits(raw.waits),
        zero_copy: has(TM_ZERO_COPY),
        lossy: has(TM_LOSSY),
        remote: has(TM_REMOTE),
        secure: has(TM_SECURE),
        same_process: has(TM_SAME_PROCESS),
        own_threads: has(TM_OWN_THREADS),
        fan_out: has(TM_FAN_OUT),
        publishers: has(TM_PUBLISHERS),
        broker: has(TM_BROKER),
        interrupt: has(TM_INTERRUPT),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> tm_str {
        tm_str { data: text.as_ptr().cast(), length: text.len() }
    }

    /// Function that changes a description with one variant and two settings.
    type Change<'a> = &'a dyn Fn(&mut tm_description, &mut tm_variant, &mut [tm_setting; 2]);

    /// Description after `change`, or the error.
    fn read(change: Change<'_>) -> Result<Description, String> {
        // SAFETY: all fields may be zero.
        let (mut description, mut variant, setting): (tm_description, tm_variant, tm_setting) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed(), std::mem::zeroed()) };
        let mut settings = [tm_setting { name: text("a"), ..setting }, tm_setting { name: text("b"), ..setting }];
        (description.struct_size, description.system) = (size_of::<tm_description>() as u32, text("test"));
        (description.variant_count, description.setting_count) = (1, 2);
        variant.name = text("only");
        change(&mut description, &mut variant, &mut settings);
        (description.variants, description.settings) = (&raw const variant, settings.as_ptr());
        // SAFETY: the description is valid but for lengths and counts, which are checked before anything is read.
        unsafe { read_description(&raw const description) }
    }

    #[test]
    fn what_is_out_of_bounds_is_refused_with_field_and_limit() {
        let most = usize::MAX;
        let cases: [(Change<'_>, String); 8] = [
            (&|all, _, _| all.variant_count = usize::MAX, format!("its description has {most} variants, 256 at most")),
            (&|all, _, _| all.setting_count = 257, "its description has 257 settings, 256 at most".to_owned()),
            (
                &|all, _, _| all.system_version.length = usize::MAX,
                format!("'system_version' of its description has {most} bytes, 4096 at most"),
            ),
            (
                &|_, _, settings| settings[1].values.length = 1,
                "'settings.values' of its description is NULL, and has 1 bytes".to_owned(),
            ),
            (&|_, variant, _| variant.path = u32::MAX, "unknown path 4294967295".to_owned()),
            (&|_, _, settings| settings[0].name = text("b"), "it describes setting 'b' twice".to_owned()),
            (
                &|_, _, settings| settings[0].name = text("a&b"),
                "the names of settings must be of a-z, 0-9 and '_'".to_owned(),
            ),
            (&|all, _, _| all.daemon = text("../daemon"), "the name of its daemon must be without '/'".to_owned()),
        ];
        for (change, told) in cases {
            assert_eq!(read(change).unwrap_err(), told);
        }
    }

    /// An older transport leaves 0, and a later one may declare unknown kinds.
    #[test]
    fn what_is_not_declared_may_name_anything_but_the_default() {
        for (code, names) in [(0, None), (1, Some(Names::Nothing)), (3, Some(Names::Host)), (4, None), (u64::MAX, None)]
        {
            let setting = read(&|_, _, settings| settings[0].names = code).unwrap().settings.remove(0);
            assert_eq!(setting.names, names, "{code}");
            assert!(!setting.reaches_out(""), "{code}: its default is the plugin's own");
            assert_eq!(setting.reaches_out("x"), code != 1, "{code}");
        }
    }
}
