#include "store/sqlite_committer.h"

#include <pthread.h>
#include <spdlog/spdlog.h>

#include "store/errors.h"
#include "store/migrations.h"

namespace virtset::store {

namespace {

// Pages of 4 KiB that may lie free before they are given back to the file system, a few at a time.
constexpr std::int64_t free_pages_kept = 1024;
constexpr std::int64_t free_pages_given_back_at_once = 256;

Database open(const std::string& path, const char* vfs) {
  try {
    Database database(path, vfs);
    // auto_vacuum only takes effect on a database without tables, so it comes first.
    database.execute("PRAGMA auto_vacuum=INCREMENTAL");
    database.execute("PRAGMA journal_mode=WAL");
    database.execute("PRAGMA synchronous=FULL");
    database.execute("PRAGMA foreign_keys=ON");
    database.execute("PRAGMA journal_size_limit=16777216");
    migrate(database);
    return database;
  } catch (const SqliteError& error) {
    throw OpenFailed("cannot open the database " + path + ": " + error.what());
  }
}

}  // namespace

SqliteCommitter::SqliteCommitter(const std::string& path, const char* vfs)
    : database_(open(path, vfs)), thread_([this] { run(); }) {
  pthread_setname_np(thread_.native_handle(), "store");
}

SqliteCommitter::~SqliteCommitter() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  arrived_.notify_one();
  thread_.join();
}

Contents SqliteCommitter::load() {
  Contents contents;
  contents.revision = database_.integer("SELECT revision FROM counter");
  Statement installation(database_, "SELECT id FROM installation");
  if (installation.step()) contents.installation = installation.text(0);
  Statement rows(database_,
                 "SELECT grp, kind, ns, name, uid, revision, document FROM objects "
                 "ORDER BY grp, kind, ns, name");
  while (rows.step()) {
    contents.entries.push_back({{rows.text(0), rows.text(1), rows.text(2), rows.text(3)},
                                rows.text(4),
                                rows.integer(5),
                                rows.text(6)});
  }
  return contents;
}

void SqliteCommitter::commit(std::vector<Row> batch, Done done) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back({std::move(batch), std::move(done)});
  }
  arrived_.notify_one();
}

void SqliteCommitter::run() {
  for (;;) {
    Work work;
    {
      std::unique_lock lock(mutex_);
      arrived_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work.done(write(work.batch));
    work = {};  // frees the batch before the vacuum, which may take a while
    give_back_free_pages();
  }
}

SqliteCommitter::Statements::Statements(Database& database)
    : put(database,
          "INSERT INTO objects (grp, kind, ns, name, uid, revision, document) "
          "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (grp, kind, ns, name) "
          "DO UPDATE SET uid = ?5, revision = ?6, document = ?7"),
      remove(database,
             "DELETE FROM objects WHERE grp = ?1 AND kind = ?2 AND ns = ?3 AND name = ?4"),
      count(database, "UPDATE counter SET revision = ?1") {}

std::exception_ptr SqliteCommitter::write(const std::vector<Row>& batch) {
  try {
    if (!statements_) statements_.emplace(database_);
    auto& [put, remove, count] = *statements_;
    Transaction transaction(database_);
    Revision last = 0;
    for (const Row& row : batch) {
      const Object& object = *row.object;
      const Key& key = object.key();
      Statement& statement = row.operation == Row::Operation::put ? put : remove;
      statement.bind(1, key.group).bind(2, key.kind).bind(3, key.ns).bind(4, key.name);
      if (row.operation == Row::Operation::put) {
        statement.bind(5, object.uid()).bind(6, object.revision()).bind(7, object.text());
      }
      statement.run();
      last = std::max(last, object.revision());
    }
    count.bind(1, last).run();
    transaction.commit();
    return nullptr;
  } catch (const SqliteError& error) {
    statements_.reset();
    return std::make_exception_ptr(CommitFailed(error.what(), error.code() == SQLITE_FULL));
  }
}

void SqliteCommitter::give_back_free_pages() {
  try {
    if (database_.integer("PRAGMA freelist_count") <= free_pages_kept) return;
    database_.execute("PRAGMA incremental_vacuum(" + std::to_string(free_pages_given_back_at_once) +
                      ")");
  } catch (const SqliteError& error) {
    // Harmless: the pages stay in the file and are used again.
    spdlog::debug("store: incremental vacuum: {}", error.what());
  }
}

}  // namespace virtset::store
