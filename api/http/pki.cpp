#include "api/http/pki.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>

#include "api/kinds/base64.h"

namespace virtset::api {

namespace {

namespace fs = std::filesystem;

template <typename T, void (*release)(T*)>
struct Free {
  void operator()(T* object) const { release(object); }
};
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY, EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Free<X509, X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION, X509_EXTENSION_free>>;
struct FreeBio {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using Bio = std::unique_ptr<BIO, FreeBio>;

constexpr long day = 24 * 60 * 60;
constexpr long ca_lifetime = 3650 * day;
constexpr long server_lifetime = 730 * day;
constexpr long renew_before = server_lifetime / 3;

[[noreturn]] void fail(const std::string& what) {
  char text[256];
  ERR_error_string_n(ERR_get_error(), text, sizeof text);
  throw std::runtime_error(what + ": " + text);
}

void require(bool good, const char* what) {
  if (!good) fail(what);
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Bio memory(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string text_of(const Bio& bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}

std::string to_pem(X509* certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  require(PEM_write_bio_X509(bio.get(), certificate) == 1, "writing a certificate");
  return text_of(bio);
}

std::string to_pem(EVP_PKEY* key) {
  const Bio bio(BIO_new(BIO_s_mem()));
  require(PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1,
          "writing a key");
  return text_of(bio);
}

Key new_key() {
  Key key(EVP_EC_gen("P-256"));
  require(key != nullptr, "making a key");
  return key;
}

void add_extension(X509* certificate, X509* issuer, int id, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str()));
  require(extension && X509_add_ext(certificate, extension.get(), -1) == 1,
          "adding an extension to a certificate");
}

Certificate new_certificate(EVP_PKEY* key, const std::string& name, long lifetime) {
  Certificate certificate(X509_new());
  X509* x = certificate.get();
  X509_set_version(x, X509_VERSION_3);
  unsigned char serial[16];
  require(RAND_bytes(serial, sizeof serial) == 1, "making a serial number");
  serial[0] &= 0x7f;
  const std::unique_ptr<BIGNUM, Free<BIGNUM, BN_free>> number(
      BN_bin2bn(serial, sizeof serial, nullptr));
  BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(x));
  // An hour back, for clients whose clock is behind.
  X509_gmtime_adj(X509_getm_notBefore(x), -3600);
  X509_gmtime_adj(X509_getm_notAfter(x), lifetime);
  X509_set_pubkey(x, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  return certificate;
}

void make_ca(const fs::path& directory) {
  const Key key = new_key();
  const Certificate ca = new_certificate(key.get(), "virtset CA", ca_lifetime);
  X509_set_issuer_name(ca.get(), X509_get_subject_name(ca.get()));
  add_extension(ca.get(), ca.get(), NID_basic_constraints, "critical,CA:TRUE");
  add_extension(ca.get(), ca.get(), NID_key_usage, "critical,keyCertSign,cRLSign");
  add_extension(ca.get(), ca.get(), NID_subject_key_identifier, "hash");
  require(X509_sign(ca.get(), key.get(), EVP_sha256()) > 0, "signing the CA's certificate");
  write_private_file(directory / "ca.key", to_pem(key.get()), 0600, "");
  write_private_file(directory / "ca.crt", to_pem(ca.get()), 0644, "");
}

bool is_address(const std::string& name) {
  unsigned char buffer[16];
  return inet_pton(AF_INET, name.c_str(), buffer) == 1 ||
         inet_pton(AF_INET6, name.c_str(), buffer) == 1;
}

void make_server_certificate(const fs::path& directory, const std::vector<std::string>& names) {
  const Key ca_key(
      PEM_read_bio_PrivateKey(memory(read(directory / "ca.key")).get(), nullptr, nullptr, nullptr));
  const Certificate ca(
      PEM_read_bio_X509(memory(read(directory / "ca.crt")).get(), nullptr, nullptr, nullptr));
  require(ca_key && ca, "reading the CA");
  const Key key = new_key();
  const Certificate server = new_certificate(key.get(), "virtset", server_lifetime);
  X509_set_issuer_name(server.get(), X509_get_subject_name(ca.get()));
  std::string alternatives;
  for (const std::string& name : names) {
    alternatives +=
        (alternatives.empty() ? "" : ",") + std::string(is_address(name) ? "IP:" : "DNS:") + name;
  }
  add_extension(server.get(), ca.get(), NID_basic_constraints, "critical,CA:FALSE");
  add_extension(server.get(), ca.get(), NID_key_usage, "critical,digitalSignature");
  add_extension(server.get(), ca.get(), NID_ext_key_usage, "serverAuth");
  add_extension(server.get(), ca.get(), NID_authority_key_identifier, "keyid");
  add_extension(server.get(), ca.get(), NID_subject_alt_name, alternatives);
  require(X509_sign(server.get(), ca_key.get(), EVP_sha256()) > 0, "signing the certificate");
  write_private_file(directory / "server.key", to_pem(key.get()), 0600, "");
  write_private_file(directory / "server.crt", to_pem(server.get()), 0644, "");
}

bool server_certificate_will_do(const fs::path& directory, const std::vector<std::string>& names) {
  if (!fs::exists(directory / "server.key")) return false;
  const Certificate server(
      PEM_read_bio_X509(memory(read(directory / "server.crt")).get(), nullptr, nullptr, nullptr));
  if (!server) return false;
  time_t threshold = time(nullptr) + renew_before;
  if (X509_cmp_time(X509_get0_notAfter(server.get()), &threshold) < 0) return false;
  for (const std::string& name : names) {
    const bool covered = is_address(name)
                             ? X509_check_ip_asc(server.get(), name.c_str(), 0) == 1
                             : X509_check_host(server.get(), name.c_str(), 0, 0, nullptr) == 1;
    if (!covered) return false;
  }
  return true;
}

std::string new_token() {
  unsigned char bytes[32];
  require(RAND_bytes(bytes, sizeof bytes) == 1, "making a token");
  std::string token;
  for (const unsigned char byte : bytes) {
    constexpr char digits[] = "0123456789abcdef";
    token += digits[byte >> 4];
    token += digits[byte & 15];
  }
  return token;
}

}  // namespace

void write_private_file(const fs::path& path, const std::string& content, unsigned mode,
                        const std::string& group) {
  struct stat status {};
  const bool same_mode = stat(path.c_str(), &status) == 0 && (status.st_mode & 0777) == mode;
  if (same_mode && read(path) == content) return;
  const std::string temporary = path.string() + ".tmp";
  const auto check = [&](bool good) {
    if (!good) {
      throw std::runtime_error("cannot write " + path.string() + ": " + std::strerror(errno));
    }
  };
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  check(fd >= 0);
  const bool written =
      write(fd, content.data(), content.size()) == static_cast<ssize_t>(content.size());
  bool grouped = true;
  if (!group.empty()) {
    const struct group* entry = getgrnam(group.c_str());
    grouped = entry && fchown(fd, static_cast<uid_t>(-1), entry->gr_gid) == 0;
  }
  const bool ready = written && grouped && fchmod(fd, mode) == 0 && fsync(fd) == 0;
  close(fd);
  check(ready && rename(temporary.c_str(), path.c_str()) == 0);
}

Pki ensure_pki(const fs::path& directory, const std::vector<std::string>& names) {
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    throw std::runtime_error("cannot make " + directory.string() + ": " + std::strerror(errno));
  }
  // The certificate is written last.
  const bool new_ca = !fs::exists(directory / "ca.crt");
  if (new_ca) make_ca(directory);
  if (new_ca || !server_certificate_will_do(directory, names)) {
    make_server_certificate(directory, names);
  }
  const fs::path token = directory / "admin.token";
  if (!fs::exists(token)) write_private_file(token, new_token(), 0600, "");
  return {directory / "ca.crt", directory / "server.crt", directory / "server.key", read(token)};
}

std::string kubeconfig(const Pki& pki, const std::string& server) {
  return "apiVersion: v1\n"
         "kind: Config\n"
         "clusters:\n"
         "- name: virtset\n"
         "  cluster:\n"
         "    server: " +
         server +
         "\n"
         "    certificate-authority-data: " +
         encode_base64(read(pki.ca_certificate)) +
         "\n"
         "users:\n"
         "- name: admin\n"
         "  user:\n"
         "    token: " +
         pki.admin_token +
         "\n"
         "contexts:\n"
         "- name: virtset\n"
         "  context:\n"
         "    cluster: virtset\n"
         "    user: admin\n"
         "    namespace: default\n"
         "current-context: virtset\n";
}

bool tokens_equal(const std::string& a, const std::string& b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace virtset::api
