/*
 * address_filter.h: has the kernel drop packets that were sent to another address than the wanted one. For libraries
 * that bind their sockets to all addresses, as Cyclone DDS does with its receiving sockets.
 */
#ifndef TRIPMETER_CYCLONEDDS_ADDRESS_FILTER_H
#define TRIPMETER_CYCLONEDDS_ADDRESS_FILTER_H

#include "tripmeter_plugin.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>

/* An address of either family; the port is at the same place in both. */
typedef union network_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} network_address;

/* Parses a numeric address; false if it is not one. */
static inline bool network_address_of(const char *text, uint16_t port, network_address *address)
{
    memset(address, 0, sizeof *address);
    address->v4.sin_port = htons(port);
    address->any.sa_family = strchr(text, ':') == NULL ? AF_INET : AF_INET6;
    void *const place = address->any.sa_family == AF_INET ? (void *)&address->v4.sin_addr : (void *)&address->v6.sin6_addr;
    return inet_pton(address->any.sa_family, text, place) == 1;
}

/* True if a socket of this process is bound to all addresses of the family, and is not an end of a TCP connection. */
static inline bool is_bound_to_all(int fd, int family)
{
    network_address own;
    memset(&own, 0, sizeof own);
    socklen_t length = sizeof own;
    if (getsockname(fd, &own.any, &length) != 0 || own.any.sa_family != family || own.v4.sin_port == 0) {
        return false;
    }
    return family == AF_INET ? own.v4.sin_addr.s_addr == htonl(INADDR_ANY) : IN6_IS_ADDR_UNSPECIFIED(&own.v6.sin6_addr);
}

/* Lets a socket receive only packets to the address. */
static inline bool filter_socket(int fd, const network_address *address)
{
    struct sock_filter program[10];
    uint32_t words[4];
    const bool is_v6 = address->any.sa_family == AF_INET6;
    const uint16_t count = is_v6 ? 4 : 1;
    memcpy(words, is_v6 ? (const void *)&address->v6.sin6_addr : (const void *)&address->v4.sin_addr, 4u * count);
    const uint32_t destination = is_v6 ? 24 : 16; /* offset in the IP header */
    uint16_t used = 0;
    for (uint16_t i = 0; i < count; ++i) {
        const uint8_t to_drop = (uint8_t)(2 * (count - 1 - i) + 1);
        program[used++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)SKF_NET_OFF + destination + 4u * i);
        program[used++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohl(words[i]), 0, to_drop);
    }
    program[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, UINT32_MAX);
    program[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
    const struct sock_fprog filter = {.len = used, .filter = program};
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) == 0;
}

/* Filters all sockets of this process that are bound to all addresses. Without an address, removes the filters. */
static inline bool filter_all(const network_address *address, int family)
{
    DIR *folder = opendir("/proc/self/fd");
    bool is_done = folder != NULL;
    for (struct dirent *entry = NULL; is_done && (entry = readdir(folder)) != NULL;) {
        const int fd = atoi(entry->d_name);
        if (is_bound_to_all(fd, family)) {
            const int none = 0;
            is_done = address == NULL ? setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof none) == 0 || errno == ENOENT
                                      : filter_socket(fd, address);
            /* Another thread may have closed it meanwhile. */
            is_done = is_done || errno == EBADF;
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return is_done;
}

/* Lets all sockets of this process receive only packets to the address. */
static inline int32_t filter_sockets(const char *text, tm_error *error)
{
    network_address address;
    if (!network_address_of(text, 0, &address)) {
        return tm_fail(error, TM_INVALID, "'%s' is not an IP address", text);
    }
    return filter_all(&address, address.any.sa_family)
               ? TM_OK
               : tm_fail(error, TM_FAILED, "cannot restrict a socket to %s: %s", text, strerror(errno));
}

#endif /* TRIPMETER_CYCLONEDDS_ADDRESS_FILTER_H */
