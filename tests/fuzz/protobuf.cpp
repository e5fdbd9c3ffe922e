// Kubernetes' protobuf form: a line that names a kind, then the body.

#include "api/rest/protobuf.h"

#include "tests/fuzz/fuzz.h"

using namespace virtset;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest = fuzz::view(data, size);
  const api::Schema& schema = *fuzz::take_kind(rest).schema;
  fuzz::accepted([&] {
    fuzz::Json object = api::decode_protobuf(rest, schema);
    fuzz::require(object.is_object(), "a message is an object");
    // A field of two bytes may stand for an object.
    fuzz::require(fuzz::weight(object) <= 64 + 16 * size, "a message is no heavier than its text");
    // Throws for what is not UTF-8, which would be found only later.
    const std::string text = [&]() -> std::string {
      try {
        return object.dump();
      } catch (const fuzz::Json::exception& error) {
        fuzz::require(false, "what was decoded can be written", error.what());
        return "";
      }
    }();
    api::SchemaFindings findings;
    schema.apply(object, findings);
  });
  return 0;
}
