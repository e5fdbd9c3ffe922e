// Bodies as JSON and as YAML. What was read must come out of the writer as it went in.

#include "api/rest/negotiation.h"
#include "tests/fuzz/fuzz.h"

using namespace virtset;

namespace {

// Parsers must not make much of little: aliases could repeat a long text for ever.
constexpr std::size_t heaviest = 4 << 20;
constexpr int deepest = 100;
// More of the same, which aliases make, would find nothing else.
constexpr std::size_t heaviest_written = 2000;
// What our own YAML is read back with.
constexpr int deepest_yaml = 64;

void read(const char* type, std::string_view body) {
  fuzz::Json json;
  if (!fuzz::accepted([&] { json = api::parse_body(type, body); })) return;
  fuzz::require(api::depth_of(json) <= deepest, "bodies are not nested too deeply");
  const std::size_t weight = fuzz::weight(json);
  fuzz::require(weight <= heaviest, "bodies are not heavier than their text");
  if (weight > heaviest_written) return;
  const std::string text = json.dump();
  fuzz::require(fuzz::Json::parse(text) == json, "JSON is read as it was written", text);
  if (api::depth_of(json) >= deepest_yaml) return;
  const std::string yaml = api::to_yaml(json);
  fuzz::Json again;
  try {
    again = api::parse_yaml(yaml);
  } catch (const api::BadYaml& bad) {
    fuzz::require(false, bad.what(), yaml);
  }
  fuzz::require(again == json, "YAML is read as it was written", text + "\n" + yaml);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body = fuzz::view(data, size);
  read("application/json", body);
  read("application/yaml", body);
  return 0;
}
