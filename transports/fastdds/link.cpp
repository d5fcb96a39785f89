#include "link.h"

#include "tripmeter_plugin.hpp"
#include "log.h"

#include <fastdds/dds/topic/TypeSupport.hpp>

#include <algorithm>
#include <thread>
#include <utility>

using tripmeter::Failure;

using namespace eprosima::fastdds::dds;
using eprosima::fastrtps::Duration_t;

namespace {

constexpr std::chrono::nanoseconds kLongestWait = std::chrono::hours(1);
constexpr std::chrono::milliseconds kPause{1};
constexpr std::chrono::milliseconds kGreetingPeriod{10};
// Time without a match after which a TCP client joins anew; each further attempt waits half as long again. A normal
// match takes up to 2 s, more on a busy machine; a failed one never ends.
constexpr std::chrono::milliseconds kRejoinAfter{3000};

Duration_t duration(uint64_t nanoseconds)
{
    constexpr uint64_t kSecond = 1'000'000'000;
    return {static_cast<int32_t>(nanoseconds / kSecond), static_cast<uint32_t>(nanoseconds % kSecond)};
}

} // namespace

tm_link::tm_link(tm_node& node, const tm_link_options& options)
    : node_(node)
    , index_(options.index)
    , on_message_(options.on_message)
    , context_(options.context)
    , out_(node.end.max_payload_bytes)
    , in_(node.end.max_payload_bytes)
{
    open();
    node_.links.push_back(this);
}

tm_link::~tm_link()
{
    node_.links.erase(std::remove(node_.links.begin(), node_.links.end(), this), node_.links.end());
    close();
}

void tm_link::open()
{
    heard_ = acknowledged_ = 0;
    may_be_more_ = false;
    auto* const participant = node_.joined->participant;
    const auto topic = [&](const char* direction, Topic*& place) {
        const uint32_t index = node_.end.has_publishers ? 0 : index_;
        const std::string name = node_.run_id + "/" + std::to_string(index) + "/" + direction;
        const TypeSupport known = participant->find_type(name);
        auto* const type = known.empty() ? new SampleType(name, node_.end.max_payload_bytes)
                                         : static_cast<SampleType*>(known.get());
        if (!known.empty()) {
            // Another publisher has created the topic.
            place = participant->find_topic(name, {1, 0});
        } else if (TypeSupport support(type); // owns it
                   support.register_type(participant, name) == ReturnCode_t::RETCODE_OK) {
            place = participant->create_topic(name, name, TOPIC_QOS_DEFAULT);
        }
        if (place == nullptr) {
            throw Failure(TM_FAILED, "topic '" + name + "' cannot be created" + logged_errors());
        }
        return type;
    };
    out_type_ = topic(node_.end.is_leader ? "up" : "down", topics_[0]);
    writer_ = node_.joined->publisher->create_datawriter(topics_[0], node_.end.writer(*node_.joined->publisher));
    if (writer_ == nullptr) {
        throw Failure(TM_FAILED, "writer of link " + std::to_string(index_) + " cannot be created" + logged_errors());
    }
    if (!greets()) {
        return;
    }
    topic(node_.end.is_leader ? "down" : "up", topics_[1]);
    const bool listens = node_.wait != TM_BLOCK;
    reader_ = node_.joined->subscriber->create_datareader(
        topics_[1], node_.end.reader(*node_.joined->subscriber), listens ? this : nullptr,
        listens ? StatusMask::data_available() : StatusMask::none());
    if (reader_ == nullptr) {
        throw Failure(TM_FAILED, "reader of link " + std::to_string(index_) + " cannot be created" + logged_errors());
    }
    const bool is_controlled = node_.end.settings.waits_for_readers() && node_.end.settings.profile.empty();
    may_be_overrun_ = node_.end.settings.has_loans && !is_controlled;
}

void tm_link::retire()
{
    if (reader_ != nullptr) {
        reader_->set_listener(nullptr);
    }
    node_.retired.emplace_back(this);
}

void tm_link::close() noexcept
{
    if (!node_.joined) {
        return;
    }
    if (reader_ != nullptr) {
        reader_->set_listener(nullptr);
        node_.joined->subscriber->delete_datareader(reader_);
    }
    if (writer_ != nullptr) {
        return_spare();
        node_.joined->publisher->delete_datawriter(writer_);
    }
    for (Topic*& topic : topics_) {
        if (topic != nullptr) {
            node_.joined->participant->delete_topic(topic);
        }
        topic = nullptr;
    }
    reader_ = nullptr;
    writer_ = nullptr;
}

// True if this link greets. The first of several publishers greets for all, as they connect one after the other.
bool tm_link::greets() const
{
    return !node_.end.is_publisher || index_ == 0;
}

bool tm_link::is_heard_by(size_t peer_count) const
{
    PublicationMatchedStatus readers;
    writer_->get_publication_matched_status(readers);
    return readers.current_count >= static_cast<int32_t>(peer_count);
}

bool tm_link::is_matched(size_t peer_count) const
{
    if (node_.end.is_publisher) {
        const auto is_heard = [&](const tm_link* link) { return link->is_heard_by(peer_count); };
        if (!std::all_of(node_.links.begin(), node_.links.end(), is_heard)) {
            return false;
        }
    } else if (!is_heard_by(node_.end.has_publishers ? 1 : peer_count)) {
        return false;
    }
    SubscriptionMatchedStatus writers;
    reader_->get_subscription_matched_status(writers);
    return writers.current_count >= static_cast<int32_t>(peer_count);
}

// True if an unauthorized peer is matched in at least one direction.
bool tm_link::is_let_in() const
{
    PublicationMatchedStatus readers;
    SubscriptionMatchedStatus writers;
    writer_->get_publication_matched_status(readers);
    reader_->get_subscription_matched_status(writers);
    return readers.current_count > 0 || writers.current_count > 0;
}

// Sends a greeting; false if a writer has no room because it waits for its readers.
bool tm_link::greet()
{
    const uint32_t bits = kGreeting | (heard_ == peers_ ? kHeard : 0);
    if (!node_.end.is_publisher) {
        return write_greeting(bits | node_.end.follower_index);
    }
    const auto is_sent = [bits](tm_link* link) { return link->write_greeting(bits | link->index_); };
    return std::count_if(node_.links.begin(), node_.links.end(), is_sent) == std::ptrdiff_t(node_.links.size());
}

bool tm_link::write_greeting(uint32_t bits)
{
    greeting_.get()->length = bits;
    return writer_->write(greeting_.get(), HANDLE_NIL) != ReturnCode_t::RETCODE_TIMEOUT;
}

void tm_link::connect(size_t peer_count, std::chrono::nanoseconds time)
{
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    peers_ = UINT64_MAX >> (64 - std::clamp<size_t>(peer_count, 1, 64));
    const auto deadline = begin + std::min(time, kLongestWait);
    auto joined = begin;
    auto patience = kRejoinAfter;
    auto greeted = begin - kGreetingPeriod;
    tm_message message{};
    while (peer_count > 0 && greets()) {
        const auto now = Clock::now();
        const bool is_in = node_.is_unauthorized ? is_let_in() : is_matched(peer_count);
        if (is_in && (node_.is_unauthorized || (heard_ == peers_ && acknowledged_ == peers_))) {
            break;
        }
        if (now >= deadline) {
            throw Failure(TM_FAILED, unmatched(peer_count, time));
        }
        if (is_in && now - greeted >= kGreetingPeriod) {
            greet();
            greeted = now;
        }
        if (!is_in && node_.is_tcp_client() && now - joined >= patience) {
            node_.rejoin();
            joined = Clock::now();
            patience += patience / 2;
        }
        if (node_.wait != TM_CALLBACK) {
            // Only greetings can arrive here: the host sends its first message later.
            receive(message);
        }
        std::this_thread::sleep_for(kPause);
    }
    if (!node_.is_unauthorized && peer_count > 0 && greets()) {
        // Confirms to the peer that it was heard.
        while (!greet() && Clock::now() < deadline) {
            std::this_thread::sleep_for(kPause);
        }
    }
    node_.connected();
}

std::string tm_link::unmatched(size_t peer_count, std::chrono::nanoseconds time) const
{
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
    const char* const what = is_matched(peer_count) ? "the peer is found, but its greeting does not come through"
                                                    : "no peer is found";
    return "link " + std::to_string(index_) + ": " + what + " after " + std::to_string(ms) + " ms"
           + logged_errors();
}

int32_t tm_link::loan(size_t length, tm_loan& loan)
{
    if (length > node_.end.max_payload_bytes) {
        throw Failure(TM_LIMIT, "payload of " + std::to_string(length) + " bytes exceeds the "
                                    + std::to_string(node_.end.max_payload_bytes) + " that the link is open for");
    }
    void* sample = out_.get();
    if (spare_ != nullptr && spare_length_ == length) {
        sample = std::exchange(spare_, nullptr);
    } else if (node_.end.settings.has_loans) {
        return_spare();
        out_type_->next_loan(length);
        if (writer_->loan_sample(sample) != ReturnCode_t::RETCODE_OK) {
            throw Failure(TM_LIMIT, "all samples of the writer are in use; raise setting depth");
        }
    }
    auto* const own = static_cast<Sample*>(sample);
    own->length = static_cast<uint32_t>(length);
    loan.data = own->data;
    loan.length = length;
    loan.token = own;
    return TM_OK;
}

int32_t tm_link::publish(tm_loan& loan, uint64_t timeout_ns)
{
    auto written = writer_->write(loan.token, HANDLE_NIL);
    if (written == ReturnCode_t::RETCODE_TIMEOUT && node_.end.settings.waits_for_readers()) {
        // Each attempt waits for 1 ms.
        const std::chrono::nanoseconds patience(std::min<uint64_t>(timeout_ns, kLongestWait.count()));
        const auto deadline = std::chrono::steady_clock::now() + patience;
        while (written == ReturnCode_t::RETCODE_TIMEOUT && std::chrono::steady_clock::now() < deadline) {
            written = writer_->write(loan.token, HANDLE_NIL);
        }
    }
    if (written == ReturnCode_t::RETCODE_OK) {
        return TM_OK;
    }
    discard(loan);
    if (written == ReturnCode_t::RETCODE_TIMEOUT) {
        return TM_AGAIN;
    }
    throw Failure(TM_FAILED, "writing failed with code " + std::to_string(written()) + logged_errors());
}

void tm_link::discard(tm_loan& loan) noexcept
{
    if (node_.end.settings.has_loans) {
        spare_ = static_cast<Sample*>(loan.token);
        spare_length_ = loan.length;
    }
}

void tm_link::return_spare() noexcept
{
    if (spare_ != nullptr) {
        void* sample = std::exchange(spare_, nullptr);
        writer_->discard_loan(sample);
    }
}

const Sample* tm_link::take_sample()
{
    if (!node_.end.settings.has_loans) {
        if (reader_->take_next_sample(in_.get(), &info_) != ReturnCode_t::RETCODE_OK) {
            return nullptr;
        }
        return in_.get();
    }
    while (reader_->take(samples_, infos_, 1) == ReturnCode_t::RETCODE_OK) {
        // An invalid sample has been overwritten: it is lost.
        if (!may_be_overrun_ || !infos_[0].valid_data || reader_->is_sample_valid(&samples_[0], &infos_[0])) {
            return &samples_[0];
        }
        release();
    }
    return nullptr;
}

int32_t tm_link::receive(tm_message& message)
{
    while (const Sample* const sample = take_sample()) {
        const bool is_valid = node_.end.settings.has_loans ? infos_[0].valid_data : info_.valid_data;
        if (is_valid && (sample->length & kGreeting) != 0) {
            const uint64_t sender = uint64_t{1} << (sample->length & kSender);
            acknowledged_ |= (sample->length & kHeard) != 0 ? sender : 0;
            heard_ |= sender;
        } else if (is_valid && sample->length <= node_.end.max_payload_bytes) {
            message.data = sample->data;
            message.length = sample->length;
            message.token = nullptr;
            return TM_OK;
        }
        release();
    }
    return TM_AGAIN;
}

int32_t tm_link::poll(tm_message& message)
{
    const uint64_t arrived = arrived_.load(std::memory_order_acquire);
    if (arrived == taken_ && !may_be_more_) {
        return TM_AGAIN;
    }
    const int32_t status = receive(message);
    may_be_more_ = status == TM_OK;
    if (!may_be_more_) {
        taken_ = arrived;
    }
    return status;
}

int32_t tm_link::take(uint64_t timeout_ns, tm_message& message)
{
    if (node_.wait == TM_POLL) {
        return poll(message);
    }
    reader_->wait_for_unread_message(duration(std::min<uint64_t>(timeout_ns, kLongestWait.count())));
    return receive(message);
}

void tm_link::release() noexcept
{
    if (node_.end.settings.has_loans) {
        reader_->return_loan(samples_, infos_);
    }
}

void tm_link::on_data_available(DataReader*)
{
    if (node_.wait != TM_CALLBACK) {
        arrived_.fetch_add(1, std::memory_order_release);
        return;
    }
    tm_message message{};
    while (receive(message) == TM_OK) {
        on_message_(context_, &message);
        release();
    }
}
