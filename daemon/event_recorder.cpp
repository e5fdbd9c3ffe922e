#include "daemon/event_recorder.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "api/kinds/kind.h"
#include "api/kinds/names.h"
#include "api/kinds/times.h"
#include "store/errors.h"

namespace virtset {

namespace {

using store::Json;
using store::Store;

constexpr std::size_t longest_message = 1024;
const std::string combined = "(combined from similar events): ";

std::string hex(std::uint64_t number) { return fmt::format("{:016x}", number); }

}  // namespace

EventRecorder::EventRecorder(Store& store, api::Scheduler& scheduler, std::string host,
                             Limits limits)
    : store_(store),
      scheduler_(scheduler),
      host_(std::move(host)),
      limits_(limits),
      all_{static_cast<double>(limits.burst), scheduler.steady_now()} {}

bool EventRecorder::take(Bucket& bucket, double capacity, double per_second) const {
  const auto now = scheduler_.steady_now();
  const std::chrono::duration<double> passed = now - bucket.refilled;
  bucket.tokens = std::min(capacity, bucket.tokens + passed.count() * per_second);
  bucket.refilled = now;
  if (bucket.tokens < 1) return false;
  bucket.tokens -= 1;
  return true;
}

EventRecorder::Memory& EventRecorder::memory_of(const std::string& uid) {
  const auto [it, is_new] = memories_.try_emplace(uid);
  if (is_new) {
    it->second.bucket = {static_cast<double>(limits_.burst_per_object), scheduler_.steady_now()};
    recent_.push_front(uid);
    it->second.recency = recent_.begin();
    if (memories_.size() > limits_.remembered) {
      memories_.erase(recent_.back());
      recent_.pop_back();
    }
  } else {
    recent_.splice(recent_.begin(), recent_, it->second.recency);
  }
  return it->second;
}

void EventRecorder::record(const store::Object& about, EventType type, const std::string& component,
                           const std::string& reason, const std::string& message) {
  const bool warning = type == EventType::warning;
  const store::Key& key = about.key();
  spdlog::log(warning ? spdlog::level::warn : spdlog::level::info, "{}/{} {}: {}: {}", key.ns,
              key.name, key.kind, reason, message);
  Memory& memory = memory_of(about.uid());
  const double refill = 1.0 / static_cast<double>(limits_.refill_per_object.count());
  if (!take(memory.bucket, limits_.burst_per_object, refill)) return;
  if (!warning && !take(all_, limits_.burst, limits_.refill_per_second)) return;

  const std::string group = (warning ? "W " : "N ") + reason;
  std::string text = message.substr(0, longest_message);
  auto& similar = memory.series[group];
  // Those that the store has forgotten are told of anew; the first of one may still be on its way.
  std::erase_if(similar, [this](const auto& known) {
    return !store_.get(known.second.key) && !store_.busy(known.second.key);
  });
  std::string identity = text;
  if (!similar.contains(identity) && similar.size() >= limits_.similar) {
    identity = combined;
    text = combined + text;
  }
  Series& series = similar[identity];
  if (series.count == 0) {
    series = {
        .key = {api::core_group, api::event_kind, key.ns.empty() ? "default" : key.ns,
                key.name + "." +
                    hex(std::hash<std::string>()(about.uid() + group + identity) ^
                        static_cast<std::uint64_t>(scheduler_.now().time_since_epoch().count()))},
        .first = scheduler_.now()};
  }
  series.message = text;
  ++series.count;
  write(about, type, component, reason, series);
}

void EventRecorder::write(const store::Object& about, EventType type, const std::string& component,
                          const std::string& reason, Series& series) {
  const api::Kind* kind = api::builtin_kinds().find(about.key().group, about.key().kind);
  Json event{{"apiVersion", "v1"},
             {"kind", "Event"},
             {"metadata",
              {{"name", series.key.name},
               {"namespace", series.key.ns},
               {"creationTimestamp", api::format_time(series.first)}}},
             {"involvedObject",
              {{"apiVersion", kind ? kind->api_version() : ""},
               {"kind", about.key().kind},
               {"namespace", about.key().ns},
               {"name", about.key().name},
               {"uid", about.uid()},
               {"resourceVersion", std::to_string(about.revision())}}},
             {"reason", reason},
             {"message", series.message},
             {"type", type == EventType::warning ? "Warning" : "Normal"},
             {"source", {{"component", component}, {"host", host_}}},
             {"reportingComponent", component},
             {"reportingInstance", host_},
             // Whole seconds are too coarse to tell what caused what.
             {"eventTime", api::format_micro_time(scheduler_.now())},
             {"firstTimestamp", api::format_time(series.first)},
             {"lastTimestamp", api::format_time(scheduler_.now())},
             {"count", series.count}};
  if (event["involvedObject"]["namespace"] == "") event["involvedObject"].erase("namespace");
  try {
    store_.write(
        series.key,
        [event = std::move(event)](const store::Object* current) mutable {
          event["metadata"]["uid"] = current ? current->uid() : api::new_uuid();
          return Store::Mutation::put(std::move(event));
        },
        nullptr);
  } catch (const store::Overloaded&) {
    // Events are the first to be dropped.
  }
}

}  // namespace virtset
