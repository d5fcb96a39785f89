//! The transports that are linked into the program, and plugins.
//!
//! The engine's loops are compiled for their types here: for speed, where the engine itself and the rest of the program are
//! compiled for size.

use std::path::Path;
use std::sync::Arc;
use tripmeter_abi::{LoadError, Plugin};
use tripmeter_engine::lanes::AnySystem;

/// The systems that are linked into this program.
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

/// Loads a plugin into this process, for good: for workers only.
///
/// # Errors
/// If it is not a plugin, or cannot be loaded.
pub fn plugin(file: &Path) -> Result<Arc<dyn AnySystem>, LoadError> {
    Plugin::load(file).map(|plugin| Arc::new(plugin) as Arc<dyn AnySystem>)
}
