#include "api/http/connection.h"

#include <fmt/format.h>
#include <libwebsockets.h>
#include <sys/socket.h>

#include <map>

#include "api/http/gzip.h"
#include "api/rest/status.h"

namespace virtset::api {

namespace {

constexpr int idle_timeout_s = 90;
// From the first byte of a request to its last.
constexpr int request_timeout_s = 60;
// A client that takes nothing for so long is cut, so that it does not pin old objects.
constexpr int stalled_timeout_s = 60;
// How long a client that was refused may go on sending. Closing at once would take the answer from
// it (RFC 9112, 9.6).
constexpr int linger_timeout_s = 5;
// Of requests that came before the last one was answered.
constexpr std::size_t most_kept = 64 << 10;

// Some clients show it as the error's message.
const char* reason_phrase(int status) {
  static const std::map<int, const char*> phrases = {{200, "OK"},
                                                     {201, "Created"},
                                                     {400, "Bad Request"},
                                                     {401, "Unauthorized"},
                                                     {403, "Forbidden"},
                                                     {404, "Not Found"},
                                                     {405, "Method Not Allowed"},
                                                     {406, "Not Acceptable"},
                                                     {409, "Conflict"},
                                                     {410, "Gone"},
                                                     {413, "Request Entity Too Large"},
                                                     {415, "Unsupported Media Type"},
                                                     {417, "Expectation Failed"},
                                                     {422, "Unprocessable Entity"},
                                                     {429, "Too Many Requests"},
                                                     {431, "Request Header Fields Too Large"},
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

Connection::Connection(lws* wsi, const HttpServer::Handler& handler, Access access)
    : wsi_(wsi), handler_(handler), access_(access) {
  lws_set_timeout(wsi_, PENDING_TIMEOUT_HTTP_KEEPALIVE_IDLE, idle_timeout_s);
}

Connection::~Connection() { *alive_ = false; }

bool Connection::receive(std::string_view data) {
  bool goes_on = true;
  if (phase_ == Phase::reading) {
    goes_on = read(data);
  } else if (phase_ != Phase::lingering) {
    reader_.keep(data);
  }
  if (goes_on) control_flow();
  return goes_on;
}

bool Connection::writeable() {
  bool goes_on = true;
  switch (phase_) {
    case Phase::reading:
      if (reader_.kept() > 0) goes_on = read({});
      break;
    case Phase::handling:
      if (response_) goes_on = send_response();
      break;
    case Phase::answering:
      goes_on = response_->stream && !head_only_ ? send_stream() : finish();
      break;
    case Phase::lingering:
      break;
  }
  if (goes_on) control_flow();
  return goes_on;
}

void Connection::end() {
  ending_ = stopping_ = true;
  lws_callback_on_writable(wsi_);
}

bool Connection::read(std::string_view data) {
  if (reader_.read(data)) return begin();
  if (reader_.begun() && !std::exchange(has_deadline_, true)) {
    lws_set_timeout(wsi_, PENDING_TIMEOUT_HTTP_CONTENT, request_timeout_s);
  }
  if (!reader_.in_body() || std::exchange(head_checked_, true)) return true;
  // Who is refused need not send the body.
  if (const auto error = refusal()) return refuse(*error);
  const Incoming& incoming = reader_.incoming();
  const bool waits = incoming.wants_continue && !incoming.http_1_0 && incoming.request.body.empty();
  return !waits || write({"HTTP/1.1 100 Continue\r\n\r\n"});
}

bool Connection::begin() {
  if (const auto error = refusal()) return refuse(*error);
  if (!reader_.incoming().keep_alive) ending_ = true;
  // RFC 9110: what GET would answer, but its body.
  Request& request = reader_.incoming().request;
  head_only_ = request.method == "HEAD";
  if (head_only_) request.method = "GET";
  return handle();
}

std::optional<ApiError> Connection::refusal() const {
  const Incoming& incoming = reader_.incoming();
  // Where its end is unknown, not much is known about it.
  if (reader_.broken()) return incoming.error;
  if (!is_allowed()) return ApiError(401, "Unauthorized", "Unauthorized");
  if (incoming.error) return incoming.error;
  if (incoming.impersonates) return ApiError(403, "Forbidden", "impersonation is not supported");
  return std::nullopt;
}

bool Connection::is_allowed() const {
  if (!access_.needs_token) return true;
  const Incoming& incoming = reader_.incoming();
  for (const char* open : {"/healthz", "/readyz", "/livez", "/version"}) {
    if (incoming.request.path == open) return true;
  }
  return *access_.accepts_token && (*access_.accepts_token)(incoming.token);
}

bool Connection::refuse(const ApiError& error) {
  const Incoming& incoming = reader_.incoming();
  response_ = to_response(error, incoming.request);
  head_only_ = incoming.request.method == "HEAD";
  // What is not read of a body would be taken for the next request.
  if (!incoming.keep_alive || reader_.broken() || reader_.in_body()) ending_ = true;
  return send_response();
}

bool Connection::handle() {
  phase_ = Phase::handling;
  in_handler_ = true;
  const Incoming& incoming = reader_.incoming();
  handler_(incoming.request, [this, alive = alive_](Response response) {
    if (!*alive) return;
    const bool compressed = takes_gzip(reader_.incoming().accept_encoding);
    response_ = compressed ? compress(std::move(response)) : std::move(response);
    if (!in_handler_) lws_callback_on_writable(wsi_);
  });
  in_handler_ = false;
  // A change waits for its commit, which the handler reports later.
  if (!response_) {
    lws_set_timeout(wsi_, NO_PENDING_TIMEOUT, 0);
    return true;
  }
  return send_response();
}

std::string Connection::head() const {
  std::string text;
  text.reserve(256);
  fmt::format_to(std::back_inserter(text), "HTTP/1.1 {} {}\r\ncontent-type: {}\r\n",
                 response_->status, reason_phrase(response_->status), response_->content_type);
  for (const auto& [name, value] : response_->headers) {
    text += name + ": " + one_line(value) + "\r\n";
  }
  if (!response_->stream) {
    fmt::format_to(std::back_inserter(text), "content-length: {}\r\n", response_->body.size());
  } else if (!reader_.incoming().http_1_0) {
    text += "transfer-encoding: chunked\r\n";
  }
  if (ending_) text += "connection: close\r\n";
  return text + "\r\n";
}

bool Connection::send_response() {
  phase_ = Phase::answering;
  has_deadline_ = false;
  if (head_only_) return write({head()}) && finish();
  if (response_->stream) return send_stream();
  if (!write({head(), response_->body})) return false;
  response_->body = std::string();
  return finish();
}

// The client has until then to take what is sent, from when there was something to send: changes
// that follow one another do not give it more time.
void Connection::ask_to_write() {
  if (!std::exchange(has_deadline_, true)) {
    lws_set_timeout(wsi_, PENDING_TIMEOUT_HTTP_CONTENT, stalled_timeout_s);
  }
  lws_callback_on_writable(wsi_);
}

bool Connection::send_stream() {
  if (!std::exchange(head_sent_, true)) {
    response_->stream->on_wake([this, alive = alive_] {
      if (*alive) ask_to_write();
    });
    // At once: clients time out on headers that wait for the first event.
    if (!write({head()})) return false;
    ask_to_write();
    return true;
  }
  has_deadline_ = false;
  std::string data;
  BodyStream::State state = response_->stream->read(data);
  if (stopping_ && state == BodyStream::State::wait) state = BodyStream::State::end;
  const bool last = state == BodyStream::State::end;
  if ((!data.empty() || last) && !write_chunk(data, last)) return false;
  if (last) return finish();
  // A quiet watch may last for days, once its client has taken all there was.
  if (state == BodyStream::State::more || lws_partial_buffered(wsi_)) {
    ask_to_write();
  } else {
    lws_set_timeout(wsi_, NO_PENDING_TIMEOUT, 0);
  }
  return true;
}

// Once the client has taken the answer.
bool Connection::finish() {
  // libwebsockets keeps what the socket did not take.
  if (lws_partial_buffered(wsi_)) {
    response_->stream.reset();
    ask_to_write();
    return true;
  }
  response_.reset();
  head_sent_ = head_checked_ = has_deadline_ = false;
  if (ending_) return linger();
  phase_ = Phase::reading;
  reader_.next();
  lws_set_timeout(wsi_, PENDING_TIMEOUT_HTTP_KEEPALIVE_IDLE, idle_timeout_s);
  if (reader_.kept() > 0) lws_callback_on_writable(wsi_);
  return true;
}

// False where there is nothing to wait for.
bool Connection::linger() {
  if (!reader_.broken() && !reader_.in_body()) return false;
  phase_ = Phase::lingering;
  // With TLS the client knows the answer's end from its length.
  if (!lws_is_ssl(wsi_)) shutdown(lws_get_socket_fd(wsi_), SHUT_WR);
  lws_set_timeout(wsi_, PENDING_TIMEOUT_USER_OK, linger_timeout_s);
  return true;
}

// While something waits to be written libwebsockets does not read: its loop would spin on a socket
// that has something to read.
void Connection::control_flow() {
  const bool takes =
      !lws_partial_buffered(wsi_) && (phase_ == Phase::lingering || reader_.kept() <= most_kept);
  if (std::exchange(takes_more_, takes) != takes) lws_rx_flow_control(wsi_, takes);
}

bool Connection::write_chunk(std::string_view data, bool last) {
  if (reader_.incoming().http_1_0) return data.empty() || write({data});
  const std::string_view end = last ? "0\r\n\r\n" : "";
  if (data.empty()) return write({end});
  return write({fmt::format("{:x}\r\n", data.size()), data, "\r\n", end});
}

bool Connection::write(std::initializer_list<std::string_view> parts) {
  std::size_t size = 0;
  for (const std::string_view part : parts) size += part.size();
  // Not a vector, which would be filled with zeroes first.
  const auto buffer = std::make_unique_for_overwrite<unsigned char[]>(LWS_PRE + size);
  unsigned char* at = buffer.get() + LWS_PRE;
  for (const std::string_view part : parts) at = std::copy(part.begin(), part.end(), at);
  return lws_write(wsi_, buffer.get() + LWS_PRE, size, LWS_WRITE_RAW) >= 0;
}

}  // namespace virtset::api
