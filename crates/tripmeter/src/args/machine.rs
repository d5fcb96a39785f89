//! Arguments of the commands about this machine: `list`, `install`, `plugin-check`, `completions`, `man`.

use super::measure::PluginArgs;
use clap::Args;
use std::path::PathBuf;

/// List systems and what they lack here, presets, or figures
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter list
  tripmeter list uds iceoryx
  tripmeter list presets")]
#[command(after_long_help = "Examples:
  tripmeter list
  tripmeter list uds iceoryx
  tripmeter list --json | jq '.[].system'
  tripmeter list presets
  tripmeter list figures --json

Each system is listed with its version, variants, settings, limits, and what is
missing. Plugins tripmeter_<system>.so are searched in the folders of the
variable TRIPMETER_TRANSPORTS (separated by colons), in `transports` beside this
program and beside its folder, in $XDG_DATA_HOME/tripmeter/transports, and in
lib/tripmeter/transports beside its folder and below /usr (where packages put
them). Of these, all but the first are skipped, with a message, if another user
can write to them.

`tripmeter run PRESET --print` prints a preset.")]
pub struct ListArgs {
    /// Systems, or `presets` or `figures` [default: all systems]
    #[arg(value_name = "SYSTEM|presets|figures")]
    pub what: Vec<String>,
    /// Print everything known as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub plugins: PluginArgs,
}

/// Install and build what systems need
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter install ecal
  tripmeter install iceoryx ros2
  tripmeter install --all --dry-run")]
#[command(after_long_help = "Examples:
  tripmeter install ecal
  tripmeter install iceoryx ros2
  tripmeter install --all --dry-run

It prints what it will do, then does it, for each system:
1. Missing Debian packages are installed by apt-get, as root or by sudo. Without either, it prints
   the command for an administrator and stops.
2. Pinned Python packages go to a virtual environment in $XDG_DATA_HOME/tripmeter/python/SYSTEM
   (or ~/.local/share/tripmeter/python/SYSTEM). This needs python3 with its module venv.
3. The plugin is built from the project's sources, found beside this program or named by --source.
   It goes into `target/transports` there, if this program was built there, or into
   $XDG_DATA_HOME/tripmeter/transports. Without sources, a plugin from a package of Tripmeter in
   lib/tripmeter/transports is used, or the package is named. With --all, systems that no package
   has are left out.
What exists already is left alone. Systems whose libraries come as wheels or
crates need no root. --python does the second step only, and prints the folders.

Exit codes: 0 good, 64 wrong usage, 69 a compiler, Python, root or the network
is missing, 73 cannot create.")]
pub struct InstallArgs {
    /// Systems as `tripmeter list` names them, or `parquet`
    #[arg(value_name = "SYSTEM", required_unless_present = "all", conflicts_with = "all")]
    pub systems: Vec<String>,
    /// Install for all systems that need something
    #[arg(long)]
    pub all: bool,
    /// Print what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Install Python packages only
    #[arg(long)]
    pub python: bool,
    /// The project's sources [default: those that this program was built from]
    #[arg(long, value_name = "DIR")]
    pub source: Option<PathBuf>,
    /// Print no progress to standard error
    #[arg(short, long)]
    pub quiet: bool,
}

/// Check that a plugin fulfils the contract for transports
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter plugin-check build/tripmeter_example.so
  tripmeter plugin-check build/tripmeter_example.so --thorough")]
#[command(after_long_help = "Examples:
  tripmeter plugin-check build/tripmeter_example.so
  tripmeter plugin-check build/tripmeter_example.so --thorough

Tripmeter's own transports must pass the same suite. It measures everything that
the plugin declares: every variant with each of its waits and patterns, odd and
large payloads, several followers and publishers. It proves the path, looks for
names and processes left behind, and runs two experiments at once. Requests that
the plugin does not declare must be refused. It needs neither the project's
sources nor a compiler. Variants that cannot run here are named and left out.

Exit codes: 0 good, 1 the plugin breaks the contract, 64 wrong usage,
65 the file is not a plugin, 66 it cannot be read, 69 no variant can run here,
73 the temporary folder cannot be written.")]
pub struct PluginCheckArgs {
    /// The plugin: a shared library built against tripmeter_transport.h
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Also measure every wait in every part, and more payloads
    #[arg(long)]
    pub thorough: bool,
    /// Print JSON instead of lines
    #[arg(long)]
    pub json: bool,
    /// Print no progress to standard error
    #[arg(short, long)]
    pub quiet: bool,
}

/// Print the completions of a shell
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter completions bash > ~/.local/share/bash-completion/completions/tripmeter")]
pub struct CompletionsArgs {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// Write man pages
#[derive(Args)]
#[command(after_help = "Examples:
  tripmeter man ~/.local/share/man/man1 && man tripmeter-ping")]
pub struct ManArgs {
    /// The folder; it is created if missing
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}
