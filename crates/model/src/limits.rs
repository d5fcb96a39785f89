//! Limits of figures by address: a CSV file in the units of `metrics.csv`.

use crate::address::FigureAddress;
use crate::figure::{Better, Figure};
use crate::file::{self, FileError};
use crate::name;
use crate::pace::OfferedLoad;
use crate::printable;
use std::collections::HashSet;
use std::path::Path;
use std::str::FromStr;

const MOST_BYTES: u64 = 64 << 20;
/// Columns, in order.
pub const HEADER: [&str; 7] =
    ["sub_experiment", "payload_bytes", "offered_load", "stream", "figure", "statistic", "limit"];

/// Limit of one figure: an upper one where lower is better, a lower one where higher is better.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// Address of the figure.
    pub address: FigureAddress,
    /// Limit in the unit of the figure; finite.
    pub limit: f64,
}

impl Limit {
    /// True if the figure must not be below the limit.
    pub fn is_lower(&self) -> bool {
        self.address.figure.better() == Better::Higher
    }
}

/// Limits, in the order of their file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FigureLimits {
    /// Limits, one for each address.
    pub rows: Vec<Limit>,
}

impl FigureLimits {
    /// Reads a file; ignores other columns.
    ///
    /// # Errors
    /// If it cannot be read or a column is missing. If a value is wrong for its column, a figure has no direction of
    /// improvement, or an address occurs twice.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        Self::parse(path, &file::read(path, MOST_BYTES)?)
    }

    /// Parses the contents of a file; errors name `path`.
    ///
    /// # Errors
    /// As [`FigureLimits::read`], for contents.
    pub fn parse(path: &Path, contents: &[u8]) -> Result<Self, FileError> {
        let mut reader = csv::Reader::from_reader(contents);
        let wrong = |error: csv::Error| FileError::wrong(path, error.to_string());
        let header = reader.headers().map_err(wrong)?.clone();
        let place = |column: &str| {
            let found = header.iter().position(|name| name.trim() == column);
            found.ok_or_else(|| FileError::wrong(path, format!("there is no column '{column}'")))
        };
        let places = HEADER.map(place).into_iter().collect::<Result<Vec<_>, _>>()?;
        let (mut limits, mut seen) = (Self::default(), HashSet::new());
        for record in reader.records() {
            let record = record.map_err(wrong)?;
            let line = record.position().map_or(0, csv::Position::line);
            let texts: Vec<&str> = places.iter().map(|place| record.get(*place).unwrap_or("").trim()).collect();
            let limit = LineOfLimits { path, line, texts: &texts }.limit()?;
            if !seen.insert(limit.address.clone()) {
                let what = "has the same address as an earlier line; keep one of them";
                return Err(FileError::wrong_line(path, line, &texts.join(","), what));
            }
            limits.rows.push(limit);
        }
        match contents.last() {
            Some(b'\n') | None => Ok(limits),
            _ => Err(FileError::wrong(path, "the last line has no line break; it may be cut off")),
        }
    }

    /// Renames limits of schema 2, whose sub-experiments had other default names, if the new name is among `names`.
    #[must_use]
    pub fn named_as_today(mut self, names: &[&str]) -> Self {
        let named = self.rows.iter_mut().map(|limit| &mut limit.address.sub_experiment);
        for name in named.filter(|name| !names.contains(&name.as_str())) {
            let today = name::of_today(name);
            let all = [name::with_background(name), name::without_loopback(&today), today];
            if let Some(today) = all.into_iter().find(|today| names.contains(&today.as_str())) {
                *name = today;
            }
        }
        self
    }

    /// Limit of an address.
    pub fn limit_for(&self, address: &FigureAddress) -> Option<&Limit> {
        self.rows.iter().find(|limit| limit.address == *address)
    }

    /// Names of sub-experiments with limits, each once, in file order.
    pub fn sub_experiments(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for limit in &self.rows {
            let name = limit.address.sub_experiment.as_str();
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Text of the file.
    pub fn to_csv(&self) -> Vec<u8> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let record = |limit: &Limit| {
            let Limit { address, limit } = limit;
            [
                address.sub_experiment.clone(),
                address.payload_bytes.to_string(),
                address.load.to_string(),
                address.stream.to_string(),
                address.figure.to_string(),
                address.statistic.to_string(),
                limit.to_string(),
            ]
        };
        let mut written = writer.write_record(HEADER);
        for limit in &self.rows {
            written = written.and_then(|()| writer.write_record(record(limit)));
        }
        written.expect("memory takes what is written");
        writer.into_inner().expect("memory takes what is written")
    }
}

/// A line, with its values in the order of [`HEADER`].
struct LineOfLimits<'a> {
    path: &'a Path,
    line: u64,
    texts: &'a [&'a str],
}

impl LineOfLimits<'_> {
    fn limit(&self) -> Result<Limit, FileError> {
        if self.texts[0].is_empty() {
            return Err(self.wrong(0, "is empty; name the sub-experiment"));
        }
        let figure: Figure = self.value(4)?;
        if figure.better() == Better::Neither {
            return Err(self.wrong(4, "cannot have a limit: neither a lower nor a higher value is better"));
        }
        let load: OfferedLoad = self.value(2)?;
        let address = FigureAddress {
            sub_experiment: printable::line(self.texts[0]).into_owned(),
            payload_bytes: self.texts[1].parse().map_err(|_| self.wrong(1, "is not a number of bytes"))?,
            // A recording has several sizes, unless its figures say otherwise.
            has_several_sizes: load == OfferedLoad::Recorded,
            load,
            stream: printable::line(self.texts[3]).parse().map_err(|why: String| self.wrong(3, &why))?,
            figure,
            statistic: self.value(5)?,
        };
        let limit = self.texts[6].parse().ok().filter(|limit: &f64| limit.is_finite());
        let limit = limit.ok_or_else(|| self.wrong(6, "is not a finite number"))?;
        if limit < 0.0 {
            return Err(self.wrong(6, "is below 0, which no figure with a limit can be"));
        }
        Ok(Limit { address, limit })
    }

    fn value<T: FromStr<Err = String>>(&self, column: usize) -> Result<T, FileError> {
        self.texts[column].parse().map_err(|why: String| self.wrong(column, &why))
    }

    fn wrong(&self, column: usize, what: &str) -> FileError {
        FileError::wrong_value(self.path, self.line, HEADER[column], self.texts[column], what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Statistic;

    const TEXT: &str = "sub_experiment,payload_bytes,offered_load,stream,figure,statistic,limit\n\
        uds,1024,closed,all,rtt_half_ns,p99,2500.5\nuds,1024,closed,all,loss_share,value,0\n\
        uds,64,1000hz,follower=last,service_ns,p50,0.30000000000000004\ntcp,64,max,all,received_rate_hz,value,1000\n";

    fn parsed(text: &str) -> Result<FigureLimits, FileError> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("limits.csv");
        std::fs::write(&file, text).unwrap();
        FigureLimits::read(&file)
    }

    #[test]
    fn limits_are_written_as_they_were_read() {
        let limits = parsed(TEXT).unwrap();
        assert_eq!(String::from_utf8(limits.to_csv()).unwrap(), TEXT);
        assert_eq!(limits.sub_experiments(), ["uds", "tcp"]);
        assert_eq!(limits.rows.iter().map(Limit::is_lower).collect::<Vec<_>>(), [false, false, false, true]);
        let address = &limits.rows[0].address;
        assert_eq!(
            (limits.limit_for(address).map(|limit| limit.limit), address.statistic),
            (Some(2500.5), Statistic::P99)
        );
    }

    #[test]
    fn what_is_no_limit_is_refused_with_its_place() {
        let told = |from: &str, to: &str| parsed(&TEXT.replace(from, to)).unwrap_err().to_string();
        for (from, to, place, what) in [
            ("2500.5", "inf", "line 2, column 'limit'", "not a finite number"),
            ("2500.5", "", "line 2, column 'limit'", "not a finite number"),
            ("2500.5", "-1", "line 2, column 'limit'", "'-1' is below 0"),
            ("p99", "p77", "line 2, column 'statistic'", ": there is no statistic 'p77'"),
            ("1000hz", "fast", "line 4, column 'offered_load'", "is not an offered load"),
            ("loss_share", "loss", "line 3, column 'figure'", ": there is no figure 'loss'"),
            ("loss_share", "sent", "line 3, column 'figure'", "neither a lower nor a higher"),
            ("tcp", "", "line 5, column 'sub_experiment'", "is empty"),
            ("uds,64", "uds,64.5", "line 4, column 'payload_bytes'", "not a number of bytes"),
        ] {
            let told = told(from, to);
            assert!(told.contains(place) && told.contains(what), "{told}");
        }
        assert!(told("limit\n", "most\n").contains("no column 'limit'"));
        assert!(told("p99,2500.5", "p99,1\nuds,1024,closed,all,rtt_half_ns,p99,2").contains("line 3"));
        assert!(told("value,1000\n", "value,10").contains("may be cut off"));
        assert!(parsed("").is_err());
    }
}
