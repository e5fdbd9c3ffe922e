// A committer without a disk: what was committed is durable at once, or when the test says so.
#pragma once

#include <algorithm>
#include <climits>
#include <deque>
#include <functional>
#include <map>

#include "store/committer.h"
#include "store/errors.h"
#include "store/sqlite_committer.h"

namespace virtset::test {

// What would be on the disk. Outlives the committer, as a disk does.
struct Disk {
  std::map<store::Key, store::ObjectPtr> rows;
  store::Revision revision = 0;

  store::Contents contents() const {
    store::Contents contents;
    contents.revision = revision;
    contents.installation = "6d0cf6f5-3b4c-4e0f-a3a6-000000000001";
    for (const auto& [key, object] : rows) {
      contents.entries.push_back({key, object->uid(), object->revision(), object->text()});
    }
    return contents;
  }
};

class MemoryCommitter final : public store::Committer {
 public:
  explicit MemoryCommitter(Disk& disk) : disk_(disk) {}

  void commit(std::vector<store::Row> batch, Done done) override {
    ++commits;
    if (commits > last_commit) held = true;
    rows += batch.size();
    waiting_.push_back({std::move(batch), std::move(done)});
    if (!held) release();
  }

  // Commits what waits; or fails it.
  void release() {
    while (!waiting_.empty()) {
      Waiting next = std::move(waiting_.front());
      waiting_.pop_front();
      if (failing || is_refused(next.batch)) {
        next.done(std::make_exception_ptr(store::CommitFailed("database or disk is full", true)));
        continue;
      }
      for (const store::Row& row : next.batch) {
        disk_.revision = row.object->revision();
        if (row.operation == store::Row::Operation::put) {
          disk_.rows[row.object->key()] = row.object;
        } else {
          disk_.rows.erase(row.object->key());
        }
      }
      next.done(nullptr);
    }
  }

  bool held = false;
  bool failing = false;
  // Batches with such a row fail.
  std::function<bool(const store::Row&)> refuse;
  int last_commit = INT_MAX;  // those after it hang, until the test kills the daemon
  int commits = 0;
  std::size_t rows = 0;

 private:
  bool is_refused(const std::vector<store::Row>& batch) const {
    return refuse && std::any_of(batch.begin(), batch.end(), refuse);
  }

  struct Waiting {
    std::vector<store::Row> batch;
    Done done;
  };
  Disk& disk_;
  std::deque<Waiting> waiting_;
};

}  // namespace virtset::test
