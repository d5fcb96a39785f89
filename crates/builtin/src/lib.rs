//! The transports that are linked into the program.
//!
//! A crate of its own, as the engine's loops are compiled for their types here: at full optimisation, where the rest of
//! the program is compiled for size.

use std::sync::Arc;
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
