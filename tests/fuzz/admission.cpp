// Manifests as they are admitted, then shown and sent back: that must change nothing.

#include "api/kinds/admission.h"

#include "api/kinds/json_access.h"
#include "api/rest/negotiation.h"
#include "api/rest/table.h"
#include "tests/fuzz/fuzz.h"

using namespace virtset;

namespace {

const api::Kind* kind_of(const fuzz::Json& object) {
  const std::string version = api::text(api::member(object, "apiVersion"));
  const auto slash = version.find('/');
  return api::builtin_kinds().find(slash == version.npos ? "" : version.substr(0, slash),
                                   api::text(api::member(object, "kind")));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const api::Time now{std::chrono::seconds(1'800'000'000)};
  fuzz::Json object;
  if (!fuzz::accepted([&] { object = api::parse_body("", fuzz::view(data, size)); })) return 0;
  const api::Kind* kind = kind_of(object);
  if (!kind) return 0;
  constexpr auto lenient = api::FieldValidation::ignore;
  if (!kind->stored) {
    fuzz::accepted([&] {
      api::Admitted admitted = api::admit_request(*kind, object, lenient);
      kind->rules->answer(admitted.object);
    });
    return 0;
  }
  api::Admitted admitted;
  const api::Destination destination{kind->namespaced ? "default" : "", nullptr};
  if (!fuzz::accepted([&] { admitted = api::admit_new(*kind, object, destination, lenient, now); }))
    return 0;
  static_cast<void>(api::table_row(*kind, admitted.object, api::RowObject::none, now));
  try {
    const auto again = api::admit_change(*kind, admitted.object, admitted.object, api::Part::all,
                                         api::FieldValidation::strict);
    fuzz::require(again.object == admitted.object, "what was admitted stays as it is",
                  api::json_text(admitted.object) + "\n" + api::json_text(again.object));
  } catch (const api::ApiError& error) {
    fuzz::require(false, "what was admitted is admitted again",
                  error.what() + ("\n" + api::json_text(admitted.object)));
  }
  return 0;
}
