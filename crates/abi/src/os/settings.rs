use crate::{Description, Error, NodeOptions, Result, Status};

/// Checks the options of a transport that reaches one follower per link.
///
/// # Errors
/// `Invalid` for an unknown variant, pattern or wait, `Limit` for more than one follower.
pub fn check(description: &Description, options: &NodeOptions) -> Result<()> {
    let system = &description.system;
    let invalid = |text: String| Err(Error::new(Status::Invalid, text));
    let Some(variant) = description.variant(&options.variant) else {
        return invalid(format!("transport '{system}' has no variant '{}'", options.variant));
    };
    if !variant.patterns.contains(&options.pattern) {
        return invalid(format!("transport '{system}/{}' cannot carry pattern '{}'", variant.name, options.pattern));
    }
    if !variant.waits.contains(&options.wait) {
        return invalid(format!("transport '{system}/{}' cannot wait by '{}'", variant.name, options.wait));
    }
    if options.follower_count > 1 {
        let count = options.follower_count;
        let text = format!("transport '{system}' reaches 1 follower per link, {count} asked for; use 1");
        return Err(Error::new(Status::Limit, text));
    }
    Ok(())
}

/// Checks the largest payload against the limit of a transport.
///
/// # Errors
/// `Limit` if it is larger.
pub fn check_payload(options: &NodeOptions, limit: u64) -> Result<()> {
    let wanted = options.max_payload_bytes;
    if wanted <= limit {
        return Ok(());
    }
    Err(Error::new(Status::Limit, format!("payload of {wanted} bytes, {limit} at most with these settings")))
}

/// Value of a setting that is a number of bytes or `word`; `None` for the word, which is also the default. Fails as
/// [`NodeOptions::number`].
pub fn number_or(
    options: &NodeOptions,
    name: &str,
    word: &str,
    range: std::ops::RangeInclusive<u64>,
) -> Result<Option<u64>> {
    let text = options.setting(name);
    if text.is_empty() || text == word { Ok(None) } else { options.number(name, range).map(Some) }
}
