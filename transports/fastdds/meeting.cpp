#include "meeting.h"

#include "tripmeter_plugin.hpp"
#include "security.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

using tripmeter::Failure;

Meeting::Meeting(const tm_node_options& options, const Settings& settings)
    : folder_(tripmeter::agreed_folder(options))
    , credentials_(folder_)
{
    if (options.unauthorized_peer == 0) {
        make_folder(folder_);
        agree(options, settings);
        return;
    }
    const long domain = read_number(folder_ + "/domain");
    if (domain < 0) {
        throw Failure(TM_INVALID, "an unauthorized peer was started before the true pair has agreed on a domain");
    }
    domain_ = static_cast<uint32_t>(domain);
    leader_ = read_word(folder_ + "/leader");
    if (options.unauthorized_peer == TM_UNAUTHORIZED_FOREIGN) {
        credentials_ = folder_ + "/foreign-" + std::to_string(getpid());
        make_folder(credentials_);
        make_credentials(credentials_, domain_, text(options.run_id));
    }
}

void Meeting::agree(const tm_node_options& options, const Settings& settings)
{
    const Descriptor lock = lock_file(folder_ + "/lock");
    const std::string file = folder_ + "/domain";
    const long agreed = read_number(file);
    if (agreed >= 0) {
        domain_ = static_cast<uint32_t>(agreed);
        leader_ = read_word(folder_ + "/leader");
        return;
    }
    if (settings.domain) {
        domain_ = *settings.domain;
    } else {
        auto chosen = claim_domain(text(options.run_id));
        domain_ = chosen.domain;
        claim_ = std::move(chosen.claim);
    }
    if (settings.is_secured) {
        make_credentials(folder_, domain_, text(options.run_id));
    }
    // The address differs between the ends only between hosts, and there the leader comes first.
    leader_ = tripmeter::address(options);
    write_whole(folder_ + "/leader", leader_);
    write_whole(file, std::to_string(domain_));
}

void Meeting::tell_port(uint16_t port) const
{
    write_whole(folder_ + "/port", std::to_string(port));
}

uint16_t Meeting::hear_port(std::chrono::milliseconds time) const
{
    const auto deadline = std::chrono::steady_clock::now() + time;
    long port = read_number(folder_ + "/port");
    while (port < 0) {
        if (std::chrono::steady_clock::now() >= deadline) {
            throw Failure(TM_FAILED, "the leader announced no TCP port within " + std::to_string(time.count()) + " ms");
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        port = read_number(folder_ + "/port");
    }
    return static_cast<uint16_t>(port);
}

uint16_t free_tcp_port(const std::string& address)
{
    sockaddr_in found{};
    socklen_t length = sizeof found;
    found.sin_family = AF_INET;
    auto* const any = reinterpret_cast<sockaddr*>(&found);
    const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (inet_pton(AF_INET, address.c_str(), &found.sin_addr) != 1 || socket.get() < 0
        || bind(socket.get(), any, length) != 0 || getsockname(socket.get(), any, &length) != 0) {
        failed("no TCP port of " + address + " is free");
    }
    return ntohs(found.sin_port);
}

bool listens_at(uint16_t port)
{
    constexpr int kMostDescriptors = 1024;
    for (int descriptor = 0; descriptor < kMostDescriptors; ++descriptor) {
        sockaddr_in address{};
        socklen_t length = sizeof address;
        int is_listening = 0;
        socklen_t flag_length = sizeof is_listening;
        if (getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &flag_length) == 0 && is_listening != 0
            && getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length) == 0
            && address.sin_family == AF_INET && ntohs(address.sin_port) == port) {
            return true;
        }
    }
    return false;
}
