#include "api/rest/watch.h"

#include <optional>
#include <random>

#include "api/kinds/json_access.h"
#include "api/rest/list_options.h"
#include "api/rest/status.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;
using std::chrono::seconds;

constexpr std::size_t chunk = 32 << 10;
constexpr int steps_per_turn = 500;
constexpr seconds bookmark_interval{60};

ApiError too_old(store::Revision wanted, store::Revision present) {
  return expired("too old resource version: " + std::to_string(wanted) + " (" +
                 std::to_string(present) + ")");
}

// Kubernetes: without timeoutSeconds a watch ends after 30 to 60 minutes, so that not all end at
// once.
seconds random_timeout() {
  static std::minstd_rand random{std::random_device{}()};
  return seconds(1800 + random() % 1800);
}

struct Options {
  store::Revision since = 0;
  bool initial_objects = false;
  bool bookmarks = false;
  bool bookmark_after_initial = false;
  seconds timeout{0};
};

Options read_options(const Request& request) {
  Options options;
  const auto version = request.parameter("resourceVersion").value_or("");
  options.since = version.empty() ? 0 : read_number(version, "resourceVersion");
  options.initial_objects = options.since == 0;
  options.bookmarks = request.flag("allowWatchBookmarks");
  if (request.flag("sendInitialEvents")) {
    if (request.parameter("resourceVersionMatch").value_or("") != "NotOlderThan") {
      ApiError error(422, "Invalid",
                     "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
      error.causes = {{FieldError::Reason::forbidden, "resourceVersionMatch",
                       "Forbidden: sendInitialEvents requires resourceVersionMatch=NotOlderThan"}};
      throw error;
    }
    options.initial_objects = true;
    options.bookmark_after_initial = options.bookmarks;
  }
  const auto timeout = request.parameter("timeoutSeconds").value_or("");
  constexpr std::int64_t longest = 30 * 24 * 3600;
  if (!timeout.empty()) {
    options.timeout = seconds(std::min(longest, read_number(timeout, "timeoutSeconds")));
  }
  if (options.timeout == seconds(0)) options.timeout = random_timeout();
  return options;
}

class WatchStream final : public BodyStream {
 public:
  WatchStream(store::Store& store, Scheduler& scheduler, ObjectFilter filter, Rendering rendering,
              Options options)
      : store_(store),
        scheduler_(scheduler),
        filter_(std::move(filter)),
        rendering_(std::move(rendering)),
        options_(options),
        position_(options.initial_objects ? store.revision() : options.since) {
    if (options_.initial_objects) {
      initial_ = list_objects(store_, filter_);
    }
    subscription_ = store_.feed().subscribe([this](const store::Change& change) {
      const store::Key& key = change.object->key();
      if (key.kind == filter_.kind().kind && key.group == filter_.kind().group) {
        wake();
      } else if (waiting_) {
        // Nothing to send, but a step forward: a quiet watch must not fall behind a busy store.
        position_ = change.revision();
      }
    });
    deadline_ = scheduler_.after(options_.timeout, [this] {
      timed_out_ = true;
      wake();
    });
    if (options_.bookmarks) arm_bookmark();
  }

  void on_wake(std::function<void()> wake) override { wake_ = std::move(wake); }

  State read(std::string& out) override {
    waiting_ = false;
    if (!initial_.empty() || options_.bookmark_after_initial) {
      if (!send_initial(out)) return State::more;
    }
    for (int step = 0; step < steps_per_turn && out.size() < chunk; ++step) {
      // Only what is still held can be sent; see WatchFeed.
      if (!store_.feed().holds(position_)) {
        send("ERROR", to_status(too_old(position_, store_.revision())), out);
        return State::end;
      }
      const store::Change* change = store_.feed().next_after(position_);
      if (!change) return pause(out);
      position_ = change->revision();
      send_change(*change, out);
    }
    return State::more;
  }

 private:
  // All changes are sent; what is left to do before waiting for more?
  State pause(std::string& out) {
    if (bookmark_due_ || (timed_out_ && options_.bookmarks)) send_bookmark(false, out);
    if (timed_out_) return State::end;
    waiting_ = true;
    return State::wait;
  }

  void wake() {
    if (waiting_ && wake_) {
      waiting_ = false;
      wake_();
    }
  }

  void arm_bookmark() {
    bookmark_timer_ = scheduler_.after(bookmark_interval, [this] {
      bookmark_due_ = true;
      arm_bookmark();
      wake();
    });
  }

  // False if there is more of it to come.
  bool send_initial(std::string& out) {
    for (int step = 0; step < steps_per_turn && next_initial_ < initial_.size(); ++step) {
      if (out.size() >= chunk) return false;
      const store::ObjectPtr object = std::move(initial_[next_initial_++]);
      if (filter_.matches(*object)) send_object("ADDED", *object, out);
    }
    if (next_initial_ < initial_.size()) return false;
    initial_.clear();
    if (options_.bookmark_after_initial) send_bookmark(true, out);
    options_.bookmark_after_initial = false;
    return true;
  }

  // Kubernetes: an object that enters the selector is ADDED, one that leaves it DELETED.
  void send_change(const store::Change& change, std::string& out) {
    const bool was = change.previous && filter_.matches(*change.previous);
    if (change.type == store::Change::Type::deleted) {
      if (was) send_object("DELETED", *change.object, out);
      return;
    }
    const bool is = filter_.matches(*change.object);
    if (is) {
      send_object(was ? "MODIFIED" : "ADDED", *change.object, out);
    } else if (was) {
      send_left(*change.previous, change.revision(), out);
    }
  }

  void send_object(const char* type, const store::Object& object, std::string& out) {
    if (rendering_.wanted.form == Form::text) {
      send_line(type, object, out);
      return;
    }
    if (rendering_.wanted.form == Form::table) {
      Json table = rendering_.table(object, scheduler_.now());
      if (columns_sent_) table["columnDefinitions"] = nullptr;
      columns_sent_ = true;
      send(type, table, out);
      return;
    }
    out.append("{\"type\":\"").append(type).append("\",\"object\":");
    rendering_.append(object, out);
    out += "}\n";
  }

  // For people: a line per change, under a header.
  void send_line(const char* type, const store::Object& object, std::string& out) {
    const bool all_namespaces = rendering_.kind.namespaced && !filter_.ns();
    // As wide as the longest of them.
    if (!lines_) lines_.emplace(rendering_.kind, rendering_.wide, all_namespaces, "EVENT   ");
    lines_->add(*object.document(), scheduler_.now(), type);
    out += lines_->take_lines();
  }

  // The last state that matched, with the revision of the change that ended it.
  void send_left(const store::Object& last, store::Revision revision, std::string& out) {
    Json document = *last.document();
    document["metadata"]["resourceVersion"] = std::to_string(revision);
    send_object("DELETED",
                store::Object(last.key(), last.uid(), revision, json_text(document),
                              std::make_shared<store::RecentDocuments>(1)),
                out);
  }

  void send_bookmark(bool initial_end, std::string& out) {
    bookmark_due_ = false;
    Json metadata{{"resourceVersion", std::to_string(position_)}, {"creationTimestamp", nullptr}};
    if (initial_end) metadata["annotations"] = {{"k8s.io/initial-events-end", "true"}};
    const Kind& kind = rendering_.kind;
    Json object{{"kind", kind.kind},
                {"apiVersion", kind.api_version(rendering_.version)},
                {"metadata", metadata}};
    if (rendering_.wanted.form == Form::table) {
      object = {{"kind", "Table"},
                {"apiVersion", "meta.k8s.io/" + rendering_.wanted.table_version},
                {"metadata", metadata},
                {"columnDefinitions", nullptr},
                {"rows", Json::array()}};
    }
    send("BOOKMARK", object, out);
  }

  void send(const char* type, const Json& object, std::string& out) const {
    if (rendering_.wanted.form == Form::text) {
      // Bookmarks tell people nothing.
      if (type == std::string_view("ERROR")) out += text(member(object, "message")) + "\n";
      return;
    }
    out += std::string("{\"type\":\"") + type + "\",\"object\":" + json_text(object) + "}\n";
  }

  store::Store& store_;
  Scheduler& scheduler_;
  ObjectFilter filter_;
  Rendering rendering_;
  Options options_;
  store::Revision position_;  // up to here everything was sent
  std::vector<store::ObjectPtr> initial_;
  std::size_t next_initial_ = 0;
  bool columns_sent_ = false;
  std::optional<TextTable> lines_;
  bool waiting_ = false;
  bool timed_out_ = false;
  bool bookmark_due_ = false;
  std::function<void()> wake_;
  store::WatchFeed::Subscription subscription_;
  std::unique_ptr<Scheduler::Timer> deadline_;
  std::unique_ptr<Scheduler::Timer> bookmark_timer_;
};

}  // namespace

Response watch_response(store::Store& store, Scheduler& scheduler, ObjectFilter filter,
                        Rendering rendering, const Request& request) {
  const Options options = read_options(request);
  if (!options.initial_objects && options.since > store.revision()) {
    // Clients list again then, which is right where the daemon went back to a copy of its database.
    throw expired("resource version " + std::to_string(options.since) +
                  " has not been yet; the last one is " + std::to_string(store.revision()));
  }
  if (!options.initial_objects && !store.feed().holds(options.since)) {
    throw too_old(options.since, store.revision());
  }
  Response response;
  response.live = true;
  if (rendering.wanted.form == Form::text) response.content_type = "text/plain; charset=utf-8";
  response.stream = std::make_unique<WatchStream>(store, scheduler, std::move(filter),
                                                  std::move(rendering), options);
  return response;
}

}  // namespace virtset::api
