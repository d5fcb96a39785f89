// Tripmeter transport `fastdds`: eProsima Fast DDS 2 through its DDS API. This file is the boundary; node.h and link.h
// do the work.

#include "failure.h"
#include "link.h"
#include "node.h"
#include "qos.h"
#include "settings.h"

#include <fastdds/dds/domain/DomainParticipantFactory.hpp>

#include <climits>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <memory>

namespace {

int32_t probe(const tm_node_options* options, tm_limits* limits, tm_error* error) noexcept
{
    return guarded(error, [&] {
        const Settings settings(*options);
        if (settings.way == Way::shm) {
            check_room(settings.segment_bytes);
        }
        load_profile(settings, true);
        load_profile(settings, false);
        limits->max_payload_bytes = settings.max_payload_bytes();
        limits->packet_bytes = 0;
        limits->intruders = settings.is_secured ? TM_INTRUDER_PLAIN | TM_INTRUDER_FOREIGN : 0;
        return TM_OK;
    });
}

int32_t node_open(const tm_node_options* options, tm_node** node, tm_error* error) noexcept
{
    return guarded(error, [&] {
        *node = std::make_unique<tm_node>(*options).release();
        return TM_OK;
    });
}

void node_close(tm_node* node) noexcept
{
    delete node;
}

int32_t link_open(tm_node* node, const tm_link_options* options, tm_link** link, tm_error* error) noexcept
{
    return guarded(error, [&] {
        *link = std::make_unique<tm_link>(*node, *options).release();
        return TM_OK;
    });
}

int32_t link_address(tm_link*, uint8_t*, size_t, size_t* length, tm_error*) noexcept
{
    *length = 0;
    return TM_OK;
}

int32_t link_connect(tm_link* link, const tm_bytes*, size_t peer_count, uint64_t timeout_ns, tm_error* error) noexcept
{
    return guarded(error, [&] {
        link->connect(peer_count, std::chrono::nanoseconds(std::min<uint64_t>(timeout_ns, INT64_MAX)));
        return TM_OK;
    });
}

void link_close(tm_link* link) noexcept
{
    link->retire();
}

int32_t loan(tm_link* link, size_t length, const tm_message*, tm_loan* loan, tm_error* error) noexcept
{
    return guarded(error, [&] { return link->loan(length, *loan); });
}

int32_t publish(tm_link* link, tm_loan* loan, uint64_t, tm_error* error) noexcept
{
    return guarded(error, [&] { return link->publish(*loan); });
}

void discard(tm_link* link, tm_loan* loan) noexcept
{
    link->discard(*loan);
}

int32_t take(tm_link* link, uint64_t timeout_ns, tm_message* message, tm_error* error) noexcept
{
    return guarded(error, [&] { return link->take(timeout_ns, *message); });
}

void release(tm_link* link, tm_message*) noexcept
{
    link->release();
}

struct Description {
    Description() noexcept
    {
        find_version();
        table.struct_size = sizeof table;
        table.system = TM_STR("fastdds");
        table.summary = TM_STR("eProsima Fast DDS 2: intra-process, shared memory, data sharing, UDP and TCP, with or "
                               "without DDS-Security");
        table.version = TM_STR("0.1.0");
        table.system_version = {version, std::strlen(version)};
        table.variants = fastdds_variants;
        table.variant_count = fastdds_variant_count;
        table.settings = fastdds_settings;
        table.setting_count = fastdds_setting_count;
    }

    // The library's own, from its file name (`….so.2.9.1`).
    void find_version() noexcept
    {
        using eprosima::fastdds::dds::DomainParticipantFactory;
        Dl_info info;
        char path[PATH_MAX];
        const char* suffix = nullptr;
        const auto* const symbol = reinterpret_cast<const void*>(&DomainParticipantFactory::get_instance);
        if (dladdr(symbol, &info) != 0 && info.dli_fname != nullptr && realpath(info.dli_fname, path) != nullptr) {
            suffix = std::strstr(path, ".so.");
        }
        std::snprintf(version, sizeof version, "Fast DDS %s", suffix != nullptr ? suffix + 4 : "of unknown version");
    }

    char version[64];
    tm_description table{};
};

} // namespace

extern "C" __attribute__((visibility("default"))) const tm_transport* tripmeter_transport(void)
{
    static const Description description;
    static const tm_transport transport = {
        TM_ABI_VERSION, sizeof(tm_transport), &description.table, probe,   nullptr,  node_open, node_close,
        link_open,      link_address,         link_connect,       link_close, loan,  publish,   discard,
        take,           release,              nullptr,
    };
    return &transport;
}
