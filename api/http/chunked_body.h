// Bodies of requests in chunked transfer coding (RFC 9112, 7.1). Boost.Beast reads them, too, but
// what it makes of extensions depends on how the data is cut.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace virtset::api {

class ChunkedBody {
 public:
  enum class State { more, complete, malformed, too_large };

  // Takes from the data, which may be cut anywhere, what is of the body, and appends what is in it
  // to `body`. Nothing may follow malformed and too_large.
  State read(std::string_view& data, std::size_t limit, std::string& body);

 private:
  enum class Part { size, content, content_end, trailer, end };

  State read_line(std::string_view& data);
  State take_line(std::string_view line);

  Part part_ = Part::size;
  std::string line_;          // as much of it as has come
  std::size_t trailers_ = 0;  // their length
  std::size_t left_ = 0;      // of the chunk's content
};

}  // namespace virtset::api
