// Tripmeter transport `fastdds`: eProsima Fast DDS 2 through its DDS API. This file holds the plugin's C functions;
// node.h and link.h do the work.

#include "tripmeter_plugin.hpp"
#include "link.h"
#include "node.h"
#include "qos.h"
#include "settings.h"

#include <fastdds/dds/domain/DomainParticipantFactory.hpp>

#include <cstring>
#include <memory>

using tripmeter::guarded;

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
        limits->unauthorized_peers = settings.is_secured ? TM_UNAUTHORIZED_PLAIN | TM_UNAUTHORIZED_FOREIGN : 0;
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
    if (node->leave()) {
        delete node;
    }
}

int32_t link_open(tm_node* node, const tm_link_options* options, tm_link** link, tm_error* error) noexcept
{
    return guarded(error, [&] {
        *link = std::make_unique<tm_link>(*node, *options).release();
        return TM_OK;
    });
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

int32_t publish(tm_link* link, tm_loan* loan, uint64_t timeout_ns, tm_error* error) noexcept
{
    return guarded(error, [&] { return link->publish(*loan, timeout_ns); });
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

const char* version() noexcept
{
    using eprosima::fastdds::dds::DomainParticipantFactory;
    static char found[64];
    tm_library_version(reinterpret_cast<const void*>(&DomainParticipantFactory::get_instance), "Fast DDS",
                       "of unknown version", found, sizeof found);
    return found;
}

} // namespace

TM_EXPORT const tm_transport* tripmeter_transport(void)
{
    static const char* const found = version();
    static const tm_description description = tripmeter::describe(
        TM_STR("fastdds"),
        TM_STR("eProsima Fast DDS 2: intra-process, shared memory, data sharing, UDP and TCP, with or without DDS-Security"),
        TM_STR("0.1.0"), {found, std::strlen(found)}, fastdds_variants, fastdds_settings);
    static const tm_transport transport = TM_TRANSPORT(&description, tm_no_address, nullptr);
    return &transport;
}
