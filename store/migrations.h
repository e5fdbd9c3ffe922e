// The schema of the database and its versions.
#pragma once

#include "store/sqlite.h"

namespace virtset::store {

// Brings the database to the schema of this version, one transaction per step. Throws OpenFailed if
// a newer version wrote it: going back needs a backup, not a guess.
void migrate(Database& database);

}  // namespace virtset::store
