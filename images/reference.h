// References to container images, as docker writes them.
#pragma once

#include <stdexcept>
#include <string>

namespace virtset::images {

class BadReference : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// registry.example:5000/team/name:tag@sha256:…
struct Reference {
  std::string registry;    // with port; "docker.io" where none is given
  std::string repository;  // "library/debian" where docker.io implies it
  std::string tag;         // "latest" where neither tag nor digest is given
  std::string digest;      // "sha256:…", or empty

  // Throws BadReference, which says what is wrong with the text.
  static Reference parse(const std::string& text);

  // The full name. The digest decides where there is one, and then the tag is left out: skopeo
  // refuses both.
  std::string canonical() const;
};

// KubeVirt: image ends in ":latest" or contains neither ":" nor "@" => Always, else IfNotPresent.
enum class PullPolicy { always, if_not_present, never };
PullPolicy default_pull_policy(const std::string& image);
// Throws BadReference for anything but Always, IfNotPresent, Never and "" (the default).
PullPolicy parse_pull_policy(const std::string& policy, const std::string& image);

}  // namespace virtset::images
