// Time and turns of the loop, as those who live on it see them. The daemon's loop implements it;
// tests have one whose clock they move.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace virtset::api {

class Scheduler {
 public:
  using Time = std::chrono::system_clock::time_point;
  using SteadyTime = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::milliseconds;

  // Fires once, unless it is destroyed before.
  class Timer {
   public:
    virtual ~Timer() = default;
  };

  virtual ~Scheduler() = default;

  // Wall-clock time, for what is stored and shown.
  virtual Time now() const = 0;
  // For deadlines within this run of the daemon: nobody sets this clock.
  virtual SteadyTime steady_now() const = 0;
  // Calls `action` on the loop thread after at least `delay`.
  [[nodiscard]] virtual std::unique_ptr<Timer> after(Duration delay,
                                                     std::function<void()> action) = 0;
  // Calls `action` on the loop thread, soon. The only function that any thread may call.
  virtual void post(std::function<void()> action) = 0;
};

}  // namespace virtset::api
