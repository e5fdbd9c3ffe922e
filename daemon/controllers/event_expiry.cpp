#include "daemon/controllers/event_expiry.h"

#include <algorithm>

#include "api/kinds/json_access.h"
#include "api/kinds/kind.h"
#include "api/kinds/times.h"
#include "store/errors.h"

namespace virtset {

namespace {

// Removed at a time, so that ten thousand that expire together do not hold up the loop.
constexpr int removals_per_turn = 200;
// A turn in which there is nothing to do is not worth being exact about.
constexpr std::chrono::seconds rounding{10};

}  // namespace

void EventExpiry::start() {
  for (const auto& event : store_.list(api::core_group, api::event_kind)) take_in(*event);
  expire();
}

void EventExpiry::observe(const store::Change& change) {
  const store::Key& key = change.object->key();
  if (key.kind != api::event_kind || key.group != api::core_group) return;
  take_out(key);
  if (change.type == store::Change::Type::deleted) return;
  take_in(*change.object);
  if (!timer_ || by_age_.size() > options_.most) {
    timer_ = scheduler_.after(by_age_.size() > options_.most
                                  ? std::chrono::milliseconds(0)
                                  : std::chrono::milliseconds(options_.lifetime),
                              [this] { expire(); });
  }
}

void EventExpiry::take_in(const store::Object& event) {
  const auto document = event.document();
  const auto last = api::parse_time(api::text(api::member(*document, "lastTimestamp")));
  const auto created =
      api::parse_time(api::text(api::member(*document, "metadata", "creationTimestamp")));
  // Who writes events with times to come does not keep them for ever.
  const auto time = std::min(last.value_or(created.value_or(scheduler_.now())), scheduler_.now());
  events_[event.key()] = by_age_.emplace(time, event.key());
}

void EventExpiry::take_out(const store::Key& key) {
  const auto it = events_.find(key);
  if (it == events_.end()) return;
  by_age_.erase(it->second);
  events_.erase(it);
}

void EventExpiry::expire() {
  timer_.reset();
  int left = removals_per_turn;
  const auto oldest_kept = scheduler_.now() - options_.lifetime;
  std::size_t surplus = by_age_.size() > options_.most ? by_age_.size() - options_.most : 0;
  for (auto it = by_age_.begin(); it != by_age_.end() && left > 0; ++it) {
    const bool too_many = surplus > 0;
    if (it->first > oldest_kept && !too_many) break;
    if (too_many) --surplus;
    // It is being removed, or counted up: then its change brings it back into the list.
    if (store_.busy(it->second)) continue;
    --left;
    try {
      store_.write(
          it->second, [](const store::Object*) { return store::Store::Mutation::remove(); },
          nullptr);
    } catch (const store::Overloaded&) {
      break;
    }
  }
  if (by_age_.empty()) return;
  // What has expired and is still there is being removed, or could not be.
  const auto until_next =
      std::max(std::chrono::ceil<std::chrono::milliseconds>(by_age_.begin()->first +
                                                            options_.lifetime - scheduler_.now()),
               std::chrono::milliseconds(0));
  timer_ = scheduler_.after(left == 0 ? std::chrono::milliseconds(10) : until_next + rounding,
                            [this] { expire(); });
}

}  // namespace virtset
