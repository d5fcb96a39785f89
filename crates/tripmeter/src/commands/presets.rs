use crate::args::PresetsArgs;
use crate::error::CliError;
use crate::{embedded, output};
use tripmeter_model::exit;

/// `tripmeter presets`
pub fn presets(args: &PresetsArgs) -> Result<u8, CliError> {
    if let Some(name) = &args.name {
        output::print(embedded::preset(name)?)?;
        return Ok(exit::GOOD);
    }
    let width = embedded::presets().iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, _) in embedded::presets() {
        let summary = embedded::preset_experiment(name)?.summary.unwrap_or_default();
        text += &format!("{name:width$}  {summary}\n");
    }
    output::print(&text)?;
    Ok(exit::GOOD)
}
