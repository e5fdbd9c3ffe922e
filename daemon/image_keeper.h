// Takes in image archives that are dropped into a folder, and collects images that nobody uses.
// Loop thread only; the work is done in jobs.
#pragma once

#include <uv.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <set>

#include "api/rest/scheduler.h"
#include "daemon/jobs.h"
#include "images/image_cache.h"

namespace virtset {

class ImageKeeper {
 public:
  // Watches `folder`, making it if need be; `imported` is called when something was taken in.
  // Throws std::runtime_error if the folder cannot be watched.
  ImageKeeper(uv_loop_t* loop, api::Scheduler& scheduler, Jobs& jobs, images::ImageCache& cache,
              std::filesystem::path folder, std::function<void()> imported);
  ~ImageKeeper();
  ImageKeeper(const ImageKeeper&) = delete;
  ImageKeeper& operator=(const ImageKeeper&) = delete;

 private:
  void look_soon();
  void look();
  void looked(Result<unsigned>& result);
  void collect();

  api::Scheduler& scheduler_;
  Jobs& jobs_;
  images::ImageCache& cache_;
  const std::filesystem::path folder_;
  std::function<void()> imported_;
  uv_fs_event_t* watch_;
  std::unique_ptr<api::Scheduler::Timer> settle_;
  std::unique_ptr<api::Scheduler::Timer> collect_;
  bool looking_ = false;
  bool look_again_ = false;
};

}  // namespace virtset
