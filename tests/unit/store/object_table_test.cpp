#include "store/object_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace virtset::test {
namespace {

using store::Key;
using store::ObjectPtr;
using testing::ElementsAre;
using testing::IsEmpty;

class ObjectTableTest : public testing::Test {
 protected:
  static ObjectPtr object(const Key& key, store::Revision revision = 1) {
    return std::make_shared<const store::Object>(key, "u", revision, "{}",
                                                 std::make_shared<store::RecentDocuments>(1));
  }
  std::vector<std::string> names(const char* kind, std::optional<std::string_view> ns = {}) const {
    std::vector<std::string> names;
    for (const auto& found : table_.list("g", kind, ns)) names.push_back(found->key().name);
    return names;
  }

  store::ObjectTable table_;
};

TEST_F(ObjectTableTest, ListsOneKindInOrderOfNamespaceAndName) {
  for (const Key& key : {Key{"g", "K", "b", "1"}, Key{"g", "K", "a", "3"}, Key{"g", "K", "a", "2"},
                         Key{"g", "L", "a", "x"}, Key{"f", "K", "a", "y"}}) {
    EXPECT_EQ(table_.put(object(key)), nullptr);
  }
  EXPECT_THAT(names("K"), ElementsAre("2", "3", "1"));
  EXPECT_THAT(names("K", "a"), ElementsAre("2", "3"));
  EXPECT_THAT(names("K", "c"), IsEmpty());
  EXPECT_EQ(table_.size(), 5u);
}

TEST_F(ObjectTableTest, ObjectTakesThePlaceOfTheOneBefore) {
  const Key key{"g", "K", "a", "1"};
  const ObjectPtr before = object(key, 1);
  table_.put(before);
  EXPECT_EQ(table_.put(object(key, 2)), before);
  EXPECT_EQ(table_.find(key)->revision(), 2);
  EXPECT_EQ(table_.list("g", "K", {}).front()->revision(), 2);
  EXPECT_EQ(table_.size(), 1u);
}

// The index goes by the key that the object itself holds.
TEST_F(ObjectTableTest, OrderOutlivesTheObjectThatWasPutFirst) {
  for (const char* name : {"1", "2", "3"}) table_.put(object({"g", "K", "a", name}));
  for (const char* name : {"3", "1", "2"}) table_.put(object({"g", "K", "a", name}, 2));
  table_.remove({"g", "K", "a", "2"});
  EXPECT_THAT(names("K"), ElementsAre("1", "3"));
}

TEST_F(ObjectTableTest, RemovedObjectIsGivenBackAndGone) {
  const Key key{"g", "K", "a", "1"};
  const ObjectPtr put = object(key);
  table_.put(put);
  EXPECT_EQ(table_.remove(key), put);
  EXPECT_EQ(table_.find(key), nullptr);
  EXPECT_THAT(names("K"), IsEmpty());
  EXPECT_EQ(table_.remove(key), nullptr);
}

}  // namespace
}  // namespace virtset::test
