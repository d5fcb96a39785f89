//! Signals that end a measurement, or the program.

use crate::error::CliError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock};
use tripmeter_model::exit;

/// True once measuring is over, so that signals end the program as usual.
static IS_OVER: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From now on, signals end the program.
pub fn signals_end_us() {
    IS_OVER.store(true, Relaxed);
}

/// A flag that is set by Ctrl-C and its like; the engine then ends what runs and keeps what was measured.
pub fn stop_on_signals() -> Result<Arc<AtomicBool>, CliError> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_default(signal, IS_OVER.clone())
            .and_then(|_| signal_hook::flag::register(signal, stop.clone()))
            .map_err(|error| CliError::new(exit::SOFTWARE, format!("cannot watch for signal {signal}: {error}")))?;
    }
    Ok(stop)
}
