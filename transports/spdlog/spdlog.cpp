// Tripmeter transport `spdlog`: the logger spdlog through its C++ interface, in its default pattern.
//
// A call is one `logger->info(text)`. The file is spdlog's basic_file_sink_mt; the pipe is what stands behind stdout_sink_mt,
// with a FILE of its own instead of stdout: every line is flushed. Under `async` the call puts the line into the queue of a
// thread pool with one thread, as `spdlog::async_factory` makes it.
//
// Closing drops the logger first, then the pool, which works off its queue, and then the sink, which closes the file.

#include "../../crates/abi/include/tripmeter_transport.h"

#include <spdlog/async.h>
#include <spdlog/async_logger.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/version.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr uint64_t kMostPayloadBytes = 64ULL << 20;
constexpr uint64_t kMostQueue = 1ULL << 22;

using ConsoleSink = spdlog::sinks::stdout_sink_base<spdlog::details::console_mutex>;

int32_t fail(tm_error* error, int32_t status, const std::string& text) noexcept
{
    std::snprintf(error->text, sizeof error->text, "%s", text.c_str());
    return status;
}

std::string_view view(tm_str text)
{
    return {text.data, text.length};
}

const tm_variant kVariants[] = {
    {TM_STR("sync-file"), TM_STR("each call writes to basic_file_sink_mt"), TM_PATH_FILE, TM_LOG, TM_BLOCK, 0, {}},
    {TM_STR("sync-pipe"), TM_STR("each call writes to a pipe, as stdout_sink_mt does"), TM_PATH_PIPE, TM_LOG, TM_BLOCK, 0, {}},
    {TM_STR("async-file"), TM_STR("spdlog's thread writes to basic_file_sink_mt"), TM_PATH_FILE, TM_LOG, TM_BLOCK,
     TM_LOSSY | TM_OWN_THREADS, {}},
    {TM_STR("async-pipe"), TM_STR("spdlog's thread writes to a pipe, as stdout_sink_mt does"), TM_PATH_PIPE, TM_LOG, TM_BLOCK,
     TM_LOSSY | TM_OWN_THREADS, {}},
};

const tm_setting kSettings[] = {
    {TM_STR("overflow"), TM_STR("block"), TM_STR("block | overrun_oldest"),
     TM_STR("async: a full queue keeps the call waiting, or drops its oldest line"), {}},
    {TM_STR("queue"), TM_STR("8192"), TM_STR("lines, 1 to 4194304"), TM_STR("async: size of the queue"), {}},
};

// What is asked for.
struct Settings {
    bool is_async = false;
    bool is_pipe = false;
    spdlog::async_overflow_policy overflow = spdlog::async_overflow_policy::block;
    uint64_t queue = spdlog::details::default_async_q_size;

    int32_t read(const tm_node_options& options, tm_error* error)
    {
        const auto variant = view(options.variant);
        const bool known = std::any_of(std::begin(kVariants), std::end(kVariants),
                                       [&](const tm_variant& one) { return view(one.name) == variant; });
        if (!known) {
            return fail(error, TM_INVALID, "system 'spdlog' has no variant '" + std::string(variant) + "'");
        }
        if (options.pattern != TM_LOG || options.role != TM_LEADER || options.wait != TM_BLOCK) {
            return fail(error, TM_INVALID, "spdlog can carry pattern 'log' only, by wait 'block', and has no follower");
        }
        is_async = variant.substr(0, 5) == "async";
        is_pipe = variant.substr(variant.size() - 4) == "pipe";
        for (size_t index = 0; index < options.setting_count; ++index) {
            const auto key = view(options.settings[index].key);
            const auto value = view(options.settings[index].value);
            if (key == "overflow" && value != "block" && value != "overrun_oldest") {
                return fail(error, TM_INVALID,
                            "setting 'overflow=" + std::string(value) + "' is neither block nor overrun_oldest");
            }
            if (key == "overflow" && value == "overrun_oldest") {
                overflow = spdlog::async_overflow_policy::overrun_oldest;
            }
            if (key == "queue") {
                const auto [end, why] = std::from_chars(value.data(), value.data() + value.size(), queue);
                if (why != std::errc() || end != value.data() + value.size() || queue < 1 || queue > kMostQueue) {
                    return fail(error, TM_INVALID,
                                "setting 'queue=" + std::string(value) + "' is no number of 1 to 4194304");
                }
            }
        }
        return TM_OK;
    }
};

// The stream of a pipe.
struct Close {
    void operator()(FILE* file) const noexcept { std::fclose(file); }
};

} // namespace

struct tm_node {
    Settings settings;
    std::string file;
    uint64_t max_payload_bytes = 0;
};

struct tm_link {
    explicit tm_link(const tm_node& node)
        : file(node.file)
        , text(node.max_payload_bytes)
    {
        if (node.settings.is_pipe) {
            stream.reset(std::fopen(file.c_str(), "ab"));
            if (!stream) {
                throw spdlog::spdlog_ex("'" + file + "' cannot be opened to append to it", errno);
            }
            sink = std::make_shared<ConsoleSink>(stream.get());
        } else {
            sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file);
        }
        if (node.settings.is_async) {
            pool = std::make_shared<spdlog::details::thread_pool>(node.settings.queue, 1);
            logger = std::make_shared<spdlog::async_logger>("tripmeter", sink, pool, node.settings.overflow);
        } else {
            logger = std::make_shared<spdlog::logger>("tripmeter", sink);
        }
        logger->set_error_handler([this](const std::string& what) { note(what); });
    }

    tm_link(const tm_link&) = delete;
    tm_link& operator=(const tm_link&) = delete;

    // Called by spdlog for whatever a sink throws, in the thread that writes.
    void note(const std::string& what)
    {
        const std::lock_guard<std::mutex> guard(mutex);
        if (!failed.load(std::memory_order_relaxed)) {
            why = what;
            failed.store(true, std::memory_order_release);
        }
    }

    int32_t report(tm_error* error)
    {
        const std::lock_guard<std::mutex> guard(mutex);
        return fail(error, TM_FAILED, "spdlog cannot write to '" + file + "': " + why + "; look for room on its disk");
    }

    // In the order in which they are needed; the last goes first.
    const std::string file;
    std::vector<char> text;
    std::mutex mutex;
    std::string why;
    std::atomic<bool> failed{false};
    std::unique_ptr<FILE, Close> stream;
    std::shared_ptr<spdlog::sinks::sink> sink;
    std::shared_ptr<spdlog::details::thread_pool> pool;
    std::shared_ptr<spdlog::logger> logger;
};

namespace {

// Runs something that may throw.
template <typename Work>
int32_t guarded(tm_error* error, Work&& work) noexcept
{
    try {
        return work();
    } catch (const std::exception& exception) {
        return fail(error, TM_FAILED, std::string("spdlog: ") + exception.what());
    } catch (...) {
        return fail(error, TM_FAILED, "spdlog: unknown exception");
    }
}

int32_t probe(const tm_node_options* options, tm_limits* limits, tm_error* error) noexcept
{
    return guarded(error, [&] {
        limits->max_payload_bytes = kMostPayloadBytes;
        limits->packet_bytes = 0;
        limits->intruders = 0;
        return Settings().read(*options, error);
    });
}

int32_t node_open(const tm_node_options* options, tm_node** node, tm_error* error) noexcept
{
    return guarded(error, [&] {
        auto made = std::make_unique<tm_node>();
        const int32_t status = made->settings.read(*options, error);
        if (status != TM_OK) {
            return status;
        }
        if (options->max_payload_bytes > kMostPayloadBytes) {
            return fail(error, TM_LIMIT, "a payload of " + std::to_string(options->max_payload_bytes) + " bytes is over "
                                             + std::to_string(kMostPayloadBytes) + " bytes");
        }
        made->file = std::string(view(options->scratch_dir)) + "/log";
        made->max_payload_bytes = options->max_payload_bytes;
        *node = made.release();
        return TM_OK;
    });
}

void node_close(tm_node* node) noexcept
{
    delete node;
}

int32_t link_open(tm_node* node, const tm_link_options*, tm_link** link, tm_error* error) noexcept
{
    return guarded(error, [&] {
        *link = new tm_link(*node);
        return TM_OK;
    });
}

int32_t link_address(tm_link*, uint8_t*, size_t, size_t* length, tm_error*) noexcept
{
    *length = 0;
    return TM_OK;
}

int32_t link_connect(tm_link*, const tm_bytes*, size_t, uint64_t, tm_error*) noexcept
{
    return TM_OK;
}

void link_close(tm_link* link) noexcept
{
    delete link;
}

int32_t loan(tm_link* link, size_t length, const tm_message*, tm_loan* loan, tm_error* error) noexcept
{
    if (length > link->text.size()) {
        return fail(error, TM_LIMIT, "a text of " + std::to_string(length) + " bytes is over "
                                         + std::to_string(link->text.size()) + " bytes");
    }
    loan->data = reinterpret_cast<uint8_t*>(link->text.data());
    loan->length = length;
    loan->token = nullptr;
    return TM_OK;
}

int32_t publish(tm_link* link, tm_loan* loan, uint64_t, tm_error* error) noexcept
{
    // spdlog catches what its sinks throw, and calls the error handler.
    link->logger->info(std::string_view(link->text.data(), loan->length));
    if (link->failed.load(std::memory_order_acquire)) {
        return link->report(error);
    }
    return TM_OK;
}

void discard(tm_link*, tm_loan*) noexcept {}

int32_t take(tm_link*, uint64_t, tm_message*, tm_error* error) noexcept
{
    return fail(error, TM_INVALID, "a logger receives nothing");
}

void release(tm_link*, tm_message*) noexcept {}

struct Description {
    Description() noexcept
    {
        std::snprintf(version, sizeof version, "%d.%d.%d", SPDLOG_VER_MAJOR, SPDLOG_VER_MINOR, SPDLOG_VER_PATCH);
        table.struct_size = sizeof table;
        table.system = TM_STR("spdlog");
        table.summary = TM_STR("spdlog's synchronous and asynchronous loggers");
        table.version = TM_STR("0.1.0");
        table.system_version = {version, std::strlen(version)};
        table.variants = kVariants;
        table.variant_count = std::size(kVariants);
        table.settings = kSettings;
        table.setting_count = std::size(kSettings);
    }

    char version[32];
    tm_description table{};
};

} // namespace

extern "C" __attribute__((visibility("default"))) const tm_transport* tripmeter_transport(void)
{
    static const Description description;
    static const tm_transport transport = {
        TM_ABI_VERSION, sizeof(tm_transport), &description.table, probe,   nullptr, node_open, node_close,
        link_open,      link_address,         link_connect,       link_close, loan,    publish,   discard,
        take,           release,              nullptr,
    };
    return &transport;
}
