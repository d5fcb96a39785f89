use tripmeter_abi::{
    Description, Error, Names, NodeOptions, Path, Pattern, Result, Role, Setting, Status, Variant, Wait, os,
};

/// Default capacity of the queue, in lines.
///
/// # Source
/// `tracing_appender::non_blocking::DEFAULT_BUFFERED_LINES_LIMIT`
const DEFAULT_BUFFERED_LINES: &str = "128000";

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Blocking,
    NonBlocking,
}

#[derive(Clone, Copy)]
pub(crate) enum Target {
    File,
    Pipe,
}

pub(crate) struct Settings {
    pub kind: Kind,
    pub target: Target,
    /// True if a full queue drops lines, false if it blocks the call.
    pub lossy: bool,
    pub buffered_lines: usize,
}

pub(crate) fn description() -> Description {
    let variant = |name: &str, summary: &str, path, lossy| Variant {
        patterns: vec![Pattern::Log],
        waits: vec![Wait::Block],
        lossy,
        own_threads: lossy,
        ..Variant::new(name, summary, path)
    };
    Description {
        system: "tracing".into(),
        summary: "tracing, tracing-subscriber's default format, tracing-appender's writers".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        system_version: env!("TRIPMETER_SYSTEM_VERSION").into(),
        variants: vec![
            variant("blocking-file", "each call writes to tracing-appender's file", Path::File, false),
            variant("non-blocking-file", "a thread of tracing-appender writes its file", Path::File, true),
            variant("blocking-pipe", "each call writes to a pipe, as to standard output", Path::Pipe, false),
            variant("non-blocking-pipe", "a thread of tracing-appender writes to a pipe", Path::Pipe, true),
        ],
        settings: vec![
            Setting::new(
                "lossy",
                "on",
                "on | off",
                "non-blocking: a full queue drops lines, or keeps the call waiting",
                Names::Nothing,
            ),
            Setting::new(
                "buffered_lines",
                DEFAULT_BUFFERED_LINES,
                "1 to 10000000",
                "non-blocking: size of the queue",
                Names::Nothing,
            ),
        ],
        daemon: None,
    }
}

impl Settings {
    pub(crate) fn from_options(options: &NodeOptions) -> Result<Self> {
        os::check(&description(), options)?;
        if options.role != Role::Leader {
            return Err(Error::new(Status::Invalid, "a logger has no follower".to_owned()));
        }
        let is = |word: &str| options.variant.contains(word);
        Ok(Self {
            kind: if is("non-blocking") { Kind::NonBlocking } else { Kind::Blocking },
            target: if is("-pipe") { Target::Pipe } else { Target::File },
            lossy: options.is_on("lossy", true)?,
            buffered_lines: options.number("buffered_lines", 1..=10_000_000)? as usize,
        })
    }
}
