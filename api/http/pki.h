// The daemon's own certificate authority, its server certificate and the token of its
// administrator.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace virtset::api {

struct Pki {
  std::filesystem::path ca_certificate;
  std::filesystem::path certificate;
  std::filesystem::path private_key;
  std::string admin_token;
};

// Reads what is in `directory`, and makes what is missing there: at the first start a CA valid for
// ten years and a token, and whenever less than a third of its two years is left, or a name is
// missing, a server certificate. Names are DNS names or IP addresses. Throws std::runtime_error.
Pki ensure_pki(const std::filesystem::path& directory, const std::vector<std::string>& names);

// What kubectl needs to reach `server` (https://…) as the administrator.
std::string kubeconfig(const Pki& pki, const std::string& server);

// Writes a file with this mode whole or not at all, if its content differs. `group` may be empty.
void write_private_file(const std::filesystem::path& path, const std::string& content,
                        unsigned mode, const std::string& group);

// Takes as long for a wrong token as for a right one.
bool tokens_equal(const std::string& a, const std::string& b);

}  // namespace virtset::api
