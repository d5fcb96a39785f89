/*
 * A plugin that lies about a real one: requests for one variant go to another, or security is off although requested.
 * It has the true plugin's description and functions, except those that take options.
 *
 * Its file is called tripmeter_SYSTEM.so, or tripmeter_SYSTEM-N.so for lie N; the true plugin is
 * true/tripmeter_SYSTEM.so beside it.
 */
#include "around.h"

#define MOST_SETTINGS 64

/* One lie: the options of `claimed` become the options of `done`. */
typedef struct lie {
    const char *plugin;  /* the end of the file's name */
    const char *claimed; /* a variant, or NAME=VALUE of a setting */
    const char *done;    /* variant or NAME=VALUE used instead; NULL: every peer is treated as one without security */
} lie;

static const lie lies[] = {
    {"cyclonedds", "udp", "tcp"},
    {"cyclonedds", "tcp", "udp"},
    {"cyclonedds", "iceoryx", "udp"},
    {"cyclonedds-2", "security=on", "security=off"},
    {"ecal", "shm", "udp"},
    {"ecal", "udp", "tcp"},
    {"ecal", "tcp", "udp"},
    {"ecal", "shm-zero-copy", "shm"},
    {"grpc", "tls=on", NULL},
    {"http", "tls=on", NULL},
    {"mqtt", "tls=on", "tls=off"},
    {"ros2", "shm", "udp"},
    {"ros2", "udp", "shm"},
    {"ros2", "service", "service-udp"},
    {"ros2", "service-udp", "service"},
    {"zenoh", "tcp", "shm"},
    {"zenoh", "udp", "tcp"},
    {"zenoh", "unix", "tcp"},
    {"zenoh", "shm", "tcp"},
    {"zeromq", "ipc", "tcp"},
    {"zeromq", "tcp", "ipc"},
    {"zeromq", "ipc-reqrep", "tcp-reqrep"},
    {"zeromq", "tcp-reqrep", "ipc-reqrep"},
};

/* Options as the true plugin gets them. */
typedef struct twisted {
    tm_node_options options;
    tm_key_value settings[MOST_SETTINGS];
} twisted;

static tm_str str_of(const char *text)
{
    const tm_str string = {text, strlen(text)};
    return string;
}

/* The setting that a lie names, if it has that value; else NULL. */
static tm_key_value *setting_of(twisted *to, const char *name_and_value)
{
    const char *const value = strchr(name_and_value, '=');
    for (size_t i = 0; value != NULL && i < to->options.setting_count; ++i) {
        tm_key_value *const setting = &to->settings[i];
        const size_t length = (size_t)(value - name_and_value);
        if (setting->key.length == length && memcmp(setting->key.data, name_and_value, length) == 0
            && tm_is(setting->value, value + 1)) {
            return setting;
        }
    }
    return NULL;
}

static void tell(const lie *lie, twisted *to)
{
    tm_key_value *const setting = setting_of(to, lie->claimed);
    if (setting != NULL && lie->done != NULL) {
        setting->value = str_of(strchr(lie->done, '=') + 1);
    } else if (setting != NULL) {
        to->options.unauthorized_peer = TM_UNAUTHORIZED_PLAIN;
    } else {
        to->options.variant = str_of(lie->done);
    }
}

static const tm_node_options *twist(const tm_node_options *options, twisted *to)
{
    const size_t known = options->struct_size < sizeof to->options ? options->struct_size : sizeof to->options;
    memcpy(&to->options, options, known);
    to->options.settings = to->settings;
    for (size_t i = 0; i < options->setting_count && i < MOST_SETTINGS; ++i) {
        to->settings[i] = options->settings[i];
        to->options.setting_count = i + 1;
    }
    for (size_t i = 0; i < TM_COUNT(lies); ++i) {
        const bool is_claimed = tm_is(options->variant, lies[i].claimed) || setting_of(to, lies[i].claimed) != NULL;
        if (strcmp(lies[i].plugin, plugin) == 0 && is_claimed) {
            tell(&lies[i], to);
            break;
        }
    }
    return &to->options;
}

/* Limits of the variant really used, with the unauthorized peers of the requested one. */
static int32_t probe(const tm_node_options *options, tm_limits *limits, tm_error *error)
{
    twisted to = {0};
    tm_limits claimed = *limits;
    const int32_t status = truth->probe(options, &claimed, error);
    if (status != TM_OK && status != TM_NO_DAEMON) {
        return status;
    }
    const int32_t found = truth->probe(twist(options, &to), limits, error);
    limits->unauthorized_peers = claimed.unauthorized_peers;
    return found;
}

static int32_t daemon_command(const tm_node_options *options, tm_daemon_command *command, tm_error *error)
{
    twisted to = {0};
    return truth->daemon_command(twist(options, &to), command, error);
}

static int32_t node_open(const tm_node_options *options, tm_node **node, tm_error *error)
{
    twisted to = {0};
    return truth->node_open(twist(options, &to), node, error);
}

const tm_transport *tripmeter_transport(void)
{
    static tm_transport table;
    truth = load();
    if (truth == NULL) {
        return NULL;
    }
    table = *truth;
    table.probe = probe;
    table.daemon_command = truth->daemon_command != NULL ? daemon_command : NULL;
    table.node_open = node_open;
    return &table;
}
