// Probes with libcurl's multi interface on the libuv loop: hundreds at a time, no thread.
#pragma once

#include <curl/curl.h>
#include <uv.h>

#include "daemon/probe_transport.h"

namespace virtset {

class CurlTransport final : public ProbeTransport {
 public:
  explicit CurlTransport(uv_loop_t* loop);
  // All attempts must be gone.
  ~CurlTransport() override;
  CurlTransport(const CurlTransport&) = delete;
  CurlTransport& operator=(const CurlTransport&) = delete;

  std::unique_ptr<Attempt> start(const api::ProbeSpec& probe, const std::string& address,
                                 Done done) override;

 private:
  class CurlAttempt;
  struct Socket;

  static int on_socket(CURL* easy, curl_socket_t fd, int what, void* self, void* socket);
  static int on_timeout(CURLM* multi, long milliseconds, void* self);
  void act(curl_socket_t fd, int events);
  void collect_finished();

  uv_loop_t* loop_;
  CURLM* multi_;
  uv_timer_t* timer_;
};

}  // namespace virtset
