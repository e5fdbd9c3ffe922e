#include "daemon/image_puller.h"

#include "daemon/back_off.h"

namespace virtset {

namespace {

// A look into the cache is over by then.
constexpr std::chrono::milliseconds looks_long{200};

}  // namespace

ImagePuller::Answer ImagePuller::need(const store::Key& instance, const Wanted& wanted) {
  Entry& entry = entries_[wanted];
  if (const auto granted = entry.granted.find(instance); granted != entry.granted.end()) {
    Answer answer{.disk = std::move(granted->second)};
    entry.granted.erase(granted);
    entry.waiting.erase(instance);
    if (is_idle(entry)) entries_.erase(wanted);
    return answer;
  }
  entry.waiting.insert(instance);
  if (!entry.busy && entry.failure && entry.failure->retry_at > scheduler_.now()) {
    if (!entry.timer) arm_retry(wanted, entry);
    return {.failure = entry.failure};
  }
  if (!entry.busy) pull(wanted, entry);
  return {.takes_long = entry.takes_long};
}

void ImagePuller::pull(const Wanted& wanted, Entry& entry) {
  entry.busy = true;
  entry.takes_long = false;
  entry.timer = scheduler_.after(looks_long, [this, wanted] {
    Entry& pulled = entries_[wanted];
    pulled.takes_long = true;
    wake_all(pulled);
  });
  jobs_.submit(
      Lane::pull,
      [this, wanted] { return images_.obtain(wanted.image, wanted.policy, wanted.path); },
      [this, wanted](Result<images::ContainerDisk>& result) { finished(wanted, result); });
}

void ImagePuller::finished(const Wanted& wanted, Result<images::ContainerDisk>& result) {
  Entry& entry = entries_[wanted];
  entry.busy = false;
  entry.takes_long = false;
  entry.timer.reset();
  if (result.error) {
    entry.failure = explain(result.error, wanted, entry.failure ? entry.failure->failures : 0);
    arm_retry(wanted, entry);
  } else {
    entry.failure.reset();
    for (const store::Key& instance : entry.waiting) entry.granted[instance] = *result.value;
  }
  wake_all(entry);
}

ImagePuller::Failure ImagePuller::explain(const std::exception_ptr& error, const Wanted& wanted,
                                          int earlier) const {
  Failure failure{.failures = earlier + 1};
  try {
    std::rethrow_exception(error);
  } catch (const images::NotPresent& e) {
    failure.reason = "ErrImageNeverPull";
    failure.message = e.what();
  } catch (const images::BadImage& e) {
    failure.reason = "InvalidImage";
    failure.message = "image \"" + wanted.image + "\" is not a container disk: " + e.what();
  } catch (const std::exception& e) {
    // kubelet: the first failure, and then that it goes on.
    failure.reason = earlier == 0 ? "ErrImagePull" : "ImagePullBackOff";
    failure.message = "failed to pull image \"" + wanted.image + "\": " + e.what();
  }
  failure.retry_at = scheduler_.now() +
                     back_off(failure.failures, options_.first_back_off, options_.longest_back_off);
  return failure;
}

void ImagePuller::arm_retry(const Wanted& wanted, Entry& entry) {
  const auto delay =
      std::chrono::ceil<std::chrono::milliseconds>(entry.failure->retry_at - scheduler_.now());
  entry.timer = scheduler_.after(delay, [this, wanted] {
    Entry& due = entries_[wanted];
    due.timer.reset();
    if (!due.busy && !due.waiting.empty()) pull(wanted, due);
  });
}

void ImagePuller::wake_all(Entry& entry) {
  // A copy: who is woken may be forgotten meanwhile.
  const std::set<store::Key> waiting = entry.waiting;
  for (const store::Key& instance : waiting) wake_(instance);
}

void ImagePuller::forget(const store::Key& instance) {
  for (auto it = entries_.begin(); it != entries_.end();) {
    it->second.waiting.erase(instance);
    it->second.granted.erase(instance);
    it = is_idle(it->second) ? entries_.erase(it) : std::next(it);
  }
}

// A failure is remembered as long as its back-off lasts, so that nobody gets around it.
bool ImagePuller::is_idle(const Entry& entry) const {
  const bool backing_off = entry.failure && entry.failure->retry_at > scheduler_.now();
  return entry.waiting.empty() && entry.granted.empty() && !entry.busy && !backing_off;
}

void ImagePuller::retry_now() {
  for (auto& [wanted, entry] : entries_) {
    if (entry.busy || !entry.failure || entry.waiting.empty()) continue;
    entry.failure->retry_at = scheduler_.now();
    pull(wanted, entry);
  }
}

void ImagePuller::restore(const Wanted& wanted, int failures, api::Scheduler::Time retry_at,
                          const std::string& message) {
  Entry& entry = entries_[wanted];
  if (entry.busy || (entry.failure && entry.failure->failures >= failures)) return;
  entry.failure = Failure{"ImagePullBackOff", message, failures, retry_at};
}

}  // namespace virtset
