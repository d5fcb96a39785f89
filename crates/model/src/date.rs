//! Check of times in results.

/// Valid years of results: times in nanoseconds since 1970 end in 2262.
const YEARS: std::ops::RangeInclusive<u16> = 1970..=2261;
/// Latest time in results, in seconds since 1970: 2261-12-31T00:00:00Z, which is in the same year in every time zone.
pub const LAST_SECOND: i64 = 9_214_560_000;

/// Checks a time in results (RFC 3339) before a date library reads it, which may not accept every year.
///
/// # Errors
/// One line of text, if it is malformed or its year is out of range.
pub fn check_date(text: &str) -> Result<(), String> {
    let shown = crate::plain_words::shortened(text);
    let year = text.get(..4).filter(|year| year.bytes().all(|digit| digit.is_ascii_digit()));
    let is_rest = text.get(4..19).is_some_and(|rest| {
        let form = rest.bytes().zip(*b"-00-00T00:00:00");
        form.into_iter().all(|(found, form)| if form == b'0' { found.is_ascii_digit() } else { found == form })
    });
    match year.filter(|_| is_rest).and_then(|year| year.parse().ok()) {
        None => Err(format!("'{shown}' is not a time of the form 2026-01-31T12:00:00+00:00")),
        Some(year) if !YEARS.contains(&year) => {
            Err(format!("'{shown}' is in the year {year}; results are from {} to {}", YEARS.start(), YEARS.end()))
        }
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_that_nobody_measured_at_are_refused() {
        for good in ["2026-11-28T16:32:43+00:00", "1970-01-01T00:00:00Z", "2261-12-31T23:59:59.999-23:59"] {
            assert_eq!(check_date(good), Ok(()));
        }
        for far in ["9999-12-31T23:59:59Z", "2262-01-01T00:00:00Z", "0000-01-01T00:00:00Z"] {
            assert!(check_date(far).unwrap_err().contains("results are from 1970 to 2261"), "{far}");
        }
        for none in
            ["", "2026", "-009999-01-02T01:59:58.5Z", "20261128T163243Z", "2026-11-28 16:32:43", "é026-11-28T16:3"]
        {
            assert!(check_date(none).unwrap_err().contains("is not a time"), "{none}");
        }
    }
}
