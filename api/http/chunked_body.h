// Bodies of requests in chunked transfer coding (RFC 9112, 7.1), which libwebsockets passes on as
// they come.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace virtset::api {

class ChunkedBody {
 public:
  enum class State { more, complete, malformed };

  // Appends to `body` what is in the data, which may be cut anywhere. A chunk that would make the
  // body longer than `limit` is malformed.
  State add(std::string_view data, std::size_t limit, std::string& body);

 private:
  enum class Part { size, content, content_end, trailer, end };

  State add_line(std::string_view line);

  Part part_ = Part::size;
  std::string line_;      // as much of it as has come
  std::size_t left_ = 0;  // of the chunk's content
};

}  // namespace virtset::api
