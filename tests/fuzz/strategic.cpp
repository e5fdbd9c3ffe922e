// Strategic merge patches: a line that names a kind, the patch, and after "====" the document.

#include "api/rest/negotiation.h"
#include "api/rest/strategic_merge.h"
#include "tests/fuzz/fuzz.h"

using namespace virtset;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest = fuzz::view(data, size);
  const api::Schema& schema = *fuzz::take_kind(rest).schema;
  const std::string_view body = fuzz::take(rest, fuzz::next_part);
  fuzz::accepted([&] {
    const fuzz::Json patch = api::parse_body("application/json", body);
    const fuzz::Json document =
        rest.empty() ? fuzz::Json::object() : api::parse_body("application/json", rest);
    const fuzz::Json result = api::strategic_merge(document, patch, schema);
    fuzz::require(result.is_object(), "the result is an object", api::json_text(result));
    fuzz::require(!result.contains("$patch") || document.contains("$patch"),
                  "directives are not kept", api::json_text(result));
    fuzz::require(fuzz::weight(result) <= fuzz::weight(document) + fuzz::weight(patch),
                  "a patch does not make much of little", api::json_text(result));
    fuzz::require(api::strategic_merge(result, fuzz::Json::object(), schema) == result,
                  "a patch that says nothing changes nothing", api::json_text(result));
  });
  return 0;
}
