// Options of a node, parsed and checked.

#ifndef TRIPMETER_ROS2_SETTINGS_H
#define TRIPMETER_ROS2_SETTINGS_H

#include "tripmeter_plugin.hpp"

#include <cstdint>
#include <optional>
#include <string>

using tripmeter::text;

struct Settings {
    // Throws Failure (TM_INVALID) if an option is not valid, or conflicts with another.
    explicit Settings(const tm_node_options& options);

    // The largest message in bytes.
    uint64_t max_payload_bytes() const;

    bool is_service{};
    bool is_shared{}; // through shared memory, else UDP
    bool is_reliable{};
    std::optional<uint32_t> domain;
    uint32_t depth{};
    uint32_t socket_buffer_bytes{};
    uint32_t segment_bytes{};
    uint32_t fragment_bytes{};
};

extern const tm_variant ros2_variants[4];
extern const tm_setting ros2_settings[6];

#endif // TRIPMETER_ROS2_SETTINGS_H
