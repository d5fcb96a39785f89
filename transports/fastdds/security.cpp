#include "security.h"

#include "tripmeter_plugin.hpp"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/pkcs7.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

using tripmeter::Failure;

namespace {

template <typename T, void (*free_it)(T*)>
struct Freeing {
    void operator()(T* object) const
    {
        free_it(object);
    }
};

using Key = std::unique_ptr<EVP_PKEY, Freeing<EVP_PKEY, EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freeing<X509, X509_free>>;
using Buffer = std::unique_ptr<BIO, Freeing<BIO, BIO_free_all>>;
using Signature = std::unique_ptr<PKCS7, Freeing<PKCS7, PKCS7_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Freeing<X509_EXTENSION, X509_EXTENSION_free>>;

// Certificates are valid from a day ago, as the clock may be set back, and for longer than any run.
constexpr long kDay = 24 * 60 * 60;

struct Identity {
    Key key;
    Certificate certificate;
};

[[noreturn]] void failed(const std::string& what)
{
    char reason[256] = "";
    ERR_error_string_n(ERR_get_error(), reason, sizeof reason);
    throw Failure(TM_FAILED, "credentials: " + what + " failed: " + reason);
}

void check(bool is_good, const char* what)
{
    if (!is_good) {
        failed(what);
    }
}

void add_extension(X509* certificate, X509* issuer, int kind, const char* value)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
    const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value));
    check(extension && X509_add_ext(certificate, extension.get(), -1) == 1, "an extension of a certificate");
}

// Makes a key with a certificate signed by `authority`; without one, an authority that signs itself.
Identity make_identity(const std::string& name, const Identity* authority)
{
    Identity made{Key(EVP_EC_gen("P-256")), Certificate(X509_new())};
    check(made.key && made.certificate, "a key of curve prime256v1");
    X509* const certificate = made.certificate.get();
    X509* const issuer = authority != nullptr ? authority->certificate.get() : certificate;
    uint64_t serial = 0;
    check(RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial) == 1, "a random number");
    auto* const subject = X509_get_subject_name(certificate);
    const auto* const common_name = reinterpret_cast<const unsigned char*>(name.c_str());
    check(X509_set_version(certificate, X509_VERSION_3) == 1
              && ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial >> 1) == 1
              && X509_gmtime_adj(X509_getm_notBefore(certificate), -kDay) != nullptr
              && X509_gmtime_adj(X509_getm_notAfter(certificate), 30 * kDay) != nullptr
              && X509_set_pubkey(certificate, made.key.get()) == 1
              && X509_NAME_add_entry_by_NID(subject, NID_commonName, MBSTRING_UTF8, common_name, -1, -1, 0) == 1
              && X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1,
          "a certificate");
    add_extension(certificate, issuer, NID_basic_constraints, authority == nullptr ? "critical,CA:TRUE" : "CA:FALSE");
    EVP_PKEY* const signing_key = authority != nullptr ? authority->key.get() : made.key.get();
    check(X509_sign(certificate, signing_key, EVP_sha256()) > 0, "signing a certificate");
    return made;
}

// Creates a file that only this user can read.
Buffer create(const std::string& path)
{
    const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (descriptor < 0) {
        throw Failure(TM_FAILED, "credentials: '" + path + "' cannot be created: " + std::strerror(errno));
    }
    FILE* const file = fdopen(descriptor, "w");
    check(file != nullptr, "a file");
    return Buffer(BIO_new_fp(file, BIO_CLOSE));
}

void write_certificate(const std::string& path, const Identity& identity)
{
    check(PEM_write_bio_X509(create(path).get(), identity.certificate.get()) == 1, "writing a certificate");
}

void write_key(const std::string& path, const Identity& identity)
{
    check(PEM_write_bio_PrivateKey(create(path).get(), identity.key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1,
          "writing a key");
}

// Writes a signed document, as `openssl smime -sign -text` does.
void write_signed(const std::string& path, const std::string& document, const Identity& authority)
{
    const Buffer content(BIO_new_mem_buf(document.data(), static_cast<int>(document.size())));
    constexpr int kFlags = PKCS7_TEXT | PKCS7_DETACHED;
    const Signature signature(
        PKCS7_sign(authority.certificate.get(), authority.key.get(), nullptr, content.get(), kFlags));
    check(signature != nullptr && BIO_reset(content.get()) == 1, "signing a document");
    check(SMIME_write_PKCS7(create(path).get(), signature.get(), content.get(), kFlags) == 1, "writing a document");
}

std::string domains(uint32_t domain)
{
    return "<domains><id>" + std::to_string(domain) + "</id></domains>";
}

std::string governance(uint32_t domain, const std::string& topics)
{
    return R"(<?xml version="1.0" encoding="utf-8"?>
<dds><domain_access_rules><domain_rule>)"
           + domains(domain) + R"(
<allow_unauthenticated_participants>false</allow_unauthenticated_participants>
<enable_join_access_control>true</enable_join_access_control>
<discovery_protection_kind>ENCRYPT</discovery_protection_kind>
<liveliness_protection_kind>ENCRYPT</liveliness_protection_kind>
<rtps_protection_kind>ENCRYPT</rtps_protection_kind>
<topic_access_rules><topic_rule><topic_expression>)"
           + topics + R"(*</topic_expression>
<enable_discovery_protection>true</enable_discovery_protection>
<enable_liveliness_protection>true</enable_liveliness_protection>
<enable_read_access_control>true</enable_read_access_control>
<enable_write_access_control>true</enable_write_access_control>
<metadata_protection_kind>ENCRYPT</metadata_protection_kind>
<data_protection_kind>ENCRYPT</data_protection_kind>
</topic_rule></topic_access_rules></domain_rule></domain_access_rules></dds>
)";
}

std::string date(std::time_t time)
{
    char text[32];
    std::tm parts{};
    gmtime_r(&time, &parts);
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    return text;
}

std::string grant(const std::string& name, uint32_t domain, const std::string& topics)
{
    const std::string which = "<topics><topic>" + topics + "*</topic></topics>";
    const std::time_t now = std::time(nullptr);
    return "<grant name=\"" + name + "\"><subject_name>CN=" + name + "</subject_name><validity><not_before>"
           + date(now - kDay) + "</not_before><not_after>" + date(now + 30 * kDay)
           + "</not_after></validity><allow_rule>" + domains(domain) + "<publish>" + which + "</publish><subscribe>"
           + which + "</subscribe></allow_rule><default>DENY</default></grant>\n";
}

std::string key_file(const std::string& folder, const std::string& name)
{
    return folder + "/" + name + "-key.pem";
}

} // namespace

void make_credentials(const std::string& folder, uint32_t domain, const std::string& topics)
{
    const Identity authority = make_identity("tripmeter-authority", nullptr);
    write_certificate(folder + "/authority.pem", authority);
    std::string grants;
    for (const std::string name : {"leader", "follower"}) {
        const Identity identity = make_identity(name, &authority);
        write_certificate(folder + "/" + name + ".pem", identity);
        write_key(key_file(folder, name), identity);
        grants += grant(name, domain, topics);
    }
    write_signed(folder + "/governance.p7s", governance(domain, topics), authority);
    write_signed(folder + "/permissions.p7s",
                 "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<dds><permissions>\n" + grants + "</permissions></dds>\n",
                 authority);
}

void use_credentials(eprosima::fastdds::dds::DomainParticipantQos& qos, const std::string& folder,
                     const std::string& name)
{
    const std::string authority = "file://" + folder + "/authority.pem";
    const std::pair<std::string, std::string> properties[] = {
        {"dds.sec.auth.plugin", "builtin.PKI-DH"},
        {"dds.sec.auth.builtin.PKI-DH.identity_ca", authority},
        {"dds.sec.auth.builtin.PKI-DH.identity_certificate", "file://" + folder + "/" + name + ".pem"},
        {"dds.sec.auth.builtin.PKI-DH.private_key", "file://" + key_file(folder, name)},
        {"dds.sec.access.plugin", "builtin.Access-Permissions"},
        {"dds.sec.access.builtin.Access-Permissions.permissions_ca", authority},
        {"dds.sec.access.builtin.Access-Permissions.governance", "file://" + folder + "/governance.p7s"},
        {"dds.sec.access.builtin.Access-Permissions.permissions", "file://" + folder + "/permissions.p7s"},
        {"dds.sec.crypto.plugin", "builtin.AES-GCM-GMAC"},
    };
    auto& policy = qos.properties().properties();
    policy.clear();
    for (const auto& [property, value] : properties) {
        policy.emplace_back(property, value);
    }
}

void forget_key(const std::string& folder, const std::string& name) noexcept
{
    // Fails only if the key is already removed.
    unlink(key_file(folder, name).c_str());
}
