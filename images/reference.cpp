#include "images/reference.h"

#include <algorithm>
#include <regex>

namespace virtset::images {

namespace {

// The grammar of the distribution project's reference package.
#define DOMAIN_COMPONENT "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
#define PATH_COMPONENT "[a-z0-9]+(?:(?:[._]|__|[-]+)[a-z0-9]+)*"
const std::regex registry_grammar(DOMAIN_COMPONENT "(?:\\." DOMAIN_COMPONENT ")*(?::[0-9]+)?");
const std::regex repository_grammar(PATH_COMPONENT "(?:/" PATH_COMPONENT ")*");
const std::regex tag_grammar("[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}");
const std::regex digest_grammar("sha256:[a-f0-9]{64}");

bool looks_like_a_registry(const std::string& part) {
  return part == "localhost" || part.find_first_of(".:") != std::string::npos ||
         std::any_of(part.begin(), part.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
}

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw BadReference("\"" + text + "\" is not an image reference: " + why);
}

}  // namespace

Reference Reference::parse(const std::string& text) {
  constexpr std::size_t longest = 512;
  if (text.empty()) refuse(text, "it is empty");
  // Also keeps the regular expressions below, which recurse, on a short leash.
  if (text.size() > longest) refuse(text.substr(0, 40) + "…", "it is too long");
  Reference reference;
  std::string rest = text;
  if (const auto at = rest.find('@'); at != std::string::npos) {
    reference.digest = rest.substr(at + 1);
    rest.resize(at);
    if (!std::regex_match(reference.digest, digest_grammar)) {
      refuse(text, "expected sha256: and 64 hexadecimal digits after @");
    }
  }
  const auto slash = rest.rfind('/');
  if (const auto colon = rest.rfind(':');
      colon != std::string::npos && (slash == std::string::npos || colon > slash)) {
    reference.tag = rest.substr(colon + 1);
    rest.resize(colon);
    if (!std::regex_match(reference.tag, tag_grammar)) {
      refuse(text, "the tag has characters that are not allowed");
    }
  }
  const auto first_slash = rest.find('/');
  if (first_slash != std::string::npos && looks_like_a_registry(rest.substr(0, first_slash))) {
    reference.registry = rest.substr(0, first_slash);
    reference.repository = rest.substr(first_slash + 1);
  } else {
    reference.registry = "docker.io";
    reference.repository = first_slash == std::string::npos ? "library/" + rest : rest;
  }
  if (!std::regex_match(reference.registry, registry_grammar)) {
    refuse(text, "the registry is not a host name");
  }
  if (!std::regex_match(reference.repository, repository_grammar)) {
    refuse(text, "the repository must be lower-case letters, digits and single separators");
  }
  if (reference.tag.empty() && reference.digest.empty()) reference.tag = "latest";
  return reference;
}

std::string Reference::canonical() const {
  const std::string name = registry + "/" + repository;
  return digest.empty() ? name + ":" + tag : name + "@" + digest;
}

PullPolicy default_pull_policy(const std::string& image) {
  const bool latest = image.ends_with(":latest");
  const bool bare = image.find_first_of(":@") == std::string::npos;
  return latest || bare ? PullPolicy::always : PullPolicy::if_not_present;
}

PullPolicy parse_pull_policy(const std::string& policy, const std::string& image) {
  if (policy.empty()) return default_pull_policy(image);
  if (policy == "Always") return PullPolicy::always;
  if (policy == "IfNotPresent") return PullPolicy::if_not_present;
  if (policy == "Never") return PullPolicy::never;
  throw BadReference("\"" + policy + "\" is not a pull policy");
}

}  // namespace virtset::images
