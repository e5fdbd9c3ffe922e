#include "store/migrations.h"

#include <array>
#include <string>

#include "store/errors.h"

namespace virtset::store {

namespace {

// Step n brings version n to n + 1. A step is never changed once released.
constexpr std::array steps = {
    // The primary key is the order in which lists are given. `counter` outlives the objects, so
    // that no revision is ever used twice, and `installation` marks what this daemon owns on the
    // host.
    R"sql(
      CREATE TABLE objects (
        grp      TEXT    NOT NULL,
        kind     TEXT    NOT NULL,
        ns       TEXT    NOT NULL,
        name     TEXT    NOT NULL,
        uid      TEXT    NOT NULL,
        revision INTEGER NOT NULL,
        document TEXT    NOT NULL,
        PRIMARY KEY (grp, kind, ns, name)
      ) STRICT;
      CREATE TABLE counter (revision INTEGER NOT NULL) STRICT;
      INSERT INTO counter VALUES (0);
      CREATE TABLE installation (id TEXT NOT NULL) STRICT;
      INSERT INTO installation SELECT lower(
        substr(h, 1, 8) || '-' || substr(h, 9, 4) || '-4' || substr(h, 14, 3) || '-a' ||
        substr(h, 18, 3) || '-' || substr(h, 21, 12)) FROM (SELECT hex(randomblob(16)) AS h);
    )sql",
};

}  // namespace

void migrate(Database& database) {
  const std::int64_t version = database.integer("PRAGMA user_version");
  const auto known = static_cast<std::int64_t>(steps.size());
  if (version > known) {
    throw OpenFailed("the database has schema version " + std::to_string(version) +
                     ", but this virtsetd knows versions up to " + std::to_string(known) +
                     "; install the newer virtsetd or restore a backup");
  }
  for (std::int64_t step = version; step < known; ++step) {
    Transaction transaction(database);
    database.execute(steps[static_cast<std::size_t>(step)]);
    database.execute("PRAGMA user_version=" + std::to_string(step + 1));
    transaction.commit();
  }
}

}  // namespace virtset::store
