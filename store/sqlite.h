// RAII over the parts of SQLite that the store uses. A Database and its Statements belong to one
// thread at a time. Every failure is a SqliteError with SQLite's own words.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace virtset::store {

class SqliteError : public std::runtime_error {
 public:
  SqliteError(int code, const std::string& message) : std::runtime_error(message), code_(code) {}
  int code() const { return code_; }  // primary result code, e.g. SQLITE_FULL

 private:
  int code_;
};

class Database {
 public:
  // Opens or creates the database. `vfs` names a registered SQLite VFS; null is the default one.
  explicit Database(const std::string& path, const char* vfs = nullptr);

  // Runs statements that give no rows that matter.
  void execute(const std::string& sql);
  std::int64_t integer(const std::string& sql);
  sqlite3* handle() const { return handle_.get(); }

 private:
  struct Close {
    void operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }
  };
  std::unique_ptr<sqlite3, Close> handle_;
};

// A prepared statement, reused: bind, step until false, reset.
class Statement {
 public:
  Statement(Database& database, const std::string& sql);

  Statement& bind(int index, std::string_view text);
  Statement& bind(int index, std::int64_t value);
  // True while there is a row.
  bool step();
  void reset();
  // Runs a statement without rows and makes it ready for the next use.
  void run() {
    step();
    reset();
  }

  std::string text(int column) const;
  std::int64_t integer(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* handle) const { sqlite3_finalize(handle); }
  };
  std::unique_ptr<sqlite3_stmt, Finalize> handle_;
};

// BEGIN IMMEDIATE … COMMIT; rolls back unless commit() was reached.
class Transaction {
 public:
  explicit Transaction(Database& database) : database_(database) {
    database_.execute("BEGIN IMMEDIATE");
  }
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  void commit() {
    database_.execute("COMMIT");
    open_ = false;
  }

 private:
  Database& database_;
  bool open_ = true;
};

}  // namespace virtset::store
