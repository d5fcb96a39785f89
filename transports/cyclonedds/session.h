/*
 * session.h: agreement of both ends before they join: domain, address of the leader, TCP ports, credentials. The first
 * process writes them to a folder, which is copied to other hosts. Cyclone DDS's configuration is made from them.
 */
#ifndef TRIPMETER_CYCLONEDDS_SESSION_H
#define TRIPMETER_CYCLONEDDS_SESSION_H

#include "address_filter.h"
#include "config.h"
#include "credentials.h"

#include <dds/dds.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/file.h>

/* Discovery port of the first participant. Domains up to 100 stay below the ports that Linux gives to clients.
 * Source: DDSI-RTPS 2.3, 9.6.1.1 */
#define DISCOVERY_PORT(domain) (7400u + 250u * (domain) + 10u)
#define MOST_DOMAIN 100u

/* Longest time that a process waits for the others of its run to leave. */
#define LONGEST_LEAVING DDS_SECS(5)
/* Time that an unauthorized peer stays connected after it has left: answers to it were seen for 20 ms, longer on a busy
 * machine. */
#define ANSWERING_TIME DDS_MSECS(500)
#define PATH_BYTES 512u
#define ADDRESS_BYTES 64u
#define XML_BYTES 8192u

typedef struct session {
    uint32_t domain;
    uint32_t leader_port; /* TCP */
    uint32_t follower_ports[MOST_FOLLOWERS];
    uint32_t followers;
    char address[ADDRESS_BYTES]; /* of this end */
    char leader[ADDRESS_BYTES];
    char folder[PATH_BYTES];
    char credentials[PATH_BYTES];
    int members; /* file on which all processes of the run hold a shared lock until they leave; 0: not opened */
    bool is_outsider; /* TCP: no member: an unauthorized peer, or a run on several hosts */
} session;

/* Binds a socket to `port` of an address (0: any) and closes it; returns its port, or 0 if that fails. */
static inline uint32_t try_port(int kind, const char *text, uint32_t port)
{
    network_address address;
    socklen_t length = sizeof address;
    if (!network_address_of(text, (uint16_t)port, &address)) {
        return 0;
    }
    const int fd = socket(address.any.sa_family, kind | SOCK_CLOEXEC, 0);
    const bool bound = fd >= 0 && bind(fd, &address.any, sizeof address) == 0 && getsockname(fd, &address.any, &length) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return bound ? ntohs(address.v4.sin_port) : 0;
}

/* A domain that nobody on this host uses; 0 if there is none. Each run starts its search at a different one. */
static inline uint32_t free_domain(tm_str run_id, const char *address)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < run_id.length; ++i) {
        hash = (hash ^ (uint8_t)run_id.data[i]) * 16777619u;
    }
    for (uint32_t tried = 0; tried < MOST_DOMAIN; ++tried) {
        const uint32_t domain = 1 + (hash + tried) % MOST_DOMAIN;
        if (try_port(SOCK_DGRAM, address, DISCOVERY_PORT(domain)) != 0) {
            return domain;
        }
    }
    return 0;
}

/* True if a TCP port belongs to the run. */
static inline bool is_agreed(uint32_t port, const session *agreed)
{
    bool found = port == agreed->leader_port;
    for (uint32_t i = 0; i < agreed->followers; ++i) {
        found = found || port == agreed->follower_ports[i];
    }
    return found;
}

/* True if a socket is one end of a TCP connection to or from a port of the run. */
static inline bool is_connection(int fd, const session *agreed)
{
    int kind = 0;
    socklen_t length = sizeof kind;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &length) != 0 || kind != SOCK_STREAM) {
        return false;
    }
    for (int end = 0; end < 2; ++end) {
        network_address address = {.any = {.sa_family = AF_UNSPEC}};
        socklen_t size = sizeof address;
        if ((end == 0 ? getsockname : getpeername)(fd, &address.any, &size) == 0
            && (address.any.sa_family == AF_INET || address.any.sa_family == AF_INET6)
            && is_agreed(ntohs(address.v4.sin_port), agreed)) {
            return true;
        }
    }
    return false;
}

/* Sets TCP_NODELAY, which Cyclone DDS before version 11 fails to do: its build lacks the header that defines it. */
static inline int32_t set_nodelay(const session *agreed, tm_error *error)
{
    DIR *folder = opendir("/proc/self/fd");
    const int one = 1;
    int32_t status = folder != NULL ? TM_OK : tm_fail(error, TM_FAILED, "/proc/self/fd: %s", strerror(errno));
    for (struct dirent *entry = NULL; status == TM_OK && (entry = readdir(folder)) != NULL;) {
        const int fd = atoi(entry->d_name);
        if (is_connection(fd, agreed) && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0) {
            status = tm_fail(error, TM_FAILED, "TCP_NODELAY: %s", strerror(errno));
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return status;
}

static inline int32_t choose(const tm_node_options *options, const config *found, session *chosen, tm_error *error)
{
    /* The address differs between the ends only between hosts, and there the leader comes first. */
    memcpy(chosen->leader, chosen->address, sizeof chosen->leader);
    chosen->domain = free_domain(options->run_id, chosen->address);
    chosen->leader_port = try_port(SOCK_STREAM, chosen->address, 0);
    bool has_ports = chosen->leader_port != 0;
    for (chosen->followers = 0; has_ports && chosen->followers < found->followers;) {
        const uint32_t port = try_port(SOCK_STREAM, chosen->address, 0);
        has_ports = port != 0;
        if (has_ports && !is_agreed(port, chosen)) {
            chosen->follower_ports[chosen->followers++] = port;
        }
    }
    if (chosen->domain == 0 || !has_ports) {
        return tm_fail(error, TM_UNAVAILABLE, "no free %s on %s; end other programs that use DDS",
                       chosen->domain == 0 ? "DDS domain from 1 to 100" : "TCP port", chosen->address);
    }
    return TM_OK;
}

static inline int32_t make_folder(const char *folder, tm_error *error)
{
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
        return tm_fail(error, TM_FAILED, "cannot make the folder '%.300s': %s", folder, strerror(errno));
    }
    return TM_OK;
}

static inline int32_t make_credentials(const char *folder, tm_error *error)
{
    const int32_t status = make_folder(folder, error);
    return status != TM_OK || credentials_write(folder, error->text, sizeof error->text) ? status : TM_FAILED;
}

/* Reads the agreement that the other end has written, or makes and writes it. `file` is locked. */
static inline int32_t agree(FILE *file, const tm_node_options *options, const config *found, session *agreed,
                            tm_error *error)
{
    if (fscanf(file, "%63s %" SCNu32 " %" SCNu32, agreed->leader, &agreed->domain, &agreed->leader_port) == 3) {
        for (agreed->followers = 0; agreed->followers < found->followers
                                    && fscanf(file, "%" SCNu32, &agreed->follower_ports[agreed->followers]) == 1;) {
            ++agreed->followers;
        }
        return TM_OK;
    }
    int32_t status = choose(options, found, agreed, error);
    if (status == TM_OK && found->is_secured) {
        status = make_credentials(agreed->credentials, error);
    }
    if (status == TM_OK) {
        rewind(file);
        fprintf(file, "%s %" PRIu32 " %" PRIu32, agreed->leader, agreed->domain, agreed->leader_port);
        for (uint32_t i = 0; i < agreed->followers; ++i) {
            fprintf(file, " %" PRIu32, agreed->follower_ports[i]);
        }
        fprintf(file, "\n");
        if (fflush(file) != 0) {
            return tm_fail(error, TM_FAILED, "cannot write to '%.300s': %s", agreed->folder, strerror(errno));
        }
    }
    return status;
}

/* An unauthorized peer uses the agreement of the true pair, but not its credentials. */
static inline int32_t attempt_access(const tm_node_options *options, session *agreed, tm_error *error)
{
    uint32_t *const own = options->role == TM_LEADER ? &agreed->leader_port : &agreed->follower_ports[0];
    *own = try_port(SOCK_STREAM, agreed->address, 0);
    if (options->unauthorized_peer != TM_UNAUTHORIZED_FOREIGN) {
        return TM_OK;
    }
    snprintf(agreed->credentials, sizeof agreed->credentials, "%.400s/foreign-%ld", agreed->folder, (long)getpid());
    return make_credentials(agreed->credentials, error);
}

/* Takes the shared lock of the members, which ends with the process even if it is killed. */
static inline int32_t become_member(session *opened, tm_error *error)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%.400s/members", opened->folder);
    opened->members = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (opened->members < 0 || flock(opened->members, LOCK_SH) != 0) {
        return tm_fail(error, TM_FAILED, "cannot lock '%.300s': %s", path, strerror(errno));
    }
    return TM_OK;
}

/* Gives up this process's lock, and waits until all have left, but not for one that hangs. The true pair stays when an
 * unauthorized peer leaves, so that one waits until nobody answers it any more. */
static inline void leave_together(session *left)
{
    if (left->is_outsider) {
        dds_sleepfor(ANSWERING_TIME);
    }
    if (left->members <= 0) {
        return;
    }
    flock(left->members, LOCK_UN);
    const dds_time_t deadline = dds_time() + LONGEST_LEAVING;
    while (flock(left->members, LOCK_EX | LOCK_NB) != 0 && dds_time() < deadline) {
        dds_sleepfor(DDS_MSECS(1));
    }
    close(left->members);
}

static inline int32_t open_session(const tm_node_options *options, const config *found, session *opened,
                                   tm_error *error)
{
    char path[PATH_BYTES];
    if (options->scratch_dir.length > PATH_BYTES - 64) {
        return tm_fail(error, TM_LIMIT,
                       "the scratch folder's path has %zu characters, over the limit of %u; choose a "
                       "shorter TMPDIR",
                       options->scratch_dir.length, PATH_BYTES - 64);
    }
    if (!tm_address(options, opened->address, sizeof opened->address)) {
        return tm_fail(error, TM_INVALID, "the address of the interface is too long");
    }
    snprintf(opened->folder, sizeof opened->folder, "%.*s/" TM_AGREED, (int)options->scratch_dir.length,
             options->scratch_dir.data);
    memcpy(opened->credentials, opened->folder, sizeof opened->credentials);
    if (make_folder(opened->folder, error) != TM_OK) {
        return TM_FAILED;
    }
    snprintf(path, sizeof path, "%.400s/session", opened->folder);
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    FILE *file = fd >= 0 && flock(fd, LOCK_EX) == 0 ? fdopen(fd, "r+") : NULL;
    if (file == NULL) {
        const int reason = errno;
        if (fd >= 0) {
            close(fd);
        }
        return tm_fail(error, TM_FAILED, "cannot open '%.300s': %s", path, strerror(reason));
    }
    int32_t status = agree(file, options, found, opened, error);
    fclose(file);
    const bool is_alone = options->unauthorized_peer != 0 || tm_is_between_hosts(options);
    opened->is_outsider = found->carrier == OVER_TCP && is_alone;
    if (status == TM_OK && found->carrier == OVER_TCP && options->unauthorized_peer == 0) {
        status = become_member(opened, error);
    }
    return status == TM_OK && options->unauthorized_peer != 0 ? attempt_access(options, opened, error) : status;
}

/* Appends to a text of XML_BYTES; a text that does not fit is cut off, and the parser refuses it. */
__attribute__((format(printf, 2, 3))) static inline void append(char *xml, const char *format, ...)
{
    const size_t used = strlen(xml);
    va_list values;
    va_start(values, format);
    vsnprintf(xml + used, XML_BYTES - used, format, values);
    va_end(values);
}

static inline void append_peer(char *xml, const char *address, uint32_t port)
{
    const bool is_v6 = strchr(address, ':') != NULL;
    append(xml, "<Peer address=\"%s%s%s", is_v6 ? "[" : "", address, is_v6 ? "]" : "");
    if (port != 0) {
        append(xml, ":%" PRIu32, port);
    }
    append(xml, "\"/>");
}

/* Adds the peers that an end tries to discover: on one host each other, between hosts followers only the leader, which
 * answers. */
static inline void append_peers(char *xml, const tm_node_options *options, const session *agreed, const config *found)
{
    const bool leads = options->role == TM_LEADER;
    const bool is_tcp = found->carrier == OVER_TCP;
    append(xml, "<Peers>");
    if (!leads || !(is_tcp || tm_is_between_hosts(options))) {
        append_peer(xml, agreed->leader, is_tcp ? agreed->leader_port : 0);
    }
    for (uint32_t i = 0; leads && is_tcp && !tm_is_between_hosts(options) && i < agreed->followers; ++i) {
        append_peer(xml, agreed->leader, agreed->follower_ports[i]);
    }
    append(xml, "</Peers>");
}

static inline void append_network(char *xml, const tm_node_options *options, const session *agreed,
                                  const config *found)
{
    const bool leads = options->role == TM_LEADER;
    append(xml, "<General><Interfaces><NetworkInterface address=\"%s\" multicast=\"false\"/></Interfaces>"
                "<AllowMulticast>false</AllowMulticast><Transport>%s%s</Transport>",
           agreed->address, found->carrier == OVER_TCP ? "tcp" : "udp", strchr(agreed->address, ':') != NULL ? "6" : "");
    if (found->packet_bytes != 0) {
        append(xml, "<MaxMessageSize>%" PRIu32 "B</MaxMessageSize><FragmentSize>%" PRIu32 "B</FragmentSize>",
               found->packet_bytes, found->packet_bytes - 256);
    }
    append(xml, "</General>");
    if (found->carrier == OVER_TCP) {
        const uint32_t own = leads ? agreed->leader_port : agreed->follower_ports[options->follower_index];
        /* By default the library closes a connection after 2 s without progress, and may then abort. Large messages on
         * a busy machine take that long. */
        append(xml, "<TCP><Port>%" PRIu32 "</Port><ReadTimeout>10s</ReadTimeout><WriteTimeout>10s</WriteTimeout></TCP>",
               own);
    }
    append(xml, "<Discovery>");
    if (found->carrier != OVER_TCP) {
        append(xml, "<ParticipantIndex>auto</ParticipantIndex>");
        if (found->followers > 1) {
            /* One index for each process, and some for unauthorized peers; by default there are ten. */
            append(xml, "<MaxAutoParticipantIndex>%" PRIu32 "</MaxAutoParticipantIndex>", found->followers + 9);
        }
    }
    append_peers(xml, options, agreed, found);
}

static inline void append_security(char *xml, const char *folder)
{
    append(xml, "<Security><Authentication>"
                "<Library path=\"dds_security_auth\" initFunction=\"init_authentication\" "
                "finalizeFunction=\"finalize_authentication\"/>"
                "<IdentityCA>file:%s/" CREDENTIALS_AUTHORITY "</IdentityCA>"
                "<IdentityCertificate>file:%s/" CREDENTIALS_CERTIFICATE "</IdentityCertificate>"
                "<PrivateKey>file:%s/" CREDENTIALS_KEY "</PrivateKey></Authentication>", folder, folder, folder);
    append(xml, "<Cryptographic><Library path=\"dds_security_crypto\" initFunction=\"init_crypto\" "
                "finalizeFunction=\"finalize_crypto\"/></Cryptographic>"
                "<AccessControl><Library path=\"dds_security_ac\" initFunction=\"init_access_control\" "
                "finalizeFunction=\"finalize_access_control\"/>"
                "<PermissionsCA>file:%s/" CREDENTIALS_AUTHORITY "</PermissionsCA>"
                "<Governance>file:%s/" CREDENTIALS_GOVERNANCE "</Governance>"
                "<Permissions>file:%s/" CREDENTIALS_PERMISSIONS "</Permissions></AccessControl></Security>",
           folder, folder, folder);
}

/* Bytes that a reliable writer may send before it waits for acknowledgements. They arrive in the thread that also runs
 * the callback, so a writer that answers there would wait for itself. There must be room for all its bytes until the
 * next one. */
static inline uint64_t unacknowledged_bytes(const tm_node_options *options, const config *found)
{
    const bool answers = options->pattern == TM_PING || options->pattern == TM_CALL;
    const uint64_t queue = found->depth * (options->max_payload_bytes + PRESET_FRAGMENT_BYTES);
    return queue + (answers && options->wait == TM_CALLBACK ? CALLBACK_WATERMARK_BYTES : PRESET_WATERMARK_BYTES);
}

/* Writes the configuration of one process. The tag separates runs that chose the same domain by accident. */
static inline void write_xml(char *xml, const tm_node_options *options, const session *agreed, const config *found)
{
    xml[0] = '\0';
    append(xml, "<CycloneDDS><Domain>");
    append_network(xml, options, agreed, found);
    append(xml, "<Tag>%.*s</Tag></Discovery>", (int)options->run_id.length, options->run_id.data);
    append(xml, "<Internal><SocketReceiveBufferSize min=\"default\" max=\"%" PRIu64 "B\"/>"
                "<SocketSendBufferSize min=\"default\" max=\"%" PRIu64 "B\"/>"
                "<Watermarks><WhcHigh>%" PRIu64 "B</WhcHigh></Watermarks></Internal>",
           found->buffer_bytes, found->buffer_bytes, unacknowledged_bytes(options, found));
    append(xml, "<SharedMemory><Enable>%s</Enable><LogLevel>warn</LogLevel></SharedMemory>",
           found->carrier == OVER_ICEORYX ? "true" : "false");
    if (found->is_secured && options->unauthorized_peer != TM_UNAUTHORIZED_PLAIN) {
        append_security(xml, agreed->credentials);
    }
    append(xml, "</Domain></CycloneDDS>");
}

#endif /* TRIPMETER_CYCLONEDDS_SESSION_H */
