#!/usr/bin/env bash
# Fast DDS 2.9.1 (Debian 12) does not look at SKIP_DEFAULT_XML, the variable that its documentation names.
#
# Guess: with SKIP_DEFAULT_XML=1 no DEFAULT_FASTRTPS_PROFILES.xml of the working directory is read, as the page "Environment
# variables" of the documentation says (eProsima/Fast-DDS-docs, docs/fastdds/env_vars/env_vars.rst).
# Seen: the file is read all the same, without a word. Only SKIP_DEFAULT_XML_FILE=1 keeps it out, which that page does not name.
# Users meet this where an application must not be configured by the folder that it is started in.
#
# Needs Debian 12 and g++. Installs into a temporary folder only.
set -euo pipefail

version='2.9.1+ds-1+deb12u2'
packages=(libfastrtps-dev="$version" libfastrtps2.9="$version" libfastcdr-dev=1.0.26-1 libfastcdr1=1.0.26-1
    libfoonathan-memory-dev=0.7.2-3 libfoonathan-memory0.7.2=0.7.2-3 libtinyxml2-9=9.0.0+dfsg-3.1)
place=$(mktemp -d)
trap 'rm -rf -- "$place"' EXIT
cd "$place"
apt-get download "${packages[@]}" >apt.log 2>&1 || { cat apt.log >&2; exit 69; }
for package in *.deb; do dpkg -x "$package" root; done

cat >participant.cpp <<'END'
#include <cstdio>
#include <fastdds/dds/domain/DomainParticipant.hpp>
#include <fastdds/dds/domain/DomainParticipantFactory.hpp>
#include <unistd.h>

namespace fast = eprosima::fastdds;

int main()
{
    auto* const factory = fast::dds::DomainParticipantFactory::get_instance();
    auto* const made = factory->create_participant(0, fast::dds::PARTICIPANT_QOS_DEFAULT);
    if (made == nullptr) {
        return 1;
    }
    std::printf("%s\n", made->get_qos().name().c_str());
    std::fflush(stdout);
    _exit(0);
}
END
lib=$(dirname "$(find "$place/root" -name 'libfastrtps.so.2.9*' | head -n 1)")
g++ -std=c++17 -I root/usr/include participant.cpp -o participant -L "$lib" -lfastrtps -lfastcdr -Wl,-rpath-link,"$lib"

cat >DEFAULT_FASTRTPS_PROFILES.xml <<'END'
<?xml version="1.0" encoding="UTF-8"?>
<profiles xmlns="http://www.eprosima.com/XMLSchemas/fastRTPS_Profiles">
  <participant profile_name="of_the_file" is_default_profile="true">
    <rtps><name>named-by-the-file</name></rtps>
  </participant>
</profiles>
END
run() { env -u SKIP_DEFAULT_XML -u SKIP_DEFAULT_XML_FILE LD_LIBRARY_PATH="$lib" "$@" ./participant 2>&1; }
neither=$(run env)
documented=$(run env SKIP_DEFAULT_XML=1)
other=$(run env SKIP_DEFAULT_XML_FILE=1)
printf 'Fast DDS %s, name of the participant\nneither variable: %s\nSKIP_DEFAULT_XML=1: %s\nSKIP_DEFAULT_XML_FILE=1: %s\n' \
    "$version" "$neither" "$documented" "$other"
if [[ $neither != named-by-the-file || $documented != named-by-the-file || $other == *named-by-the-file* ]]; then
    echo 'CHANGED' >&2
    exit 1
fi
