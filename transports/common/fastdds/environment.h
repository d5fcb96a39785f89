// Variables that keep Fast DDS from reading settings that no run records. Used by `fastdds` and `ros2`.

#ifndef TRIPMETER_FASTDDS_ENVIRONMENT_H
#define TRIPMETER_FASTDDS_ENVIRONMENT_H

#include <cstdlib>

// Keeps Fast DDS from reading DEFAULT_FASTRTPS_PROFILES.xml or DEFAULT_FASTDDS_PROFILES.xml in the working directory,
// and files named by the environment. Versions 2 and 3 obey SKIP_DEFAULT_XML_FILE; some documentation says
// SKIP_DEFAULT_XML.
inline void ignore_defaults()
{
    for (const char* const name : {"SKIP_DEFAULT_XML_FILE", "SKIP_DEFAULT_XML"}) {
        setenv(name, "1", 1);
    }
    for (const char* const name :
         {"FASTRTPS_DEFAULT_PROFILES_FILE", "FASTDDS_DEFAULT_PROFILES_FILE", "FASTDDS_ENVIRONMENT_FILE",
          "FASTDDS_BUILTIN_TRANSPORTS", "FASTDDS_STATISTICS", "ROS_DISCOVERY_SERVER", "ROS_SUPER_CLIENT"}) {
        unsetenv(name);
    }
}

#endif // TRIPMETER_FASTDDS_ENVIRONMENT_H
