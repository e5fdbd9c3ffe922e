// One request on a connection, from its headers to the last byte of its answer.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/http/chunked_body.h"
#include "api/http/peer_watch.h"
#include "api/http/server.h"

struct lws;

namespace virtset::api {

// Who may do what on a listener.
struct Access {
  bool needs_token = false;
  const std::function<bool(const std::string& token)>* accepts_token = nullptr;
};

class Session {
 public:
  // What has to happen with the connection after a step.
  enum class Step {
    going_on,
    done,  // the answer is sent; the connection may take the next request
    close
  };

  Session(uv_loop_s* loop, lws* wsi, const HttpServer::Handler& handler, Access access)
      : loop_(loop), wsi_(wsi), handler_(handler), access_(access) {}

  lws* wsi() const { return wsi_; }

  // The headers are there.
  Step begin(const char* path);
  Step add_body(std::string_view data);
  Step body_complete();
  // More can be written.
  Step writeable();

  // Ends a stream after what it has to say now: the daemon is about to stop.
  void end_stream();

 private:
  bool is_allowed() const;
  Step add_chunked(std::string_view data);
  Step handle();
  Step send_response();
  Step send_stream();
  void ask_to_write();
  bool write_chunk(std::string_view data, bool last);
  // One after the other, without joining them first.
  bool write(std::initializer_list<std::string_view> parts, bool last);
  std::string head() const;

  uv_loop_s* loop_;
  lws* wsi_;
  const HttpServer::Handler& handler_;
  Access access_;
  Request request_;
  std::string token_;
  bool takes_gzip_ = false;
  bool head_only_ = false;
  std::size_t expected_body_ = 0;
  std::optional<ChunkedBody> chunked_;  // where the length is not known in advance
  std::optional<Response> response_;
  bool head_sent_ = false;
  bool handling_ = false;  // the handler is running, further up the stack
  bool ending_ = false;
  bool has_deadline_ = false;      // for the client to take what is sent
  std::optional<PeerWatch> peer_;  // while a stream is sent
  bool peer_gone_ = false;
  // Guards what comes back later against a connection that is gone.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);

 public:
  ~Session() { *alive_ = false; }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
};

}  // namespace virtset::api
