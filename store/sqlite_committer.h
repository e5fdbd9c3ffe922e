// The committer of the daemon: one SQLite database (WAL, synchronous=FULL) and one thread, because
// on an edge box with an SD card one fsync takes 50 ms, which the loop must not wait for.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "store/committer.h"
#include "store/sqlite.h"

namespace virtset::store {

// What a database held when it was opened.
struct Contents {
  struct Entry {
    Key key;
    std::string uid;
    Revision revision;
    std::string text;
  };
  std::vector<Entry> entries;  // ordered by key
  Revision revision = 0;       // the last one used, also by deletions
  std::string installation;    // a UUID made when the database was created
};

class SqliteCommitter final : public Committer {
 public:
  // Opens or creates the database, migrates it forward and starts the thread. Throws OpenFailed,
  // which says what to do, also for a database written by a newer version.
  explicit SqliteCommitter(const std::string& path, const char* vfs = nullptr);
  // Finishes what was handed over, then stops.
  ~SqliteCommitter() override;

  // Reads everything. Only before the first commit.
  Contents load();

  void commit(std::vector<Row> batch, Done done) override;

 private:
  struct Work {
    std::vector<Row> batch;
    Done done;
  };

  struct Statements {
    explicit Statements(Database& database);
    Statement put, remove, count;
  };

  void run();
  std::exception_ptr write(const std::vector<Row>& batch);
  void give_back_free_pages();

  Database database_;
  // Of the thread; made anew after a failure, so that nothing of it stays behind.
  std::optional<Statements> statements_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Work> queue_;  // bounded by the store, which commits one batch at a time
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace virtset::store
