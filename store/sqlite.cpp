#include "store/sqlite.h"

namespace virtset::store {

namespace {

[[noreturn]] void fail(sqlite3* handle, int code) {
  std::string message = handle ? sqlite3_errmsg(handle) : sqlite3_errstr(code);
  throw SqliteError(code & 0xff, message);
}

}  // namespace

Database::Database(const std::string& path, const char* vfs) {
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(
      path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, vfs);
  handle_.reset(handle);
  if (code != SQLITE_OK) fail(handle, code);
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, 5000);
}

void Database::execute(const std::string& sql) {
  const int code = sqlite3_exec(handle(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(handle(), code);
}

std::int64_t Database::integer(const std::string& sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.integer(0) : 0;
}

Statement::Statement(Database& database, const std::string& sql) {
  sqlite3_stmt* handle = nullptr;
  const int code = sqlite3_prepare_v2(database.handle(), sql.c_str(), -1, &handle, nullptr);
  if (code != SQLITE_OK) fail(database.handle(), code);
  handle_.reset(handle);
}

Statement& Statement::bind(int index, std::string_view text) {
  // SQLITE_STATIC: the caller keeps the text until the statement has run. A null pointer would bind
  // NULL, which is not the empty string.
  const int code = sqlite3_bind_text64(handle_.get(), index, text.data() ? text.data() : "",
                                       text.size(), SQLITE_STATIC, SQLITE_UTF8);
  if (code != SQLITE_OK) fail(sqlite3_db_handle(handle_.get()), code);
  return *this;
}

Statement& Statement::bind(int index, std::int64_t value) {
  const int code = sqlite3_bind_int64(handle_.get(), index, value);
  if (code != SQLITE_OK) fail(sqlite3_db_handle(handle_.get()), code);
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(handle_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  sqlite3* database = sqlite3_db_handle(handle_.get());
  const SqliteError error(code & 0xff, sqlite3_errmsg(database));
  reset();
  throw error;
}

void Statement::reset() {
  sqlite3_reset(handle_.get());
  sqlite3_clear_bindings(handle_.get());
}

std::string Statement::text(int column) const {
  const auto* data = sqlite3_column_text(handle_.get(), column);
  const auto size = static_cast<std::size_t>(sqlite3_column_bytes(handle_.get(), column));
  return data ? std::string(reinterpret_cast<const char*>(data), size) : std::string();
}

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(handle_.get(), column);
}

Transaction::~Transaction() {
  if (!open_) return;
  // After some failures SQLite has rolled back by itself; then this does nothing.
  sqlite3_exec(database_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
}

}  // namespace virtset::store
