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
    // Opens writer and reader, and registers with the node; throws Failure.
    tm_link(tm_node& node, const tm_link_options& options);
    ~tm_link() override;
    tm_link(const tm_link&) = delete;
    tm_link& operator=(const tm_link&) = delete;

    // Creates writer and reader. Throws Failure.
    void open();
    void close() noexcept;
    // Stops all callbacks; the link is closed together with its node.
    void retire();

    // Waits until greetings have been exchanged with all peers. Throws Failure (TM_FAILED) after `time`.
    void connect(size_t peer_count, std::chrono::nanoseconds time);

    int32_t loan(size_t length, tm_loan& loan);
    int32_t publish(tm_loan& loan, uint64_t timeout_ns);
    void discard(tm_loan& loan) noexcept;
    int32_t take(uint64_t timeout_ns, tm_message& message);
    void release() noexcept;

  private:
    void on_data_available(eprosima::fastdds::dds::DataReader* reader) override;
    // Takes the next message, if there is one; handles greetings.
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
    // Unsent loan, reused as the next one. Given back, it would go to the end of the writer's queue, and the next
    // sample in the queue may hold a message that is being read.
    Sample* spare_{};
    size_t spare_length_{};
    bool may_be_overrun_{}; // true if a writer may overwrite samples that were not taken
    eprosima::fastdds::dds::DataWriter* writer_{};
    eprosima::fastdds::dds::DataReader* reader_{}; // null if another link greets for this one
    eprosima::fastdds::dds::Topic* topics_[2]{};
    // A bit for each peer whose greeting was heard, and for each that has confirmed ours.
    std::atomic<uint64_t> heard_{};
    std::atomic<uint64_t> acknowledged_{};
    uint64_t peers_{1};
    // Wait poll: messages arrived, counted by the library's thread, and messages taken. Asking the reader instead would
    // take the lock that the library's thread needs to add a message.
    std::atomic<uint64_t> arrived_{};
    uint64_t taken_{};
    bool may_be_more_{};
};

#endif // TRIPMETER_FASTDDS_LINK_H
