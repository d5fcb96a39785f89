// A ping-pong of two processes on iceoryx's untyped C++ API, with the loop of its example iceperf: loaned messages,
// busy polling, 16 bytes written and read. Options select where iceperf and Tripmeter differ. Prints one line of JSON,
// {"rtt_ns":{"p50":...},"reused":...}: half of rtt_ns is iceperf's latency, and `reused` is the share of the leader's
// loans that got the chunk of the previous loan again. RouDi must be running.

#include <iceoryx_hoofs/log/logmanager.hpp>
#include <iceoryx_posh/popo/untyped_publisher.hpp>
#include <iceoryx_posh/popo/untyped_subscriber.hpp>
#include <iceoryx_posh/runtime/posh_runtime.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace
{

using Clock = std::chrono::steady_clock;

// Longest that one run may take.
constexpr unsigned kTimeoutS = 60;

struct Options {
    uint64_t payload = 1024;
    uint64_t samples = 20000; // round trips
    uint64_t warmup = 1000;
    uint64_t leader_cpu = 0;
    uint64_t follower_cpu = 1;
    uint64_t history = 0;       // messages that a publisher keeps, and that a subscriber asks for
    uint64_t queue = 16;        // length of a subscriber's queue, in messages
    uint64_t release_first = 1; // 1: the follower releases a message before it answers; 0: after
    uint64_t per_reading = 1;   // round trips per reading of the clock
};

Options parse(int count, char **words)
{
    Options options;
    const std::map<std::string, uint64_t *> flags = {
        {"--payload", &options.payload},
        {"--samples", &options.samples},
        {"--warmup", &options.warmup},
        {"--leader-cpu", &options.leader_cpu},
        {"--follower-cpu", &options.follower_cpu},
        {"--history", &options.history},
        {"--queue", &options.queue},
        {"--release-first", &options.release_first},
        {"--per-reading", &options.per_reading},
    };
    for (int i = 1; i < count; i += 2) {
        const auto flag = flags.find(words[i]);
        if (flag == flags.end() || i + 1 == count) {
            throw std::runtime_error(std::string("unknown flag, or no value: ") + words[i]);
        }
        *flag->second = std::stoull(words[i + 1]);
    }
    options.payload = std::max<uint64_t>(options.payload, 16);
    options.per_reading = std::clamp<uint64_t>(options.per_reading, 1, std::max<uint64_t>(options.samples, 1));
    options.samples = std::max(options.samples / options.per_reading, uint64_t{1}) * options.per_reading;
    return options;
}

void pin(uint64_t cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        throw std::runtime_error("cannot bind to CPU " + std::to_string(cpu) + ": " + std::strerror(errno));
    }
}

iox::capro::IdString_t id(const std::string &text)
{
    return {iox::cxx::TruncateToCapacity, text.c_str()};
}

// One side: a publisher of its topic and a subscriber of the other's, connected.
class End
{
  public:
    End(const Options &options, const std::string &run, const std::string &mine, const std::string &other)
        : payload_(static_cast<uint32_t>(options.payload))
        , publisher_({id("native"), id(run), id(mine)}, publication(options))
        , subscriber_({id("native"), id(run), id(other)}, subscription(options))
    {
        while (!publisher_.hasSubscribers()
               || subscriber_.getSubscriptionState() != iox::SubscribeState::SUBSCRIBED) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }

    void send(uint64_t sequence)
    {
        auto loan = publisher_.loan(payload_);
        if (loan.has_error()) {
            throw std::runtime_error(std::string("loan: ") + iox::popo::asStringLiteral(loan.get_error()));
        }
        reused_ += loan.value() == last_ ? 1 : 0;
        last_ = loan.value();
        const uint64_t words[2] = {sequence, ~sequence};
        std::memcpy(loan.value(), words, sizeof words);
        publisher_.publish(loan.value());
    }

    // Waits for the message with this sequence number. The caller releases it.
    const void *receive(uint64_t sequence)
    {
        for (;;) {
            const auto message = subscriber_.take();
            if (!message.has_error()) {
                uint64_t words[2];
                std::memcpy(words, message.value(), sizeof words);
                if (words[0] != sequence || words[1] != ~sequence) {
                    throw std::runtime_error("not message " + std::to_string(sequence));
                }
                return message.value();
            }
            if (message.get_error() != iox::popo::ChunkReceiveResult::NO_CHUNK_AVAILABLE) {
                throw std::runtime_error("take failed");
            }
        }
    }

    void release(const void *message)
    {
        subscriber_.release(message);
    }

    // Number of loans that got the chunk of the previous loan.
    uint64_t reused() const
    {
        return reused_;
    }

  private:
    static iox::popo::PublisherOptions publication(const Options &options)
    {
        iox::popo::PublisherOptions publication;
        publication.historyCapacity = options.history;
        return publication;
    }

    static iox::popo::SubscriberOptions subscription(const Options &options)
    {
        iox::popo::SubscriberOptions subscription;
        subscription.queueCapacity = options.queue;
        subscription.historyRequest = options.history;
        return subscription;
    }

    uint32_t payload_;
    iox::popo::UntypedPublisher publisher_;
    iox::popo::UntypedSubscriber subscriber_;
    const void *last_ = nullptr;
    uint64_t reused_ = 0;
};

struct Result {
    std::vector<double> rtt_ns; // one for each reading of the clock: the mean since the previous reading
    double reused;
};

void join(const char *role)
{
    iox::log::LogManager::GetLogManager().SetDefaultLogLevel(iox::log::LogLevel::kError,
                                                             iox::log::LogLevelOutput::kHideLogLevel);
    const std::string name = std::string("native-") + role + "-" + std::to_string(getpid());
    iox::runtime::PoshRuntime::initRuntime(iox::RuntimeName_t(iox::cxx::TruncateToCapacity, name.c_str()));
}

void follow(const Options &options, const std::string &run)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(kTimeoutS);
    join("follower");
    End end(options, run, "back", "out");
    pin(options.follower_cpu);
    for (uint64_t sequence = 1; sequence <= options.warmup + options.samples; sequence++) {
        const void *const message = end.receive(sequence);
        if (options.release_first != 0) {
            end.release(message);
            end.send(sequence);
        } else {
            end.send(sequence);
            end.release(message);
        }
    }
}

void trip(End &end, uint64_t sequence)
{
    end.send(sequence);
    end.release(end.receive(sequence));
}

Result lead(const Options &options, const std::string &run)
{
    alarm(kTimeoutS);
    join("leader");
    End end(options, run, "out", "back");
    pin(options.leader_cpu);
    std::vector<double> samples(options.samples / options.per_reading, 0.0);
    uint64_t sequence = 0;
    while (sequence < options.warmup) {
        trip(end, ++sequence);
    }
    auto previous = Clock::now();
    for (double &sample : samples) {
        for (uint64_t i = 0; i < options.per_reading; i++) {
            trip(end, ++sequence);
        }
        const auto now = Clock::now();
        sample = std::chrono::duration<double, std::nano>(now - previous).count()
                 / static_cast<double>(options.per_reading);
        previous = now;
    }
    return {samples, static_cast<double>(end.reused()) / static_cast<double>(sequence)};
}

int run(int count, char **words)
{
    const Options options = parse(count, words);
    const std::string name = std::to_string(getpid());
    const pid_t follower = fork();
    if (follower < 0) {
        throw std::runtime_error("cannot fork");
    }
    if (follower == 0) {
        follow(options, name);
        return 0;
    }
    Result result = lead(options, name);
    int status = 0;
    if (waitpid(follower, &status, 0) != follower || status != 0) {
        throw std::runtime_error("the follower failed");
    }
    std::sort(result.rtt_ns.begin(), result.rtt_ns.end());
    std::printf("{\"payload_bytes\":%llu,\"rtt_ns\":{\"p50\":%.1f},\"reused\":%.3f}\n",
                static_cast<unsigned long long>(options.payload), result.rtt_ns[result.rtt_ns.size() / 2],
                result.reused);
    return 0;
}

} // namespace

int main(int count, char **words)
{
    try {
        return run(count, words);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "native-iceoryx: %s\n", error.what());
        return 1;
    }
}
