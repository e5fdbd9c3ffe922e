#include "api/http/session.h"

#include <fmt/format.h>
#include <libwebsockets.h>

#include <map>
#include <vector>

#include "api/http/gzip.h"
#include "api/rest/status.h"

namespace virtset::api {

namespace {

// Kubernetes' limit.
constexpr std::size_t largest_body = 3u << 20;
// A client that takes nothing for so long is cut, so that it does not pin old objects.
constexpr int stalled_timeout_s = 60;

std::string header(lws* wsi, lws_token_indexes token) {
  const int length = lws_hdr_total_length(wsi, token);
  if (length <= 0) return {};
  std::string value(static_cast<std::size_t>(length) + 1, '\0');
  const int copied = lws_hdr_copy(wsi, value.data(), length + 1, token);
  value.resize(copied > 0 ? static_cast<std::size_t>(copied) : 0);
  return value;
}

std::string method_of(lws* wsi) {
  static const std::pair<lws_token_indexes, const char*> methods[] = {
      {WSI_TOKEN_GET_URI, "GET"},         {WSI_TOKEN_POST_URI, "POST"},
      {WSI_TOKEN_PUT_URI, "PUT"},         {WSI_TOKEN_PATCH_URI, "PATCH"},
      {WSI_TOKEN_DELETE_URI, "DELETE"},   {WSI_TOKEN_HEAD_URI, "HEAD"},
      {WSI_TOKEN_OPTIONS_URI, "OPTIONS"}, {WSI_TOKEN_CONNECT, "CONNECT"}};
  for (const auto& [token, method] : methods) {
    if (lws_hdr_total_length(wsi, token) > 0) return method;
  }
  return "";
}

// libwebsockets has decoded each of them.
std::vector<std::pair<std::string, std::string>> query_of(lws* wsi) {
  std::vector<std::pair<std::string, std::string>> query;
  std::string buffer;
  for (int i = 0;; ++i) {
    const int length = lws_hdr_fragment_length(wsi, WSI_TOKEN_HTTP_URI_ARGS, i);
    if (length <= 0) break;
    buffer.assign(static_cast<std::size_t>(length) + 1, '\0');
    const int copied =
        lws_hdr_copy_fragment(wsi, buffer.data(), length + 1, WSI_TOKEN_HTTP_URI_ARGS, i);
    if (copied < 0) break;
    buffer.resize(static_cast<std::size_t>(copied));
    const auto equals = buffer.find('=');
    query.emplace_back(buffer.substr(0, equals),
                       equals == std::string::npos ? "" : buffer.substr(equals + 1));
  }
  return query;
}

// Some clients show it as the error's message.
const char* reason_phrase(int status) {
  static const std::map<int, const char*> phrases = {{200, "OK"},
                                                     {201, "Created"},
                                                     {400, "Bad Request"},
                                                     {401, "Unauthorized"},
                                                     {403, "Forbidden"},
                                                     {404, "Not Found"},
                                                     {405, "Method Not Allowed"},
                                                     {409, "Conflict"},
                                                     {410, "Gone"},
                                                     {413, "Request Entity Too Large"},
                                                     {415, "Unsupported Media Type"},
                                                     {422, "Unprocessable Entity"},
                                                     {429, "Too Many Requests"},
                                                     {500, "Internal Server Error"},
                                                     {501, "Not Implemented"},
                                                     {503, "Service Unavailable"},
                                                     {504, "Gateway Timeout"},
                                                     {507, "Insufficient Storage"}};
  const auto found = phrases.find(status);
  return found == phrases.end() ? "Status" : found->second;
}

// Text of manifests may get into warnings; a header is one line.
std::string one_line(const std::string& value) {
  std::string result;
  for (const char c : value) {
    if (c != '\r' && c != '\n' && c != '\0') result += c;
  }
  return result;
}

}  // namespace

Session::Step Session::begin(const char* path) {
  request_.method = method_of(wsi_);
  // RFC 9110: what GET would answer, but its body.
  head_only_ = request_.method == "HEAD";
  if (head_only_) request_.method = "GET";
  request_.path = path;
  request_.query = query_of(wsi_);
  request_.accept = header(wsi_, WSI_TOKEN_HTTP_ACCEPT);
  request_.content_type = header(wsi_, WSI_TOKEN_HTTP_CONTENT_TYPE);
  request_.user_agent = header(wsi_, WSI_TOKEN_HTTP_USER_AGENT);
  takes_gzip_ = takes_gzip(header(wsi_, WSI_TOKEN_HTTP_ACCEPT_ENCODING));
  const std::string authorization = header(wsi_, WSI_TOKEN_HTTP_AUTHORIZATION);
  if (authorization.starts_with("Bearer ")) token_ = authorization.substr(7);
  const std::string length = header(wsi_, WSI_TOKEN_HTTP_CONTENT_LENGTH);
  expected_body_ = length.empty() ? 0 : std::strtoull(length.c_str(), nullptr, 10);

  std::optional<ApiError> error;
  const std::string coding = header(wsi_, WSI_TOKEN_HTTP_TRANSFER_ENCODING);
  if (coding == "chunked") {
    chunked_.emplace();
  } else if (!coding.empty()) {
    error = ApiError(501, "NotImplemented", "the only transfer coding that is taken is chunked");
  } else if (expected_body_ > largest_body) {
    error = ApiError(413, "RequestEntityTooLarge",
                     "the body is larger than " + std::to_string(largest_body) + " bytes");
  }
  if (error) {
    response_ = to_response(*error, request_);
    ending_ = true;  // the body is not read, so the connection cannot go on
    return send_response();
  }
  if (chunked_) return Step::going_on;
  if (expected_body_ > 0) {
    request_.body.reserve(expected_body_);
    return Step::going_on;
  }
  return handle();
}

Session::Step Session::add_body(std::string_view data) {
  if (chunked_) return add_chunked(data);
  if (response_ || request_.body.size() + data.size() > largest_body) return Step::close;
  request_.body.append(data);
  return Step::going_on;
}

// libwebsockets does not know where such a body ends, so the connection ends with its answer.
Session::Step Session::add_chunked(std::string_view data) {
  if (response_ || ending_) return Step::close;
  switch (chunked_->add(data, largest_body, request_.body)) {
    case ChunkedBody::State::more:
      return Step::going_on;
    case ChunkedBody::State::complete:
      ending_ = true;
      return handle();
    case ChunkedBody::State::malformed:
      ending_ = true;
      response_ = to_response(bad_request("the body is malformed, or larger than " +
                                          std::to_string(largest_body) + " bytes"),
                              request_);
      return send_response();
  }
  return Step::close;
}

Session::Step Session::body_complete() { return response_ ? Step::going_on : handle(); }

bool Session::is_allowed() const {
  if (!access_.needs_token) return true;
  for (const char* open : {"/healthz", "/readyz", "/livez", "/version"}) {
    if (request_.path == open) return true;
  }
  return *access_.accepts_token && (*access_.accepts_token)(token_);
}

Session::Step Session::handle() {
  if (!is_allowed()) {
    response_ = to_response(ApiError(401, "Unauthorized", "Unauthorized"), request_);
    return send_response();
  }
  handling_ = true;
  handler_(request_, [this, alive = alive_](Response response) {
    if (!*alive) return;
    response_ = takes_gzip_ ? compress(std::move(response)) : std::move(response);
    if (!handling_) lws_callback_on_writable(wsi_);
  });
  handling_ = false;
  // A change waits for its commit, which the handler reports later.
  if (!response_) {
    lws_set_timeout(wsi_, NO_PENDING_TIMEOUT, 0);
    return Step::going_on;
  }
  return send_response();
}

Session::Step Session::writeable() {
  if (!response_) return Step::going_on;
  return send_response();
}

void Session::end_stream() {
  ending_ = true;
  lws_callback_on_writable(wsi_);
}

std::string Session::head() const {
  std::string text = fmt::format("HTTP/1.1 {} {}\r\ncontent-type: {}\r\n", response_->status,
                                 reason_phrase(response_->status), response_->content_type);
  for (const auto& [name, value] : response_->headers) {
    text += name + ": " + one_line(value) + "\r\n";
  }
  if (response_->stream) {
    text += "transfer-encoding: chunked\r\n";
  } else {
    text += fmt::format("content-length: {}\r\n", response_->body.size());
  }
  if (ending_) text += "connection: close\r\n";
  return text + "\r\n";
}

Session::Step Session::send_response() {
  if (head_only_) {
    if (!write({head()}, true)) return Step::close;
    return ending_ ? Step::close : Step::done;
  }
  if (response_->stream) return send_stream();
  if (!head_sent_) {
    head_sent_ = true;
    if (!write({head(), response_->body}, true)) return Step::close;
    response_->body.clear();
  }
  // libwebsockets keeps what the socket did not take; the transaction ends when that is gone.
  if (lws_send_pipe_choked(wsi_)) {
    lws_set_timeout(wsi_, PENDING_TIMEOUT_HTTP_CONTENT, stalled_timeout_s);
    lws_callback_on_writable(wsi_);
    return Step::going_on;
  }
  return ending_ ? Step::close : Step::done;
}

// The client has until then to take what is sent, from when there was something to send: changes
// that follow one another do not give it more time.
void Session::ask_to_write() {
  if (!std::exchange(has_deadline_, true)) {
    lws_set_timeout(wsi_, PENDING_TIMEOUT_HTTP_CONTENT, stalled_timeout_s);
  }
  lws_callback_on_writable(wsi_);
}

Session::Step Session::send_stream() {
  if (peer_gone_) return Step::close;
  if (!head_sent_) {
    head_sent_ = true;
    response_->stream->on_wake([this, alive = alive_] {
      if (*alive) ask_to_write();
    });
    peer_.emplace(loop_, lws_get_socket_fd(wsi_), [this] {
      peer_gone_ = true;
      lws_set_timeout(wsi_, PENDING_TIMEOUT_USER_OK, LWS_TO_KILL_ASYNC);
    });
    // At once: clients time out on headers that wait for the first event.
    if (!write({head()}, false)) return Step::close;
    ask_to_write();
    return Step::going_on;
  }
  if (lws_send_pipe_choked(wsi_)) {
    ask_to_write();
    return Step::going_on;
  }
  has_deadline_ = false;
  std::string data;
  BodyStream::State state = response_->stream->read(data);
  if (ending_ && state == BodyStream::State::wait) state = BodyStream::State::end;
  const bool last = state == BodyStream::State::end;
  if ((!data.empty() || last) && !write_chunk(data, last)) return Step::close;
  switch (state) {
    case BodyStream::State::more:
      ask_to_write();
      return Step::going_on;
    case BodyStream::State::wait:
      // A quiet watch may last for days, once its client has taken all there was.
      if (lws_send_pipe_choked(wsi_)) {
        ask_to_write();
      } else {
        lws_set_timeout(wsi_, NO_PENDING_TIMEOUT, 0);
      }
      return Step::going_on;
    case BodyStream::State::end:
      return ending_ ? Step::close : Step::done;
  }
  return Step::close;
}

bool Session::write_chunk(std::string_view data, bool last) {
  const std::string_view end = last ? "0\r\n\r\n" : "";
  if (data.empty()) return write({end}, last);
  return write({fmt::format("{:x}\r\n", data.size()), data, "\r\n", end}, last);
}

bool Session::write(std::initializer_list<std::string_view> parts, bool last) {
  std::size_t size = 0;
  for (const std::string_view part : parts) size += part.size();
  // Not a vector, which would be filled with zeroes first.
  const auto buffer = std::make_unique_for_overwrite<unsigned char[]>(LWS_PRE + size);
  unsigned char* at = buffer.get() + LWS_PRE;
  for (const std::string_view part : parts) at = std::copy(part.begin(), part.end(), at);
  return lws_write(wsi_, buffer.get() + LWS_PRE, size,
                   last ? LWS_WRITE_HTTP_FINAL : LWS_WRITE_HTTP) >= 0;
}

}  // namespace virtset::api
