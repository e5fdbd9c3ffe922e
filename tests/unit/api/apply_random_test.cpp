// Promises that hold whatever is written: random objects, configurations and managers.

#include <random>

#include "api/rest/apply/managed_fields.h"
#include "api/rest/apply/typed.h"
#include "tests/unit/api/apply_fixture.h"

namespace virtset::test {
namespace {

class RandomApplyTest : public ApplyTest {
 protected:
  int below(int bound) { return std::uniform_int_distribution<int>(0, bound - 1)(random_); }
  bool often() { return below(3) > 0; }
  std::string letter() { return std::string(1, static_cast<char>('a' + below(4))); }

  Json anything(int depth) {
    switch (below(depth > 3 ? 4 : 6)) {
      case 0:
        return below(3);
      case 1:
        return letter();
      case 2:
        return often();
      case 3:
        return nullptr;
      case 4: {
        Json list = Json::array();
        for (int i = below(3); i > 0; --i) list.push_back(anything(depth + 1));
        return list;
      }
      default: {
        Json object = Json::object();
        for (int i = below(4); i > 0; --i) object[letter()] = anything(depth + 1);
        return object;
      }
    }
  }

  Json some_strings() {
    Json object = Json::object();
    for (int i = below(4); i > 0; --i) object[letter()] = letter();
    return object;
  }

  Json some_items(const std::function<Json(const std::string&)>& item) {
    std::vector<std::string> letters = {"a", "b", "c", "d"};
    std::shuffle(letters.begin(), letters.end(), random_);
    letters.resize(static_cast<std::size_t>(below(4)));
    Json list = Json::array();
    for (const std::string& one : letters) list.push_back(item(one));
    return list;
  }

  Json configuration() {
    Json object = widget("{}");
    Json spec = Json::object();
    if (often()) spec["replicas"] = below(3);
    if (often()) spec["cpu"] = often() ? Json{{"cores", below(2)}} : Json::object();
    if (often()) spec["selector"] = some_strings();
    if (often()) spec["args"] = some_items([](const std::string& name) { return name; });
    if (often()) spec["tags"] = some_items([](const std::string& name) { return name; });
    if (often()) {
      spec["disks"] = some_items([this](const std::string& name) {
        Json disk{{"name", name}};
        if (often()) disk["size"] = letter();
        if (often()) disk["bus"] = letter();
        return disk;
      });
    }
    if (often()) spec["options"] = Json{{letter(), anything(0)}};
    if (often()) object["spec"] = std::move(spec);
    if (often()) object["data"] = some_strings();
    if (often()) object["metadata"]["labels"] = some_strings();
    return object;
  }

  // Every owner has something to own. What was null is owned without being there.
  void check_owners() {
    const api::FieldSet there =
        api::compare(widget_kind().schema.get(), Json::object(), object()).added;
    for (const auto& [manager, entry] : api::ManagedFields::parse(managed()).entries) {
      EXPECT_FALSE(entry.fields.empty());
      api::FieldSet missing = entry.fields;
      for (const std::string& path : missing.subtract(there).paths()) {
        EXPECT_TRUE(path.starts_with(".spec.options"))
            << manager.text() << " owns " << path << " of " << object().dump(2);
      }
    }
  }

  std::mt19937 random_;
};

TEST_F(RandomApplyTest, SensibleWrites) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    random_.seed(seed);
    object_.reset();
    if (often()) object_ = configuration();
    for (int i = 0; i < 12; ++i) {
      if (object_ && below(4) == 0) {
        Json next = configuration();
        next["metadata"]["managedFields"] = managed();
        api::record_update(widget_kind(), object(), next, writer("u" + letter()), now_);
        api::drop_nulls(widget_kind().schema.get(), next);
        object_ = next;
      } else {
        const auto who = writer(letter());
        const Json applied = configuration();
        refusal(who, applied);
        apply(who, applied, true);
        const Json after = object();
        ASSERT_EQ(apply(who, applied), after) << applied;
        // All of it is there.
        Json missing = applied;
        ASSERT_TRUE(api::compare(widget_kind().schema.get(), after,
                                 [&] {
                                   Json merged = after;
                                   api::merge(widget_kind().schema.get(), merged, applied);
                                   api::drop_nulls(widget_kind().schema.get(), merged);
                                   return merged;
                                 }())
                        .modified.empty());
      }
      check_owners();
      if (HasFailure()) return;
    }
  }
}

TEST_F(RandomApplyTest, SenselessWrites) {
  for (unsigned seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    random_.seed(seed);
    object_.reset();
    for (int i = 0; i < 5; ++i) {
      Json wrong = configuration();
      for (const char* place : {"/metadata/labels", "/metadata/managedFields", "/data", "/spec",
                                "/spec/disks", "/spec/tags", "/spec/cpu", "/spec/selector"}) {
        const Json::json_pointer path(place);
        if (below(4) == 0 && wrong.contains(path.parent_pointer()) &&
            wrong[path.parent_pointer()].is_object()) {
          wrong[path] = anything(0);
        }
      }
      if (object_ && below(3) == 0) {
        api::record_update(widget_kind(), object(), wrong, writer(letter()), now_);
        object_ = wrong;
      } else {
        wrong["metadata"].erase("managedFields");
        try {
          apply(writer(letter()), wrong, often());
        } catch (const api::ApiError&) {
        }
      }
    }
  }
}

}  // namespace
}  // namespace virtset::test
