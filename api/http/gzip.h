// Compression of answers, for clients that take it.
#pragma once

#include "api/rest/message.h"

namespace virtset::api {

// Whether an Accept-Encoding header takes gzip.
bool takes_gzip(std::string_view accept_encoding);

// The answer with its body compressed, if that is long enough to be worth it (Kubernetes: from 128
// KiB on) and not live. The beginning of a stream is read to find out. Loop thread only.
Response compress(Response response);

}  // namespace virtset::api
