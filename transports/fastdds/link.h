// A link: a topic from leader to follower ("up") and one back ("down"), with one writer and one reader at each end.

#ifndef TRIPMETER_FASTDDS_LINK_H
#define TRIPMETER_FASTDDS_LINK_H

#include "node.h"
#include "sample.h"

#include <fastdds/dds/core/LoanableSequence.hpp>
#include <fastdds/dds/publisher/DataWriter.hpp>
#include <fastdds/dds/subscriber/DataReader.hpp>
#include <fastdds/dds/subscriber/DataReaderListener.hpp>
#include <fastdds/dds/subscriber/SampleInfo.hpp>

#include <atomic>
#include <chrono>
#include <optional>

struct tm_link : private eprosima::fastdds::dds::DataReaderListener {
    // Opens its ends and registers with its node; throws Failure.
    tm_link(tm_node& node, const tm_link_options& options);
    ~tm_link() override;
    tm_link(const tm_link&) = delete;
    tm_link& operator=(const tm_link&) = delete;

    // Creates writer and reader. Throws Failure.
    void open();
    // Removes them.
    void close() noexcept;
    // Calls nobody any more, and leaves with the node.
    void retire();

    // Waits for the peers: until both directions have carried a greeting. Throws Failure (TM_FAILED) after the time.
    void connect(size_t peer_count, std::chrono::nanoseconds time);

    int32_t loan(size_t length, tm_loan& loan);
    int32_t publish(tm_loan& loan, uint64_t timeout_ns);
    void discard(tm_loan& loan) noexcept;
    int32_t take(uint64_t timeout_ns, tm_message& message);
    void release() noexcept;

  private:
    void on_data_available(eprosima::fastdds::dds::DataReader* reader) override;
    // The next message, if there is one; greetings are dealt with.
    int32_t receive(tm_message& message);
    int32_t poll(tm_message& message);
    const Sample* take_sample();
    void return_spare() noexcept;
    bool greet();
    bool write_greeting(uint32_t bits);
    bool greets() const;
    bool is_heard_by(size_t peer_count) const;
    bool is_matched(size_t peer_count) const;
    bool is_let_in() const;
    std::string unmatched(size_t peer_count, std::chrono::nanoseconds time) const;

    tm_node& node_;
    const uint32_t index_;
    const tm_on_message on_message_;
    void* const context_;
    OwnSample out_;
    OwnSample in_;
    OwnSample greeting_{0};
    eprosima::fastdds::dds::LoanableSequence<Sample> samples_;
    eprosima::fastdds::dds::SampleInfoSeq infos_;
    eprosima::fastdds::dds::SampleInfo info_;
    SampleType* out_type_{}; // owned by the participant
    // A loan that was not sent, and is the next one. Given back, it would go to the end of the writer's queue, and the next
    // place in turn may be of a message that is being read.
    Sample* spare_{};
    size_t spare_length_{};
    bool may_be_overrun_{}; // a writer may overwrite samples that were not taken
    eprosima::fastdds::dds::DataWriter* writer_{};
    eprosima::fastdds::dds::DataReader* reader_{}; // none where another link greets for this one
    eprosima::fastdds::dds::Topic* topics_[2]{};
    // Greetings, a bit for each peer: it was heard; it has said that it heard us.
    std::atomic<uint64_t> heard_{};
    std::atomic<uint64_t> acknowledged_{};
    uint64_t peers_{1};
    // Wait poll: what has arrived, counted by the library's thread, and how much of it is known to be taken. Asking the
    // reader would take the lock that the library's thread needs to put a message in.
    std::atomic<uint64_t> arrived_{};
    uint64_t taken_{};
    bool may_be_more_{};
};

#endif // TRIPMETER_FASTDDS_LINK_H
