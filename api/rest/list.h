// Lists, sent while they are made.
#pragma once

#include <memory>

#include "api/rest/filter.h"
#include "api/rest/list_options.h"
#include "api/rest/rendering.h"
#include "store/store.h"

namespace virtset::api {

// The objects that the filter matches, as they are now or as the request's options say (see
// list_options.h, also for what it throws): what changes while the list is sent is not in it.
// Neither its memory nor its turns on the loop grow with the number of objects, apart from one
// pointer each, and the text form, which must know the widest cell.
Response list_response(const store::Store& store, const Scheduler& scheduler, ObjectFilter filter,
                       Rendering rendering, const Request& request);

// These objects as a list, those that the filter matches, `limit` of them at most if it is not 0.
Response list_response(Snapshot snapshot, std::size_t limit, ObjectFilter filter,
                       Rendering rendering, Time now);

}  // namespace virtset::api
