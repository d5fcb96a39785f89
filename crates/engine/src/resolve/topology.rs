//! Numbers of topics and publishers.

use super::error::Problem;
use tripmeter_model::experiment::Common;

/// Largest number of topics or publishers. Each publisher has a thread, each topic one on both sides.
pub(super) const MOST_TOPICS: u32 = 4096;

/// Numbers of topics and of publishers.
pub(super) fn streams(common: &Common) -> Result<(u32, u32), Problem> {
    let (topics, publishers) = (common.topics.unwrap_or(1), common.publishers.unwrap_or(1));
    check(topics, publishers).map(|()| (topics, publishers))
}

/// Refuses numbers out of range, and several topics with several publishers.
pub(super) fn check(topics: u32, publishers: u32) -> Result<(), Problem> {
    if !(1..=MOST_TOPICS).contains(&topics) {
        return Err(Problem::Topics { topics, most: MOST_TOPICS });
    }
    if !(1..=MOST_TOPICS).contains(&publishers) {
        return Err(Problem::Publishers { publishers, most: MOST_TOPICS });
    }
    if topics > 1 && publishers > 1 {
        return Err(Problem::PublishersAndTopics { publishers, topics });
    }
    Ok(())
}
