// Server-side apply onto objects whose managedFields anybody may have written: a byte that names a
// kind, the configuration, and after "====" the object with its managedFields.

#include "api/rest/apply/apply.h"

#include "api/rest/apply/field_set.h"
#include "api/rest/negotiation.h"
#include "tests/fuzz/fuzz.h"

using namespace virtset;

namespace {

void check_field_set(const fuzz::Json& json) {
  const auto set = api::FieldSet::parse(json);
  fuzz::require(api::FieldSet::parse(set.to_json()) == set, "a set of fields is read as written",
                api::json_text(json));
  auto twice = set;
  fuzz::require(twice.unite(set) == set, "a set united with itself is itself",
                api::json_text(json));
  fuzz::require(twice.subtract(set).empty(), "a set without itself is empty", api::json_text(json));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest = fuzz::view(data, size);
  const api::Kind& kind = fuzz::take_kind(rest);
  const std::string_view body = fuzz::take(rest, fuzz::next_part);
  const api::Writer writer{"fuzzer", kind.api_version(), ""};
  const api::Writer other{"other", kind.api_version(), ""};
  const api::Time now{std::chrono::seconds(1'800'000'000)};
  const api::Time later = now + std::chrono::seconds(60);
  fuzz::Json configuration, current;
  const bool read = fuzz::accepted([&] {
    configuration = api::parse_body("application/apply-patch+yaml", body);
    if (!rest.empty()) current = api::parse_body("application/json", rest);
  });
  if (!read) return 0;
  fuzz::accepted([&] { check_field_set(configuration); });
  if (!current.is_null() && !current.is_object()) return 0;
  const fuzz::Json* const before = current.is_null() ? nullptr : &current;
  fuzz::accepted([&] {
    const fuzz::Json applied = api::apply(kind, before, configuration, writer, true, now);
    fuzz::require(applied.is_object(), "an object comes of it", api::json_text(applied));
    const fuzz::Json again = api::apply(kind, &applied, configuration, writer, false, later);
    fuzz::require(api::equal_but_for_times(applied, again), "the second time changes nothing",
                  api::json_text(applied) + "\n" + api::json_text(again));
  });
  if (!before || !configuration.is_object()) return 0;
  // As an update: whatever is in either.
  fuzz::Json next = configuration;
  api::record_update(kind, current, next, other, later);
  return 0;
}
