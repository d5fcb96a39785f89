/*
 * credentials.h: credentials for DDS Security, made anew for each run: an authority, an identity that it issued, and
 * governance and permissions that it signed. Everything is encrypted: discovery, liveliness, messages, submessages and
 * payload. Plain C11, also compiled as C++17; needs libcrypto 3.
 */
#ifndef TRIPMETER_CYCLONEDDS_CREDENTIALS_H
#define TRIPMETER_CYCLONEDDS_CREDENTIALS_H

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/pkcs7.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Files in the folder given to credentials_write. The authority signs identities and permissions. Both ends of a run
 * share one identity: a second one would not change the measurement. */
#define CREDENTIALS_AUTHORITY "authority.pem"
#define CREDENTIALS_CERTIFICATE "certificate.pem"
#define CREDENTIALS_KEY "key.pem"
#define CREDENTIALS_GOVERNANCE "governance.smime"
#define CREDENTIALS_PERMISSIONS "permissions.smime"

#define CREDENTIALS_SUBJECT "tripmeter"
#define CREDENTIALS_DAY_S (24L * 60 * 60)

#define CREDENTIALS_DOMAINS "<domains><id_range><min>0</min><max>230</max></id_range></domains>"
#define CREDENTIALS_XML(name, body)                                                                                    \
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"                                                                     \
    "<dds xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:noNamespaceSchemaLocation=\"" name               \
    "\">\n" body "</dds>\n"

/* Source: DDS Security 1.1, 9.4.1.2 */
static const char credentials_governance[] = CREDENTIALS_XML(
    "omg_shared_ca_governance.xsd",
    "<domain_access_rules><domain_rule>" CREDENTIALS_DOMAINS "\n"
    "<allow_unauthenticated_participants>false</allow_unauthenticated_participants>\n"
    "<enable_join_access_control>true</enable_join_access_control>\n"
    "<discovery_protection_kind>ENCRYPT</discovery_protection_kind>\n"
    "<liveliness_protection_kind>ENCRYPT</liveliness_protection_kind>\n"
    "<rtps_protection_kind>ENCRYPT</rtps_protection_kind>\n"
    "<topic_access_rules><topic_rule><topic_expression>*</topic_expression>\n"
    "<enable_discovery_protection>true</enable_discovery_protection>\n"
    "<enable_liveliness_protection>true</enable_liveliness_protection>\n"
    "<enable_read_access_control>true</enable_read_access_control>\n"
    "<enable_write_access_control>true</enable_write_access_control>\n"
    "<metadata_protection_kind>ENCRYPT</metadata_protection_kind>\n"
    "<data_protection_kind>ENCRYPT</data_protection_kind>\n"
    "</topic_rule></topic_access_rules></domain_rule></domain_access_rules>\n");

/* Source: DDS Security 1.1, 9.4.1.3 */
static const char credentials_permissions[] = CREDENTIALS_XML(
    "omg_shared_ca_permissions.xsd",
    "<permissions><grant name=\"" CREDENTIALS_SUBJECT "\">\n"
    "<subject_name>CN=" CREDENTIALS_SUBJECT "</subject_name>\n"
    "<validity><not_before>2020-01-01T00:00:00</not_before><not_after>2099-01-01T00:00:00</not_after></validity>\n"
    "<allow_rule>" CREDENTIALS_DOMAINS "\n"
    "<publish><topics><topic>*</topic></topics></publish>\n"
    "<subscribe><topics><topic>*</topic></topics></subscribe></allow_rule>\n"
    "<default>DENY</default></grant></permissions>\n");

/* Certificate for `key`, signed by `issuer`. If `issuer` is NULL, it is an authority that signs itself. NULL on
 * failure. */
static inline X509 *credentials_certificate(EVP_PKEY *key, const char *name, X509 *issuer, EVP_PKEY *issuer_key)
{
    X509 *certificate = X509_new();
    X509_NAME *subject = certificate != NULL ? X509_get_subject_name(certificate) : NULL;
    uint32_t serial = 0;
    bool good = subject != NULL && RAND_bytes((unsigned char *)&serial, sizeof serial) == 1
                && X509_set_version(certificate, X509_VERSION_3) == 1
                && ASN1_INTEGER_set(X509_get_serialNumber(certificate), (long)(serial >> 1) + 1) == 1
                && X509_gmtime_adj(X509_getm_notBefore(certificate), -CREDENTIALS_DAY_S) != NULL
                && X509_gmtime_adj(X509_getm_notAfter(certificate), 30 * CREDENTIALS_DAY_S) != NULL
                && X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0) == 1
                && X509_set_issuer_name(certificate, issuer != NULL ? X509_get_subject_name(issuer) : subject) == 1
                && X509_set_pubkey(certificate, key) == 1;
    if (good && issuer == NULL) {
        X509_EXTENSION *authority = X509V3_EXT_conf_nid(NULL, NULL, NID_basic_constraints, "critical,CA:TRUE");
        good = authority != NULL && X509_add_ext(certificate, authority, -1) == 1;
        X509_EXTENSION_free(authority);
    }
    if (good && X509_sign(certificate, issuer != NULL ? issuer_key : key, EVP_sha256()) > 0) {
        return certificate;
    }
    X509_free(certificate);
    return NULL;
}

/* Opens a file of the folder for writing. */
static inline BIO *credentials_file(const char *folder, const char *name)
{
    char path[4096];
    const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    return length > 0 && (size_t)length < sizeof path ? BIO_new_file(path, "w") : NULL;
}

static inline bool credentials_write_certificate(const char *folder, const char *name, X509 *certificate)
{
    BIO *file = credentials_file(folder, name);
    const bool written = file != NULL && PEM_write_bio_X509(file, certificate) == 1 && BIO_flush(file) == 1;
    BIO_free(file);
    return written;
}

static inline bool credentials_write_key(const char *folder, EVP_PKEY *key)
{
    BIO *file = credentials_file(folder, CREDENTIALS_KEY);
    const bool written = file != NULL && PEM_write_bio_PKCS8PrivateKey(file, key, NULL, NULL, 0, NULL, NULL) == 1
                         && BIO_flush(file) == 1;
    BIO_free(file);
    return written;
}

/* Writes a signed file, as `openssl smime -sign -text` does. */
static inline bool credentials_write_signed(const char *folder, const char *name, const char *text, X509 *authority,
                                            EVP_PKEY *key)
{
    const int flags = PKCS7_DETACHED | PKCS7_TEXT;
    BIO *content = BIO_new_mem_buf(text, -1);
    BIO *file = credentials_file(folder, name);
    PKCS7 *signature = content != NULL ? PKCS7_sign(authority, key, NULL, content, flags) : NULL;
    const bool written = file != NULL && signature != NULL && BIO_reset(content) == 1
                         && SMIME_write_PKCS7(file, signature, content, flags) == 1 && BIO_flush(file) == 1;
    PKCS7_free(signature);
    BIO_free(file);
    BIO_free(content);
    return written;
}

/* Makes an authority and all files of one participant in the existing `folder`. On failure false, with a message of one
 * line in `reason`. Takes some milliseconds. */
static inline bool credentials_write(const char *folder, char *reason, size_t capacity)
{
    EVP_PKEY *authority_key = EVP_EC_gen("P-256");
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *authority = authority_key != NULL && key != NULL
                          ? credentials_certificate(authority_key, "tripmeter authority", NULL, NULL)
                          : NULL;
    X509 *certificate = authority != NULL
                            ? credentials_certificate(key, CREDENTIALS_SUBJECT, authority, authority_key)
                            : NULL;
    const bool good =
        certificate != NULL && credentials_write_certificate(folder, CREDENTIALS_AUTHORITY, authority)
        && credentials_write_certificate(folder, CREDENTIALS_CERTIFICATE, certificate)
        && credentials_write_key(folder, key)
        && credentials_write_signed(folder, CREDENTIALS_GOVERNANCE, credentials_governance, authority, authority_key)
        && credentials_write_signed(folder, CREDENTIALS_PERMISSIONS, credentials_permissions, authority, authority_key);
    if (!good) {
        char text[256];
        ERR_error_string_n(ERR_get_error(), text, sizeof text);
        snprintf(reason, capacity, "credentials cannot be made in '%.200s': %s", folder, text);
    }
    X509_free(certificate);
    X509_free(authority);
    EVP_PKEY_free(key);
    EVP_PKEY_free(authority_key);
    return good;
}

#endif /* TRIPMETER_CYCLONEDDS_CREDENTIALS_H */
