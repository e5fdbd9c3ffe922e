#include "api/http/server.h"

#include <grp.h>
#include <libwebsockets.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#include <cstring>
#include <set>
#include <stdexcept>

#include "api/http/session.h"

namespace virtset::api {

namespace {

// Kubernetes' limit for a request body is 3 MiB.
constexpr std::size_t header_limit = 16 << 10;
constexpr int idle_timeout_s = 90;
// How long connections get to take the end of their watches when the daemon stops.
constexpr std::uint64_t drain_ms = 500;

void log_line(int level, const char* line) {
  std::string text(line);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (level == LLL_ERR) {
    spdlog::error("http: {}", text);
  } else {
    spdlog::debug("http: {}", text);
  }
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(uv_loop_s* loop, Options options, Handler handler)
      : loop_(loop), options_(std::move(options)), handler_(std::move(handler)) {
    lws_set_log_level(LLL_ERR | LLL_WARN, log_line);
    create_context();
    if (!options_.unix_socket.empty()) listen_unix();
    if (options_.tls_port != 0) listen_tls();
  }

  ~Impl() {
    if (context_) lws_context_destroy(context_);
  }

  void stop(std::function<void()> stopped) {
    stopped_ = std::move(stopped);
    stopping_ = true;
    for (Session* session : sessions_) session->end_stream();
    drain_.data = this;
    uv_timer_init(loop_, &drain_);
    uv_timer_start(
        &drain_, [](uv_timer_t* timer) { static_cast<Impl*>(timer->data)->on_drain(); }, 0, 10);
    drain_deadline_ = uv_now(loop_) + drain_ms;
  }

  const Options& options() const { return options_; }
  const Handler& handler() const { return handler_; }
  std::set<Session*>& sessions() { return sessions_; }

 private:
  static int on_event(lws* wsi, lws_callback_reasons reason, void* user, void* in, size_t length) {
    lws_vhost* vhost = lws_get_vhost(wsi);
    auto* impl = vhost ? static_cast<Impl*>(lws_get_vhost_user(vhost)) : nullptr;
    if (!impl) return 0;
    auto** slot = static_cast<Session**>(user);
    switch (reason) {
      case LWS_CALLBACK_HTTP: {
        *slot = new Session(impl->loop_, wsi, impl->handler_, impl->access(vhost));
        impl->sessions_.insert(*slot);
        return impl->after(slot, (*slot)->begin(static_cast<const char*>(in)));
      }
      case LWS_CALLBACK_HTTP_BODY:
        if (!*slot) return 0;
        return impl->after(slot, (*slot)->add_body({static_cast<const char*>(in), length}));
      case LWS_CALLBACK_HTTP_BODY_COMPLETION:
        if (!*slot) return 0;
        return impl->after(slot, (*slot)->body_complete());
      case LWS_CALLBACK_HTTP_WRITEABLE:
        if (!*slot) return 0;
        return impl->after(slot, (*slot)->writeable());
      case LWS_CALLBACK_CLOSED_HTTP:
      case LWS_CALLBACK_HTTP_DROP_PROTOCOL:
        impl->forget(slot);
        return 0;
      default:
        return lws_callback_http_dummy(wsi, reason, user, in, length);
    }
  }

  // What a step of a session means for its connection.
  int after(Session** slot, Session::Step step) {
    if (step == Session::Step::going_on) return 0;
    lws* wsi = (*slot)->wsi();
    forget(slot);
    if (step == Session::Step::close) return -1;
    return lws_http_transaction_completed(wsi) ? -1 : 0;
  }

  void forget(Session** slot) {
    if (!slot || !*slot) return;
    sessions_.erase(*slot);
    delete *slot;
    *slot = nullptr;
  }

  // The unix socket's permissions have done the checking already.
  Access access(lws_vhost* vhost) const {
    if (vhost == unix_vhost_) return {};
    return {true, &options_.accepts_token};
  }

  void create_context() {
    lws_context_creation_info info{};
    void* loops[] = {loop_};
    info.foreign_loops = loops;
    info.port = CONTEXT_PORT_NO_LISTEN;
    info.options = LWS_SERVER_OPTION_LIBUV | LWS_SERVER_OPTION_EXPLICIT_VHOSTS |
                   LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT;
    info.pcontext = &context_;
    info.max_http_header_data = header_limit;
    info.pt_serv_buf_size = 64 << 10;
    info.uid = info.gid = static_cast<int>(-1);
    context_ = lws_create_context(&info);
    if (!context_) throw std::runtime_error("libwebsockets could not be started");
  }

  lws_context_creation_info vhost_info() {
    lws_context_creation_info info{};
    info.protocols = protocols;
    info.user = this;
    info.keepalive_timeout = idle_timeout_s;
    info.uid = info.gid = static_cast<int>(-1);
    return info;
  }

  void listen_unix() {
    const std::string& path = options_.unix_socket;
    constexpr std::size_t longest = sizeof(sockaddr_un::sun_path) - 1;
    if (path.size() > longest) {
      throw std::runtime_error("the path of the unix socket is longer than " +
                               std::to_string(longest) + " bytes: " + path);
    }
    lws_context_creation_info info = vhost_info();
    info.vhost_name = "unix";
    info.iface = path.c_str();
    info.options = LWS_SERVER_OPTION_UNIX_SOCK;
    // Nobody may connect before group and mode are right.
    const mode_t mask = umask(0177);
    unix_vhost_ = lws_create_vhost(context_, &info);
    umask(mask);
    struct stat status {};
    if (!unix_vhost_ || stat(path.c_str(), &status) != 0) {
      throw std::runtime_error("cannot listen on " + path);
    }
    if (const std::string& name = options_.unix_socket_group; !name.empty()) {
      const group* entry = getgrnam(name.c_str());
      if (!entry || chown(path.c_str(), static_cast<uid_t>(-1), entry->gr_gid) != 0) {
        throw std::runtime_error("cannot give " + path + " to the group " + name);
      }
    }
    if (chmod(path.c_str(), options_.unix_socket_mode) != 0) {
      throw std::runtime_error("cannot set the mode of " + path);
    }
  }

  void listen_tls() {
    lws_context_creation_info info = vhost_info();
    info.vhost_name = "tls";
    info.iface = options_.tls_address.c_str();
    info.port = options_.tls_port;
    info.ssl_cert_filepath = options_.certificate_file.c_str();
    info.ssl_private_key_filepath = options_.private_key_file.c_str();
    info.alpn = "http/1.1";
    info.options =
        LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT | LWS_SERVER_OPTION_FAIL_UPON_UNABLE_TO_BIND;
    if (!lws_create_vhost(context_, &info)) {
      throw std::runtime_error("cannot listen on " + options_.tls_address + ":" +
                               std::to_string(options_.tls_port) +
                               "; is the port taken, or the certificate unreadable?");
    }
  }

  // Waits until the sessions have ended, or for as long as they are given, and closes.
  void on_drain() {
    if (!sessions_.empty() && uv_now(loop_) < drain_deadline_) return;
    if (context_) {
      // With a foreign loop the first call only begins it, a later one, after the handles have been
      // closed on a turn of the loop, ends it and makes context_ null.
      lws_context_destroy(context_);
      return;
    }
    uv_timer_stop(&drain_);
    uv_close(reinterpret_cast<uv_handle_t*>(&drain_), [](uv_handle_t* handle) {
      auto* impl = static_cast<Impl*>(handle->data);
      if (!impl->options_.unix_socket.empty()) unlink(impl->options_.unix_socket.c_str());
      impl->stopped_();
    });
  }

  static const lws_protocols protocols[];

  uv_loop_s* loop_;
  const Options options_;
  const Handler handler_;
  lws_context* context_ = nullptr;
  lws_vhost* unix_vhost_ = nullptr;
  std::set<Session*> sessions_;
  bool stopping_ = false;
  std::function<void()> stopped_;
  uv_timer_t drain_{};
  std::uint64_t drain_deadline_ = 0;
};

const lws_protocols HttpServer::Impl::protocols[] = {
    {"http", HttpServer::Impl::on_event, sizeof(Session*), 0, 0, nullptr, 0},
    {nullptr, nullptr, 0, 0, 0, nullptr, 0}};

HttpServer::HttpServer(uv_loop_s* loop, Options options, Handler handler)
    : impl_(std::make_unique<Impl>(loop, std::move(options), std::move(handler))) {}

HttpServer::~HttpServer() = default;

void HttpServer::stop(std::function<void()> stopped) { impl_->stop(std::move(stopped)); }

}  // namespace virtset::api
