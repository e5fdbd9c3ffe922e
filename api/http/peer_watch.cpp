#include "api/http/peer_watch.h"

#include <fcntl.h>
#include <unistd.h>
#include <uv.h>

#include <utility>

namespace virtset::api {

PeerWatch::PeerWatch(uv_loop_s* loop, int fd, std::function<void()> gone) : gone_(std::move(gone)) {
  // One that epoll does not know yet: the other is libwebsockets'.
  const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return;
  poll_ = new uv_poll_t;
  if (uv_poll_init(loop, poll_, copy) != 0) {
    close(copy);
    delete std::exchange(poll_, nullptr);
    return;
  }
  poll_->data = this;
  uv_poll_start(poll_, UV_READABLE | UV_DISCONNECT, [](uv_poll_t* poll, int, int) {
    uv_poll_stop(poll);
    // Taken out of an object that the call may destroy.
    const auto tell = std::move(static_cast<PeerWatch*>(poll->data)->gone_);
    tell();
  });
}

PeerWatch::~PeerWatch() {
  if (!poll_) return;
  uv_os_fd_t fd;
  uv_fileno(reinterpret_cast<uv_handle_t*>(poll_), &fd);
  uv_poll_stop(poll_);
  close(fd);
  uv_close(reinterpret_cast<uv_handle_t*>(poll_),
           [](uv_handle_t* handle) { delete reinterpret_cast<uv_poll_t*>(handle); });
}

}  // namespace virtset::api
