// DDS-Security: credentials made for one run, and their use.

#ifndef TRIPMETER_FASTDDS_SECURITY_H
#define TRIPMETER_FASTDDS_SECURITY_H

#include <fastdds/dds/domain/qos/DomainParticipantQos.hpp>

#include <string>

// Makes credentials in the empty folder `folder`, by which a leader and a follower trust each other in `domain`, on
// topics that begin with `topics`: an authority, two identities, governance (everything ENCRYPT) and permissions. The
// authority's key is not stored. Throws Failure.
void make_credentials(const std::string& folder, uint32_t domain, const std::string& topics);

// Lets a participant use the credentials in `folder`, as `name`: "leader" or "follower".
void use_credentials(eprosima::fastdds::dds::DomainParticipantQos& qos, const std::string& folder,
                     const std::string& name);

// Removes the private key of "leader" or "follower".
void forget_key(const std::string& folder, const std::string& name) noexcept;

#endif // TRIPMETER_FASTDDS_SECURITY_H
