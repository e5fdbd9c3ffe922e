// Watches: a stream of changes, one JSON document per line.
#pragma once

#include "api/rest/filter.h"
#include "api/rest/rendering.h"
#include "api/rest/scheduler.h"
#include "store/store.h"

namespace virtset::api {

// Reads resourceVersion, timeoutSeconds, allowWatchBookmarks and sendInitialEvents. Without a
// resourceVersion, or with 0, it begins with the present objects as ADDED. A watcher that falls so
// far behind that changes it has not seen are forgotten gets an ERROR of code 410 and the end, as
// does one that asks for a revision that is forgotten or has not been. Throws ApiError for
// parameters that make no sense. The store and the scheduler must outlive the response's stream.
Response watch_response(store::Store& store, Scheduler& scheduler, ObjectFilter filter,
                        Rendering rendering, const Request& request);

}  // namespace virtset::api
