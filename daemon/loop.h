// The libuv loop: the one thread that owns all state.
#pragma once

#include <uv.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "api/rest/scheduler.h"

namespace virtset {

class Loop final : public api::Scheduler {
 public:
  Loop();
  ~Loop() override;
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  uv_loop_t* raw() { return &loop_; }

  // Runs until stop().
  void run();
  // Loop thread only.
  void stop();

  Time now() const override { return std::chrono::system_clock::now(); }
  SteadyTime steady_now() const override { return std::chrono::steady_clock::now(); }
  std::unique_ptr<Timer> after(Duration delay, std::function<void()> action) override;
  void post(std::function<void()> action) override;

  // Calls `action` on the loop thread at each SIGTERM or SIGINT.
  void on_terminate(std::function<void()> action);

 private:
  class UvTimer;
  void run_posted();

  uv_loop_t loop_{};
  uv_async_t wake_{};
  uv_signal_t terminate_{}, interrupt_{};
  std::function<void()> terminated_;
  std::mutex mutex_;
  std::deque<std::function<void()>> posted_;  // guarded by mutex_
};

}  // namespace virtset
