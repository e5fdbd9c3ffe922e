// The desired and observed state of the daemon: objects in memory, made durable in groups.
//
// Everything here belongs to the loop thread. Reads are from memory and see exactly what is
// durable: a write becomes visible to reads, watches and listeners when its commit is done, all
// writes of a transaction at once. So a read after an acknowledged write sees it, and nothing that
// was seen is lost by a power cut.
#pragma once

#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/committer.h"
#include "store/object.h"
#include "store/object_table.h"
#include "store/sqlite_committer.h"
#include "store/watch_feed.h"

namespace virtset::store {

class Store {
 public:
  // Runs a function on the loop thread, soon; may be called from any thread.
  using Post = std::function<void(std::function<void()>)>;

  // What a write wants to do, decided by looking at the object as it is.
  struct Mutation {
    enum class Type { nothing, put, remove };
    Type type = Type::nothing;
    // For put: must have metadata.uid; metadata.resourceVersion is set by the store.
    Json document;

    static Mutation nothing() { return {}; }
    static Mutation put(Json document) { return {Type::put, std::move(document)}; }
    static Mutation remove() { return {Type::remove, {}}; }
  };
  // Sees the current object, or null; called once at most, so it may give away what it holds. An
  // exception ends the write and is handed to `done`.
  using Mutate = std::function<Mutation(const Object* current)>;

  struct Outcome {
    std::exception_ptr error;  // CommitFailed, TooLarge, or what Mutate threw
    ObjectPtr object;          // as it now stands; for a removal the last state
    bool changed = false;
  };
  using Done = std::function<void(const Outcome&)>;

  struct Limits {
    std::size_t waiting_writes = 65'536;
    std::size_t rows_per_commit = 1'024;
    std::size_t parsed_documents = 512;
    std::size_t document_bytes = 3u << 20;
  };

  Store(std::unique_ptr<Committer> committer, Contents contents, Post post)
      : Store(std::move(committer), std::move(contents), std::move(post), Limits{}) {}
  Store(std::unique_ptr<Committer> committer, Contents contents, Post post, Limits limits);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Null if there is no such object.
  ObjectPtr get(const Key& key) const { return view_.find(key); }
  // All objects of a kind, in `ns` only if given, ordered by namespace and name.
  std::vector<ObjectPtr> list(std::string_view group, std::string_view kind,
                              std::optional<std::string_view> ns = {}) const {
    return view_.list(group, kind, ns);
  }
  // The same as it was at an earlier revision; nothing if the watch feed no longer holds what has
  // changed since.
  std::optional<std::vector<ObjectPtr>> list_at(Revision revision, std::string_view group,
                                                std::string_view kind,
                                                std::optional<std::string_view> ns = {}) const;
  // The revision that reads reflect.
  Revision revision() const { return visible_; }
  WatchFeed& feed() { return feed_; }
  std::size_t size() const { return view_.size(); }

  // Writes one object. A second write to the same object waits for the first, so `mutate` always
  // sees what is durable. `done` is called once, on the loop thread and never from within write():
  // after the commit, or on a later turn if there is nothing to commit. Throws Overloaded if too
  // many writes wait.
  void write(const Key& key, Mutate mutate, Done done);
  // Whether a write to this object is under way.
  bool busy(const Key& key) const { return slots_.contains(key); }
  // Whether any write under way is to an object in this namespace.
  bool busy_in_namespace(std::string_view ns) const;
  // Calls `idle` when no write is under way, once.
  void when_idle(std::function<void()> idle);

 private:
  struct Request {
    Mutate mutate;
    Done done;
  };
  struct Write {
    Row row;
    std::shared_ptr<const Json> document;  // null for a removal
    Done done;
  };

  void evaluate(const Key& key, Request request);
  std::optional<Write> build(const Key& key, Request& request);
  void schedule_flush();
  void flush();
  void committed(std::vector<Write> writes, std::exception_ptr error);
  Change make_visible(const Write& write);
  void release(const Key& key);
  void report_idle();

  std::unique_ptr<Committer> committer_;
  Post post_;
  Limits limits_;
  std::shared_ptr<RecentDocuments> recent_;
  ObjectTable view_;
  WatchFeed feed_;
  Revision visible_ = 0;
  Revision last_used_ = 0;

  // A slot per object that is being written, with the requests that wait for it.
  KeyMap<std::list<Request>> slots_;
  std::size_t waiting_ = 0;
  std::deque<Write> gathered_;
  bool flush_scheduled_ = false;
  bool committing_ = false;
  std::vector<std::function<void()>> when_idle_;
  // Guards posted callbacks against a store that is gone.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace virtset::store
