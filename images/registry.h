// Gets images from registries and archives, through skopeo.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "images/process.h"
#include "images/reference.h"

namespace virtset::images {

struct RegistryOptions {
  // host[:port] of registries that speak plain HTTP or have a certificate that nobody signed.
  std::vector<std::string> insecure_registries;
  std::string auth_file;  // skopeo's default if empty
  std::chrono::minutes pull_timeout{60};
};

// An image as `skopeo copy … dir:` leaves it.
struct FetchedImage {
  std::string digest;                         // of the manifest
  std::vector<std::filesystem::path> layers;  // lowest first
};

// Thread-safe; all calls block. Errors are PullFailed with the registry's own words, or BadImage.
class Registry {
 public:
  Registry(const ProcessRunner& processes, RegistryOptions options)
      : processes_(processes), options_(std::move(options)) {}

  // The digest that the reference has now: one small request.
  std::string digest(const Reference& reference) const;

  // Copies the image of this digest into the empty directory `target`.
  FetchedImage fetch(const Reference& reference, const std::string& digest,
                     const std::filesystem::path& target) const;

  // The same from an archive, in skopeo's notation, e.g. "oci-archive:/path/file.tar:name".
  FetchedImage fetch_archive(const std::string& source, const std::filesystem::path& target) const;

 private:
  ProcessResult skopeo(std::vector<std::string> arguments, const Reference* reference,
                       const std::filesystem::path& scratch) const;
  FetchedImage read_fetched(const std::filesystem::path& directory) const;

  const ProcessRunner& processes_;
  const RegistryOptions options_;
};

std::string sha256_digest(std::string_view data);

}  // namespace virtset::images
