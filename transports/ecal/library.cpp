#include "library.h"

#include <cstdlib>
#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <unistd.h>

namespace {

constexpr const char* kVariable = "TRIPMETER_ECAL_LIBRARY";
constexpr const char* kName = "libecal_core.so.6";
constexpr const char* kRemedy = "`tripmeter install ecal` installs 6.1.1 for this user, or name its libecal_core.so.6 in the "
                                "variable TRIPMETER_ECAL_LIBRARY";

// Path of the library in the Python environment that `tripmeter install ecal` makes; empty if there is none.
std::string in_environment()
{
    const char* data = std::getenv("XDG_DATA_HOME");
    const char* home = std::getenv("HOME");
    std::string folder;
    if (data != nullptr && *data != '\0') {
        folder = data;
    } else if (home != nullptr && *home != '\0') {
        folder = std::string(home) + "/.local/share";
    } else {
        return {};
    }
    glob_t found{};
    const std::string pattern = folder + "/tripmeter/python/ecal/lib/python3*/site-packages/ecal/" + kName;
    std::string file;
    if (glob(pattern.c_str(), 0, nullptr, &found) == 0 && found.gl_pathc > 0) {
        file = found.gl_pathv[0];
    }
    globfree(&found);
    return file;
}

void* load(Library& library)
{
    const char* given = std::getenv(kVariable);
    if (given != nullptr && *given != '\0') {
        library.file = given;
    } else {
        library.file = in_environment();
    }
    const bool is_named = !library.file.empty();
    if (!is_named) {
        library.file = kName;
    }
    void* const handle = dlopen(library.file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        library.refusal = is_named ? std::string("eCAL cannot be loaded: ") + dlerror() + "; " + kRemedy
                                   : std::string("eCAL was not found: no ") + kName +
                                         " in tripmeter's data folder or on the library path; " + kRemedy;
        return nullptr;
    }
    link_map* map = nullptr;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0) {
        library.file = map->l_name;
    }
    return handle;
}

#define STRING "RKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"

// Looks up all functions; false if one is missing.
bool resolve(Library& library, void* handle)
{
    const auto find = [&](auto& function, const char* symbol) {
        void* const address = dlsym(handle, symbol);
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
        if (address == nullptr) {
            library.refusal = "eCAL in '" + library.file + "' has no " + symbol +
                              ": it is not version 6.1.1, or was built with another C++ library; " + kRemedy;
        }
        return address != nullptr;
    };
    return find(library.get_version, "_ZN4eCAL10GetVersionEv") &&
           find(library.construct_configuration, "_ZN4eCAL13ConfigurationC1Ev") &&
           find(library.destroy_configuration, "_ZN4eCAL13ConfigurationD1Ev") &&
           find(library.read_configuration, "_ZN4eCAL13Configuration12InitFromFileE" STRING) &&
           find(library.initialize, "_ZN4eCAL10InitializeERNS_13ConfigurationE" STRING "j") &&
           find(library.finalize, "_ZN4eCAL8FinalizeEv") &&
           find(library.publisher_defaults, "_ZN4eCAL25GetPublisherConfigurationEv") &&
           find(library.subscriber_defaults, "_ZN4eCAL26GetSubscriberConfigurationEv") &&
           find(library.construct_publisher,
                "_ZN4eCAL10CPublisherC1E" STRING "RKNS_20SDataTypeInformationERKNS_9Publisher13ConfigurationE") &&
           find(library.destroy_publisher, "_ZN4eCAL10CPublisherD1Ev") &&
           find(library.send, "_ZN4eCAL10CPublisher4SendERNS_14CPayloadWriterEx") &&
           find(library.subscriber_count, "_ZNK4eCAL10CPublisher18GetSubscriberCountEv") &&
           find(library.construct_subscriber,
                "_ZN4eCAL11CSubscriberC1E" STRING "RKNS_20SDataTypeInformationERKNS_10Subscriber13ConfigurationE") &&
           find(library.destroy_subscriber, "_ZN4eCAL11CSubscriberD1Ev") &&
           find(library.set_receive_callback,
                "_ZN4eCAL11CSubscriber18SetReceiveCallbackESt8functionIFvRKNS_8STopicIdERKNS_20SDataTypeInformationERKNS_"
                "20SReceiveCallbackDataEEE") &&
           find(library.remove_receive_callback, "_ZN4eCAL11CSubscriber21RemoveReceiveCallbackEv");
}

// True if the declarations of library.h match the library: every field must hold eCAL's documented default.
bool has_known_layout(const Library& library)
{
    using eCAL::Layer;
    const auto& publisher = library.publisher_defaults();
    const auto& subscriber = library.subscriber_defaults();
    const auto& shm = publisher.shm;
    return shm.enable && !shm.zero_copy_mode && shm.acknowledge_timeout_ms == 0 && shm.memfile_buffer_count == 1 &&
           shm.memfile_min_size_bytes == 4096 && shm.memfile_reserve_percent == 50 && publisher.udp_enable &&
           publisher.tcp_enable &&
           publisher.layer_priority_local == std::vector<Layer>{Layer::shm, Layer::udp_mc, Layer::tcp} &&
           publisher.layer_priority_remote == std::vector<Layer>{Layer::udp_mc, Layer::tcp} && subscriber.shm_enable &&
           subscriber.udp_enable && !subscriber.tcp_enable && subscriber.drop_out_of_order_messages;
}

Library find_library()
{
    Library library{};
    void* const handle = load(library);
    if (handle == nullptr || !resolve(library, handle)) {
        return library;
    }
    const eCAL::SVersion version = library.get_version();
    library.version =
        std::to_string(version.major) + "." + std::to_string(version.minor) + "." + std::to_string(version.patch);
    if (version.major != 6 || version.minor != 1) {
        library.refusal = "eCAL in '" + library.file + "' is version " + library.version + ", and 6.1 is needed; " + kRemedy;
    } else if (!has_known_layout(library)) {
        library.refusal = "eCAL " + library.version + " in '" + library.file +
                          "' has another memory layout than 6.1.1; " + kRemedy;
    }
    return library;
}

} // namespace

const Library& library()
{
    static const Library found = find_library();
    return found;
}
