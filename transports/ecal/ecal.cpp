// Tripmeter transport `ecal`: publishers and subscribers of eCAL 6.1 through its C++ interface.
//
// Every link has a topic from leader to follower ("up") and one back ("down"); topics are unique to the run. Only the
// layer that is measured is enabled on either side. Messages arrive by callback in eCAL's own thread.
//
// Connecting ends with greetings, one byte longer than the largest message and never shown to the host. Each side sends
// them until it receives one that confirms its own. Under zero copy they also show where in eCAL's memory files a
// payload lies.

#include "tripmeter_plugin.hpp"

#include "interface.h"
#include "send_thread.h"
#include "library.h"
#include "segments.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <cerrno>
#include <memory>
#include <mutex>
#include <optional>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace {

using Clock = std::chrono::steady_clock;
using tripmeter::Failure;
using tripmeter::guarded;

constexpr unsigned kComponents = 0x001 | 0x002 | 0x010 | 0x020; // publisher, subscriber, logging, time
constexpr uint32_t kPatterns = TM_PING | TM_PUBLISH | TM_THROUGHPUT;
constexpr uint64_t kMostBytes = UINT64_C(1) << 30;
constexpr unsigned kMostAckMs = 10'000;
constexpr unsigned kMostBuffers = 16;
constexpr uint8_t kVoid[] = "tripmeter: void"; // begins a message that receivers ignore
// eCAL stops waiting for a reader that was late once, until it registers again, which happens every second.
constexpr auto kRegistration = std::chrono::seconds(2);

// TCP supports only one follower and publisher: answers that arrive together get lost, as a subscriber seems to keep
// only the latest message of all its publishers.
const tm_variant kVariants[] = {
    TM_VARIANT("shm", "shared memory, copied on both sides: eCAL's default", TM_PATH_SHARED_MEMORY, kPatterns,
               TM_CALLBACK, TM_LOSSY | TM_FAN_OUT | TM_PUBLISHERS),
    TM_VARIANT("shm-zero-copy", "shared memory, written and read in place", TM_PATH_SHARED_MEMORY, kPatterns,
               TM_CALLBACK, TM_LOSSY | TM_ZERO_COPY | TM_FAN_OUT | TM_PUBLISHERS),
    TM_VARIANT("udp", "UDP multicast", TM_PATH_UDP, kPatterns, TM_CALLBACK,
               TM_LOSSY | TM_FAN_OUT | TM_PUBLISHERS | TM_REMOTE),
    TM_VARIANT("tcp", "TCP", TM_PATH_TCP, kPatterns, TM_CALLBACK, TM_LOSSY),
};

const tm_setting kSettings[] = {
    TM_SETTING("ack_timeout_ms", "100", "milliseconds, 0 (off) to 10000",
               "shared memory: how long a send waits until the receiver's callback has returned", TM_NAMES_NOTHING),
    TM_SETTING("buffers", "1", "1 to 16", "shared memory: memory files per publisher", TM_NAMES_NOTHING),
};

struct Settings {
    bool is_shm = false;
    bool is_zero_copy = false;
    bool is_udp = false;
    bool is_tcp = false;
    uint32_t ack_timeout_ms = 100;
    uint32_t buffers = 1;
};

void read_number(const tm_node_options& options, const char* name, uint32_t least, uint32_t most, uint32_t& number)
{
    const tm_str* const value = tm_setting_of(&options, name);
    uint64_t found = number;
    if (value != nullptr && !tm_parse_number(*value, least, most, &found)) {
        throw Failure(TM_INVALID, std::string(name) + "=" + tripmeter::text(*value) + ": give a number from "
                                      + std::to_string(least) + " to " + std::to_string(most));
    }
    number = static_cast<uint32_t>(found);
}

Settings read_settings(const tm_node_options& options)
{
    Settings settings;
    settings.is_zero_copy = tm_is(options.variant, "shm-zero-copy");
    settings.is_shm = settings.is_zero_copy || tm_is(options.variant, "shm");
    settings.is_udp = tm_is(options.variant, "udp");
    settings.is_tcp = tm_is(options.variant, "tcp");
    if (!settings.is_shm && !settings.is_udp && !settings.is_tcp) {
        throw Failure(TM_INVALID, "ecal has no variant '" + tripmeter::text(options.variant) + "'");
    }
    if (options.wait != TM_CALLBACK) {
        throw Failure(TM_INVALID, "ecal delivers by callback only; use --wait callback");
    }
    read_number(options, "ack_timeout_ms", 0, kMostAckMs, settings.ack_timeout_ms);
    read_number(options, "buffers", 1, kMostBuffers, settings.buffers);
    const Settings defaults;
    const bool is_of_shm = settings.ack_timeout_ms != defaults.ack_timeout_ms || settings.buffers != defaults.buffers;
    if (!settings.is_shm && is_of_shm) {
        throw Failure(TM_INVALID, "settings ack_timeout_ms and buffers apply to shared memory only; leave them out");
    }
    const bool is_one_way = options.pattern == TM_PUBLISH || options.pattern == TM_THROUGHPUT;
    if (settings.is_zero_copy && is_one_way && settings.ack_timeout_ms == 0) {
        throw Failure(TM_INVALID,
                      "zero copy without acknowledgement would overwrite messages while they are read; give "
                      "ack_timeout_ms");
    }
    return settings;
}

// Largest message. Both sides have a memory file per buffer, and room is left for other runs. A datagram that finds the
// receive buffer full is lost, and the kernel charges about twice its bytes.
uint64_t max_payload_bytes(const Settings& settings)
{
    if (settings.is_tcp) {
        return kMostBytes;
    }
    if (settings.is_udp) {
        constexpr uint64_t kAsked = 5'242'880;
        uint64_t granted = 0;
        std::ifstream("/proc/sys/net/core/rmem_max") >> granted;
        return std::min(granted, kAsked) / 2;
    }
    struct statvfs shared{};
    if (statvfs("/dev/shm", &shared) != 0) {
        return 0;
    }
    const uint64_t free_bytes = static_cast<uint64_t>(shared.f_bavail) * shared.f_frsize;
    return std::min(free_bytes / (UINT64_C(4) * settings.buffers), kMostBytes);
}

bool is_own(const addrinfo& address)
{
    const int socket = ::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    // Another error, e.g. that no port is free, does not mean that the address is foreign.
    const bool is_own = socket >= 0
                        && (bind(socket, address.ai_addr, address.ai_addrlen) == 0 || errno != EADDRNOTAVAIL);
    if (socket >= 0) {
        close(socket);
    }
    return is_own;
}

// Checks this host's name, to which a subscriber connects.
void check_own_name()
{
    char name[256]{};
    gethostname(name, sizeof name - 1);
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int error = getaddrinfo(name, "0", &hints, &found);
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(error == 0 ? found : nullptr, freeaddrinfo);
    const std::string remedy = std::string("; eCAL connects to it by TCP: add '127.0.1.1 ") + name + "' to /etc/hosts";
    if (error != 0) {
        throw Failure(TM_UNAVAILABLE, std::string("this host's own name '") + name + "' does not resolve ("
                                          + gai_strerror(error) + ")" + remedy);
    }
    for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
        if (is_own(*address)) {
            return;
        }
    }
    throw Failure(TM_UNAVAILABLE,
                  std::string("this host's own name '") + name + "' resolves to no address of this host" + remedy);
}

Settings checked(const tm_node_options& options)
{
    if (!library().is_usable()) {
        throw Failure(TM_UNAVAILABLE, library().refusal);
    }
    if (options.follower_count > 64) {
        throw Failure(TM_LIMIT, std::to_string(options.follower_count) + " followers, 64 at most");
    }
    if (options.publisher_count > 64) {
        throw Failure(TM_LIMIT, std::to_string(options.publisher_count) + " publishers, 64 at most");
    }
    const std::string address = tripmeter::address(options);
    if (address.find(':') != std::string::npos) {
        throw Failure(TM_LIMIT, "eCAL knows no IPv6 (" + address + "); name IPv4 addresses by --interface and --to-interface");
    }
    const Settings settings = read_settings(options);
    if (settings.is_tcp) {
        check_own_name();
    }
    return settings;
}

/** Sets TMPDIR to the scratch folder for its lifetime: eCAL makes a folder there, and leaves it behind when killed. */
class TemporaryFolder {
public:
    explicit TemporaryFolder(const std::string& folder)
    {
        if (const char* value = std::getenv("TMPDIR")) {
            before = value;
        }
        setenv("TMPDIR", folder.c_str(), 1);
    }

    ~TemporaryFolder() { before ? setenv("TMPDIR", before->c_str(), 1) : unsetenv("TMPDIR"); }

    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

private:
    std::optional<std::string> before;
};

} // namespace

struct tm_node {
    tm_node(const tm_node_options& options, const Settings& given)
        : settings(given)
        , interface(tm_is_between_hosts(&options) ? std::optional<Interface>(options) : std::nullopt)
        , run_id(tripmeter::text(options.run_id))
        , max_payload(options.max_payload_bytes)
        , is_leader(options.role == TM_LEADER)
        , is_answered(options.pattern == TM_PING)
        , own_index(static_cast<uint8_t>(options.follower_index))
        , has_publishers(options.publisher_count > 1)
        , peer_count(std::max<uint32_t>(is_leader ? options.follower_count : options.publisher_count, 1))
        , peers(UINT64_MAX >> (64 - peer_count))
        , segments(tripmeter::text(options.scratch_dir) + "/shared-memory")
    {
        const TemporaryFolder scratch(tripmeter::text(options.scratch_dir));
        // Constructed without reading eCAL's configuration file, so that only its defaults hold.
        alignas(16) std::byte configuration[Library::kConfigurationBytes]{};
        library().construct_configuration(configuration);
        if (interface) {
            const std::string file = tripmeter::text(options.scratch_dir) + "/ecal.yaml";
            interface->write(file);
            library().read_configuration(configuration, file);
        }
        is_joined = library().initialize(configuration, "tripmeter", kComponents);
        library().destroy_configuration(configuration);
        take_sockets();
    }

    ~tm_node()
    {
        if (is_joined) {
            library().finalize();
        }
    }

    // Binds sockets that eCAL has made since the last call.
    void take_sockets() const
    {
        if (interface) {
            interface->take_sockets();
        }
    }

    const Settings settings;
    const std::optional<Interface> interface; // between hosts
    const std::string run_id;
    const uint64_t max_payload;
    const bool is_leader;
    const bool is_answered;
    const uint8_t own_index;
    const bool has_publishers; // several, on one topic
    const size_t peer_count;
    const uint64_t peers; // a bit for each peer that greets this side
    Segments segments;
    bool is_joined = false;
    std::vector<tm_link*> links;
};

struct tm_link final : private eCAL::CPayloadWriter {
    tm_link(tm_node& owner, const tm_link_options& options)
        : node(owner)
        , index(options.index)
        , on_message(options.on_message)
        , context(options.context)
        , greeting_bytes(node.max_payload + 1)
        , staging(greeting_bytes)
        , places(node.settings.buffers)
    {
        const auto topic = [&](const char* direction) {
            return node.run_id + "/" + std::to_string(node.has_publishers ? 0 : index) + "/" + direction;
        };
        const eCAL::SDataTypeInformation type{};
        const Settings& settings = node.settings;
        auto out = library().publisher_defaults();
        out.shm.enable = settings.is_shm;
        out.shm.zero_copy_mode = settings.is_zero_copy;
        out.shm.acknowledge_timeout_ms = settings.ack_timeout_ms;
        out.shm.memfile_buffer_count = settings.buffers;
        // Large enough from the start: a file that grows is replaced under a new name. A subscriber that registers
        // meanwhile may get an event that belongs to no file, and would never be notified.
        out.shm.memfile_min_size_bytes = static_cast<unsigned>(greeting_bytes);
        out.udp_enable = settings.is_udp;
        out.tcp_enable = settings.is_tcp;
        auto in = library().subscriber_defaults();
        in.shm_enable = settings.is_shm;
        in.udp_enable = settings.is_udp;
        in.tcp_enable = settings.is_tcp;
        library().construct_publisher(publisher, topic(node.is_leader ? "up" : "down"), type, out);
        library().construct_subscriber(subscriber, topic(node.is_leader ? "down" : "up"), type, in);
        library().set_receive_callback(subscriber, [this](const auto&, const auto&, const auto& data) { receive(data); });
        node.links.push_back(this);
        node.take_sockets();
    }

    ~tm_link() override
    {
        node.links.erase(std::remove(node.links.begin(), node.links.end(), this), node.links.end());
        send_thread.reset();
        library().remove_receive_callback(subscriber);
        library().destroy_subscriber(subscriber);
        library().destroy_publisher(publisher);
    }

    // Called in eCAL's thread; one thread per follower or publisher.
    void receive(const eCAL::SReceiveCallbackData& data)
    {
        std::unique_lock<std::mutex> alone(receiving, std::defer_lock);
        if (node.peer_count > 1) {
            alone.lock();
        }
        const auto* const bytes = static_cast<const uint8_t*>(data.buffer);
        if (data.buffer_size == greeting_bytes) {
            const uint64_t sender = UINT64_C(1) << (bytes[1] % 64);
            greeted |= sender;
            heard |= bytes[0] == 1 ? sender : 0;
        } else if (on_message != nullptr && !is_void(bytes, data.buffer_size)) {
            const tm_message message{bytes, data.buffer_size, nullptr};
            on_message(context, &message);
        }
    }

    bool is_void(const uint8_t* bytes, size_t length) const
    {
        return node.settings.is_zero_copy && length >= sizeof kVoid && std::memcmp(bytes, kVoid, sizeof kVoid) == 0;
    }

    // Sends a greeting; false if it was not sent.
    bool greet_once(bool is_counted)
    {
        staging.data()[0] = is_counted;
        staging.data()[1] = node.is_leader && node.has_publishers ? static_cast<uint8_t>(index) : node.own_index;
        return send(staging.data(), greeting_bytes);
    }

    // Sends the greeting of this link, or of all publishers if there are several: they connect one after the other, and
    // the follower is connected only once it has heard all. False if one was not sent.
    bool greet_all(bool is_counted)
    {
        if (!node.is_leader || !node.has_publishers) {
            return greet_once(is_counted);
        }
        bool are_sent = true;
        for (tm_link* const link : node.links) {
            are_sent = link->greet_once(is_counted) && are_sent;
        }
        return are_sent;
    }

    // Greets until both sides have heard each other; false at the deadline. The pauses grow until the other side is
    // heard: a side without CPU time must be able to take a greeting before the next ones fill its receive buffer.
    bool greet(Clock::time_point deadline)
    {
        constexpr std::chrono::milliseconds kLeastPause{2};
        constexpr std::chrono::milliseconds kMostPause{100};
        std::chrono::milliseconds pause = kLeastPause;
        // The first greeting of each buffer shows its place; one more confirms that the peer was heard.
        uint64_t left = node.settings.buffers + 1;
        while (Clock::now() < deadline) {
            node.segments.note();
            // eCAL makes a publisher's socket at its first subscriber or message.
            node.take_sockets();
            if (library().subscriber_count(publisher) >= node.peer_count) {
                const bool is_counted = (greeted & node.peers) == node.peers;
                pause = std::min(2 * pause, kMostPause);
                const bool are_sent = greet_all(is_counted);
                node.segments.note();
                if (are_sent && is_counted && left > 0) {
                    --left;
                    // Over shared memory there is one greeting per buffer, and none gets lost.
                    pause = node.settings.is_shm ? kLeastPause : pause;
                }
            }
            if (left == 0 && (heard & node.peers) == node.peers) {
                node.segments.note();
                return true;
            }
            std::this_thread::sleep_for(pause);
        }
        return false;
    }

    // Memory for the next message.
    uint8_t* place()
    {
        uint8_t* const shared = places[sends % places.size()];
        return shared != nullptr && Clock::now().time_since_epoch() >= in_place_from.load() ? shared : staging.data();
    }

    // False if the message was not sent, or was voided.
    bool send(uint8_t* data, size_t length)
    {
        source = data;
        source_bytes = length;
        is_misplaced = false;
        return node.settings.is_zero_copy ? send_zero_copy() : library().send(publisher, *this, -1);
    }

    bool send_zero_copy()
    {
        std::memcpy(head, source, std::min(source_bytes, sizeof head));
        const auto begin = Clock::now();
        const bool sent = library().send(publisher, *this, -1);
        const auto end = Clock::now();
        const std::chrono::milliseconds ack_timeout{node.settings.ack_timeout_ms};
        if (ack_timeout.count() > 0 && end - begin >= ack_timeout) {
            in_place_from = (end + kRegistration).time_since_epoch();
        }
        if (!sent && source != staging.data()) {
            // eCAL may have removed the file before it was locked.
            is_misplaced = true;
            for (auto& place : places) {
                place = nullptr;
            }
        }
        return sent && !is_misplaced;
    }

    // Called by eCAL's sender once per message: `buffer` lies in the memory file under zero copy, else in a buffer of
    // eCAL's. eCAL sends its content in any case.
    bool WriteFull(void* buffer, size_t size) override
    {
        auto* const target = static_cast<uint8_t*>(buffer);
        auto& known = places[sends % places.size()];
        const bool was_in_place = source == known && source != nullptr;
        // If eCAL has replaced the file of the loan, the new file may be mapped at the same address.
        const bool is_there = source == target && std::memcmp(target, head, std::min(size, sizeof head)) == 0;
        if (was_in_place && !is_there) {
            is_misplaced = true;
            std::memcpy(target, kVoid, std::min(size, sizeof kVoid));
        } else if (!is_there) {
            std::memcpy(target, source, size);
        }
        if (node.settings.is_zero_copy && reinterpret_cast<uintptr_t>(target) % 8 == 0) {
            known = target;
        }
        ++sends;
        return true;
    }

    bool WriteModified(void* buffer, size_t size) override { return WriteFull(buffer, size); }
    size_t GetSize() override { return source_bytes; }

    // Sends a published message, in the thread of `send_thread`; a voided message counts as lost.
    void deliver()
    {
        if (!send_within(submitted.data, submitted.length, std::chrono::seconds(1)) && !is_misplaced) {
            has_failed = true;
        }
    }

    // Retries until the message is sent: eCAL gives up when a reader without CPU time holds the memory file for 200 ms.
    // False after `time`, or if a retry cannot help.
    bool send_within(uint8_t* data, size_t length, Clock::duration time)
    {
        if (send(data, length)) {
            return true;
        }
        const auto deadline = Clock::now() + time;
        while (!is_misplaced && library().subscriber_count(publisher) > 0 && Clock::now() < deadline) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            if (send(data, length)) {
                return true;
            }
        }
        return false;
    }

    int32_t failed(tm_error* error) const
    {
        if (library().subscriber_count(publisher) == 0) {
            return tm_fail(error, TM_CLOSED, "link %" PRIu32 ": eCAL has lost its subscriber", index);
        }
        return tm_fail(error, TM_FAILED, "link %" PRIu32 ": eCAL did not send the message", index);
    }

    tm_node& node;
    const uint32_t index;
    const tm_on_message on_message;
    void* const context;
    const uint64_t greeting_bytes;
    std::vector<uint8_t> staging;
    // Atomic: the host asks for a place while send_thread still sends.
    std::vector<std::atomic<uint8_t*>> places; // zero copy: the payload in each memory file, once known
    std::atomic<uint64_t> sends{0};
    std::atomic<Clock::duration> in_place_from{Clock::duration::zero()};
    uint8_t* source = nullptr;
    size_t source_bytes = 0;
    uint8_t head[16]{}; // first bytes of the message being sent
    bool is_misplaced = false;
    tm_loan submitted{};
    std::atomic<bool> has_failed{false};
    std::mutex receiving;
    std::atomic<uint64_t> greeted{0}; // bits of the peers heard
    std::atomic<uint64_t> heard{0};   // bits of the peers that have heard this side
    alignas(16) std::byte publisher[Library::kObjectBytes]{};
    alignas(16) std::byte subscriber[Library::kObjectBytes]{};
    std::optional<SendThread> send_thread;
};

namespace {

int32_t probe(const tm_node_options* options, tm_limits* limits, tm_error* error) noexcept
{
    return guarded(error, "looking for eCAL", [&] {
        limits->max_payload_bytes = max_payload_bytes(checked(*options));
        limits->packet_bytes = 0;
        return TM_OK;
    });
}

int32_t node_open(const tm_node_options* options, tm_node** node, tm_error* error) noexcept
{
    return guarded(error, "joining eCAL", [&] {
        const Settings settings = checked(*options);
        const uint64_t limit = max_payload_bytes(settings);
        if (options->max_payload_bytes > limit) {
            return tm_fail(error, TM_LIMIT, "payload of %" PRIu64 " bytes, %" PRIu64 " at most: %s",
                           options->max_payload_bytes, limit,
                           settings.is_shm   ? "1 GiB, or a quarter of what /dev/shm has free for each buffer"
                           : settings.is_udp ? "half of sysctl net.core.rmem_max"
                                             : "1 GiB");
        }
        auto opened = std::make_unique<tm_node>(*options, settings);
        if (!opened->is_joined) {
            throw Failure(TM_FAILED, "eCAL " + library().version + " cannot be initialised");
        }
        *node = opened.release();
        return static_cast<int32_t>(TM_OK);
    });
}

void node_close(tm_node* node) noexcept
{
    delete node;
}

int32_t link_open(tm_node* node, const tm_link_options* options, tm_link** link, tm_error* error) noexcept
{
    return guarded(error, "opening a link", [&] {
        *link = std::make_unique<tm_link>(*node, *options).release();
        return static_cast<int32_t>(TM_OK);
    });
}

int32_t link_connect(tm_link* link, const tm_bytes*, size_t, uint64_t timeout_ns, tm_error* error) noexcept
{
    return guarded(error, "connecting", [&] {
        const auto wait = std::chrono::nanoseconds(tm_wait_ns(timeout_ns));
        if (!link->greet(Clock::now() + wait)) {
            return tm_fail(error, TM_FAILED,
                           "link %" PRIu32 ": no answer from the other side after %" PRIu64
                           " ms; eCAL finds peers by UDP broadcast to 127.255.255.255, see that the loopback is up",
                           link->index, timeout_ns / 1'000'000);
        }
        const tm_node& node = link->node;
        if (node.is_leader && node.is_answered && node.settings.is_shm && node.settings.ack_timeout_ms > 0) {
            link->send_thread.emplace([link] { link->deliver(); });
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
    if (length > link->node.max_payload) {
        return tm_fail(error, TM_LIMIT, "message of %zu bytes, %" PRIu64 " at most", length, link->node.max_payload);
    }
    loan->data = link->place();
    loan->length = length;
    loan->token = nullptr;
    return TM_OK;
}

int32_t publish(tm_link* link, tm_loan* loan, uint64_t timeout_ns, tm_error* error) noexcept
{
    return guarded(error, "sending", [&] {
        if (!link->send_thread) {
            const auto time = std::chrono::nanoseconds(tm_wait_ns(timeout_ns));
            if (link->send_within(loan->data, loan->length, time)) {
                return static_cast<int32_t>(TM_OK);
            }
            return link->is_misplaced ? static_cast<int32_t>(TM_AGAIN) : link->failed(error);
        }
        if (link->has_failed) {
            return link->failed(error);
        }
        const auto wait = std::chrono::nanoseconds(tm_wait_ns(timeout_ns));
        const bool taken = link->send_thread->submit(wait, [&] { link->submitted = *loan; });
        return static_cast<int32_t>(taken ? TM_OK : TM_AGAIN);
    });
}

void discard(tm_link*, tm_loan* loan) noexcept
{
    loan->data = nullptr;
}

int32_t take(tm_link*, uint64_t, tm_message*, tm_error* error) noexcept
{
    return tm_fail(error, TM_INVALID, "ecal delivers by callback only");
}

void release(tm_link*, tm_message*) noexcept {}

} // namespace

TM_EXPORT const tm_transport* tripmeter_transport(void)
{
    static const std::string version = library().is_usable() ? "eCAL " + library().version : "eCAL, not found";
    static const tm_description description =
        tripmeter::describe(TM_STR("ecal"), TM_STR("Eclipse eCAL through its C++ interface: shared memory, UDP, TCP"),
                            TM_STR("0.1.0"), {version.data(), version.size()}, kVariants, kSettings);
    static const tm_transport transport = TM_TRANSPORT(&description, tm_no_address, nullptr);
    return &transport;
}
