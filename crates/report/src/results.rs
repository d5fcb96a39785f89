//! Results under a name.

use tripmeter_model::manifest::Manifest;

/// The results of one experiment.
#[derive(Clone, Copy, Debug)]
pub struct NamedResults<'a> {
    /// Name of the results; lines have it beside the transport's if there are several.
    pub name: &'a str,
    /// The manifest.
    pub manifest: &'a Manifest,
}
