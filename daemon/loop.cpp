#include "daemon/loop.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace virtset {

namespace {

void require(int result, const char* what) {
  if (result < 0) throw std::runtime_error(std::string(what) + ": " + uv_strerror(result));
}

}  // namespace

// The handle outlives the object, because libuv closes handles on a later turn.
class Loop::UvTimer final : public Scheduler::Timer {
 public:
  UvTimer(uv_loop_t* loop, Duration delay, std::function<void()> action) : state_(new State) {
    state_->action = std::move(action);
    uv_timer_init(loop, &state_->handle);
    state_->handle.data = state_;
    const auto milliseconds = static_cast<std::uint64_t>(std::max<Duration::rep>(0, delay.count()));
    uv_update_time(loop);
    uv_timer_start(&state_->handle, fire, milliseconds, 0);
  }
  ~UvTimer() override {
    state_->action = nullptr;
    uv_close(reinterpret_cast<uv_handle_t*>(&state_->handle),
             [](uv_handle_t* handle) { delete static_cast<State*>(handle->data); });
  }

 private:
  struct State {
    uv_timer_t handle{};
    std::function<void()> action;
  };
  static void fire(uv_timer_t* timer) {
    // Moved out first: the action may destroy this timer.
    const auto action = std::exchange(static_cast<State*>(timer->data)->action, nullptr);
    if (action) action();
  }
  State* state_;
};

Loop::Loop() {
  require(uv_loop_init(&loop_), "starting the loop");
  require(uv_async_init(&loop_, &wake_,
                        [](uv_async_t* wake) { static_cast<Loop*>(wake->data)->run_posted(); }),
          "starting the loop");
  wake_.data = this;
}

Loop::~Loop() {
  // What is still open belongs to things that are gone; their close callbacks have to run.
  uv_walk(
      &loop_,
      [](uv_handle_t* handle, void*) {
        if (!uv_is_closing(handle)) uv_close(handle, nullptr);
      },
      nullptr);
  uv_run(&loop_, UV_RUN_DEFAULT);
  uv_loop_close(&loop_);
}

void Loop::run() { uv_run(&loop_, UV_RUN_DEFAULT); }

void Loop::stop() { uv_stop(&loop_); }

std::unique_ptr<api::Scheduler::Timer> Loop::after(Duration delay, std::function<void()> action) {
  return std::make_unique<UvTimer>(&loop_, delay, std::move(action));
}

void Loop::post(std::function<void()> action) {
  {
    std::lock_guard lock(mutex_);
    posted_.push_back(std::move(action));
  }
  uv_async_send(&wake_);
}

void Loop::run_posted() {
  std::deque<std::function<void()>> actions;
  {
    std::lock_guard lock(mutex_);
    actions.swap(posted_);
  }
  // What these post runs on the next turn, after sockets and timers had theirs.
  for (auto& action : actions) action();
}

void Loop::on_terminate(std::function<void()> action) {
  terminated_ = std::move(action);
  for (auto [handle, signal] : {std::pair{&terminate_, SIGTERM}, std::pair{&interrupt_, SIGINT}}) {
    require(uv_signal_init(&loop_, handle), "watching for signals");
    handle->data = this;
    uv_signal_start(
        handle, [](uv_signal_t* from, int) { static_cast<Loop*>(from->data)->terminated_(); },
        signal);
  }
}

}  // namespace virtset
