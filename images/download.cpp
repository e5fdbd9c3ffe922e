#include "images/download.h"

#include <curl/curl.h>
#include <nlohmann/json.hpp>
#include <openssl/evp.h>
#include <strings.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <optional>
#include <vector>

#include "images/answer_head.h"
#include "images/errors.h"
#include "images/files.h"
#include "images/sparse_file.h"

namespace virtset::images {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr long connect_timeout_s = 30;
// A server that gives less than this for so long keeps others waiting; the rest is got later.
constexpr long lowest_speed = 1024;  // bytes a second
constexpr long longest_stall_s = 60;
constexpr long most_redirects = 10;
// How much is got again at most after a power cut.
constexpr std::int64_t synced_every = 64 << 20;

struct FreeEasy {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
struct FreeDigest {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

std::string shown(const std::string& url) { return url.substr(0, url.find_first_of("?#")); }

// What is known of an unfinished file.
struct Note {
  std::string url;
  std::string validator;   // ETag or Last-Modified
  std::int64_t total = 0;  // 0: unknown
  std::int64_t synced = 0;
};

fs::path note_of(const fs::path& target) { return target.string() + ".json"; }

Note read_note(const fs::path& target, const std::string& url) {
  if (!fs::exists(target) || !fs::exists(note_of(target))) return {};
  const Json json = Json::parse(read_file(note_of(target)), nullptr, false);
  if (!json.is_object() || json.value("url", "") != url) return {};
  Note note{url, json.value("validator", ""), json.value("total", std::int64_t{0}),
            json.value("synced", std::int64_t{0})};
  return note.validator.empty() || note.synced <= 0 ? Note{} : note;
}

void write_note(const fs::path& target, const Note& note) {
  const Json json{{"url", note.url},
                  {"validator", note.validator},
                  {"total", note.total},
                  {"synced", note.synced}};
  write_file(note_of(target), json.dump(), 0600);
}

// ETags are quoted, dates are not. A part need not name the date if the ETag was asked for.
bool same_sort(const std::string& one, const std::string& other) {
  return one.starts_with('"') == other.starts_with('"');
}

class Download {
 public:
  Download(const std::string& url, const fs::path& target, const DownloadLimits& limits)
      : url_(url), target_(target), limits_(limits), easy_(curl_easy_init()) {
    if (!easy_) throw PullFailed("libcurl gave no handle");
  }

  void run() {
    earlier_ = read_note(target_, url_);
    resumed_at_ = earlier_.synced;
    if (resumed_at_ > 0) {
      set(CURLOPT_RANGE, (std::to_string(resumed_at_) + "-").c_str());
      headers_.reset(curl_slist_append(nullptr, ("If-Range: " + earlier_.validator).c_str()));
      set(CURLOPT_HTTPHEADER, headers_.get());
    }
    configure();
    const CURLcode code = curl_easy_perform(easy_.get());
    if (failure_) {
      keep();
      std::rethrow_exception(failure_);
    }
    if (code == CURLE_OK && (head_.status == 200 || head_.status == 206)) {
      if (!file_) begin();  // of nothing
      demand_all();
      file_->finish(offset_);
      remove_tree(note_of(target_));
      return;
    }
    keep();
    // The part that is here is none of what the server has.
    if (head_.status == 416) forget_all();
    if (code == CURLE_OK) throw PullFailed(shown(url_) + ": " + head_.status_line);
    throw PullFailed(shown(url_) + ": " +
                     (error_[0] ? std::string(error_) : curl_easy_strerror(code)));
  }

 private:
  template <typename T>
  void set(CURLoption option, T value) {
    if (const CURLcode code = curl_easy_setopt(easy_.get(), option, value); code != CURLE_OK) {
      throw PullFailed(shown(url_) + ": " + curl_easy_strerror(code));
    }
  }

  void configure() {
    set(CURLOPT_URL, url_.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    set(CURLOPT_FOLLOWLOCATION, 1L);
    set(CURLOPT_MAXREDIRS, most_redirects);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT, connect_timeout_s);
    set(CURLOPT_LOW_SPEED_LIMIT, lowest_speed);
    set(CURLOPT_LOW_SPEED_TIME, longest_stall_s);
    set(CURLOPT_USERAGENT, "virtset");
    set(CURLOPT_ERRORBUFFER, error_);
    set(CURLOPT_HEADERFUNCTION, &Download::on_header);
    set(CURLOPT_HEADERDATA, this);
    set(CURLOPT_WRITEFUNCTION, &Download::on_data);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, &Download::on_progress);
    set(CURLOPT_XFERINFODATA, this);
  }

  static std::size_t on_header(char* data, std::size_t, std::size_t size, void* self) {
    static_cast<Download*>(self)->head_.take({data, size});
    return size;
  }

  static std::size_t on_data(char* data, std::size_t, std::size_t size, void* self) {
    auto& download = *static_cast<Download*>(self);
    if (download.head_.status != 200 && download.head_.status != 206)
      return size;  // an error's page
    try {
      download.take(data, size);
      return size;
    } catch (...) {
      download.failure_ = std::current_exception();
      return 0;
    }
  }

  void take(const char* data, std::size_t size) {
    if (!file_) begin();
    if (static_cast<std::uint64_t>(offset_) + size > limits_.largest) too_large();
    file_->write_at(offset_, data, size);
    offset_ += static_cast<std::int64_t>(size);
    if (offset_ - note_.synced >= synced_every) sync_part();
    if (limits_.progress) {
      limits_.progress(static_cast<std::uint64_t>(offset_),
                       static_cast<std::uint64_t>(head_.total));
    }
  }

  void begin() {
    if (static_cast<std::uint64_t>(head_.total) > limits_.largest) too_large();
    const bool goes_on = head_.status == 206 && resumed_at_ > 0 && head_.range_start == resumed_at_;
    if (head_.status == 206 && !goes_on) {
      forget_all();
      throw PullFailed(shown(url_) + ": the server gave another part than it was asked for");
    }
    if (goes_on && is_of_another()) {
      forget_all();
      throw PullFailed(shown(url_) + ": the server gave a part of another version of the file");
    }
    offset_ = goes_on ? resumed_at_ : 0;
    note_ = {url_, head_.validator, head_.total, offset_};
    if (goes_on) {
      // A part may leave out what is known already.
      note_.validator = earlier_.validator;
      if (note_.total == 0) note_.total = earlier_.total;
    }
    if (goes_on) {
      file_.emplace(target_, offset_);
    } else {
      forget_all();
      file_.emplace(target_);
    }
  }

  // Not every server heeds If-Range.
  bool is_of_another() const {
    const bool other_version = !head_.validator.empty() &&
                               same_sort(head_.validator, earlier_.validator) &&
                               head_.validator != earlier_.validator;
    return other_version ||
           (head_.total > 0 && earlier_.total > 0 && head_.total != earlier_.total);
  }

  // libcurl knows how long the answer is, not how long the file.
  void demand_all() {
    if (note_.total == 0 || offset_ == note_.total) return;
    const std::string got = std::to_string(offset_);
    if (offset_ < note_.total) {
      keep();
    } else {
      forget_all();
    }
    throw PullFailed(shown(url_) + ": the server gave " + got + " bytes of " +
                     std::to_string(note_.total));
  }

  // Without something that says whether the server still has the same, it is begun anew next time.
  void sync_part() {
    file_->finish(offset_);
    note_.synced = offset_;
    if (!note_.validator.empty()) write_note(target_, note_);
  }

  // What has come so far is for the next attempt.
  void keep() {
    if (!file_) return;
    try {
      sync_part();
    } catch (const DiskFailed&) {
      forget_all();
    }
  }

  void forget_all() {
    file_.reset();
    remove_tree(note_of(target_));
    remove_tree(target_);
  }

  [[noreturn]] void too_large() const {
    throw BadImage("the file is larger than the " + std::to_string(limits_.largest) +
                   " bytes that the claim has room for");
  }

  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    auto& download = *static_cast<Download*>(self);
    try {
      // Also while nothing comes: whoever throws here wants it to end.
      if (download.limits_.progress) {
        download.limits_.progress(static_cast<std::uint64_t>(download.offset_),
                                  static_cast<std::uint64_t>(download.head_.total));
      }
      return 0;
    } catch (...) {
      download.failure_ = std::current_exception();
      return 1;
    }
  }

  const std::string url_;
  const fs::path target_;
  const DownloadLimits& limits_;
  std::unique_ptr<CURL, FreeEasy> easy_;
  std::unique_ptr<curl_slist, FreeList> headers_;
  char error_[CURL_ERROR_SIZE] = {};

  AnswerHead head_;
  std::int64_t resumed_at_ = 0;
  std::int64_t offset_ = 0;
  Note earlier_;  // of the attempt before
  Note note_;
  std::optional<SparseFile> file_;
  std::exception_ptr failure_;
};

}  // namespace

void download(const std::string& url, const fs::path& target, const DownloadLimits& limits) {
  Download(url, target, limits).run();
}

void verify_checksum(const fs::path& path, const std::string& checksum,
                     const std::function<void()>& step) {
  const auto colon = checksum.find(':');
  const std::string name = checksum.substr(0, colon);
  const EVP_MD* algorithm = EVP_get_digestbyname(name.c_str());
  if (colon == std::string::npos || !algorithm) throw BadImage("unknown checksum " + checksum);
  const std::unique_ptr<EVP_MD_CTX, FreeDigest> context(EVP_MD_CTX_new());
  EVP_DigestInit_ex(context.get(), algorithm, nullptr);
  std::ifstream file(path, std::ios::binary);
  if (!file) throw_errno("cannot read", path);
  std::vector<char> buffer(1 << 20);
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || file.gcount()) {
    step();
    EVP_DigestUpdate(context.get(), buffer.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad()) throw_errno("cannot read", path);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  EVP_DigestFinal_ex(context.get(), digest, &length);
  std::string hex;
  for (unsigned i = 0; i < length; ++i) {
    char pair[3];
    std::snprintf(pair, sizeof pair, "%02x", digest[i]);
    hex += pair;
  }
  if (strcasecmp(hex.c_str(), checksum.c_str() + colon + 1) == 0) return;
  throw BadImage("the file has the checksum " + name + ":" + hex + ", not " + checksum);
}

}  // namespace virtset::images
