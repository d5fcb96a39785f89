// Tripmeter transport `ros2`: ROS 2's C client library, rcl, on rmw_fastrtps_cpp. This file holds the plugin's C
// functions; node.h and link.h do the work.

#include "tripmeter_plugin.hpp"
#include "link.h"
#include "node.h"
#include "settings.h"

#include <rcl/version.h>

#include <algorithm>
#include <memory>

using tripmeter::guarded;

// Version of Fast DDS in the ROS 2 that the plugin is built against.
#if __has_include(<fastdds/config.hpp>)
#include <fastdds/config.hpp>
#define DDS_VERSION FASTDDS_VERSION_STR
#else
#include <fastrtps/config.h>
#define DDS_VERSION FASTRTPS_VERSION_STR
#endif

namespace {

int32_t probe(const tm_node_options* options, tm_limits* limits, tm_error* error) noexcept
{
    return guarded(error, [&] {
        const Settings settings(*options);
        if (settings.is_shared) {
            check_room(settings.segment_bytes);
        }
        limits->max_payload_bytes = settings.max_payload_bytes();
        limits->packet_bytes = 0;
        limits->unauthorized_peers = 0;
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
        const auto open = !node->settings.is_service ? open_topics : node->is_leader ? open_client : open_server;
        *link = open(*node, *options).release();
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
    link->close();
}

int32_t loan(tm_link* link, size_t length, const tm_message* in_reply_to, tm_loan* loan, tm_error* error) noexcept
{
    return guarded(error, [&] { return link->loan(length, in_reply_to, *loan); });
}

int32_t publish(tm_link* link, tm_loan*, uint64_t timeout_ns, tm_error* error) noexcept
{
    return guarded(error, [&] { return link->publish(timeout_ns); });
}

void discard(tm_link*, tm_loan*) noexcept {}

int32_t take(tm_link* link, uint64_t timeout_ns, tm_message* message, tm_error* error) noexcept
{
    return guarded(error, [&] { return link->take(timeout_ns, *message); });
}

void release(tm_link*, tm_message*) noexcept {}

} // namespace

TM_EXPORT const tm_transport* tripmeter_transport(void)
{
    static const tm_description description = tripmeter::describe(
        TM_STR("ros2"), TM_STR("ROS 2: rcl on rmw_fastrtps_cpp: topics and services, over shared memory and UDP"),
        TM_STR("0.1.0"), TM_STR("rcl " RCL_VERSION_STR ", rmw_fastrtps_cpp " RMW_VERSION ", Fast DDS " DDS_VERSION),
        ros2_variants, ros2_settings);
    static const tm_transport transport = TM_TRANSPORT(&description, tm_no_address, nullptr);
    return &transport;
}
