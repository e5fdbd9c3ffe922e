// What libwebsockets can do on a libuv loop with nothing behind it, on a unix socket:
//   http_floor SOCKET
// answers GET /get with 3 kB, GET /list with 1,000 times that in chunks, GET /watch with a stream
// that gets 3 kB for each PATCH. Prints "ready" when it listens. The floor that the API is compared
// with.

#include <libwebsockets.h>
#include <uv.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr std::size_t document_bytes = 3000;
constexpr int list_length = 1000;
constexpr std::size_t chunk = 32 << 10;

struct Session {
  enum class Kind { get, list, watch, change } kind;
  std::size_t left;  // of a list
  int pending;       // changes that a watch has not been told
};

std::vector<lws*> watches;

bool send(lws* wsi, const std::string& text, bool last) {
  std::vector<unsigned char> buffer(LWS_PRE + text.size());
  std::copy(text.begin(), text.end(), buffer.begin() + LWS_PRE);
  return lws_write(wsi, buffer.data() + LWS_PRE, text.size(),
                   last ? LWS_WRITE_HTTP_FINAL : LWS_WRITE_HTTP) >= 0;
}

std::string framed(std::size_t bytes) {
  char size[32];
  std::snprintf(size, sizeof size, "%zx\r\n", bytes);
  return size + std::string(bytes - 2, 'x') + "}\n\r\n";
}

int done(lws* wsi) { return lws_http_transaction_completed(wsi) ? -1 : 0; }

int answer(lws* wsi) {
  const std::string body(document_bytes, 'x');
  if (!send(wsi,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: " +
                std::to_string(body.size()) + "\r\n\r\n" + body,
            true)) {
    return -1;
  }
  return done(wsi);
}

int begin_stream(lws* wsi) {
  if (!send(wsi,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
            "transfer-encoding: chunked\r\n\r\n",
            false)) {
    return -1;
  }
  lws_callback_on_writable(wsi);
  return 0;
}

int go_on(lws* wsi, Session& session) {
  if (session.kind == Session::Kind::watch) {
    for (; session.pending > 0; --session.pending) {
      if (!send(wsi, framed(document_bytes), false)) return -1;
    }
    lws_set_timeout(wsi, NO_PENDING_TIMEOUT, 0);
    return 0;
  }
  if (lws_send_pipe_choked(wsi)) {
    lws_callback_on_writable(wsi);
    return 0;
  }
  const std::size_t now = std::min(chunk, session.left);
  session.left -= now;
  const bool last = session.left == 0;
  if (!send(wsi, framed(now) + (last ? "0\r\n\r\n" : ""), last)) return -1;
  if (last) return done(wsi);
  lws_callback_on_writable(wsi);
  return 0;
}

int begin(lws* wsi, Session& session, const char* path) {
  session = {Session::Kind::get, 0, 0};
  if (lws_hdr_total_length(wsi, WSI_TOKEN_PATCH_URI) > 0) {
    session.kind = Session::Kind::change;
    return 0;
  }
  if (std::strcmp(path, "/list") == 0) {
    session.kind = Session::Kind::list;
    session.left = document_bytes * list_length;
    return begin_stream(wsi);
  }
  if (std::strcmp(path, "/watch") == 0) {
    session.kind = Session::Kind::watch;
    watches.push_back(wsi);
    return begin_stream(wsi);
  }
  return answer(wsi);
}

int on_event(lws* wsi, lws_callback_reasons reason, void* user, void* in, size_t length) {
  auto* session = static_cast<Session*>(user);
  switch (reason) {
    case LWS_CALLBACK_HTTP:
      return begin(wsi, *session, static_cast<const char*>(in));
    case LWS_CALLBACK_HTTP_BODY_COMPLETION:
      for (lws* watch : watches) {
        ++static_cast<Session*>(lws_wsi_user(watch))->pending;
        lws_callback_on_writable(watch);
      }
      return answer(wsi);
    case LWS_CALLBACK_HTTP_WRITEABLE:
      return go_on(wsi, *session);
    case LWS_CALLBACK_CLOSED_HTTP:
      watches.erase(std::remove(watches.begin(), watches.end(), wsi), watches.end());
      return 0;
    default:
      return lws_callback_http_dummy(wsi, reason, user, in, length);
  }
}

const lws_protocols protocols[] = {{"http", on_event, sizeof(Session), 0, 0, nullptr, 0},
                                   {nullptr, nullptr, 0, 0, 0, nullptr, 0}};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  lws_set_log_level(LLL_ERR, nullptr);
  void* loops[] = {uv_default_loop()};
  lws_context_creation_info info{};
  info.foreign_loops = loops;
  info.port = CONTEXT_PORT_NO_LISTEN;
  info.options = LWS_SERVER_OPTION_LIBUV | LWS_SERVER_OPTION_EXPLICIT_VHOSTS;
  info.pt_serv_buf_size = 64 << 10;
  info.uid = info.gid = static_cast<gid_t>(-1);
  lws_context* context = lws_create_context(&info);
  lws_context_creation_info vhost{};
  vhost.vhost_name = "unix";
  vhost.iface = argv[1];
  vhost.options = LWS_SERVER_OPTION_UNIX_SOCK;
  vhost.protocols = protocols;
  vhost.keepalive_timeout = 90;
  vhost.uid = vhost.gid = static_cast<gid_t>(-1);
  if (!context || !lws_create_vhost(context, &vhost)) return 1;
  std::puts("ready");
  std::fflush(stdout);
  return uv_run(uv_default_loop(), UV_RUN_DEFAULT);
}
