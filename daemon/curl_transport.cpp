#include "daemon/curl_transport.h"

#include <fmt/format.h>

#include <cctype>
#include <cstring>
#include <stdexcept>

namespace virtset {

namespace {

// A guest may send as much as it likes; nobody reads it.
std::size_t discard(char*, std::size_t size, std::size_t count, void*) { return size * count; }

// What is asked of the server. What may not stand in a URL is escaped, and a fragment is not sent;
// all else is as the manifest has it, escapes included. (libcurl's own URLs would change them.)
std::string target_of(const std::string& path) {
  std::string target;
  for (std::size_t i = 0; i < path.size() && path[i] != '#'; ++i) {
    const auto byte = static_cast<unsigned char>(path[i]);
    const bool is_escape = byte == '%' && std::isxdigit(static_cast<unsigned char>(path[i + 1])) &&
                           std::isxdigit(static_cast<unsigned char>(path[i + 2]));
    const bool legal = byte > ' ' && byte < 0x7f && !std::strchr("\"<>\\^`{|}%", byte);
    target += legal || is_escape ? std::string(1, path[i]) : fmt::format("%{:02X}", byte);
  }
  return target;
}

}  // namespace

struct CurlTransport::Socket {
  uv_poll_t handle{};
  CurlTransport* owner;
  curl_socket_t fd;
};

class CurlTransport::CurlAttempt final : public Attempt {
 public:
  CurlAttempt(CurlTransport& owner, const api::ProbeSpec& probe, const std::string& address,
              Done done)
      : owner_(owner), done_(std::move(done)), easy_(curl_easy_init()) {
    if (!easy_) throw std::runtime_error("libcurl gave no handle");
    const bool http = probe.type == api::ProbeSpec::Type::http;
    const std::string scheme = http ? probe.scheme : "http";
    set(CURLOPT_URL, fmt::format("{}://{}:{}", scheme, address, probe.port).c_str());
    set(CURLOPT_PRIVATE, this);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_NOPROXY, "*");
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(probe.timeout.count()) * 1000);
    set(CURLOPT_FRESH_CONNECT, 1L);
    set(CURLOPT_FORBID_REUSE, 1L);
    set(CURLOPT_WRITEFUNCTION, discard);
    if (http) {
      set(CURLOPT_REQUEST_TARGET, target_of(probe.path).c_str());
      // Kubernetes: certificates are not checked. Redirects are not followed: a guest shall not
      // send the host somewhere.
      set(CURLOPT_SSL_VERIFYPEER, 0L);
      set(CURLOPT_SSL_VERIFYHOST, 0L);
      set(CURLOPT_USERAGENT, "kube-probe/1.32 (virtset)");
      for (const std::string& header : probe.headers) {
        headers_ = curl_slist_append(headers_, header.c_str());
      }
      set(CURLOPT_HTTPHEADER, headers_);
    } else {
      set(CURLOPT_CONNECT_ONLY, 1L);
    }
    curl_multi_add_handle(owner_.multi_, easy_);
  }

  ~CurlAttempt() override {
    curl_multi_remove_handle(owner_.multi_, easy_);
    curl_easy_cleanup(easy_);
    curl_slist_free_all(headers_);
  }

  void finish(CURLcode code) {
    std::string failure;
    long status = 0;
    curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK) {
      failure = curl_easy_strerror(code);
    } else if (status != 0 && (status < 200 || status >= 400)) {
      failure = "HTTP probe failed with statuscode: " + std::to_string(status);
    }
    // The callee may destroy this attempt.
    const Done done = std::move(done_);
    done(failure);
  }

 private:
  template <typename Value>
  void set(CURLoption option, Value value) {
    curl_easy_setopt(easy_, option, value);
  }

  CurlTransport& owner_;
  Done done_;
  CURL* easy_;
  curl_slist* headers_ = nullptr;
};

CurlTransport::CurlTransport(uv_loop_t* loop)
    : loop_(loop), multi_(curl_multi_init()), timer_(new uv_timer_t) {
  curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, on_socket);
  curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, on_timeout);
  curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
  uv_timer_init(loop_, timer_);
  timer_->data = this;
}

CurlTransport::~CurlTransport() {
  curl_multi_cleanup(multi_);
  uv_close(reinterpret_cast<uv_handle_t*>(timer_),
           [](uv_handle_t* handle) { delete reinterpret_cast<uv_timer_t*>(handle); });
}

std::unique_ptr<ProbeTransport::Attempt> CurlTransport::start(const api::ProbeSpec& probe,
                                                              const std::string& address,
                                                              Done done) {
  // Adding the handle arms a timer of 0 ms, so nothing finishes before this returns.
  return std::make_unique<CurlAttempt>(*this, probe, address, std::move(done));
}

int CurlTransport::on_socket(CURL*, curl_socket_t fd, int what, void* self, void* data) {
  auto* transport = static_cast<CurlTransport*>(self);
  auto* socket = static_cast<Socket*>(data);
  if (what == CURL_POLL_REMOVE) {
    if (!socket) return 0;
    uv_poll_stop(&socket->handle);
    uv_close(reinterpret_cast<uv_handle_t*>(&socket->handle),
             [](uv_handle_t* handle) { delete static_cast<Socket*>(handle->data); });
    curl_multi_assign(transport->multi_, fd, nullptr);
    return 0;
  }
  if (!socket) {
    socket = new Socket{.owner = transport, .fd = fd};
    uv_poll_init_socket(transport->loop_, &socket->handle, fd);
    socket->handle.data = socket;
    curl_multi_assign(transport->multi_, fd, socket);
  }
  const int events =
      (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0);
  uv_poll_start(&socket->handle, events, [](uv_poll_t* handle, int status, int ready) {
    auto* polled = static_cast<Socket*>(handle->data);
    int flags = status < 0 ? CURL_CSELECT_ERR : 0;
    if (ready & UV_READABLE) flags |= CURL_CSELECT_IN;
    if (ready & UV_WRITABLE) flags |= CURL_CSELECT_OUT;
    polled->owner->act(polled->fd, flags);
  });
  return 0;
}

int CurlTransport::on_timeout(CURLM*, long milliseconds, void* self) {
  auto* transport = static_cast<CurlTransport*>(self);
  if (milliseconds < 0) {
    uv_timer_stop(transport->timer_);
    return 0;
  }
  uv_timer_start(
      transport->timer_,
      [](uv_timer_t* timer) {
        static_cast<CurlTransport*>(timer->data)->act(CURL_SOCKET_TIMEOUT, 0);
      },
      static_cast<std::uint64_t>(milliseconds), 0);
  return 0;
}

void CurlTransport::act(curl_socket_t fd, int events) {
  int running = 0;
  curl_multi_socket_action(multi_, fd, events, &running);
  collect_finished();
}

void CurlTransport::collect_finished() {
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    // Copied: finish() may remove the handle, and the message goes with it.
    const CURLcode code = message->data.result;
    CurlAttempt* attempt = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &attempt);
    attempt->finish(code);
  }
}

}  // namespace virtset
