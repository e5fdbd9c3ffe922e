// Reads HTTP/1.1 requests (RFC 9112) from the bytes of a connection, which may be cut anywhere.
//
// Strict where leniency lets two readers disagree about where a request ends: bare newlines, folded
// lines and a body with two lengths are refused.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "api/http/chunked_body.h"
#include "api/kinds/errors.h"
#include "api/rest/message.h"

namespace virtset::api {

// A request, and what is said about how it and its answer travel.
struct Incoming {
  Request request;
  std::string target;  // as it came
  std::string token;   // of "Authorization: Bearer", empty if there is none
  std::string accept_encoding;
  bool http_1_0 = false;
  bool keep_alive = true;
  bool wants_continue = false;
  bool impersonates = false;
  // What is wrong with it although its end is known; its path may not be set then.
  std::optional<ApiError> error;
};

class RequestReader {
 public:
  struct Limits {
    std::size_t head = 16 << 10;
    std::size_t body = 3u << 20;  // Kubernetes' limit
  };

  RequestReader() : RequestReader(Limits()) {}
  explicit RequestReader(Limits limits) : limits_(limits) {}

  // Reads on; true when the request is there as a whole, or what is wrong with it is known. What is
  // beyond its end is kept.
  bool read(std::string_view data);
  // Puts aside what comes while nobody reads.
  void keep(std::string_view data);
  std::size_t kept() const { return kept_.size() - used_; }

  Incoming& incoming() { return incoming_; }
  const Incoming& incoming() const { return incoming_; }
  // Whether the connection can be read no further, since nobody knows where the request ends.
  bool broken() const { return broken_; }
  // Whether some of a request is there.
  bool begun() const { return in_body_ || kept() > 0; }
  // Whether the head is there, and some of the body is not.
  bool in_body() const { return in_body_; }

  // Begins the next request, when the last one is answered.
  void next();

 private:
  class HeadParser;

  bool go_on(std::string_view& data);
  std::optional<std::size_t> find_head_end(std::string_view data);
  bool read_head(std::string_view head);
  bool read_body(std::string_view& data);
  bool read_chunked(std::string_view& data);
  bool fail(ApiError error);

  const Limits limits_;
  Incoming incoming_;
  std::string kept_;
  std::size_t used_ = 0;     // of what is kept
  std::size_t scanned_ = 0;  // whole lines of a head of which more is to come
  bool in_body_ = false;
  std::optional<ChunkedBody> chunked_;  // where the length is not known in advance
  std::size_t body_left_ = 0;
  bool broken_ = false;
};

}  // namespace virtset::api
