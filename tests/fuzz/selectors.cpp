// Label and field selectors as parameters, and label selectors as objects, on a few objects.

#include "api/rest/filter.h"
#include "tests/fuzz/fuzz.h"

using namespace virtset;

namespace {

std::vector<store::Object> sample_objects() {
  const auto recent = std::make_shared<store::RecentDocuments>(8);
  std::vector<store::Object> objects;
  for (const char* labels :
       {R"({"a":"b","n":"5","x.io/y":"","app":"web"})", R"({"a":"c","n":"-7"})", "{}", "null"}) {
    const std::string text =
        std::string(R"({"metadata":{"name":"one","namespace":"default","labels":)") + labels +
        R"(},"type":"Warning","reason":"a,b=c","involvedObject":{"uid":"1","kind":"Pod"}})";
    objects.emplace_back(store::Key{"", "Event", "default", "one"}, "1", 1, text, recent);
  }
  return objects;
}

void check_labels(const api::LabelSelector& selector, const std::vector<store::Object>& objects) {
  const std::string text = selector.to_string();
  const auto again = api::LabelSelector::parse(text);
  fuzz::require(again.to_string() == text, "the canonical text stays as it is", text);
  for (const store::Object& object : objects) {
    const fuzz::Json& labels = (*object.document())["metadata"]["labels"];
    fuzz::require(selector.matches(labels) == again.matches(labels),
                  "the canonical text means the same", text);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<store::Object> objects = sample_objects();
  static const api::Kind& kind = *api::builtin_kinds().find(api::core_group, api::event_kind);
  const std::string text(fuzz::view(data, size));
  const auto filter = [&](const char* parameter) {
    const api::ObjectFilter all(kind, "default", {.query = {{parameter, text}}});
    for (const store::Object& object : objects) {
      fuzz::require(all.matches(object) || !all.everything(), "everything is let through", text);
    }
  };
  fuzz::accepted([&] {
    check_labels(api::LabelSelector::parse(text), objects);
    filter("labelSelector");
  });
  fuzz::accepted([&] { filter("fieldSelector"); });
  if (text.starts_with('{')) {
    fuzz::accepted([&] {
      const fuzz::Json object = fuzz::Json::parse(text);
      check_labels(api::LabelSelector::from_object(object), objects);
    });
  }
  return 0;
}
