// Tripmeter transport `spdlog`: the logger spdlog through its C++ interface, in its default pattern.
//
// A call is one `logger->info(text)`. The file is written by spdlog's basic_file_sink_mt, the pipe by the base class of
// stdout_sink_mt, with a FILE of its own instead of stdout: every line is flushed. Under `async` the call puts the line
// into the queue of a thread pool with one thread, as `spdlog::async_factory` makes it.
//
// Closing drops the logger first, then the pool, which writes the rest of its queue, and then the sink, which closes
// the file.

#include "tripmeter_plugin.hpp"

#include <spdlog/async.h>
#include <spdlog/async_logger.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/version.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace {

constexpr uint64_t kMostPayloadBytes = 64ULL << 20;
constexpr uint32_t kMostQueue = 1U << 22;

using ConsoleSink = spdlog::sinks::stdout_sink_base<spdlog::details::console_mutex>;

using tripmeter::Failure;

const tm_variant kVariants[] = {
    TM_VARIANT("sync-file", "each call writes to basic_file_sink_mt", TM_PATH_FILE, TM_LOG, TM_BLOCK, 0),
    TM_VARIANT("sync-pipe", "each call writes to a pipe, as stdout_sink_mt does", TM_PATH_PIPE, TM_LOG, TM_BLOCK, 0),
    TM_VARIANT("async-file", "spdlog's thread writes to basic_file_sink_mt", TM_PATH_FILE, TM_LOG, TM_BLOCK,
               TM_LOSSY | TM_OWN_THREADS),
    TM_VARIANT("async-pipe", "spdlog's thread writes to a pipe, as stdout_sink_mt does", TM_PATH_PIPE, TM_LOG, TM_BLOCK,
               TM_LOSSY | TM_OWN_THREADS),
};

const tm_setting kSettings[] = {
    TM_SETTING("overflow", "block", "block | overrun_oldest",
               "async: a full queue keeps the call waiting, or drops its oldest line", TM_NAMES_NOTHING),
    TM_SETTING("queue", "8192", "lines, 1 to 4194304", "async: size of the queue", TM_NAMES_NOTHING),
};

struct Settings {
    bool is_async = false;
    bool is_pipe = false;
    spdlog::async_overflow_policy overflow = spdlog::async_overflow_policy::block;
    uint64_t queue = spdlog::details::default_async_q_size;

    // Throws Failure if an option is not valid.
    explicit Settings(const tm_node_options& options)
    {
        const tm_variant* const variant = tm_find_variant(kVariants, TM_COUNT(kVariants), options.variant);
        if (variant == nullptr) {
            throw Failure(TM_INVALID, "system 'spdlog' has no variant '" + tripmeter::text(options.variant) + "'");
        }
        if (options.pattern != TM_LOG || options.role != TM_LEADER || options.wait != TM_BLOCK) {
            throw Failure(TM_INVALID, "spdlog can carry pattern 'log' only, by wait 'block', and has no follower");
        }
        is_async = (variant->flags & TM_OWN_THREADS) != 0;
        is_pipe = variant->path == TM_PATH_PIPE;
        if (const tm_str* const given = tm_setting_of(&options, "overflow")) {
            if (tm_is(*given, "overrun_oldest")) {
                overflow = spdlog::async_overflow_policy::overrun_oldest;
            } else if (!tm_is(*given, "block")) {
                throw Failure(TM_INVALID, "setting 'overflow=" + tripmeter::text(*given)
                                              + "' is neither block nor overrun_oldest");
            }
        }
        const tm_str* const given = tm_setting_of(&options, "queue");
        if (given != nullptr && !tm_parse_number(*given, 1, kMostQueue, &queue)) {
            throw Failure(TM_INVALID, "setting 'queue=" + tripmeter::text(*given) + "' is not a number from 1 to 4194304");
        }
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
    uint64_t max_payload_bytes;
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

    // Called by spdlog, in the thread that writes, with the text of an exception of a sink.
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
        return tm_fail(error, TM_FAILED, "spdlog cannot write to '%s': %s; look for room on its disk", file.c_str(),
                       why.c_str());
    }

    // In the order of dependence; destroyed from the last to the first.
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

template <typename Work>
int32_t guarded(tm_error* error, Work&& work) noexcept
{
    return tripmeter::guarded(error, "spdlog", work);
}

int32_t probe(const tm_node_options* options, tm_limits* limits, tm_error* error) noexcept
{
    return guarded(error, [&] {
        limits->max_payload_bytes = kMostPayloadBytes;
        limits->packet_bytes = 0;
        limits->unauthorized_peers = 0;
        const Settings understood(*options);
        return TM_OK;
    });
}

int32_t node_open(const tm_node_options* options, tm_node** node, tm_error* error) noexcept
{
    return guarded(error, [&] {
        const Settings settings(*options);
        if (options->max_payload_bytes > kMostPayloadBytes) {
            throw Failure(TM_LIMIT, "a payload of " + std::to_string(options->max_payload_bytes) + " bytes is over "
                                        + std::to_string(kMostPayloadBytes) + " bytes");
        }
        *node = new tm_node{settings, tripmeter::text(options->scratch_dir) + "/log", options->max_payload_bytes};
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
        return tm_fail(error, TM_LIMIT, "a text of %zu bytes is over %zu bytes", length, link->text.size());
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
    return tm_fail(error, TM_INVALID, "a logger receives nothing");
}

void release(tm_link*, tm_message*) noexcept {}

} // namespace

#define VERSION_WORD(number) #number
#define VERSION(major, minor, patch) VERSION_WORD(major) "." VERSION_WORD(minor) "." VERSION_WORD(patch)

TM_EXPORT const tm_transport* tripmeter_transport(void)
{
    static const tm_description description = tripmeter::describe(
        TM_STR("spdlog"), TM_STR("spdlog's synchronous and asynchronous loggers"), TM_STR("0.1.0"),
        TM_STR(VERSION(SPDLOG_VER_MAJOR, SPDLOG_VER_MINOR, SPDLOG_VER_PATCH)), kVariants, kSettings);
    static const tm_transport transport = TM_TRANSPORT(&description, tm_no_address, nullptr);
    return &transport;
}
