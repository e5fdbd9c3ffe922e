#include "api/http/pki.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <fstream>
#include <memory>
#include <sstream>

#include "api/kinds/yaml.h"

namespace virtset::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

struct FreeCertificate {
  void operator()(X509* certificate) const { X509_free(certificate); }
};
struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Certificate = std::unique_ptr<X509, FreeCertificate>;
using PrivateKey = std::unique_ptr<EVP_PKEY, FreeKey>;

std::string content(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

Certificate certificate(const fs::path& path) {
  const std::string text = content(path);
  BIO* bio = BIO_new_mem_buf(text.data(), static_cast<int>(text.size()));
  Certificate result(PEM_read_bio_X509(bio, nullptr, nullptr, nullptr));
  BIO_free(bio);
  return result;
}

PrivateKey private_key(const fs::path& path) {
  const std::string text = content(path);
  BIO* bio = BIO_new_mem_buf(text.data(), static_cast<int>(text.size()));
  PrivateKey result(PEM_read_bio_PrivateKey(bio, nullptr, nullptr, nullptr));
  BIO_free(bio);
  return result;
}

// Whether a client that trusts the CA believes it to be this name.
bool believes(const api::Pki& pki, const std::string& name) {
  const Certificate ca = certificate(pki.ca_certificate);
  const Certificate server = certificate(pki.certificate);
  const std::unique_ptr<X509_STORE, decltype(&X509_STORE_free)> trusted(X509_STORE_new(),
                                                                        X509_STORE_free);
  X509_STORE_add_cert(trusted.get(), ca.get());
  const std::unique_ptr<X509_STORE_CTX, decltype(&X509_STORE_CTX_free)> context(
      X509_STORE_CTX_new(), X509_STORE_CTX_free);
  X509_STORE_CTX_init(context.get(), trusted.get(), server.get(), nullptr);
  X509_VERIFY_PARAM* parameters = X509_STORE_CTX_get0_param(context.get());
  X509_STORE_CTX_set_purpose(context.get(), X509_PURPOSE_SSL_SERVER);
  if (X509_VERIFY_PARAM_set1_ip_asc(parameters, name.c_str()) != 1) {
    X509_VERIFY_PARAM_set1_host(parameters, name.c_str(), 0);
  }
  return X509_verify_cert(context.get()) == 1;
}

int days_left(const Certificate& of) {
  int days = 0, seconds = 0;
  ASN1_TIME_diff(&days, &seconds, nullptr, X509_get0_notAfter(of.get()));
  return days;
}

class PkiTest : public testing::Test {
 protected:
  PkiTest() {
    std::string pattern = fs::temp_directory_path() / "virtset-pki-XXXXXX";
    parent_ = mkdtemp(pattern.data());
    directory_ = parent_ / "pki";
  }
  ~PkiTest() override { fs::remove_all(parent_); }

  api::Pki ensure(std::vector<std::string> names = {"localhost", "127.0.0.1", "::1"}) {
    return api::ensure_pki(directory_, names);
  }
  unsigned mode(const std::string& name) const {
    struct stat status {};
    stat((directory_ / name).c_str(), &status);
    return status.st_mode & 0777;
  }
  std::string file(const std::string& name) const { return content(directory_ / name); }
  // Replaces the server's certificate by one that ends after so many days.
  void let_expire_in(int days) {
    const PrivateKey ca_key = private_key(directory_ / "ca.key");
    const Certificate server = certificate(directory_ / "server.crt");
    X509_gmtime_adj(X509_getm_notAfter(server.get()), days * 24L * 60 * 60);
    ASSERT_GT(X509_sign(server.get(), ca_key.get(), EVP_sha256()), 0);
    std::FILE* out = std::fopen((directory_ / "server.crt").c_str(), "w");
    PEM_write_X509(out, server.get());
    std::fclose(out);
  }

  fs::path parent_, directory_;
};

TEST_F(PkiTest, CertificateIsValidForItsNamesAndNoOthers) {
  const api::Pki pki = ensure({"localhost", "127.0.0.1", "::1", "lab.example"});
  for (const char* name : {"localhost", "127.0.0.1", "::1", "lab.example"}) {
    EXPECT_TRUE(believes(pki, name)) << name;
  }
  for (const char* name : {"127.0.0.2", "example", "10.0.0.1"}) {
    EXPECT_FALSE(believes(pki, name)) << name;
  }
}

TEST_F(PkiTest, PrivateKeyIsThatOfTheCertificate) {
  const api::Pki pki = ensure();
  EXPECT_EQ(X509_check_private_key(certificate(pki.certificate).get(),
                                   private_key(pki.private_key).get()),
            1);
  EXPECT_EQ(X509_check_ca(certificate(pki.certificate).get()), 0);
  EXPECT_EQ(X509_check_ca(certificate(pki.ca_certificate).get()), 1);
}

TEST_F(PkiTest, SecretsAreTheDaemonsAlone) {
  const mode_t before = umask(0);
  ensure();
  umask(before);
  EXPECT_EQ(mode(""), 0700u);
  for (const char* secret : {"ca.key", "server.key", "admin.token"}) {
    EXPECT_EQ(mode(secret), 0600u) << secret;
  }
}

TEST_F(PkiTest, NothingTemporaryIsLeftBehind) {
  ensure();
  for (const auto& entry : fs::directory_iterator(directory_)) {
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
  }
}

TEST_F(PkiTest, EverythingIsUsedAgainAtTheNextStart) {
  const api::Pki first = ensure();
  std::map<std::string, std::string> before;
  for (const auto& entry : fs::directory_iterator(directory_)) {
    before[entry.path().filename()] = content(entry.path());
  }
  EXPECT_EQ(before.size(), 5u);
  const api::Pki second = ensure({"localhost"});
  EXPECT_EQ(second.admin_token, first.admin_token);
  for (const auto& [name, text] : before) EXPECT_EQ(file(name), text) << name;
}

TEST_F(PkiTest, AnotherNameMakesAnotherCertificateOfTheSameCa) {
  ensure();
  const std::string ca = file("ca.crt"), server = file("server.crt");
  const api::Pki pki = ensure({"localhost", "127.0.0.1", "192.168.1.5"});
  EXPECT_EQ(file("ca.crt"), ca);
  EXPECT_NE(file("server.crt"), server);
  EXPECT_TRUE(believes(pki, "192.168.1.5"));
}

TEST_F(PkiTest, CertificateIsRenewedInTheLastThirdOfItsLife) {
  ensure();
  let_expire_in(250);
  const std::string good = file("server.crt");
  ensure();
  EXPECT_EQ(file("server.crt"), good);
  let_expire_in(240);
  const std::string ca = file("ca.crt");
  const api::Pki pki = ensure();
  EXPECT_GE(days_left(certificate(pki.certificate)), 729);
  EXPECT_TRUE(believes(pki, "localhost"));
  EXPECT_EQ(file("ca.crt"), ca);
}

TEST_F(PkiTest, LostOrDamagedFilesAreMadeAgain) {
  for (const char* name : {"server.crt", "server.key", "ca.crt"}) {
    ensure();
    fs::remove(directory_ / name);
    EXPECT_TRUE(believes(ensure(), "localhost")) << name;
  }
  std::ofstream(directory_ / "server.crt") << "-----BEGIN CERT";
  const api::Pki pki = ensure();
  EXPECT_TRUE(believes(pki, "localhost"));
  EXPECT_EQ(X509_check_private_key(certificate(pki.certificate).get(),
                                   private_key(pki.private_key).get()),
            1);
}

TEST_F(PkiTest, DirectoryThatCannotBeMadeIsAnErrorThatNamesIt) {
  directory_ = parent_ / "missing" / "pki";
  try {
    ensure();
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr(directory_.string()));
  }
}

TEST_F(PkiTest, TokenIsLongAndDifferentForEachInstallation) {
  const std::string token = ensure().admin_token;
  EXPECT_THAT(token, MatchesRegex("[0-9a-f]+"));
  EXPECT_EQ(token.size(), 64u);
  directory_ = parent_ / "another";
  EXPECT_NE(ensure().admin_token, token);
}

TEST_F(PkiTest, KubeconfigHasAllThatAClientNeeds) {
  const api::Pki pki = ensure();
  const nlohmann::json config = api::parse_yaml(api::kubeconfig(pki, "https://127.0.0.1:6443"));
  EXPECT_EQ(config["apiVersion"], "v1");
  EXPECT_EQ(config["kind"], "Config");
  const auto& cluster = config["clusters"][0];
  EXPECT_EQ(cluster["cluster"]["server"], "https://127.0.0.1:6443");
  EXPECT_EQ(config["users"][0]["user"]["token"], pki.admin_token);
  const auto& context = config["contexts"][0];
  EXPECT_EQ(config["current-context"], context["name"]);
  EXPECT_EQ(context["context"]["cluster"], cluster["name"]);
  EXPECT_EQ(context["context"]["user"], config["users"][0]["name"]);
  const std::string encoded = cluster["cluster"]["certificate-authority-data"];
  std::string decoded(encoded.size(), '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(decoded.data()),
                                   reinterpret_cast<const unsigned char*>(encoded.data()),
                                   static_cast<int>(encoded.size()));
  ASSERT_GT(size, 0);
  // Decoding pads with zeros.
  EXPECT_THAT(decoded, StartsWith(file("ca.crt")));
}

TEST_F(PkiTest, PrivateFileIsWrittenWithItsModeAndLeftAloneIfItIsTheSame) {
  const fs::path path = parent_ / "kubeconfig";
  api::write_private_file(path, "one", 0640, "");
  struct stat before {
  }, after{};
  stat(path.c_str(), &before);
  EXPECT_EQ(before.st_mode & 0777, 0640u);
  api::write_private_file(path, "one", 0640, "");
  stat(path.c_str(), &after);
  EXPECT_EQ(after.st_ino, before.st_ino);
  fs::permissions(path, fs::perms(0644));
  api::write_private_file(path, "one", 0600, "");
  stat(path.c_str(), &after);
  EXPECT_EQ(after.st_mode & 0777, 0600u);
  api::write_private_file(path, "two", 0600, "");
  EXPECT_EQ(content(path), "two");
}

TEST_F(PkiTest, PrivateFileThatCannotBeWrittenLeavesTheOldOne) {
  const fs::path path = parent_ / "file";
  api::write_private_file(path, "old", 0600, "");
  EXPECT_THROW(api::write_private_file(path, "new", 0600, "no-such-group"), std::runtime_error);
  EXPECT_EQ(content(path), "old");
}

TEST(Tokens, AreEqualOnlyIfTheyAre) {
  EXPECT_TRUE(api::tokens_equal("secret", "secret"));
  EXPECT_FALSE(api::tokens_equal("secret", "secreT"));
  EXPECT_FALSE(api::tokens_equal("secret", "secre"));
  EXPECT_FALSE(api::tokens_equal("", "secret"));
  EXPECT_TRUE(api::tokens_equal("", ""));
}

}  // namespace
}  // namespace virtset::test
