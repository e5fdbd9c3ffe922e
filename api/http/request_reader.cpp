// Nothing of Boost is linked.
#define BOOST_ERROR_CODE_HEADER_ONLY

#include "api/http/request_reader.h"

#include <boost/beast/http/basic_parser.hpp>

#include <algorithm>
#include <limits>
#include <utility>

#include "api/http/target.h"
#include "api/rest/status.h"

namespace virtset::api {

namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using BeastError = beast::error_code;

// A body that was larger gives its memory back.
constexpr std::size_t body_to_keep = 64 << 10;

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

bool is(beast::string_view text, const char* expected) { return beast::iequals(text, expected); }

std::string bearer_token(std::string_view value) {
  constexpr std::string_view scheme = "bearer ";
  if (value.size() < scheme.size() || !is({value.data(), scheme.size()}, scheme.data())) {
    return "";
  }
  value.remove_prefix(std::min(value.find_first_not_of(' ', scheme.size()), value.size()));
  return std::string(value);
}

ApiError too_large(std::size_t limit) {
  return {413, "RequestEntityTooLarge",
          "the body is larger than " + std::to_string(limit) + " bytes"};
}

ApiError malformed(const std::string& what) {
  return bad_request("the request is not HTTP: " + what);
}

ApiError to_api_error(const BeastError& error) {
  using Error = http::error;
  const char* what = "it is malformed";
  if (error == Error::bad_method) what = "its method is malformed";
  if (error == Error::bad_target) what = "its target is malformed";
  if (error == Error::bad_version) what = "its version is not HTTP/1.1 or HTTP/1.0";
  if (error == Error::bad_field) what = "the name of a header is malformed";
  if (error == Error::bad_value) what = "the value of a header is malformed";
  if (error == Error::bad_content_length) what = "its Content-Length is malformed";
  if (error == Error::multiple_content_length) what = "it has more than one Content-Length";
  if (error == Error::bad_transfer_encoding) what = "its Transfer-Encoding is malformed";
  return malformed(what);
}

}  // namespace

class RequestReader::HeadParser final : public http::basic_parser<true> {
 public:
  explicit HeadParser(Incoming& incoming) : incoming_(incoming) {
    // Who calls looks after them.
    header_limit(std::numeric_limits<std::uint32_t>::max());
    body_limit(boost::none);
  }

  // What Beast would let pass.
  const std::optional<ApiError>& refusal() const { return refusal_; }

 private:
  void on_request_impl(http::verb, beast::string_view method, beast::string_view target,
                       int version, BeastError&) override {
    incoming_.request.method = view(method);
    incoming_.target = view(target);
    incoming_.http_1_0 = version == 10;
  }

  void on_response_impl(int, beast::string_view, int, BeastError&) override {}

  void on_field_impl(http::field field, beast::string_view name, beast::string_view value,
                     BeastError& error) override {
    switch (field) {
      case http::field::accept:
        // More than one is the same as one with commas (RFC 9110, 5.3).
        if (!incoming_.request.accept.empty()) incoming_.request.accept += ", ";
        incoming_.request.accept += view(value);
        break;
      case http::field::content_type:
        incoming_.request.content_type = view(value);
        break;
      case http::field::user_agent:
        incoming_.request.user_agent = view(value);
        break;
      case http::field::accept_encoding:
        incoming_.accept_encoding = view(value);
        break;
      case http::field::authorization:
        incoming_.token = bearer_token(view(value));
        break;
      case http::field::expect:
        add_expectation(value);
        break;
      case http::field::content_length:
        if (std::exchange(has_length_, true) || value.find(',') != value.npos) {
          error = http::error::multiple_content_length;
        }
        break;
      case http::field::transfer_encoding:
        check_coding(value, error);
        break;
      default:
        add_impersonation(name);
    }
  }

  void on_header_impl(BeastError&) override {
    incoming_.keep_alive = keep_alive() && !incoming_.http_1_0;
  }

  void on_body_init_impl(const boost::optional<std::uint64_t>&, BeastError&) override {}
  std::size_t on_body_impl(beast::string_view, BeastError&) override { return 0; }
  void on_chunk_header_impl(std::uint64_t, beast::string_view, BeastError&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view, BeastError&) override {
    return 0;
  }
  void on_finish_impl(BeastError&) override {}

  // Impersonate-Extra- is followed by any name.
  void add_impersonation(beast::string_view name) {
    constexpr std::string_view prefix = "Impersonate-";
    if (name.size() > prefix.size() && is(name.substr(0, prefix.size()), prefix.data())) {
      incoming_.impersonates = true;
    }
  }

  void add_expectation(beast::string_view value) {
    if (is(value, "100-continue")) {
      incoming_.wants_continue = true;
    } else {
      incoming_.error =
          ApiError(417, "ExpectationFailed", "the only expectation that is met is 100-continue");
    }
  }

  void check_coding(beast::string_view value, BeastError& error) {
    if (incoming_.http_1_0) {
      error = http::error::bad_transfer_encoding;
    } else if (!is(value, "chunked")) {
      error = http::error::bad_transfer_encoding;
      refusal_ =
          ApiError(501, "NotImplemented", "the only transfer coding that is taken is chunked");
    }
  }

  Incoming& incoming_;
  std::optional<ApiError> refusal_;
  bool has_length_ = false;
};

void RequestReader::keep(std::string_view data) {
  if (used_ > 0) kept_.erase(0, std::exchange(used_, 0));
  kept_.append(data);
}

bool RequestReader::read(std::string_view data) {
  // Straight from where it was received, unless a part was there before.
  const bool from_kept = kept() > 0;
  if (from_kept) {
    keep(data);
    data = kept_;
  }
  const std::size_t size = data.size();
  const bool complete = go_on(data);
  if (!from_kept) {
    keep(data);
  } else {
    used_ = size - data.size();
    if (data.empty()) {
      kept_.clear();
      used_ = 0;
    }
  }
  return complete;
}

bool RequestReader::go_on(std::string_view& data) {
  if (broken_) return true;
  if (in_body_) return read_body(data);
  // A reader should be lenient with an empty line before a request (RFC 9112, 2.2).
  while (scanned_ == 0 && data.starts_with("\r\n")) data.remove_prefix(2);
  const auto end = find_head_end(data);
  if (broken_) return true;
  if (end.value_or(data.size()) > limits_.head) {
    return fail({431, "RequestHeaderFieldsTooLarge",
                 "the request's path and headers are longer than " + std::to_string(limits_.head) +
                     " bytes"});
  }
  if (!end) return false;
  const std::string_view head = data.substr(0, *end);
  data.remove_prefix(*end);
  scanned_ = 0;
  return read_head(head) || read_body(data);
}

// Looks at each line once, however the data is cut.
std::optional<std::size_t> RequestReader::find_head_end(std::string_view data) {
  while (scanned_ < std::min(data.size(), limits_.head)) {
    if (data[scanned_] == ' ' || data[scanned_] == '\t') {
      fail(malformed("a line begins with white space"));
      return std::nullopt;
    }
    const auto newline = data.find('\n', scanned_);
    if (newline == data.npos) return std::nullopt;
    if (newline == 0 || data[newline - 1] != '\r') {
      fail(malformed("a line does not end with CR LF"));
      return std::nullopt;
    }
    const bool is_empty = newline == scanned_ + 1;
    scanned_ = newline + 1;
    if (is_empty) return scanned_;
  }
  return std::nullopt;
}

bool RequestReader::read_head(std::string_view head) {
  HeadParser parser(incoming_);
  BeastError error;
  const std::size_t used = parser.put(boost::asio::buffer(head.data(), head.size()), error);
  if (parser.refusal()) return fail(*parser.refusal());
  const bool whole = parser.is_header_done() && used == head.size();
  if (error || !whole) return fail(to_api_error(error));
  try {
    set_target(incoming_.target, incoming_.request);
  } catch (const ApiError& bad) {
    incoming_.error = bad;
  }
  const auto length = parser.content_length();
  if (length && *length > limits_.body) return fail(too_large(limits_.body));
  body_left_ = length.value_or(0);
  if (parser.chunked()) chunked_.emplace();
  in_body_ = body_left_ > 0 || chunked_;
  incoming_.request.body.reserve(body_left_);
  return !in_body_;
}

bool RequestReader::read_body(std::string_view& data) {
  if (chunked_) return read_chunked(data);
  const std::string_view now = data.substr(0, body_left_);
  incoming_.request.body.append(now);
  data.remove_prefix(now.size());
  body_left_ -= now.size();
  in_body_ = body_left_ > 0;
  return !in_body_;
}

bool RequestReader::read_chunked(std::string_view& data) {
  switch (chunked_->read(data, limits_.body, incoming_.request.body)) {
    case ChunkedBody::State::more:
      return false;
    case ChunkedBody::State::malformed:
      return fail(malformed("a chunk of its body is malformed"));
    case ChunkedBody::State::too_large:
      return fail(too_large(limits_.body));
    case ChunkedBody::State::complete:
      chunked_.reset();
      in_body_ = false;
  }
  return true;
}

bool RequestReader::fail(ApiError error) {
  broken_ = true;
  incoming_.error = std::move(error);
  return true;
}

void RequestReader::next() {
  // Their memory is used again.
  Request& request = incoming_.request;
  request.query.clear();
  for (std::string* text :
       {&request.method, &request.path, &request.accept, &request.content_type, &request.user_agent,
        &request.body, &incoming_.target, &incoming_.token, &incoming_.accept_encoding}) {
    text->clear();
  }
  if (request.body.capacity() > body_to_keep) request.body = std::string();
  incoming_.http_1_0 = incoming_.wants_continue = incoming_.impersonates = false;
  incoming_.keep_alive = true;
  incoming_.error.reset();
}

}  // namespace virtset::api
