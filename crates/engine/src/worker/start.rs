//! Start of both sides: system, CPUs and limits of their process.

use super::error::{Error, Result};
use crate::lanes::AnySystem;
use crate::os;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tripmeter_abi::LoadError;

/// Number of links above which a process may need a higher limit of open files.
pub(super) const MANY_LINKS: u32 = 64;

/// Transports linked into this program, with the loops compiled for them. These are in a crate of their own, which is
/// optimised for speed where this one is for size.
#[derive(Clone, Copy)]
pub struct BuiltIn<'a> {
    pub systems: &'a [Arc<dyn AnySystem>],
    pub plugin: fn(&Path) -> std::result::Result<Arc<dyn AnySystem>, LoadError>,
}

pub(super) fn confine(cpus: &[usize]) -> Result<()> {
    let confined = if cpus.is_empty() { Ok(()) } else { os::confine_process(cpus) };
    confined.map_err(|error| Error::failed(&format!("CPUs {cpus:?} cannot be used"), error))
}

/// System of that name: the plugin, if a file is given, else a built-in one.
pub(super) fn find(system: &str, plugin: Option<&Path>, built_in: BuiltIn<'_>) -> Result<Arc<dyn AnySystem>> {
    if let Some(file) = plugin {
        return (built_in.plugin)(file).map_err(|error| Error::Failed(error.to_string()));
    }
    let found = built_in.systems.iter().find(|candidate| candidate.description().system == system);
    found
        .cloned()
        .ok_or_else(|| Error::Failed(format!("system '{system}' is not known here; name its plugin (--plugin)")))
}

/// Connects to a socket that may not exist yet.
pub(super) fn connect(path: &Path, time: Duration) -> io::Result<UnixStream> {
    let start = Instant::now();
    loop {
        match UnixStream::connect(path) {
            Err(error) if start.elapsed() > time => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(2)),
            Ok(stream) => return Ok(stream),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_that_this_side_has_not_is_not_loaded() {
        let built_in = BuiltIn { systems: &[], plugin: |_| unreachable!("no file is given") };
        let found = find("ecal", None, built_in);
        assert!(matches!(found, Err(Error::Failed(why)) if why.contains("system 'ecal' is not known here")));
    }
}
