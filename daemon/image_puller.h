// Gets each image once, however many instances wait for it, and tells them when it is there or why
// not. Loop thread only; the work is done in jobs.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "api/rest/scheduler.h"
#include "daemon/jobs.h"
#include "images/images.h"
#include "store/object.h"

namespace virtset {

class ImagePuller {
 public:
  struct Options {
    // kubelet's image back-off.
    std::chrono::seconds first_back_off{10};
    std::chrono::seconds longest_back_off{300};
  };
  // Called for each waiting instance when it should look again.
  using Wake = std::function<void(const store::Key& instance)>;

  ImagePuller(images::Images& images, Jobs& jobs, api::Scheduler& scheduler, Wake wake,
              Options options)
      : images_(images),
        jobs_(jobs),
        scheduler_(scheduler),
        wake_(std::move(wake)),
        options_(options) {}

  struct Wanted {
    std::string image;
    images::PullPolicy policy;
    std::string path;
    friend auto operator<=>(const Wanted&, const Wanted&) = default;
  };

  struct Failure {
    std::string reason;  // ErrImagePull, ImagePullBackOff, ErrImageNeverPull, InvalidImage
    std::string message;
    int failures = 0;  // in a row
    api::Scheduler::Time retry_at;
  };
  struct Answer {
    std::optional<images::ContainerDisk> disk;  // there
    std::optional<Failure> failure;             // not to be had now; waits for retry_at
    bool takes_long = false;                    // neither; being pulled, and not just looked up
  };

  // Whether the image is there for the instance. If not it is got, or tried again when the back-off
  // is over, and the instance is woken.
  Answer need(const store::Key& instance, const Wanted& wanted);

  // The instance needs nothing any more.
  void forget(const store::Key& instance);

  // Something was mended: what failed is tried again without waiting.
  void retry_now();

  // Takes up the back-off of an earlier run of the daemon.
  void restore(const Wanted& wanted, int failures, api::Scheduler::Time retry_at,
               const std::string& message);

 private:
  struct Entry {
    bool busy = false;
    bool takes_long = false;
    std::set<store::Key> waiting;
    std::map<store::Key, images::ContainerDisk> granted;
    std::optional<Failure> failure;
    std::unique_ptr<api::Scheduler::Timer> timer;  // for takes_long, or for the retry
  };

  void pull(const Wanted& wanted, Entry& entry);
  void finished(const Wanted& wanted, Result<images::ContainerDisk>& result);
  Failure explain(const std::exception_ptr& error, const Wanted& wanted, int earlier) const;
  void wake_all(Entry& entry);
  bool is_idle(const Entry& entry) const;
  void arm_retry(const Wanted& wanted, Entry& entry);

  images::Images& images_;
  Jobs& jobs_;
  api::Scheduler& scheduler_;
  Wake wake_;
  const Options options_;
  std::map<Wanted, Entry> entries_;
};

}  // namespace virtset
