// Hand-written declarations of the parts of eCAL 6.1.1 that are used, and its library, found at run time.
//
// The packages that carry the library carry no headers. So the few types that cross the boundary are declared here as
// in eCAL's headers, and their layout is checked against defaults that the library itself reports before any of it is
// used.
#ifndef TRIPMETER_ECAL_LIBRARY_H
#define TRIPMETER_ECAL_LIBRARY_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

// Source: ecal/types.h, ecal/config/*.h and ecal/pubsub/*.h of eCAL 6.1.1.
namespace eCAL {

struct SVersion {
    int major;
    int minor;
    int patch;
};

struct SDataTypeInformation {
    std::string name;
    std::string encoding;
    std::string descriptor;
};

struct STopicId; // only ever passed by reference

struct SReceiveCallbackData {
    const void* buffer;
    size_t buffer_size;
    int64_t send_timestamp;
    int64_t send_clock;
};

using ReceiveCallbackT = std::function<void(const STopicId&, const SDataTypeInformation&, const SReceiveCallbackData&)>;

// Writes a payload into memory that eCAL provides. The order of the virtual functions is part of the layout.
class CPayloadWriter {
public:
    CPayloadWriter() = default;
    virtual ~CPayloadWriter() = default;
    CPayloadWriter(const CPayloadWriter&) = delete;
    CPayloadWriter& operator=(const CPayloadWriter&) = delete;
    virtual bool WriteFull(void* buffer, size_t size) = 0;
    virtual bool WriteModified(void* buffer, size_t size) = 0;
    virtual size_t GetSize() = 0;
};

enum class Layer : int { none, udp_mc, shm, tcp };

namespace Publisher {
struct Configuration {
    struct {
        bool enable;
        bool zero_copy_mode;
        unsigned int acknowledge_timeout_ms;
        unsigned int memfile_buffer_count;
        unsigned int memfile_min_size_bytes;
        unsigned int memfile_reserve_percent;
    } shm;
    bool udp_enable;
    bool tcp_enable;
    std::vector<Layer> layer_priority_local;
    std::vector<Layer> layer_priority_remote;
};
static_assert(sizeof(Configuration) == 72);
} // namespace Publisher

namespace Subscriber {
struct Configuration {
    bool shm_enable;
    bool udp_enable;
    bool tcp_enable;
    bool drop_out_of_order_messages;
};
static_assert(sizeof(Configuration) == 4);
} // namespace Subscriber

} // namespace eCAL

// Library, loaded until the process ends, and its functions that are used.
struct Library {
    // eCAL's objects live in our memory; each is a virtual table and a weak pointer.
    static constexpr size_t kObjectBytes = 24;
    // Far more than eCAL::Configuration needs; only the library constructs, reads and destroys it.
    static constexpr size_t kConfigurationBytes = 8192;

    std::string file;    // as loaded
    std::string version; // "6.1.1"; empty if nothing usable was found
    std::string refusal; // reason why it cannot be used, and the remedy

    eCAL::SVersion (*get_version)();
    void (*construct_configuration)(void* configuration);
    void (*destroy_configuration)(void* configuration);
    void (*read_configuration)(void* configuration, const std::string& file);
    bool (*initialize)(void* configuration, const std::string& unit, unsigned int components);
    bool (*finalize)();
    const eCAL::Publisher::Configuration& (*publisher_defaults)();
    const eCAL::Subscriber::Configuration& (*subscriber_defaults)();
    void (*construct_publisher)(void* publisher, const std::string& topic, const eCAL::SDataTypeInformation& type,
                                const eCAL::Publisher::Configuration& configuration);
    void (*destroy_publisher)(void* publisher);
    bool (*send)(void* publisher, eCAL::CPayloadWriter& payload, long long time);
    size_t (*subscriber_count)(const void* publisher);
    void (*construct_subscriber)(void* subscriber, const std::string& topic, const eCAL::SDataTypeInformation& type,
                                 const eCAL::Subscriber::Configuration& configuration);
    void (*destroy_subscriber)(void* subscriber);
    void (*set_receive_callback)(void* subscriber, eCAL::ReceiveCallbackT callback);
    void (*remove_receive_callback)(void* subscriber);

    bool is_usable() const { return refusal.empty(); }
};

// Library of this process, loaded by the first call, which prints nothing and starts nothing.
const Library& library();

#endif // TRIPMETER_ECAL_LIBRARY_H
