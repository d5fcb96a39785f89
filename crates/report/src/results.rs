//! Results under a name.

use tripmeter_model::manifest::Manifest;

/// The results of one experiment.
#[derive(Clone, Copy, Debug)]
pub struct NamedResults<'a> {
    /// Name of the results; if there are several, lines show it next to the transport.
    pub name: &'a str,
    pub manifest: &'a Manifest,
}
