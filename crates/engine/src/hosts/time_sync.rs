//! Synchronisation of the machine's clock by chrony and PTP, read from their programs.

use super::bounded::told;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Fields of `chronyc -c tracking`, by position.
///
/// # Source
/// chronyc(1), command `tracking`, and the option `-c`.
const TRACKING: [(usize, &str); 6] = [
    (1, "chrony reference"),
    (2, "chrony stratum"),
    (4, "chrony offset_s"),
    (10, "chrony root_delay_s"),
    (11, "chrony root_dispersion_s"),
    (13, "chrony leap"),
];
const TIME_STATUS: [(&str, &str); 3] = [
    ("master_offset", "ptp4l master_offset_ns"),
    ("gmPresent", "ptp4l gm_present"),
    ("gmIdentity", "ptp4l gm_identity"),
];
const PTP_DEVICES: &str = "/sys/class/ptp";

/// Facts about clock synchronisation; `hidden` gets the facts that are not visible, with the reason.
pub(super) fn time_sync(hidden: &mut Vec<String>) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    match told("chronyc", &["-c", "tracking"]) {
        Ok(text) => facts.extend(tracking(&text)),
        Err(why) => hidden.push(format!("chrony: {why}")),
    }
    match told("pmc", &["-u", "-b", "0", "GET TIME_STATUS_NP"]) {
        Ok(text) => facts.extend(time_status(&text)),
        Err(why) => hidden.push(format!("ptp4l: {why}")),
    }
    let devices = ptp_devices(Path::new(PTP_DEVICES));
    if !devices.is_empty() {
        facts.insert("ptp devices".to_owned(), devices.join(", "));
    }
    facts
}

pub(super) fn read_by_all(text: &str) {
    let _ = (tracking(text), time_status(text));
}

fn tracking(text: &str) -> Vec<(String, String)> {
    let fields: Vec<&str> = text.trim().split(',').collect();
    let field = |(place, name): (usize, &str)| Some((name.to_owned(), (*fields.get(place)?).to_owned()));
    TRACKING.into_iter().filter_map(field).collect()
}

fn time_status(text: &str) -> Vec<(String, String)> {
    let words = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let fact = |words: Vec<&str>| {
        let [key, value] = words.try_into().ok()?;
        let (_, name) = TIME_STATUS.into_iter().find(|(known, _)| *known == key)?;
        Some((name.to_owned(), value.to_owned()))
    };
    words.filter_map(fact).collect()
}

/// Devices in the form `ptp0 (clock name)`.
fn ptp_devices(folder: &Path) -> Vec<String> {
    let entries =
        fs::read_dir(folder).map(|entries| entries.filter_map(Result::ok).collect()).unwrap_or_else(|_| vec![]);
    let device = |entry: fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        match fs::read_to_string(entry.path().join("clock_name")) {
            Ok(clock) => format!("{name} ({})", clock.trim()),
            Err(_) => name,
        }
    };
    let mut devices: Vec<String> = entries.into_iter().map(device).collect();
    devices.sort();
    devices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_chrony_and_ptp4l_say_is_read_and_nothing_else() {
        // Output of chronyc 4.3 and pmc 3.1.
        let chrony = "A29FC87B,time.cloudflare.com,4,1700000000.1,-0.000012345,0.000001,0.00002,-8.1,0.001,0.02,\
                      0.003456,0.000789,64.5,Normal\n";
        let found: BTreeMap<String, String> = tracking(chrony).into_iter().collect();
        assert_eq!(found["chrony reference"], "time.cloudflare.com");
        assert_eq!(found["chrony offset_s"], "-0.000012345");
        assert_eq!((found["chrony root_dispersion_s"].as_str(), found["chrony leap"].as_str()), ("0.000789", "Normal"));
        let pmc = "sending: GET TIME_STATUS_NP\n\t001122.fffe.334455-0 seq 0 RESPONSE MANAGEMENT TIME_STATUS_NP\n\
                   \t\tmaster_offset              -17\n\t\tingress_time 1700\n\t\tgmPresent                  true\n";
        let found: BTreeMap<String, String> = time_status(pmc).into_iter().collect();
        assert_eq!(found.len(), 2);
        assert_eq!((found["ptp4l master_offset_ns"].as_str(), found["ptp4l gm_present"].as_str()), ("-17", "true"));
        assert!(tracking("").len() <= 1 && time_status("").is_empty());
    }

    #[test]
    fn clocks_of_devices_are_listed_with_their_names() {
        let folder = tempfile::tempdir().unwrap();
        for (name, clock) in [("ptp1", "mlx5_ptp\n"), ("ptp0", "ixgbe\n")] {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join("clock_name"), clock).unwrap();
        }
        assert_eq!(ptp_devices(folder.path()), ["ptp0 (ixgbe)", "ptp1 (mlx5_ptp)"]);
        assert!(ptp_devices(&folder.path().join("none")).is_empty());
    }
}
