// A connection and its requests, one after the other, each from its first byte to the last of its
// answer. Loop thread only.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "api/http/request_reader.h"
#include "api/http/server.h"

struct lws;

namespace virtset::api {

// Who may do what on a listener.
struct Access {
  bool needs_token = false;
  const std::function<bool(const std::string& token)>* accepts_token = nullptr;
};

class Connection {
 public:
  Connection(lws* wsi, const HttpServer::Handler& handler, Access access);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Bytes came. False: the connection is to be closed, as below.
  [[nodiscard]] bool receive(std::string_view data);
  // More can be written, and all that was written before is with the kernel.
  [[nodiscard]] bool writeable();

  // The daemon is about to stop: the answer that is on its way is the last, a stream says what it
  // has to say now.
  void end();
  bool is_busy() const { return phase_ == Phase::handling || phase_ == Phase::answering; }

 private:
  enum class Phase {
    reading,
    handling,   // the handler answers later
    answering,  // more is to be written
    lingering   // the answer is sent; what the client still sends is not looked at
  };

  bool read(std::string_view data);
  bool begin();
  bool refuse(const ApiError& error);
  std::optional<ApiError> refusal() const;
  bool is_allowed() const;
  bool handle();
  bool send_response();
  bool send_stream();
  bool finish();
  bool linger();
  void ask_to_write();
  void control_flow();
  bool write_chunk(std::string_view data, bool last);
  // One after the other, without joining them first.
  bool write(std::initializer_list<std::string_view> parts);
  std::string head() const;

  lws* wsi_;
  const HttpServer::Handler& handler_;
  Access access_;
  RequestReader reader_;
  Phase phase_ = Phase::reading;
  std::optional<Response> response_;
  bool head_only_ = false;
  bool head_sent_ = false;
  bool in_handler_ = false;    // the handler is running, further up the stack
  bool ending_ = false;        // the connection ends with this answer
  bool stopping_ = false;      // the daemon is about to
  bool head_checked_ = false;  // of a request whose body is to come
  bool has_deadline_ = false;  // for the client: to send a request, or to take what is sent
  bool takes_more_ = true;     // from the socket
  // Guards what comes back later against a connection that is gone.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace virtset::api
