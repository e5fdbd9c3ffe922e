// JSON patches and merge patches: a patch, and after "====" the document, or else a sample of one.

#include "api/rest/negotiation.h"
#include "api/rest/write_support.h"
#include "tests/fuzz/fuzz.h"

using namespace virtset;

namespace {

// What a document may weigh after a patch, however often that copies: Kubernetes lets JSON patches
// copy 3 MiB.
constexpr std::size_t heaviest = 4 << 20;
constexpr int deepest = 200;

const fuzz::Json sample = {{"kind", "ConfigMap"},
                           {"metadata", {{"name", "a"}, {"labels", {{"b", "c"}, {"d/e~f", ""}}}}},
                           {"data", {{"key", "value"}}},
                           {"list", {1, 2.5, "3", nullptr, true, {{"name", "x"}}}}};

void patch(const char* type, std::string_view body, const fuzz::Json& document) {
  const api::Request request{.method = "PATCH", .content_type = type, .body = std::string(body)};
  fuzz::accepted([&] {
    const auto apply = api::read_patch(api::builtin_kinds().all().front(), request);
    const fuzz::Json result = apply(document);
    fuzz::require(api::depth_of(result) <= deepest, "a patch does not nest without end");
    fuzz::require(fuzz::weight(result) <= heaviest, "a patch does not make much of little");
    if (type == std::string_view("application/merge-patch+json")) {
      fuzz::require(apply(result) == result, "a merge patch changes nothing the second time");
    }
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest = fuzz::view(data, size);
  const std::string_view body = fuzz::take(rest, fuzz::next_part);
  fuzz::Json document = sample;
  if (!rest.empty() &&
      !fuzz::accepted([&] { document = api::parse_body("application/json", rest); }))
    return 0;
  patch("application/json-patch+json", body, document);
  patch("application/merge-patch+json", body, document);
  return 0;
}
