#include "node.h"

#include "tripmeter_plugin.hpp"
#include "../common/fastdds/closing.h"
#include "../common/fastdds/ports.h"
#include "link.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <unistd.h>

using tripmeter::Failure;

namespace {

constexpr const char* kSegmentPrefix = "fastdds_";
constexpr const char* kFolder = "/ros2";
// File that followers lock until they leave, and the leader when it leaves.
constexpr const char* kPresent = "/present";
// File that a follower locks while it leaves.
constexpr const char* kLeaving = "/leaving";

std::string element(const std::string& name, const std::string& content)
{
    return "<" + name + ">" + content + "</" + name + ">";
}

std::string element(const std::string& name, uint32_t number)
{
    return element(name, std::to_string(number));
}

} // namespace

Context::Context(uint32_t domain, const std::string& name)
    : context(rcl_get_zero_initialized_context())
    , node(rcl_get_zero_initialized_node())
{
    auto options = rcl_get_zero_initialized_init_options();
    check(rcl_init_options_init(&options, rcl_get_default_allocator()), "rcl cannot be initialised");
    rcl_ret_t code = rcl_init_options_set_domain_id(&options, domain);
    if (code == RCL_RET_OK) {
        code = rcl_init(0, nullptr, &options, &context);
    }
    const std::string error = rcl_error();
    ignore(rcl_init_options_fini(&options));
    if (code != RCL_RET_OK) {
        throw Failure(TM_FAILED, "domain " + std::to_string(domain) + " cannot be joined" + error);
    }
    auto node_options = rcl_node_get_default_options();
    node_options.enable_rosout = false;
    if (rcl_node_init(&node, name.c_str(), "", &context, &node_options) != RCL_RET_OK) {
        const Failure failure(TM_FAILED, "node '" + name + "' cannot be made" + rcl_error());
        ignore(rcl_shutdown(&context));
        ignore(rcl_context_fini(&context));
        throw failure;
    }
}

Context::~Context()
{
    ignore(rcl_node_fini(&node));
    ignore(rcl_shutdown(&context));
    ignore(rcl_context_fini(&context));
}

tm_node::tm_node(const tm_node_options& options)
    : settings(options)
    , is_leader(options.role == TM_LEADER)
    , wait(options.wait)
    , follower_index(options.follower_index)
    , has_publishers(options.publisher_count > 1)
    , max_payload_bytes(options.max_payload_bytes)
    , folder_(text(options.scratch_dir) + kFolder)
    // ROS 2's names allow underscores but no hyphens, and no digit at the start.
    , namespace_([&] {
        std::string name = text(options.run_id);
        std::replace(name.begin(), name.end(), '-', '_');
        return "/t_" + name;
    }())
    , domain_(agree(options))
    , notes_(text(options.scratch_dir), kSegmentPrefix,
             settings.domain ? std::nullopt : std::optional<uint32_t>(domain_.domain))
    , follower_count_(options.follower_count)
{
    if (settings.is_shared) {
        check_names(domain_.domain);
    }
    const std::string file = folder_ + "/profile-" + std::to_string(getpid()) + ".xml";
    write_whole(file, profile(options));
    prepare_environment(file, folder_);
    const std::string name = is_leader ? "leader" : "follower_" + std::to_string(follower_index);
    const auto join = [&] { joined = std::make_unique<Context>(domain_.domain, name); };
    if (settings.is_shared) {
        // Processes join one after the other, so that each sees the room that the previous ones have left.
        const Descriptor alone = lock_file(folder_ + "/room");
        check_room(settings.segment_bytes);
        notes_.note_during(join);
        notes_.take_pages();
    } else {
        notes_.note_during(join);
    }
    check_ports(domain_.domain, tripmeter::address(options), tm_is_between_hosts(&options));
    // Our open sockets now show that the domain is in use.
    domain_.claim = Descriptor();
    if (!is_leader) {
        presence_ = lock_shared(folder_ + kPresent);
        write_whole(presence(follower_index), "");
    }
}

// Fast DDS 3.2 may hang while it deletes a participant that learns at the same time that another one's endpoints are
// gone: it keeps taking a lock that its receiving thread waits for. So followers leave one after the other, and the
// leader after all of them; until then, nobody closes anything.
bool tm_node::leave() noexcept
{
    constexpr auto kNoticed = std::chrono::milliseconds(20);
    const Descriptor turn = lock_in_turn(folder_ + (is_leader ? kPresent : kLeaving));
    // Time to handle the last messages of the follower that left before.
    std::this_thread::sleep_for(kNoticed);
    notes_.note_again();
    if (is_leader && !have_followers_left()) {
        notes_.note_again();
        leave_unclosed("leader");
        return false;
    }
    const bool has_left = closes_in_time(is_leader ? "leader" : "follower", [this] {
        closed.clear();
        joined.reset();
    });
    notes_.note_again();
    if (has_left && !is_leader) {
        unlink(presence(follower_index).c_str());
    }
    presence_ = Descriptor();
    return has_left;
}

std::string tm_node::presence(uint32_t follower) const
{
    return folder_ + kPresent + "-" + std::to_string(follower);
}

bool tm_node::have_followers_left() const
{
    for (uint32_t follower = 0; follower < follower_count_; ++follower) {
        if (access(presence(follower).c_str(), F_OK) == 0) {
            return false;
        }
    }
    return true;
}

// The first process chooses the domain. The leader's address differs between the ends only between hosts, and there the
// leader comes first.
ClaimedDomain tm_node::agree(const tm_node_options& options)
{
    make_folder(folder_);
    const std::string agreed_folder = tripmeter::agreed_folder(options);
    make_folder(agreed_folder);
    const Descriptor lock = lock_file(folder_ + "/lock");
    const std::string file = agreed_folder + "/domain";
    const long agreed = read_number(file);
    leader_ = agreed >= 0 ? read_word(agreed_folder + "/leader") : tripmeter::address(options);
    if (agreed >= 0) {
        return {static_cast<uint32_t>(agreed), Descriptor()};
    }
    ClaimedDomain chosen =
        settings.domain ? ClaimedDomain{*settings.domain, Descriptor()} : claim_domain(text(options.run_id));
    write_whole(agreed_folder + "/leader", leader_);
    write_whole(file, std::to_string(chosen.domain));
    return chosen;
}

// Fast DDS's profile of this run: its default transports, limited to those that the variant claims and to one address.
// Between hosts there is no multicast: followers announce themselves to the leader, which answers.
std::string tm_node::profile(const tm_node_options& options) const
{
    std::string transports;
    std::string used;
    const auto add = [&](const std::string& id, const char* type, const std::string& rest) {
        const auto name = element("transport_id", id);
        transports += element("transport_descriptor", name + element("type", type) + rest);
        used += name;
    };
    if (settings.is_shared) {
        add("shared", "SHM",
            element("maxMessageSize", settings.fragment_bytes) + element("segment_size", settings.segment_bytes));
    }
    // Number of participants per host that are tried where there is no multicast.
    const uint32_t most_peers = std::max<uint32_t>(4, options.follower_count + 2);
    const std::string address = tripmeter::address(options);
    const bool is_v6 = address.find(':') != std::string::npos;
    add("sockets", is_v6 ? "UDPv6" : "UDPv4",
        element("sendBufferSize", settings.socket_buffer_bytes)
            + element("receiveBufferSize", settings.socket_buffer_bytes) + element("maxInitialPeersRange", most_peers)
            + element("interfaceWhiteList", element("address", address)));
    const auto locator = [&](const std::string& end) {
        // Port 0 stands for the port that RTPS defines.
        const std::string place = element("port", 0) + element("address", end);
        return element("locator", element(is_v6 ? "udpv6" : "udpv4", place));
    };
    std::string discovery;
    if (tm_is_between_hosts(&options)) {
        // Without a unicast locator of its own, a participant would also listen for multicast.
        discovery = element("metatrafficUnicastLocatorList", locator(address))
                    + (is_leader ? "" : element("initialPeersList", locator(leader_)));
        discovery = element("builtin", discovery);
    }
    // The domain's usual ports, but expressed as its own port base: with the common base, all domains would use the
    // same flow ports.
    const auto ports =
        element("port", element("portBase", first_port(domain_.domain)) + element("domainIDGain", 0u));
    const auto rtps = ports + discovery + element("userTransports", used) + element("useBuiltinTransports", "false");
    return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<dds xmlns=\"http://www.eprosima.com\"><profiles>"
           + element("transport_descriptors", transports)
           + "<participant profile_name=\"tripmeter\" is_default_profile=\"true\">" + element("rtps", rtps)
           + "</participant></profiles></dds>\n";
}

std::string tm_node::name(uint32_t link, const char* what) const
{
    return namespace_ + "/link_" + std::to_string(link) + "/" + what;
}

rmw_qos_profile_t tm_node::qos() const
{
    rmw_qos_profile_t qos = rmw_qos_profile_default;
    qos.depth = settings.depth;
    qos.reliability = settings.is_reliable ? RMW_QOS_POLICY_RELIABILITY_RELIABLE : RMW_QOS_POLICY_RELIABILITY_BEST_EFFORT;
    return qos;
}
