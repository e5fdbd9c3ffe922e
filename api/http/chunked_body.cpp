#include "api/http/chunked_body.h"

#include <algorithm>
#include <charconv>

namespace virtset::api {

namespace {

// Of a size with its extensions, and of all trailers.
constexpr std::size_t longest_line = 4096;

bool is_extension(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == text.npos) return true;
  return text[begin] == ';' && std::none_of(text.begin(), text.end(), [](char c) {
           return (static_cast<unsigned char>(c) < ' ' && c != '\t') || c == '\x7f';
         });
}

}  // namespace

ChunkedBody::State ChunkedBody::read(std::string_view& data, std::size_t limit, std::string& body) {
  while (!data.empty() && part_ != Part::end) {
    if (part_ == Part::content) {
      const std::size_t taken = std::min(left_, data.size());
      // Not their sum, which may wrap around.
      if (body.size() > limit || left_ > limit - body.size()) return State::too_large;
      body.append(data.substr(0, taken));
      data.remove_prefix(taken);
      left_ -= taken;
      if (left_ == 0) part_ = Part::content_end;
    } else if (const State state = read_line(data); state != State::more) {
      return state;
    }
  }
  return part_ == Part::end ? State::complete : State::more;
}

ChunkedBody::State ChunkedBody::read_line(std::string_view& data) {
  const auto newline = data.find('\n');
  line_.append(data.substr(0, newline));
  if (line_.size() + trailers_ > longest_line) return State::malformed;
  if (newline == data.npos) {
    data = {};
    return State::more;
  }
  data.remove_prefix(newline + 1);
  if (!line_.ends_with('\r')) return State::malformed;
  line_.pop_back();
  const State state = take_line(line_);
  line_.clear();
  return state;
}

ChunkedBody::State ChunkedBody::take_line(std::string_view line) {
  switch (part_) {
    case Part::size: {
      const char* const line_end = line.data() + line.size();
      const auto [end, error] = std::from_chars(line.data(), line_end, left_, 16);
      if (error == std::errc::result_out_of_range) return State::too_large;
      if (error != std::errc()) return State::malformed;
      // Extensions, which nobody uses.
      if (!is_extension({end, static_cast<std::size_t>(line_end - end)})) return State::malformed;
      part_ = left_ == 0 ? Part::trailer : Part::content;
      return State::more;
    }
    case Part::content_end:
      part_ = Part::size;
      return line.empty() ? State::more : State::malformed;
    default:
      if (line.empty()) part_ = Part::end;
      trailers_ += line.size() + std::string_view("\r\n").size();
      return State::more;
  }
}

}  // namespace virtset::api
