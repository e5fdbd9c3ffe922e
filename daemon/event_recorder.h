// Tells users what happened to their objects, as core/v1 events: aggregated, rate-limited, never
// with secrets in them. Loop thread only.
#pragma once

#include <list>
#include <map>
#include <string>

#include "api/rest/scheduler.h"
#include "store/store.h"

namespace virtset {

enum class EventType { normal, warning };

class EventRecorder {
 public:
  struct Limits {
    // client-go: so many events of one object at once, and one more every five minutes.
    int burst_per_object = 25;
    std::chrono::seconds refill_per_object{300};
    // Of all objects together, for those that are no warnings: ten thousand instances that start at
    // once would otherwise be told of in more memory than they are kept in.
    int burst = 2'000;
    int refill_per_second = 50;
    // client-go: more than so many that differ in their message only become one.
    std::size_t similar = 10;
    std::size_t remembered = 4'096;
  };

  EventRecorder(store::Store& store, api::Scheduler& scheduler, std::string host)
      : EventRecorder(store, scheduler, std::move(host), Limits{}) {}
  EventRecorder(store::Store& store, api::Scheduler& scheduler, std::string host, Limits limits);

  // About a stored object. The same event again counts up the one that is there.
  void record(const store::Object& about, EventType type, const std::string& component,
              const std::string& reason, const std::string& message);

 private:
  struct Series {
    store::Key key;  // of the stored event
    std::string message;
    int count = 0;
    api::Scheduler::Time first;
  };
  struct Bucket {
    double tokens;
    api::Scheduler::SteadyTime refilled;
  };
  // What is remembered of one object.
  struct Memory {
    // By type and reason, then by message.
    std::map<std::string, std::map<std::string, Series>> series;
    Bucket bucket;
    std::list<std::string>::iterator recency;  // in recent_
  };

  Memory& memory_of(const std::string& uid);
  bool take(Bucket& bucket, double capacity, double per_second) const;
  void write(const store::Object& about, EventType type, const std::string& component,
             const std::string& reason, Series& series);

  store::Store& store_;
  api::Scheduler& scheduler_;
  const std::string host_;
  const Limits limits_;
  std::map<std::string, Memory> memories_;  // by uid
  std::list<std::string> recent_;           // uids, most recent first
  Bucket all_;
};

}  // namespace virtset
