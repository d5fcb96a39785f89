//! Lines of a played recording: its topics.

use super::row::{TableRow, TimedLine};
use crate::document::{Cell, Missing};
use crate::merged::MISSED;
use tripmeter_analysis::{MetricTable, Row};
use tripmeter_model::figure::{Figure, Statistic};
use tripmeter_model::metric::Stream;
use tripmeter_model::recording::RecordedTopic;
use tripmeter_model::trial::Trial;

/// Topic of a line, or all topics.
#[derive(Clone)]
pub struct TopicPart<'a> {
    pub name: &'a str,
    pub stream: Stream,
    pub mean_bytes: f64,
    /// True if messages are due at a single instant, or there is only one, so that there is no rate.
    is_instant: bool,
}

pub type TopicLine<'a> = TimedLine<'a, TopicPart<'a>>;

/// Two lines for each topic and for all topics, then service to each of several followers.
pub fn lines<'a>(play: &TableRow<'a>, recorded: &'a [RecordedTopic]) -> Vec<TopicLine<'a>> {
    let both = match play.sub.planned.workload.is_call() {
        true => [("response rtt", Figure::ResponseRtt), ("service rtt", Figure::ServiceRtt)],
        false => [("response", Figure::Response), ("service", Figure::Service)],
    };
    let pair = |stream: &Stream| both.map(|(name, figure)| (name.to_owned(), Some(figure), stream.clone()));
    let of_topic = |topic: &'a RecordedTopic| {
        let (name, stream) = (topic.name.as_str(), Stream::topic(&topic.name));
        let mean_bytes = message_bytes(play, &stream)?.first()?.0;
        let is_instant = topic.first_ns == topic.last_ns;
        Some(play.timed(pair(&stream), TopicPart { name, stream, mean_bytes, is_instant }))
    };
    let (stream, mean_bytes) = (Stream::all(), mean_bytes(play, recorded));
    let of_all = pair(&stream).into_iter().chain(play.services());
    let all = play.timed(of_all, TopicPart { name: "(all)", stream, mean_bytes, is_instant: false });
    recorded.iter().filter_map(of_topic).flatten().chain(all).collect()
}

impl TopicLine<'_> {
    /// Rate of the topic, or the sum over all topics.
    pub fn rate(&self, figure: Figure) -> Cell {
        match &self.part {
            part if part.is_instant => Cell::Missing(Missing::NotMeasured),
            part if part.stream == Stream::all() => Cell::number(total_rate(self.row.metrics, self.row.row, figure)),
            part => self.row.median(self.row.get(&part.stream, figure, Statistic::Value)),
        }
    }

    /// Mark if the topic, or any of all topics, missed its rate.
    pub fn missed(&self) -> &'static str {
        let topic = &self.part.stream;
        let is_missed =
            |trial: &Trial| if *topic == Stream::all() { trial.rate_missed } else { trial.missed.contains(topic) };
        self.row.mark(is_missed, MISSED)
    }
}

/// Mean size of the messages of a topic, and their number, per round.
fn message_bytes(play: &TableRow<'_>, topic: &Stream) -> Option<Vec<(f64, f64)>> {
    let sizes = play.get(topic, Figure::MessageBytes, Statistic::Mean)?;
    Some(sizes.paired(&play.get(topic, Figure::Sent, Statistic::Value)?))
}

/// Mean size of all messages of all topics.
fn mean_bytes(play: &TableRow<'_>, recorded: &[RecordedTopic]) -> f64 {
    let sizes = recorded.iter().filter_map(|topic| message_bytes(play, &Stream::topic(&topic.name))).flatten();
    let (bytes, messages) = sizes.fold((0.0, 0.0), |sum, (size, sent)| (sum.0 + size * sent, sum.1 + sent));
    bytes / f64::max(messages, 1.0)
}

/// Total rate of all topics; older programs stored their mean for `all`.
pub fn total_rate(metrics: &MetricTable, row: Row, figure: Figure) -> f64 {
    let topics = metrics.streams(row, figure).into_iter().filter(|stream| stream.topic.is_some());
    topics.filter_map(|topic| metrics.get(row, topic, figure, Statistic::Value)).map(|rate| rate.folded()).sum()
}
