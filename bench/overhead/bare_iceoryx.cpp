// Ping-pong over iceoryx 2.0 with the untyped C++ publisher and subscriber: zero-copy loans, polled.
#define SYSTEM_NAME "iceoryx"
#define CAN_BLOCK 0
#include "bare.h"

#include "iceoryx_posh/popo/untyped_publisher.hpp"
#include "iceoryx_posh/popo/untyped_subscriber.hpp"
#include "iceoryx_posh/iceoryx_posh_types.hpp"
#include "iceoryx_posh/runtime/posh_runtime.hpp"
#include "iceoryx_hoofs/log/logmanager.hpp"

#include <string>

struct tie {
    iox::capro::IdString_t run;
    uint32_t payload;
    iox::popo::UntypedPublisher *publisher;
    iox::popo::UntypedSubscriber *subscriber;
};

static iox::capro::IdString_t id(const std::string &text)
{
    return iox::capro::IdString_t(iox::cxx::TruncateToCapacity, text.c_str());
}

static void tie_prepare(struct tie *tie, const struct options *options)
{
    tie->run = id("tripmeter-bare-" + std::to_string(getpid()));
    tie->payload = static_cast<uint32_t>(options->payload);
}

static void tie_join(struct tie *tie, const struct options *options, int is_leader)
{
    const char *mine = is_leader ? "leader" : "follower", *other = is_leader ? "follower" : "leader";
    const std::string process = std::string("tripmeter-bare-") + mine + "-" + std::to_string(getpid());
    iox::log::LogManager::GetLogManager().SetDefaultLogLevel(iox::log::LogLevel::kError,
                                                             iox::log::LogLevelOutput::kHideLogLevel);
    iox::runtime::PoshRuntime::initRuntime(iox::RuntimeName_t(iox::cxx::TruncateToCapacity, process.c_str()));
    // Static and created after the runtime, so that they are destroyed before it at exit.
    static iox::popo::UntypedPublisher publisher({id("bare"), tie->run, id(mine)});
    iox::popo::SubscriberOptions settings;
    settings.queueCapacity = 16;
    static iox::popo::UntypedSubscriber subscriber({id("bare"), tie->run, id(other)}, settings);
    tie->publisher = &publisher;
    tie->subscriber = &subscriber;
    for (unsigned tries = 0; tries < options->timeout_s * 1000; tries++) {
        if (tie->publisher->hasSubscribers() &&
            tie->subscriber->getSubscriptionState() == iox::SubscribeState::SUBSCRIBED)
            return;
        usleep(1000);
    }
    errno = ETIMEDOUT;
    die("subscription");
}

static inline void *loan(struct tie *tie)
{
    auto chunk = tie->publisher->loan(tie->payload);
    if (chunk.has_error())
        die("loan");
    return chunk.value();
}

static inline const void *take(struct tie *tie)
{
    for (;;) {
        auto chunk = tie->subscriber->take();
        if (!chunk.has_error())
            return chunk.value();
        if (chunk.get_error() != iox::popo::ChunkReceiveResult::NO_CHUNK_AVAILABLE)
            die("take");
    }
}

static void lead(struct tie *tie, uint64_t *samples, uint64_t trips)
{
    uint64_t last = ticks();
    for (uint64_t trip = 0; trip < trips; trip++) {
        void *out = loan(tie);
        header_write(out, trip);
        tie->publisher->publish(out);
        const void *in = take(tie);
        expect_sequence(header_read(in), trip);
        tie->subscriber->release(in);
        uint64_t now = ticks();
        samples[trip] = now - last;
        last = now;
    }
}

static void follow(struct tie *tie, uint64_t trips)
{
    for (uint64_t trip = 0; trip < trips; trip++) {
        const void *in = take(tie);
        uint64_t sequence = header_read(in);
        void *out = loan(tie);
        header_write(out, sequence);
        tie->publisher->publish(out);
        tie->subscriber->release(in);
    }
}

int main(int count, char **words)
{
    static struct tie tie;
    return bare_main(&tie, count, words);
}
