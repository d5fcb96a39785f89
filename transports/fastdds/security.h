// DDS-Security: credentials made for one run, and their use.

#ifndef TRIPMETER_FASTDDS_SECURITY_H
#define TRIPMETER_FASTDDS_SECURITY_H

#include <fastdds/dds/domain/qos/DomainParticipantQos.hpp>

#include <string>

// Makes in the empty folder `folder` all that a leader and a follower need to trust each other in `domain` on topics
// that begin with `topics`: an authority of its own, two identities, governance (everything ENCRYPT) and permissions.
// The authority's key is forgotten. Throws Failure.
void make_credentials(const std::string& folder, uint32_t domain, const std::string& topics);

// Has a participant use what make_credentials has made there, as "leader" or "follower".
void use_credentials(eprosima::fastdds::dds::DomainParticipantQos& qos, const std::string& folder,
                     const std::string& name);

// Removes the private key of "leader" or "follower", once it is not needed any more.
void forget_key(const std::string& folder, const std::string& name) noexcept;

#endif // TRIPMETER_FASTDDS_SECURITY_H
