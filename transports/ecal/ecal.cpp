// Tripmeter transport `ecal`: publishers and subscribers of eCAL 6.1 through its C++ interface.
//
// Every link has a topic from leader to follower ("up") and one back ("down"); topics are unique to the run. Only the
// layer that is measured is enabled on either side. Messages arrive by callback in eCAL's own thread.
//
// Connecting ends with greetings, one byte longer than the largest message and never shown to the host: each side greets
// until it was greeted by somebody who has heard it. They also grow eCAL's memory files to their final size, and under
// zero copy they tell where in those files a payload lies.

#include "courier.h"
#include "library.h"
#include "segments.h"
#include "status.h"

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <sys/statvfs.h>

namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kComponents = 0x001 | 0x002 | 0x010 | 0x020; // publisher, subscriber, logging, time
constexpr uint32_t kPatterns = TM_PINGPONG | TM_CHANNEL | TM_THROUGHPUT;
constexpr uint64_t kMostBytes = UINT64_C(1) << 30;
constexpr uint64_t kLongestWaitNs = UINT64_C(3'600'000'000'000);
constexpr unsigned kMostAckMs = 10'000;
constexpr unsigned kMostBuffers = 16;

// Several followers or publishers not over TCP: there answers that come together get lost: a subscriber seems to keep the
// latest message of all its publishers only.
const tm_variant kVariants[] = {
    {TM_STR("shm"), TM_STR("shared memory, copied on both sides: eCAL's default"), TM_PATH_SHARED_MEMORY, kPatterns,
     TM_CALLBACK, TM_LOSSY | TM_FAN_OUT | TM_PUBLISHERS, {0}},
    {TM_STR("shm-zero-copy"), TM_STR("shared memory, written and read in place"), TM_PATH_SHARED_MEMORY, kPatterns,
     TM_CALLBACK, TM_LOSSY | TM_ZERO_COPY | TM_FAN_OUT | TM_PUBLISHERS, {0}},
    {TM_STR("udp"), TM_STR("UDP multicast over the loopback"), TM_PATH_UDP, kPatterns, TM_CALLBACK,
     TM_LOSSY | TM_FAN_OUT | TM_PUBLISHERS, {0}},
    {TM_STR("tcp"), TM_STR("TCP"), TM_PATH_TCP, kPatterns, TM_CALLBACK, TM_LOSSY, {0}},
};

const tm_setting kSettings[] = {
    {TM_STR("ack_timeout_ms"), TM_STR("100"), TM_STR("milliseconds, 0 (off) to 10000"),
     TM_STR("shared memory: how long a send waits until the receiver's callback has returned"), {0}},
    {TM_STR("buffers"), TM_STR("1"), TM_STR("1 to 16"), TM_STR("shared memory: memory files per publisher"), {0}},
};

bool operator==(const tm_str& string, const char* text)
{
    return string.length == std::strlen(text) && std::memcmp(string.data, text, string.length) == 0;
}

// What the options ask for.
struct Settings {
    bool is_shm = false;
    bool is_zero_copy = false;
    bool is_udp = false;
    bool is_tcp = false;
    unsigned ack_timeout_ms = 100;
    unsigned buffers = 1;
};

int32_t read_number(const tm_key_value& setting, unsigned least, unsigned most, unsigned& number, tm_error* error)
{
    const std::string text(setting.value.data, setting.value.length);
    const bool is_number = !text.empty() && text.size() < 6 && text.find_first_not_of("0123456789") == std::string::npos;
    number = is_number ? static_cast<unsigned>(std::stoul(text)) : most + 1;
    if (number < least || number > most) {
        return fail(error, TM_INVALID, "%.*s=%s: give a number from %u to %u", static_cast<int>(setting.key.length),
                    setting.key.data, text.c_str(), least, most);
    }
    return TM_OK;
}

int32_t read_settings(const tm_node_options& options, Settings& settings, tm_error* error)
{
    settings.is_zero_copy = options.variant == "shm-zero-copy";
    settings.is_shm = settings.is_zero_copy || options.variant == "shm";
    settings.is_udp = options.variant == "udp";
    settings.is_tcp = options.variant == "tcp";
    if (!settings.is_shm && !settings.is_udp && !settings.is_tcp) {
        return fail(error, TM_INVALID, "ecal has no variant '%.*s'", static_cast<int>(options.variant.length),
                    options.variant.data);
    }
    if (options.wait != TM_CALLBACK) {
        return fail(error, TM_INVALID, "ecal delivers by callback only; use --wait callback");
    }
    int32_t status = TM_OK;
    for (size_t i = 0; i < options.setting_count && status == TM_OK; ++i) {
        const tm_key_value& setting = options.settings[i];
        if (setting.key == "ack_timeout_ms") {
            status = read_number(setting, 0, kMostAckMs, settings.ack_timeout_ms, error);
        } else if (setting.key == "buffers") {
            status = read_number(setting, 1, kMostBuffers, settings.buffers, error);
        }
    }
    const Settings defaults;
    const bool is_of_shm = settings.ack_timeout_ms != defaults.ack_timeout_ms || settings.buffers != defaults.buffers;
    if (status == TM_OK && !settings.is_shm && is_of_shm) {
        return fail(error, TM_INVALID, "settings ack_timeout_ms and buffers are of shared memory only; leave them out");
    }
    const bool is_one_way = options.pattern == TM_CHANNEL || options.pattern == TM_THROUGHPUT;
    if (status == TM_OK && settings.is_zero_copy && is_one_way && settings.ack_timeout_ms == 0) {
        return fail(error, TM_INVALID,
                    "zero copy without acknowledgement would overwrite messages while they are read; give ack_timeout_ms");
    }
    return status;
}

// The largest message. A memory file has half as much again in reserve, and both sides have one per buffer. A datagram
// that finds the receive buffer full is lost, and the kernel charges about twice its bytes.
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

int32_t check(const tm_node_options* options, Settings& settings, uint64_t& limit, tm_error* error)
{
    if (!library().is_usable()) {
        return fail(error, TM_UNAVAILABLE, "%s", library().refusal.c_str());
    }
    if (options->follower_count > 64) {
        return fail(error, TM_LIMIT, "%" PRIu32 " followers, 64 at most", options->follower_count);
    }
    if (options->publisher_count > 64) {
        return fail(error, TM_LIMIT, "%" PRIu32 " publishers, 64 at most", options->publisher_count);
    }
    const int32_t status = read_settings(*options, settings, error);
    limit = status == TM_OK ? max_payload_bytes(settings) : 0;
    return status;
}

/** eCAL makes a folder in TMPDIR, and forgets it if it is killed: while this lives, TMPDIR is the scratch folder. */
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
        , run_id(options.run_id.data, options.run_id.length)
        , max_payload(options.max_payload_bytes)
        , is_leader(options.role == TM_LEADER)
        , is_answered(options.pattern == TM_PINGPONG)
        , own_index(static_cast<uint8_t>(options.follower_index))
        , has_publishers(options.publisher_count > 1)
        , peer_count(std::max<uint32_t>(is_leader ? options.follower_count : options.publisher_count, 1))
        , peers(UINT64_MAX >> (64 - peer_count))
        , segments(std::string(options.scratch_dir.data, options.scratch_dir.length) + "/shared-memory")
    {
        const TemporaryFolder scratch({options.scratch_dir.data, options.scratch_dir.length});
        // Constructed by the library without its configuration file, so that only eCAL's defaults hold.
        alignas(16) std::byte configuration[Library::kConfigurationBytes]{};
        library().construct_configuration(configuration);
        is_joined = library().initialize(configuration, "tripmeter", kComponents);
        library().destroy_configuration(configuration);
    }

    ~tm_node()
    {
        if (is_joined) {
            library().finalize();
        }
    }

    const Settings settings;
    const std::string run_id;
    const uint64_t max_payload;
    const bool is_leader;
    const bool is_answered;
    const uint8_t own_index;
    const bool has_publishers; // several, of one topic
    const size_t peer_count;
    const uint64_t peers; // a bit for each that greets this side
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
        , places(node.settings.buffers, nullptr)
    {
        const auto topic = [&](const char* direction) {
            return node.run_id + "/" + std::to_string(node.has_publishers ? 0 : index) + "/" + direction;
        };
        const eCAL::SDataTypeInformation type{};
        const Settings& settings = node.settings;
        const bool over_shm = LIE ? settings.is_zero_copy : settings.is_shm;
        const bool over_udp = LIE ? !settings.is_udp : settings.is_udp;
        const bool over_tcp = LIE ? settings.is_udp : settings.is_tcp;
        auto out = library().publisher_defaults();
        out.shm.enable = over_shm;
        out.shm.zero_copy_mode = settings.is_zero_copy;
        out.shm.acknowledge_timeout_ms = settings.ack_timeout_ms;
        out.shm.memfile_buffer_count = settings.buffers;
        out.udp_enable = over_udp;
        out.tcp_enable = over_tcp;
        auto in = library().subscriber_defaults();
        in.shm_enable = over_shm;
        in.udp_enable = over_udp && !over_shm;
        in.tcp_enable = over_tcp;
        library().construct_publisher(publisher, topic(node.is_leader ? "up" : "down"), type, out);
        library().construct_subscriber(subscriber, topic(node.is_leader ? "down" : "up"), type, in);
        if (LIE && over_shm) {
            std::swap(in.shm_enable, in.udp_enable);
            library().construct_subscriber(bystander, topic(node.is_leader ? "down" : "up"), type, in);
        }
        library().set_receive_callback(subscriber, [this](const auto&, const auto&, const auto& data) { receive(data); });
        node.links.push_back(this);
    }

    ~tm_link() override
    {
        node.links.erase(std::remove(node.links.begin(), node.links.end(), this), node.links.end());
        courier.reset();
        library().remove_receive_callback(subscriber);
        if (LIE && node.settings.is_zero_copy) {
            library().destroy_subscriber(bystander);
        }
        library().destroy_subscriber(subscriber);
        library().destroy_publisher(publisher);
    }

    // In eCAL's thread; those of several followers or publishers have one each.
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
        } else if (on_message != nullptr) {
            const tm_message message{bytes, data.buffer_size, nullptr};
            on_message(context, &message);
        }
    }

    // Sends a greeting; false if it was not sent.
    bool greet_once(bool is_counted)
    {
        staging.data()[0] = is_counted;
        staging.data()[1] = node.is_leader && node.has_publishers ? static_cast<uint8_t>(index) : node.own_index;
        return send(staging.data(), greeting_bytes);
    }

    // The same of this link, or of all of several publishers: the follower is connected once it has heard all of them,
    // and they connect one after the other.
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

    // Greets until both have heard each other; false at the deadline.
    bool greet(Clock::time_point deadline)
    {
        // The memory file of every buffer grows with its first greeting, and the next one tells that I have heard.
        uint64_t left = node.settings.buffers + 1;
        while (Clock::now() < deadline) {
            node.segments.note();
            if (library().subscriber_count(publisher) >= node.peer_count) {
                const bool is_counted = (greeted & node.peers) == node.peers;
                if (greet_all(is_counted) && is_counted && left > 0) {
                    --left;
                }
            }
            if (left == 0 && (heard & node.peers) == node.peers) {
                node.segments.note();
                return true;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
        return false;
    }

    // Where the next message is to be written.
    uint8_t* place()
    {
        uint8_t* const shared = places[sends % places.size()];
        return shared != nullptr ? shared : staging.data();
    }

    bool send(uint8_t* data, size_t length)
    {
        source = data;
        source_bytes = length;
        is_misplaced = false;
        const bool sent = library().send(publisher, *this, -1);
        return sent && !is_misplaced;
    }

    // What eCAL's sender calls: once per message, into the memory file under zero copy, else into a buffer of eCAL's.
    bool WriteFull(void* buffer, size_t size) override
    {
        auto* const target = static_cast<uint8_t*>(buffer);
        uint8_t*& known = places[sends % places.size()];
        const bool is_in_place = source == target;
        if (!is_in_place && source == known && source != nullptr) {
            // The file that the loan lay in has been replaced, and with it the message is gone.
            is_misplaced = true;
            std::memset(target, 0, size);
        } else if (!is_in_place) {
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

    // Sends in the courier's thread what the host has published.
    void deliver()
    {
        if (!send(submitted.data, submitted.length)) {
            has_failed = true;
        }
    }

    int32_t failed(tm_error* error) const
    {
        if (library().subscriber_count(publisher) == 0) {
            return fail(error, TM_CLOSED, "link %" PRIu32 ": eCAL has no subscriber any more", index);
        }
        return fail(error, TM_FAILED, "link %" PRIu32 ": eCAL did not send the message", index);
    }

    tm_node& node;
    const uint32_t index;
    const tm_on_message on_message;
    void* const context;
    const uint64_t greeting_bytes;
    std::vector<uint8_t> staging;
    std::vector<uint8_t*> places; // zero copy: the payload in each memory file, once known
    uint64_t sends = 0;
    uint8_t* source = nullptr;
    size_t source_bytes = 0;
    bool is_misplaced = false;
    tm_loan submitted{};
    std::atomic<bool> has_failed{false};
    std::mutex receiving;
    std::atomic<uint64_t> greeted{0}; // by whom
    std::atomic<uint64_t> heard{0};   // by whom I was
    alignas(16) std::byte publisher[Library::kObjectBytes]{};
    alignas(16) std::byte subscriber[Library::kObjectBytes]{};
    alignas(16) std::byte bystander[Library::kObjectBytes]{}; // of a lie only
    std::optional<Courier> courier;
};

namespace {

int32_t probe(const tm_node_options* options, tm_limits* limits, tm_error* error) noexcept
{
    return guarded("looking for eCAL", error, [&] {
        Settings settings;
        limits->packet_bytes = 0;
        return check(options, settings, limits->max_payload_bytes, error);
    });
}

int32_t node_open(const tm_node_options* options, tm_node** node, tm_error* error) noexcept
{
    return guarded("joining eCAL", error, [&] {
        Settings settings;
        uint64_t limit = 0;
        const int32_t status = check(options, settings, limit, error);
        if (status != TM_OK) {
            return status;
        }
        if (options->max_payload_bytes > limit) {
            return fail(error, TM_LIMIT, "payload of %" PRIu64 " bytes, %" PRIu64 " at most: %s",
                        options->max_payload_bytes, limit,
                        settings.is_shm   ? "1 GiB, or a quarter of what /dev/shm has free for each buffer"
                        : settings.is_udp ? "half of sysctl net.core.rmem_max"
                                          : "1 GiB");
        }
        auto opened = std::make_unique<tm_node>(*options, settings);
        if (!opened->is_joined) {
            return fail(error, TM_FAILED, "eCAL %s cannot be initialised", library().version.c_str());
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
    return guarded("opening a link", error, [&] {
        *link = std::make_unique<tm_link>(*node, *options).release();
        return static_cast<int32_t>(TM_OK);
    });
}

int32_t link_address(tm_link*, uint8_t*, size_t, size_t* length, tm_error*) noexcept
{
    *length = 0;
    return TM_OK;
}

int32_t link_connect(tm_link* link, const tm_bytes*, size_t, uint64_t timeout_ns, tm_error* error) noexcept
{
    return guarded("connecting", error, [&] {
        const auto wait = std::chrono::nanoseconds(std::min(timeout_ns, kLongestWaitNs));
        if (!link->greet(Clock::now() + wait)) {
            return fail(error, TM_FAILED,
                        "link %" PRIu32 ": no answer from the other side after %" PRIu64
                        " ms; eCAL finds peers by UDP broadcast to 127.255.255.255, see that the loopback is up",
                        link->index, timeout_ns / 1'000'000);
        }
        const tm_node& node = link->node;
        if (node.is_leader && node.is_answered && node.settings.is_shm && node.settings.ack_timeout_ms > 0) {
            link->courier.emplace([link] { link->deliver(); });
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
        return fail(error, TM_LIMIT, "message of %zu bytes, %" PRIu64 " at most", length, link->node.max_payload);
    }
    loan->data = link->place();
    loan->length = length;
    loan->token = nullptr;
    return TM_OK;
}

int32_t publish(tm_link* link, tm_loan* loan, uint64_t timeout_ns, tm_error* error) noexcept
{
    return guarded("sending", error, [&] {
        if (!link->courier) {
            return link->send(loan->data, loan->length) ? static_cast<int32_t>(TM_OK) : link->failed(error);
        }
        if (link->has_failed) {
            return link->failed(error);
        }
        const auto wait = std::chrono::nanoseconds(std::min(timeout_ns, kLongestWaitNs));
        const bool taken = link->courier->submit(wait, [&] { link->submitted = *loan; });
        return static_cast<int32_t>(taken ? TM_OK : TM_AGAIN);
    });
}

void discard(tm_link*, tm_loan* loan) noexcept
{
    loan->data = nullptr;
}

int32_t take(tm_link*, uint64_t, tm_message*, tm_error* error) noexcept
{
    return fail(error, TM_INVALID, "ecal delivers by callback only");
}

void release(tm_link*, tm_message*) noexcept {}

struct Description {
    Description() noexcept
    {
        table.struct_size = sizeof table;
        table.system = TM_STR("ecal");
        table.summary = TM_STR("Eclipse eCAL through its C++ interface: shared memory, UDP, TCP");
        table.version = TM_STR("0.1.0");
        table.system_version = {version.data(), version.size()};
        table.variants = kVariants;
        table.variant_count = std::size(kVariants);
        table.settings = kSettings;
        table.setting_count = std::size(kSettings);
    }

    const std::string version = library().is_usable() ? "eCAL " + library().version : "eCAL, not found";
    tm_description table{};
};

} // namespace

extern "C" __attribute__((visibility("default"))) const tm_transport* tripmeter_transport(void)
{
    static const Description description;
    static const tm_transport transport = {
        TM_ABI_VERSION, sizeof(tm_transport), &description.table, probe,   nullptr, node_open, node_close,
        link_open,      link_address,         link_connect,       link_close, loan, publish,   discard,
        take,           release,              nullptr,
    };
    return &transport;
}
