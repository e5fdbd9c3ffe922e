#include "api/http/server.h"

#include <arpa/inet.h>
#include <grp.h>
#include <libwebsockets.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "api/http/connection.h"

namespace virtset::api {

namespace {

// Of TLS, and from there to the first byte of a request.
constexpr int handshake_timeout_s = 30;
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
    for (Connection* connection : connections_) connection->end();
    drain_.data = this;
    uv_timer_init(loop_, &drain_);
    uv_timer_start(
        &drain_, [](uv_timer_t* timer) { static_cast<Impl*>(timer->data)->on_drain(); }, 0, 10);
    drain_deadline_ = uv_now(loop_) + drain_ms;
  }

 private:
  static int on_event(lws* wsi, lws_callback_reasons reason, void* user, void* in, size_t length) {
    lws_vhost* vhost = lws_get_vhost(wsi);
    auto* impl = vhost ? static_cast<Impl*>(lws_get_vhost_user(vhost)) : nullptr;
    if (!impl) return 0;
    auto** slot = static_cast<Connection**>(user);
    switch (reason) {
      case LWS_CALLBACK_RAW_ADOPT:
        *slot = new Connection(wsi, impl->handler_, impl->access(vhost));
        impl->connections_.insert(*slot);
        return 0;
      case LWS_CALLBACK_RAW_RX:
        return (*slot)->receive({static_cast<const char*>(in), length}) ? 0 : -1;
      case LWS_CALLBACK_RAW_WRITEABLE:
        return (*slot)->writeable() ? 0 : -1;
      case LWS_CALLBACK_RAW_CLOSE:
      case LWS_CALLBACK_RAW_SKT_DROP_PROTOCOL:
        impl->forget(slot);
        return 0;
      default:
        return 0;
    }
  }

  void forget(Connection** slot) {
    if (!slot || !*slot) return;
    connections_.erase(*slot);
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
    info.pt_serv_buf_size = 64 << 10;
    info.timeout_secs = handshake_timeout_s;
    info.uid = info.gid = static_cast<int>(-1);
    context_ = lws_create_context(&info);
    if (!context_) throw std::runtime_error("libwebsockets could not be started");
  }

  lws_context_creation_info vhost_info() {
    lws_context_creation_info info{};
    info.protocols = protocols;
    info.user = this;
    // Its own HTTP resolves dots and escapes in paths before anyone can look at them.
    info.options = LWS_SERVER_OPTION_ADOPT_APPLY_LISTEN_ACCEPT_CONFIG;
    info.listen_accept_role = "raw-skt";
    info.listen_accept_protocol = protocols[0].name;
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
    info.options |= LWS_SERVER_OPTION_UNIX_SOCK;
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

  bool is_address(int family) const {
    in6_addr address{};
    return inet_pton(family, options_.tls_address.c_str(), &address) == 1;
  }

  void listen_tls() {
    if (!is_address(AF_INET) && !is_address(AF_INET6)) {
      throw std::runtime_error("cannot listen on " + options_.tls_address +
                               ": it is neither an IPv4 nor an IPv6 address");
    }
    lws_context_creation_info info = vhost_info();
    info.vhost_name = "tls";
    info.iface = options_.tls_address.c_str();
    info.port = options_.tls_port;
    info.ssl_cert_filepath = options_.certificate_file.c_str();
    info.ssl_private_key_filepath = options_.private_key_file.c_str();
    info.alpn = "http/1.1";
    info.options |=
        LWS_SERVER_OPTION_DO_SSL_GLOBAL_INIT | LWS_SERVER_OPTION_FAIL_UPON_UNABLE_TO_BIND;
    // With IPv6 enabled, libwebsockets takes an IPv4 address for all addresses.
    if (is_address(AF_INET)) info.options |= LWS_SERVER_OPTION_DISABLE_IPV6;
    if (!lws_create_vhost(context_, &info)) {
      throw std::runtime_error("cannot listen on " + options_.tls_address + ":" +
                               std::to_string(options_.tls_port) +
                               "; is the port taken, or the certificate unreadable?");
    }
  }

  // Waits until the answers are sent, or for as long as they are given, and closes.
  void on_drain() {
    const bool busy = std::any_of(connections_.begin(), connections_.end(),
                                  [](const Connection* one) { return one->is_busy(); });
    if (busy && uv_now(loop_) < drain_deadline_) return;
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
  std::set<Connection*> connections_;
  std::function<void()> stopped_;
  uv_timer_t drain_{};
  std::uint64_t drain_deadline_ = 0;
};

const lws_protocols HttpServer::Impl::protocols[] = {
    {"http", HttpServer::Impl::on_event, sizeof(Connection*), 0, 0, nullptr, 0},
    {nullptr, nullptr, 0, 0, 0, nullptr, 0}};

HttpServer::HttpServer(uv_loop_s* loop, Options options, Handler handler)
    : impl_(std::make_unique<Impl>(loop, std::move(options), std::move(handler))) {}

HttpServer::~HttpServer() = default;

void HttpServer::stop(std::function<void()> stopped) { impl_->stop(std::move(stopped)); }

}  // namespace virtset::api
