// The HTTP/1.1 server, on the daemon's libuv loop, with libwebsockets.
//
// Everything on the loop thread. One server per process: libwebsockets' context lives as long as
// the process does.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "api/rest/message.h"

struct uv_loop_s;

namespace virtset::api {

class HttpServer {
 public:
  using Handler = std::function<void(const Request& request, const Respond& respond)>;

  struct Options {
    // The unix socket, whose permissions are the access control. Empty: none.
    std::string unix_socket;
    unsigned unix_socket_mode = 0660;
    std::string unix_socket_group;  // empty: the process's own

    // The TLS listener. Port 0: none.
    std::string tls_address = "127.0.0.1";
    int tls_port = 0;
    std::string certificate_file;
    std::string private_key_file;
    // Whether a bearer token, empty if there was none, may do everything. Paths that tell nothing,
    // such as /healthz, are open to all.
    std::function<bool(const std::string& token)> accepts_token;
  };

  // Listens at once. Throws std::runtime_error that says what could not be opened.
  HttpServer(uv_loop_s* loop, Options options, Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Ends watches in good order and closes everything, then calls `stopped`. The loop must run until
  // then, and the server must be destroyed after it.
  void stop(std::function<void()> stopped);

  class Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace virtset::api
