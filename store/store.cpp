#include "store/store.h"

#include <algorithm>
#include <map>

#include "store/errors.h"

namespace virtset::store {

Store::Store(std::unique_ptr<Committer> committer, Contents contents, Post post, Limits limits)
    : committer_(std::move(committer)),
      post_(std::move(post)),
      limits_(limits),
      recent_(std::make_shared<RecentDocuments>(limits.parsed_documents)),
      visible_(contents.revision),
      last_used_(contents.revision) {
  for (auto& entry : contents.entries) {
    view_.put(std::make_shared<const Object>(std::move(entry.key), std::move(entry.uid),
                                             entry.revision, std::move(entry.text), recent_));
  }
  feed_.begin_at(visible_);
}

Store::~Store() {
  // The committer finishes its batch first; its callback then finds the store gone.
  committer_.reset();
  *alive_ = false;
}

void Store::write(const Key& key, Mutate mutate, Done done) {
  if (waiting_ >= limits_.waiting_writes) throw Overloaded();
  ++waiting_;
  Request request{std::move(mutate), std::move(done)};
  const auto [slot, is_free] = slots_.try_emplace(key);
  if (!is_free) {
    slot->second.push_back(std::move(request));
    return;
  }
  evaluate(key, std::move(request));
}

std::optional<std::vector<ObjectPtr>> Store::list_at(Revision revision, std::string_view group,
                                                     std::string_view kind,
                                                     std::optional<std::string_view> ns) const {
  if (!feed_.holds(revision) || revision > visible_) return std::nullopt;
  // The first change of an object since then tells what it was.
  std::map<Key, ObjectPtr> then;
  for (const Change* change = feed_.next_after(revision); change;
       change = feed_.next_after(change->revision())) {
    const Key& key = change->object->key();
    if (key.kind == kind && key.group == group && (!ns || key.ns == *ns)) {
      then.try_emplace(key, change->previous);
    }
  }
  std::vector<ObjectPtr> objects;
  auto changed = then.begin();
  const auto add_changed = [&] {
    if (changed->second) objects.push_back(changed->second);
    ++changed;
  };
  for (ObjectPtr& object : view_.list(group, kind, ns)) {
    while (changed != then.end() && changed->first < object->key()) add_changed();
    if (changed != then.end() && changed->first == object->key()) {
      add_changed();
    } else {
      objects.push_back(std::move(object));
    }
  }
  while (changed != then.end()) add_changed();
  return objects;
}

bool Store::busy_in_namespace(std::string_view ns) const {
  return std::any_of(slots_.begin(), slots_.end(),
                     [&](const auto& slot) { return slot.first.ns == ns; });
}

void Store::when_idle(std::function<void()> idle) {
  when_idle_.push_back(std::move(idle));
  if (waiting_ == 0) report_idle();
}

void Store::evaluate(const Key& key, Request request) {
  auto write = build(key, request);
  if (!write) {
    release(key);
    return;
  }
  gathered_.push_back(std::move(*write));
  schedule_flush();
}

// The write to commit, or nothing if there is only an answer to give.
std::optional<Store::Write> Store::build(const Key& key, Request& request) {
  const ObjectPtr current = get(key);
  Outcome outcome{nullptr, current, false};
  try {
    Mutation mutation = request.mutate(current.get());
    const bool removes = mutation.type == Mutation::Type::remove;
    if (mutation.type == Mutation::Type::put || (removes && current)) {
      const Revision revision = ++last_used_;
      Json document = removes ? Json(*current->document()) : std::move(mutation.document);
      document["metadata"]["resourceVersion"] = std::to_string(revision);
      std::string text = document.dump(-1, ' ', false, Json::error_handler_t::replace);
      if (!removes && text.size() > limits_.document_bytes) {
        throw TooLarge(text.size(), limits_.document_bytes);
      }
      text.shrink_to_fit();
      auto object = std::make_shared<const Object>(key, document["metadata"].value("uid", ""),
                                                   revision, std::move(text), recent_);
      return Write{{removes ? Row::Operation::remove : Row::Operation::put, std::move(object)},
                   removes ? nullptr : std::make_shared<const Json>(std::move(document)),
                   std::move(request.done)};
    }
  } catch (...) {
    outcome.error = std::current_exception();
  }
  post_([this, alive = alive_, done = std::move(request.done), outcome] {
    if (!*alive) return;
    --waiting_;
    if (done) done(outcome);
    if (waiting_ == 0) report_idle();
  });
  return std::nullopt;
}

void Store::schedule_flush() {
  if (flush_scheduled_ || committing_) return;
  // At the end of the turn, so that the 250 creations of one reconcile are one transaction.
  flush_scheduled_ = true;
  post_([this, alive = alive_] {
    if (!*alive) return;
    flush_scheduled_ = false;
    flush();
  });
}

void Store::flush() {
  if (committing_ || gathered_.empty()) return;
  committing_ = true;
  const auto count = std::min(gathered_.size(), limits_.rows_per_commit);
  auto writes = std::make_shared<std::vector<Write>>();
  std::vector<Row> rows;
  for (std::size_t i = 0; i < count; ++i) {
    rows.push_back(gathered_.front().row);
    writes->push_back(std::move(gathered_.front()));
    gathered_.pop_front();
  }
  committer_->commit(std::move(rows),
                     [post = post_, this, alive = alive_, writes](std::exception_ptr error) {
                       post([this, alive, writes, error] {
                         if (*alive) committed(std::move(*writes), error);
                       });
                     });
}

void Store::committed(std::vector<Write> writes, std::exception_ptr error) {
  committing_ = false;
  std::vector<Change> changes;
  if (!error) {
    for (const Write& write : writes) changes.push_back(make_visible(write));
    visible_ = writes.back().row.object->revision();
  }
  // The next transaction gathers and is on its way before anybody reacts to this one.
  flush();
  feed_.append(std::move(changes));
  for (Write& write : writes) {
    const Key& key = write.row.object->key();
    const ObjectPtr object = error ? get(key) : write.row.object;
    --waiting_;
    if (write.done) write.done({error, object, !error});
    release(key);
  }
  if (waiting_ == 0) report_idle();
}

Change Store::make_visible(const Write& write) {
  const ObjectPtr& object = write.row.object;
  if (write.row.operation == Row::Operation::remove) {
    return {Change::Type::deleted, object, view_.remove(object->key())};
  }
  object->remember(write.document);
  const ObjectPtr previous = view_.put(object);
  return {previous ? Change::Type::modified : Change::Type::added, object, previous};
}

// The write that held the slot has ended: the next one that waits for it takes its turn.
void Store::release(const Key& key) {
  const auto slot = slots_.find(key);
  while (!slot->second.empty()) {
    Request next = std::move(slot->second.front());
    slot->second.pop_front();
    if (auto write = build(key, next)) {
      gathered_.push_back(std::move(*write));
      schedule_flush();
      return;
    }
  }
  slots_.erase(slot);
}

void Store::report_idle() {
  for (auto& idle : std::exchange(when_idle_, {})) post_(std::move(idle));
}

}  // namespace virtset::store
