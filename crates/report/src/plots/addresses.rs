//! Plots of one figure, over payloads or over experiments.

use super::chart::{BLUE, Chart, Line, Look, Marker, Stroke, VERMILLION, X, Y};

use super::eprosima::faded;
use super::{Options, Picture, PlotError, picture};
use tripmeter_model::address::FigureAddress;
use tripmeter_model::figure::Unit;
use tripmeter_model::metric::Stream;
use tripmeter_model::payload::size_text;

/// Line of a plot: a value for each place on the horizontal axis, in the unit of the figure; NaN where there is none.
#[derive(Clone, Debug)]
pub struct PlotLine {
    /// Name in the legend.
    pub name: String,
    /// One value per place.
    pub values: Vec<f64>,
    pub role: LineRole,
}

/// Subject of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineRole {
    /// One of several measured lines, in different colours.
    Measured,
    /// One of several experiments, oldest first: older ones are paler, the newest is strong.
    Experiment {
        /// Index of the experiment.
        place: usize,
        /// Number of experiments.
        of: usize,
    },
    Limit,
}

/// Subject of a plot: an address without its payload.
#[derive(Clone, Copy, Debug)]
pub struct FigurePlot<'a> {
    /// Any address of the figure.
    pub address: &'a FigureAddress,
    /// Beginning of the title, e.g. `History of`.
    pub title: &'static str,
    /// End of the file name, e.g. `by_run`.
    pub suffix: &'static str,
}

impl FigurePlot<'_> {
    /// File name: `<sub-experiment>/<figure>.<statistic>[_<load>][_<stream>]_<suffix>`.
    fn file(&self) -> String {
        let FigureAddress { sub_experiment, load, stream, .. } = self.address;
        let name = FigureAddress { stream: Stream::all(), ..self.address.clone() }.name();
        let stream = if *stream == Stream::all() { String::new() } else { format!("_{stream}") };
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_.=-".contains(letter);
        let file: String = format!("{name}{}{stream}_{}", load.suffix(), self.suffix);
        let file: String = file.chars().map(|letter| if is_plain(letter) { letter } else { '-' }).collect();
        format!("{sub_experiment}/{file}")
    }

    fn chart(&self, lines: &[PlotLine], x: X, options: &Options) -> Chart {
        let FigureAddress { sub_experiment, load, .. } = self.address;
        let (factor, unit) = match self.address.unit() {
            Unit::Ns => (1e-3, "us"),
            Unit::Share => (100.0, "%"),
            unit => (1.0, unit.as_str()),
        };
        let lines = lines.iter().map(|line| Line {
            name: line.name.clone(),
            points: line.values.iter().enumerate().map(|(place, value)| (place as f64, factor * value)).collect(),
            look: look(line.role),
            ..Line::default()
        });
        let name = self.address.name();
        Chart {
            title: format!("{} {sub_experiment}: {name}", self.title),
            subtitle: format!("offered load: {load}"),
            x,
            y: Y { label: format!("{name} [{unit}]"), log: options.log, ..Y::default() },
            lines: lines.collect(),
            ..Chart::default()
        }
    }

    /// Plot of the figure over these payloads.
    ///
    /// # Errors
    /// As [`Chart::draw`].
    pub fn over_payloads(&self, payloads: &[u64], lines: &[PlotLine], options: &Options) -> Result<Picture, PlotError> {
        let names = payloads.iter().map(|bytes| size_text(*bytes, self.address.has_several_sizes)).collect();
        let x = X::Categories { label: "Payload [bytes]".to_owned(), names };
        picture(&self.chart(lines, x, options), &self.file(), options)
    }

    /// Plot of the figure over these experiments.
    ///
    /// # Errors
    /// As [`Chart::draw`].
    pub fn over_experiments(
        &self,
        experiments: &[String],
        lines: &[PlotLine],
        options: &Options,
    ) -> Result<Picture, PlotError> {
        let x = X::Categories { label: "Experiment [date and time]".to_owned(), names: experiments.to_vec() };
        picture(&self.chart(lines, x, options), &self.file(), options)
    }
}

fn look(role: LineRole) -> Look {
    match role {
        LineRole::Measured => Look::default(),
        LineRole::Experiment { place, of } if place + 1 == of => {
            Look { color: Some(BLUE), marker: Marker::Circle, strong: true, ..Look::default() }
        }
        LineRole::Experiment { place, of } => {
            Look { color: Some(faded(place, of)), marker: Marker::Dot, ..Look::default() }
        }
        LineRole::Limit => {
            Look { color: Some(VERMILLION), marker: Marker::Diamond, stroke: Stroke::Dashed, strong: false }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::Format;
    use tripmeter_model::figure::{Figure, Statistic};
    use tripmeter_model::pace::OfferedLoad;

    #[test]
    fn values_have_their_unit_and_files_the_address() {
        let address = FigureAddress {
            sub_experiment: "uds".to_owned(),
            payload_bytes: 1024,
            has_several_sizes: false,
            load: OfferedLoad::Rate { hz: 1000.0 },
            stream: Stream::topic("/a b"),
            figure: Figure::Service,
            statistic: Statistic::P99,
        };
        let subject = FigurePlot { address: &address, title: "History of", suffix: "by_run" };
        let options = Options { format: Format::Svg, ..Options::default() };
        let line = |name: &str, values: [f64; 2], role| PlotLine { name: name.to_owned(), values: values.into(), role };
        let lines = [
            line("old", [1000.0, f64::NAN], LineRole::Experiment { place: 0, of: 2 }),
            line("new", [2000.0, 2500.0], LineRole::Experiment { place: 1, of: 2 }),
            line("limit", [3000.0, 3000.0], LineRole::Limit),
        ];
        let picture = subject.over_payloads(&[1024, 2048], &lines, &options).unwrap();
        assert_eq!(picture.path, "uds/service_ns.p99_1000hz_topic=-a-b_by_run.svg");
        let svg = String::from_utf8(picture.bytes).unwrap();
        for part in ["History of uds", "service_ns.p99 [us]", "limit", "2k", "offered load: 1000hz"] {
            assert!(svg.contains(part), "{part}\n{svg}");
        }
        assert!(subject.over_experiments(&["a".to_owned(), "b".to_owned()], &lines, &options).is_ok());
    }
}
