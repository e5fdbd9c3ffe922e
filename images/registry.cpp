#include "images/registry.h"

#include <nlohmann/json.hpp>
#include <openssl/evp.h>

#include <algorithm>

#include "images/errors.h"
#include "images/files.h"

namespace virtset::images {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t most_layers = 500;

// skopeo ends with a line of logfmt; what it says is in msg="…".
std::string own_words(const std::string& errors) {
  std::string line = errors;
  while (!line.empty() && line.back() == '\n') line.pop_back();
  if (const auto newline = line.rfind('\n'); newline != std::string::npos) {
    line = line.substr(newline + 1);
  }
  const auto start = line.find("msg=\"");
  if (start == std::string::npos) return line;
  std::string words;
  for (std::size_t i = start + 5; i < line.size() && line[i] != '"'; ++i) {
    if (line[i] == '\\' && i + 1 < line.size()) ++i;
    words += line[i];
  }
  return words;
}

}  // namespace

std::string sha256_digest(std::string_view data) {
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_Digest(data.data(), data.size(), hash, &size, EVP_sha256(), nullptr);
  std::string text = "sha256:";
  for (unsigned i = 0; i < size; ++i) {
    constexpr char digits[] = "0123456789abcdef";
    text += digits[hash[i] >> 4];
    text += digits[hash[i] & 15];
  }
  return text;
}

ProcessResult Registry::skopeo(std::vector<std::string> arguments, const Reference* reference,
                               const fs::path& scratch) const {
  ProcessSpec spec{.program = "skopeo", .arguments = std::move(arguments)};
  // skopeo keeps whole layers in its temporary directory; ours is cleaned up and on the right disk.
  if (!scratch.empty()) spec.environment.push_back("TMPDIR=" + scratch.string());
  if (const char* runtime = getenv("XDG_RUNTIME_DIR")) {
    spec.environment.push_back(std::string("XDG_RUNTIME_DIR=") + runtime);
  }
  for (const char* proxy :
       {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"}) {
    if (const char* value = getenv(proxy)) {
      spec.environment.push_back(std::string(proxy) + "=" + value);
    }
  }
  const bool copy = spec.arguments.front() == "copy";
  std::vector<std::string> options;
  if (!options_.auth_file.empty()) {
    options.push_back((copy ? "--src-authfile=" : "--authfile=") + options_.auth_file);
  }
  const auto& insecure = options_.insecure_registries;
  if (reference &&
      std::find(insecure.begin(), insecure.end(), reference->registry) != insecure.end()) {
    options.emplace_back(copy ? "--src-tls-verify=false" : "--tls-verify=false");
  }
  spec.arguments.insert(spec.arguments.begin() + 1, options.begin(), options.end());
  spec.timeout = copy ? options_.pull_timeout : std::chrono::minutes(1);
  ProcessResult result;
  try {
    result = processes_.run(spec);
  } catch (const ProcessFailed& error) {
    throw PullFailed(error.what());
  }
  if (result.exit_code != 0) {
    const std::string words = own_words(result.errors);
    if (words.find("no space left on device") != std::string::npos) throw DiskFailed(words, true);
    throw PullFailed(words.empty() ? "skopeo ended with code " + std::to_string(result.exit_code)
                                   : words);
  }
  return result;
}

std::string Registry::digest(const Reference& reference) const {
  if (!reference.digest.empty()) return reference.digest;
  // Raw: the manifest as the registry has it, whose hash is the digest. Without it skopeo would
  // list all tags of the repository as well.
  const ProcessResult result =
      skopeo({"inspect", "--raw", "docker://" + reference.canonical()}, &reference, {});
  return sha256_digest(result.output);
}

FetchedImage Registry::fetch(const Reference& reference, const std::string& digest,
                             const fs::path& target) const {
  Reference pinned = reference;
  pinned.digest = digest;
  skopeo({"copy", "--quiet", "docker://" + pinned.canonical(), "dir:" + target.string()},
         &reference, target.parent_path());
  FetchedImage image = read_fetched(target);
  image.digest = digest;
  return image;
}

FetchedImage Registry::fetch_archive(const std::string& source, const fs::path& target) const {
  skopeo({"copy", "--quiet", source, "dir:" + target.string()}, nullptr, target.parent_path());
  return read_fetched(target);
}

FetchedImage Registry::read_fetched(const fs::path& directory) const {
  FetchedImage image;
  const std::string text = read_file(directory / "manifest.json");
  image.digest = sha256_digest(text);
  const Json manifest = Json::parse(text, nullptr, false);
  const Json layers =
      manifest.is_object() ? manifest.value("layers", Json::array()) : Json::array();
  if (!layers.is_array() || layers.empty() || layers.size() > most_layers) {
    throw BadImage("the image's manifest has no list of layers, or too many");
  }
  for (const Json& layer : layers) {
    const std::string digest = layer.is_object() ? layer.value("digest", "") : "";
    if (digest.size() != 71 || !digest.starts_with("sha256:") ||
        digest.find_first_not_of("0123456789abcdef", 7) != std::string::npos) {
      throw BadImage("the image's manifest names a layer by something that is no sha256 digest");
    }
    const fs::path file = directory / digest.substr(7);
    std::error_code error;
    const auto size = fs::file_size(file, error);
    if (error) throw BadImage("layer " + digest + " is missing");
    if (layer.contains("size") && layer["size"] != size) {
      throw BadImage("layer " + digest + " has " + std::to_string(size) +
                     " bytes; the manifest says " + layer["size"].dump());
    }
    image.layers.push_back(file);
  }
  return image;
}

}  // namespace virtset::images
