//! Transports that are linked into the program, and the loader of plugins.
//!
//! The engine's generic loops are compiled in this crate, for the type of each transport, and optimised for speed. The
//! rest of the program is optimised for size.

use std::path::Path;
use std::sync::Arc;
use tripmeter_abi::{LoadError, Plugin};
use tripmeter_engine::lanes::AnySystem;

/// Systems that are linked into this program.
pub fn systems() -> Vec<Arc<dyn AnySystem>> {
    vec![
        Arc::new(tripmeter_transport_shm::Shm),
        Arc::new(tripmeter_transport_uds::Uds),
        Arc::new(tripmeter_transport_mq::Mq),
        Arc::new(tripmeter_transport_pipe::Pipe),
        Arc::new(tripmeter_transport_tcp::Tcp),
        Arc::new(tripmeter_transport_udp::Udp),
        Arc::new(tripmeter_transport_inmem::Inmem),
        Arc::new(tripmeter_transport_write::Write),
    ]
}

/// Loads a plugin into this process, and never unloads it. Only workers may do that.
///
/// # Errors
/// If the file is not a plugin, or cannot be loaded.
pub fn plugin(file: &Path) -> Result<Arc<dyn AnySystem>, LoadError> {
    Plugin::load(file).map(|plugin| Arc::new(plugin) as Arc<dyn AnySystem>)
}
