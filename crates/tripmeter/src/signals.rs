use crate::error::CliError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock};
use tripmeter_model::exit;

/// True once measuring is over, so that signals end the program as usual.
static IS_OVER: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Lets signals end the program from now on.
pub fn signals_end_us() {
    IS_OVER.store(true, Relaxed);
}

/// Flag that is set by Ctrl-C and similar signals; the engine then stops and keeps the results so far.
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
