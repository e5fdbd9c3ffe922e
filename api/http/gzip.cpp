#include "api/http/gzip.h"

#include <zlib.h>

#include <stdexcept>

namespace virtset::api {

namespace {

constexpr std::size_t worth_it = 128 << 10;
// On a local host time is dearer than bytes.
constexpr int level = Z_BEST_SPEED;

class Gzip {
 public:
  Gzip() {
    constexpr int with_gzip_header = 15 + 16;
    constexpr int default_memory = 8;
    if (deflateInit2(&stream_, level, Z_DEFLATED, with_gzip_header, default_memory,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
      throw std::bad_alloc();
    }
  }
  ~Gzip() { deflateEnd(&stream_); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  void add(std::string_view data, bool last, std::string& out) {
    // zlib does not write to it.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
    stream_.avail_in = static_cast<uInt>(data.size());
    constexpr std::size_t step = 16 << 10;
    int result = Z_OK;
    do {
      const std::size_t before = out.size();
      out.resize(before + step);
      stream_.next_out = reinterpret_cast<Bytef*>(out.data() + before);
      stream_.avail_out = step;
      result = deflate(&stream_, last ? Z_FINISH : Z_NO_FLUSH);
      out.resize(before + step - stream_.avail_out);
    } while (stream_.avail_out == 0 || (last && result == Z_OK));
  }

 private:
  z_stream stream_{};
};

class GzipStream final : public BodyStream {
 public:
  GzipStream(std::string beginning, std::unique_ptr<BodyStream> rest)
      : beginning_(std::move(beginning)), rest_(std::move(rest)) {}

  State read(std::string& out) override {
    if (!beginning_.empty()) {
      gzip_.add(beginning_, false, out);
      beginning_.clear();
      return State::more;
    }
    std::string data;
    const State state = rest_->read(data);
    gzip_.add(data, state == State::end, out);
    return state;
  }
  void on_wake(std::function<void()> wake) override { rest_->on_wake(std::move(wake)); }

 private:
  Gzip gzip_;
  std::string beginning_;
  std::unique_ptr<BodyStream> rest_;
};

}  // namespace

bool takes_gzip(std::string_view accept_encoding) {
  const auto at = accept_encoding.find("gzip");
  if (at == accept_encoding.npos) return false;
  const std::string_view rest = accept_encoding.substr(at + 4, 5);
  return rest != ";q=0" && rest != ";q=0,";
}

Response compress(Response response) {
  if (response.live) return response;
  if (response.stream) {
    // A filter may let nothing through for long.
    constexpr int most_reads = 8;
    BodyStream::State state = BodyStream::State::more;
    for (int i = 0; i < most_reads && response.body.size() < worth_it; ++i) {
      state = response.stream->read(response.body);
      if (state != BodyStream::State::more) break;
    }
    if (state == BodyStream::State::end) {
      response.stream.reset();
    } else {
      response.stream = std::make_unique<GzipStream>(std::exchange(response.body, {}),
                                                     std::move(response.stream));
      response.headers.emplace_back("content-encoding", "gzip");
      return response;
    }
  }
  if (response.body.size() < worth_it) return response;
  std::string compressed;
  Gzip().add(response.body, true, compressed);
  response.body = std::move(compressed);
  response.headers.emplace_back("content-encoding", "gzip");
  return response;
}

}  // namespace virtset::api
