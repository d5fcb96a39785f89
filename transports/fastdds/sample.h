// The sample on the wire, and its type for Fast DDS.

#ifndef TRIPMETER_FASTDDS_SAMPLE_H
#define TRIPMETER_FASTDDS_SAMPLE_H

#include <fastdds/dds/topic/TopicDataType.hpp>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

// A length and that many bytes. It follows the CDR header of 4 bytes, so that `data` is aligned to 8 if the header is.
struct Sample {
    // Bytes of `data`, or kGreeting with bits of the greeting.
    uint32_t length;
    uint8_t data[1];
};

// Marks a greeting, which links exchange while they connect; it stands in place of the length.
constexpr uint32_t kGreeting = 1u << 31;
// Greeting: the sender has heard all peers that it waits for, the receiver included.
constexpr uint32_t kHeard = 1u << 30;
// Greeting: index of the sending follower, or of the sending publisher if there are several; otherwise 0.
constexpr uint32_t kSender = (1u << 6) - 1;

// Memory of one sample of ours, with `data` aligned to 8.
class OwnSample
{
  public:
    explicit OwnSample(uint64_t max_payload_bytes)
        : words_(std::make_unique<uint64_t[]>(1 + (max_payload_bytes + 7) / 8))
    {
    }

    Sample* get()
    {
        return reinterpret_cast<Sample*>(reinterpret_cast<uint8_t*>(words_.get()) + 4);
    }

  private:
    std::unique_ptr<uint64_t[]> words_;
};

// Topic type at one end. Plain and bounded, so that samples can be loaned and shared.
class SampleType : public eprosima::fastdds::dds::TopicDataType
{
  public:
    SampleType(const std::string& name, uint64_t max_payload_bytes)
        : max_payload_bytes_(max_payload_bytes)
    {
        setName(name.c_str());
        m_typeSize = serialized_bytes(max_payload_bytes);
        auto_fill_type_object(false);
        auto_fill_type_information(false);
    }

    // Sets the payload size of the next loan, as a loan is as long as its type. So only the used bytes are sent.
    void next_loan(uint64_t payload_bytes)
    {
        m_typeSize = serialized_bytes(payload_bytes);
    }

    bool serialize(void* data, eprosima::fastrtps::rtps::SerializedPayload_t* payload) override
    {
        const auto* const sample = static_cast<const Sample*>(data);
        const uint32_t bytes = bytes_of(*sample);
        if (kHeaderBytes + bytes > payload->max_size) {
            return false;
        }
        constexpr uint8_t kLittleEndian[kHeaderBytes] = {0, CDR_LE, 0, 0};
        std::memcpy(payload->data, kLittleEndian, kHeaderBytes);
        std::memcpy(payload->data + kHeaderBytes, sample, bytes);
        payload->encapsulation = CDR_LE;
        payload->length = kHeaderBytes + bytes;
        return true;
    }

    bool deserialize(eprosima::fastrtps::rtps::SerializedPayload_t* payload, void* data) override
    {
        if (payload->length < kHeaderBytes + sizeof(uint32_t)) {
            return false;
        }
        uint32_t length = 0;
        std::memcpy(&length, payload->data + kHeaderBytes, sizeof length);
        const uint64_t bytes = sizeof length + ((length & kGreeting) != 0 ? 0 : length);
        if (bytes > sizeof length + max_payload_bytes_ || kHeaderBytes + bytes > payload->length) {
            return false;
        }
        std::memcpy(data, payload->data + kHeaderBytes, bytes);
        return true;
    }

    std::function<uint32_t()> getSerializedSizeProvider(void* data) override
    {
        return [bytes = bytes_of(*static_cast<const Sample*>(data))] { return kHeaderBytes + bytes; };
    }

    void* createData() override
    {
        return new uint8_t[serialized_bytes(max_payload_bytes_)];
    }

    void deleteData(void* data) override
    {
        delete[] static_cast<uint8_t*>(data);
    }

    bool getKey(void*, eprosima::fastrtps::rtps::InstanceHandle_t*, bool) override
    {
        return false;
    }

    bool is_bounded() const override
    {
        return true;
    }

    bool is_plain() const override
    {
        return true;
    }

  private:
    static constexpr uint32_t kHeaderBytes = 4;

    static uint32_t bytes_of(const Sample& sample)
    {
        return sizeof sample.length + ((sample.length & kGreeting) != 0 ? 0 : sample.length);
    }

    static uint32_t serialized_bytes(uint64_t payload_bytes)
    {
        return static_cast<uint32_t>(kHeaderBytes + sizeof(uint32_t) + payload_bytes);
    }

    const uint64_t max_payload_bytes_;
};

#endif // TRIPMETER_FASTDDS_SAMPLE_H
