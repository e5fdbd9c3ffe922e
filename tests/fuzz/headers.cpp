// The headers that say in what form things come and go.

#include "api/http/gzip.h"
#include "api/rest/negotiation.h"
#include "tests/fuzz/fuzz.h"

using namespace virtset;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::view(data, size);
  const api::Wanted wanted = api::negotiate(text);
  fuzz::require(wanted.table_version == "v1" || wanted.table_version == "v1beta1",
                "a table is of a version that there is", wanted.table_version);
  fuzz::require(wanted.discovery_version == "v2" || wanted.discovery_version == "v2beta1",
                "discovery is of a version that there is", wanted.discovery_version);
  const std::string type = api::media_type(text);
  fuzz::require(api::media_type(type) == type, "a bare media type stays as it is", type);
  static_cast<void>(api::takes_gzip(text));
  return 0;
}
