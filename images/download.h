// Gets files from web servers, through libcurl, and goes on where an earlier attempt ended.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace virtset::images {

struct DownloadLimits {
  std::uint64_t largest = 0;  // bytes
  // Called with what is there and the total (0: unknown), often; may throw, which ends it.
  std::function<void(std::uint64_t got, std::uint64_t total)> progress;
};

// Writes what the URL gives to `target`. What an attempt that failed has got stays there, with a
// note beside it (`target`.json) of how much of it is durable and of what version; the next attempt
// asks for the rest, and begins anew if the server has another version by now or cannot give parts.
// Throws PullFailed with the server's words, BadImage for what is too large, DiskFailed. Messages
// do not show the query of the URL, which may be secret.
void download(const std::string& url, const std::filesystem::path& target,
              const DownloadLimits& limits);

// Throws BadImage unless the file has this checksum, e.g. "sha256:…". `step` is called often and
// may throw.
void verify_checksum(const std::filesystem::path& file, const std::string& checksum,
                     const std::function<void()>& step);

}  // namespace virtset::images
