#include "api/http/chunked_body.h"

#include <algorithm>
#include <charconv>

namespace virtset::api {

namespace {

// Of a size with its extensions, and of a trailer.
constexpr std::size_t longest_line = 4096;

}  // namespace

ChunkedBody::State ChunkedBody::add(std::string_view data, std::size_t limit, std::string& body) {
  while (!data.empty() && part_ != Part::end) {
    if (part_ == Part::content) {
      const std::size_t taken = std::min(left_, data.size());
      // Not their sum, which may wrap around.
      if (body.size() > limit || left_ > limit - body.size()) return State::malformed;
      body.append(data.substr(0, taken));
      data.remove_prefix(taken);
      left_ -= taken;
      if (left_ == 0) part_ = Part::content_end;
      continue;
    }
    const auto newline = data.find('\n');
    line_.append(data.substr(0, newline));
    if (line_.size() > longest_line) return State::malformed;
    if (newline == data.npos) return State::more;
    data.remove_prefix(newline + 1);
    if (line_.ends_with('\r')) line_.pop_back();
    if (add_line(line_) == State::malformed) return State::malformed;
    line_.clear();
  }
  return part_ == Part::end ? State::complete : State::more;
}

ChunkedBody::State ChunkedBody::add_line(std::string_view line) {
  switch (part_) {
    case Part::size: {
      // What comes after a semicolon are extensions, which nobody uses.
      const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), left_, 16);
      const bool whole = end == line.data() + line.size() || *end == ';' || *end == ' ';
      if (error != std::errc() || !whole) return State::malformed;
      part_ = left_ == 0 ? Part::trailer : Part::content;
      return State::more;
    }
    case Part::content_end:
      part_ = Part::size;
      return line.empty() ? State::more : State::malformed;
    default:
      if (line.empty()) part_ = Part::end;
      return State::more;
  }
}

}  // namespace virtset::api
