// Forgets events: an hour after they happened last, or sooner if there are too many. Loop thread
// only.
#pragma once

#include <map>
#include <memory>

#include "api/rest/scheduler.h"
#include "daemon/controller.h"

namespace virtset {

class EventExpiry final : public Controller {
 public:
  struct Options {
    std::chrono::seconds lifetime{3'600};  // Kubernetes' --event-ttl
    std::size_t most = 10'000;
  };

  EventExpiry(store::Store& store, api::Scheduler& scheduler, Options options)
      : store_(store), scheduler_(scheduler), options_(options) {}

  void start() override;
  void observe(const store::Change& change) override;

 private:
  void take_in(const store::Object& event);
  void take_out(const store::Key& key);
  void expire();

  store::Store& store_;
  api::Scheduler& scheduler_;
  const Options options_;
  std::multimap<api::Scheduler::Time, store::Key> by_age_;  // by when it happened last
  store::KeyMap<std::multimap<api::Scheduler::Time, store::Key>::iterator> events_;
  std::unique_ptr<api::Scheduler::Timer> timer_;
};

}  // namespace virtset
