// Tripmeter transport `iceoryx`: the untyped C++ API of iceoryx, zero-copy.
//
// Every link has a topic from leader to follower ("up") and, where the follower answers, one back ("down"). Publishers
// are offered and subscribers subscribed when they are created, which RouDi completes before it answers: once both
// sides have opened their links, they are connected.

#include "tripmeter_plugin.hpp"

#include "../common/iceoryx/common.h"

#include <iceoryx_hoofs/error_handling/error_handling.hpp>
#include <iceoryx_hoofs/log/logmanager.hpp>
#include <iceoryx_posh/popo/listener.hpp>
#include <iceoryx_posh/popo/untyped_publisher.hpp>
#include <iceoryx_posh/popo/untyped_subscriber.hpp>
#include <iceoryx_posh/popo/wait_set.hpp>
#include <iceoryx_posh/runtime/posh_runtime.hpp>
#include <iceoryx_posh/version/version_info.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>

using iox::capro::IdString_t;
using iox::popo::UntypedPublisher;
using iox::popo::UntypedSubscriber;

namespace {

// Debian's build asserts on errors that iceoryx survives, such as a loan that no pool can serve. This handler leaves
// those to the caller, who gets them as a result as well.
void on_iceoryx_error(const iox::Error error, const std::function<void()>& callback, const iox::ErrorLevel level)
{
    if (callback) {
        callback();
        return;
    }
    std::fprintf(stderr, "iceoryx: %s\n", iox::ErrorHandler::toString(error));
    if (level == iox::ErrorLevel::FATAL) {
        std::abort();
    }
}

constexpr uint32_t kAlignment = 8;

} // namespace

struct tm_node {
    tm_node(const tm_node_options& options, const roudi_need& need)
        : run_id(tripmeter::text(options.run_id))
        , queue_capacity(iceoryx_queue_length(need.queue_capacity, &options))
        , max_payload_bytes(options.max_payload_bytes)
        , is_leader(options.role == TM_LEADER)
        , is_answered(options.pattern == TM_PING || options.pattern == TM_CALL)
        , looks_first(iceoryx_looks_first(&options))
        , has_publishers(options.publisher_count > 1)
        , wait(options.wait)
        , error_handler(iox::ErrorHandler::setTemporaryErrorHandler(on_iceoryx_error))
    {
        iox::log::LogManager::GetLogManager().SetDefaultLogLevel(iox::log::LogLevel::kWarn,
                                                                 iox::log::LogLevelOutput::kHideLogLevel);
    }

    int32_t join(const tm_node_options& options, tm_error* error)
    {
        const auto init = [](const char* name) {
            iox::runtime::PoshRuntime::initRuntime(iox::RuntimeName_t(iox::cxx::TruncateToCapacity, name));
        };
        const int32_t status = roudi_join(&options, init, error);
        if (status == TM_OK && wait == TM_CALLBACK && (is_answered || !is_leader)) {
            listener.emplace();
        }
        return status;
    }

    iox::capro::ServiceDescription topic(uint32_t link, const char* direction) const
    {
        const auto instance = "link-" + std::to_string(has_publishers ? 0 : link);
        return {IdString_t(iox::cxx::TruncateToCapacity, run_id.c_str()),
                IdString_t(iox::cxx::TruncateToCapacity, instance.c_str()),
                IdString_t(iox::cxx::TruncateToCapacity, direction)};
    }

    const std::string run_id;
    const uint64_t queue_capacity;
    const uint64_t max_payload_bytes;
    const bool is_leader;
    const bool is_answered;
    const bool looks_first; // checks the queue before it waits
    const bool has_publishers; // more than one, on one topic
    const uint32_t wait;
    const iox::cxx::GenericRAII error_handler;
    std::optional<iox::popo::Listener> listener;
};

struct tm_link {
    tm_link(tm_node& owner, const tm_link_options& options)
        : node(owner)
        , index(options.index)
        , on_message(options.on_message)
        , context(options.context)
    {
        const char* const out = node.is_leader ? "up" : "down";
        const char* const in = node.is_leader ? "down" : "up";
        if (node.is_leader || node.is_answered) {
            publisher.emplace(node.topic(index, out));
        }
        if (!node.is_leader || node.is_answered) {
            iox::popo::SubscriberOptions subscription;
            subscription.queueCapacity = node.queue_capacity;
            subscriber.emplace(node.topic(index, in), subscription);
        }
    }

    // Attaches the subscriber to the wait set or the listener; true on success.
    bool attach()
    {
        if (!subscriber) {
            return true;
        }
        if (node.wait == TM_BLOCK) {
            wait_set.emplace();
            return !wait_set->attachState(*subscriber, iox::popo::SubscriberState::HAS_DATA).has_error();
        }
        if (node.wait == TM_CALLBACK) {
            return !node.listener
                        ->attachEvent(*subscriber, iox::popo::SubscriberEvent::DATA_RECEIVED,
                                      iox::popo::createNotificationCallback(deliver, *this))
                        .has_error();
        }
        return true;
    }

    // Runs in the listener's thread. One event may announce several messages.
    static void deliver(UntypedSubscriber* source, tm_link* self)
    {
        tm_message message{};
        while (self->receive(message) == TM_OK) {
            self->on_message(self->context, &message);
            source->release(message.data);
        }
    }

    int32_t receive(tm_message& message)
    {
        const auto chunk = subscriber->take();
        if (chunk.has_error()) {
            return chunk.get_error() == iox::popo::ChunkReceiveResult::NO_CHUNK_AVAILABLE ? TM_AGAIN : TM_LIMIT;
        }
        message.data = static_cast<const uint8_t*>(chunk.value());
        message.length = iox::mepoo::ChunkHeader::fromUserPayload(chunk.value())->userPayloadSize();
        message.token = nullptr;
        return TM_OK;
    }

    tm_node& node;
    const uint32_t index;
    const tm_on_message on_message;
    void* const context;
    std::optional<UntypedPublisher> publisher;
    std::optional<iox::popo::WaitSet<>> wait_set; // before the subscriber, which detaches itself in its destructor
    std::optional<UntypedSubscriber> subscriber;
};

namespace {

int32_t loan_failed(const tm_link& link, size_t length, iox::popo::AllocationError reason, tm_error* error) noexcept
{
    switch (reason) {
    case iox::popo::AllocationError::NO_MEMPOOLS_AVAILABLE:
        return roudi_too_large(length, roudi_largest_payload(), error);
    case iox::popo::AllocationError::RUNNING_OUT_OF_CHUNKS:
        return tm_fail(error, TM_LIMIT,
                       "RouDi has no chunk of %zu bytes left: its pool is smaller than what queue_capacity=%" PRIu64
                       " can fill; lower queue_capacity or give RouDi a larger pool",
                       length, link.node.queue_capacity);
    default:
        return tm_fail(error, TM_FAILED, "loan of %zu bytes refused: %s", length, iox::popo::asStringLiteral(reason));
    }
}

int32_t probe(const tm_node_options* options, tm_limits* limits, tm_error* error) noexcept
{
    return iceoryx_probe(options, limits, error);
}

int32_t node_open(const tm_node_options* options, tm_node** node, tm_error* error) noexcept
{
    return tripmeter::guarded(error, "joining iceoryx", [&] {
        roudi_need need{};
        int32_t status = iceoryx_check(options, &need, error);
        if (status != TM_OK) {
            return status;
        }
        auto opened = std::make_unique<tm_node>(*options, need);
        status = opened->join(*options, error);
        if (status == TM_OK) {
            *node = opened.release();
        }
        return status;
    });
}

void node_close(tm_node* node) noexcept
{
    delete node;
}

int32_t link_open(tm_node* node, const tm_link_options* options, tm_link** link, tm_error* error) noexcept
{
    return tripmeter::guarded(error, "opening a link", [&] {
        const int32_t status = roudi_check(error);
        if (status != TM_OK) {
            return status;
        }
        auto opened = std::make_unique<tm_link>(*node, *options);
        if (opened->publisher) {
            const auto length = static_cast<uint32_t>(node->max_payload_bytes);
            const auto trial = opened->publisher->loan(length, kAlignment);
            if (trial.has_error()) {
                return loan_failed(*opened, length, trial.get_error(), error);
            }
            opened->publisher->release(trial.value());
        }
        if (!opened->attach()) {
            return tm_fail(error, TM_FAILED, "link %" PRIu32 ": the subscriber cannot be waited for", opened->index);
        }
        *link = opened.release();
        return static_cast<int32_t>(TM_OK);
    });
}

int32_t link_connect(tm_link* link, const tm_bytes*, size_t, uint64_t timeout_ns, tm_error* error) noexcept
{
    return tripmeter::guarded(error, "connecting", [&] {
        const auto wait = std::chrono::nanoseconds(tm_wait_ns(timeout_ns));
        const auto deadline = std::chrono::steady_clock::now() + wait;
        while (link->publisher && !link->publisher->hasSubscribers()) {
            if (std::chrono::steady_clock::now() >= deadline) {
                return tm_fail(error, TM_FAILED,
                               "link %" PRIu32 ": no subscriber after %" PRIu64
                               " ms; see that both sides use the same RouDi",
                               link->index, timeout_ns / 1'000'000);
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return static_cast<int32_t>(TM_OK);
    });
}

void link_close(tm_link* link) noexcept
{
    delete link;
}

int32_t loan(tm_link* link, size_t length, const tm_message*, tm_loan* loan, tm_error* error) noexcept
{
    if (length > UINT32_MAX) {
        return roudi_too_large(length, 0, error);
    }
    const auto chunk = link->publisher->loan(static_cast<uint32_t>(length), kAlignment);
    if (chunk.has_error()) {
        return loan_failed(*link, length, chunk.get_error(), error);
    }
    loan->data = static_cast<uint8_t*>(chunk.value());
    loan->length = length;
    loan->token = nullptr;
    return TM_OK;
}

int32_t publish(tm_link* link, tm_loan* loan, uint64_t, tm_error*) noexcept
{
    link->publisher->publish(loan->data);
    loan->data = nullptr;
    return TM_OK;
}

void discard(tm_link* link, tm_loan* loan) noexcept
{
    link->publisher->release(loan->data);
    loan->data = nullptr;
}

int32_t take(tm_link* link, uint64_t timeout_ns, tm_message* message, tm_error* error) noexcept
{
    if (link->wait_set) {
        if (link->node.looks_first && link->receive(*message) == TM_OK) {
            return TM_OK;
        }
        link->wait_set->timedWait(iox::units::Duration::fromNanoseconds(tm_wait_ns(timeout_ns)));
    }
    const int32_t status = link->receive(*message);
    if (status < 0) {
        return tm_fail(error, status, "link %" PRIu32 ": too many messages are held unreleased", link->index);
    }
    return status;
}

void release(tm_link* link, tm_message* message) noexcept
{
    link->subscriber->release(message->data);
    message->data = nullptr;
}

const char* version() noexcept
{
    static char found[32];
    iceoryx_version(reinterpret_cast<const void*>(&iox::version::VersionInfo::getCurrentVersion), found, sizeof found);
    return found;
}

} // namespace

TM_EXPORT const tm_transport* tripmeter_transport(void)
{
    static const char* const found = version();
    static const tm_description description = tripmeter::describe(
        TM_STR("iceoryx"), TM_STR("Eclipse iceoryx through its C++ API: zero-copy shared memory"), TM_STR("0.1.0"),
        {found, std::strlen(found)}, iceoryx_variants, iceoryx_settings, TM_STR("iox-roudi"));
    static const tm_transport transport = TM_TRANSPORT(&description, tm_no_address, iceoryx_daemon_command);
    return &transport;
}
