#include "daemon/image_keeper.h"

#include <spdlog/spdlog.h>

#include <stdexcept>

#include "images/files.h"

namespace virtset {

namespace {

namespace fs = std::filesystem;

// A file that nobody has written to for so long is complete.
constexpr std::chrono::milliseconds settled{500};
// kubelet's interval: there is no event for a disk that fills up.
constexpr std::chrono::minutes collect_interval{5};
constexpr const char* complaint_suffix = ".error";

bool is_archive(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename();
  return entry.is_regular_file() && !name.starts_with('.') && !name.ends_with(complaint_suffix);
}

// On a host without network this file is where its user looks.
void complain(const fs::path& archive, const std::string& why) {
  const fs::path complaint = archive.string() + complaint_suffix;
  spdlog::error("image archive {}: {}", archive.string(), why);
  try {
    images::write_file(complaint, why + "\n", 0644);
  } catch (const std::exception& error) {
    spdlog::error("{}", error.what());
  }
}

// Returns how many archives were taken in. One that was refused is tried again when it has changed.
unsigned import_all(images::ImageCache& cache, const fs::path& folder) {
  unsigned imported = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!is_archive(entry)) continue;
    const fs::path complaint = entry.path().string() + complaint_suffix;
    std::error_code none;
    const bool refused = fs::exists(complaint) && fs::last_write_time(complaint, none) >=
                                                      fs::last_write_time(entry.path(), none);
    if (refused) continue;
    try {
      for (const std::string& reference : cache.import_archive(entry.path())) {
        spdlog::info("image {} is present, from {}", reference, entry.path().string());
      }
      ++imported;
      images::remove_tree(complaint);
    } catch (const std::exception& error) {
      complain(entry.path(), error.what());
    }
  }
  return imported;
}

}  // namespace

ImageKeeper::ImageKeeper(uv_loop_t* loop, api::Scheduler& scheduler, Jobs& jobs,
                         images::ImageCache& cache, fs::path folder, std::function<void()> imported)
    : scheduler_(scheduler),
      jobs_(jobs),
      cache_(cache),
      folder_(std::move(folder)),
      imported_(std::move(imported)),
      watch_(new uv_fs_event_t) {
  images::make_directory(folder_);
  uv_fs_event_init(loop, watch_);
  watch_->data = this;
  const int result = uv_fs_event_start(
      watch_,
      [](uv_fs_event_t* event, const char* name, int, int) {
        const std::string_view file = name ? name : "";
        if (file.ends_with(complaint_suffix) || file.ends_with(".tmp")) return;
        static_cast<ImageKeeper*>(event->data)->look_soon();
      },
      folder_.c_str(), 0);
  if (result < 0) {
    throw std::runtime_error("cannot watch " + folder_.string() + ": " + uv_strerror(result));
  }
  look();
  collect();
}

ImageKeeper::~ImageKeeper() {
  uv_close(reinterpret_cast<uv_handle_t*>(watch_),
           [](uv_handle_t* handle) { delete reinterpret_cast<uv_fs_event_t*>(handle); });
}

void ImageKeeper::look_soon() {
  settle_ = scheduler_.after(settled, [this] { look(); });
}

void ImageKeeper::look() {
  settle_.reset();
  look_again_ = looking_;
  if (looking_) return;
  looking_ = true;
  jobs_.submit(
      Lane::pull, [&cache = cache_, folder = folder_] { return import_all(cache, folder); },
      [this](Result<unsigned>& result) { looked(result); });
}

void ImageKeeper::looked(Result<unsigned>& result) {
  looking_ = false;
  try {
    if (result.get() > 0) imported_();
  } catch (const std::exception& error) {
    spdlog::error("image archives in {}: {}", folder_.string(), error.what());
  }
  if (look_again_) look_soon();
}

void ImageKeeper::collect() {
  jobs_.submit(
      Lane::disk, [&cache = cache_] { return cache.collect(); },
      [this](Result<std::vector<std::string>>& result) {
        try {
          for (const std::string& digest : result.get()) {
            spdlog::info("collected image {}, which nobody uses", digest);
          }
        } catch (const std::exception& error) {
          spdlog::error("collecting images: {}", error.what());
        }
        collect_ = scheduler_.after(collect_interval, [this] { collect(); });
      });
}

}  // namespace virtset
