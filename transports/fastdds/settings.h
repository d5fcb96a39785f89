// Options of a node, parsed and checked.

#ifndef TRIPMETER_FASTDDS_SETTINGS_H
#define TRIPMETER_FASTDDS_SETTINGS_H

#include "tripmeter_plugin.hpp"

#include <cstdint>
#include <optional>
#include <string>

using tripmeter::text;

// Path of the messages, in the order of the variants.
enum class Way { udp, tcp, shm, data_sharing, intra };

struct Settings {
    // Throws Failure (TM_INVALID) if an option is not valid, or conflicts with another.
    explicit Settings(const tm_node_options& options);

    // The largest message in bytes.
    uint64_t max_payload_bytes() const;

    // True if a writer waits until its samples are taken, and never overwrites them before.
    bool waits_for_readers() const
    {
        return way == Way::data_sharing && is_reliable;
    }

    Way way{};
    bool is_reliable{};
    bool is_secured{};
    bool has_loans{};
    std::string profile; // empty: none
    std::optional<uint32_t> domain;
    uint32_t depth{};
    uint32_t heartbeat_ms{};
    uint32_t socket_buffer_bytes{};
    uint32_t segment_bytes{};
};

extern const tm_variant fastdds_variants[5];
extern const tm_setting fastdds_settings[9];

// Samples of a loaning endpoint beyond its history: one being written, one being read, and some on their way back.
constexpr uint32_t kExtraSamples = 8;

#endif // TRIPMETER_FASTDDS_SETTINGS_H
