// Sees that the other end of a connection has closed it while an answer is still being sent.
// libwebsockets (4.1) does not read in that state: it would not notice, and its loop would spin on
// the socket that stays readable. Loop thread only.
#pragma once

#include <functional>

struct uv_loop_s;
struct uv_poll_s;

namespace virtset::api {

class PeerWatch {
 public:
  // `gone` is called at most once, from the loop; it may destroy this object. HTTP/1.1 clients have
  // nothing to say during an answer, so one that does is taken for gone as well. The descriptor
  // stays the caller's.
  PeerWatch(uv_loop_s* loop, int fd, std::function<void()> gone);
  ~PeerWatch();
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

 private:
  std::function<void()> gone_;
  uv_poll_s* poll_ = nullptr;
};

}  // namespace virtset::api
