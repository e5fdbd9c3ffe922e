#include "daemon/controllers/namespace_controller.h"

#include "tests/unit/daemon/controller_test.h"

namespace virtset::test {
namespace {

using std::chrono::seconds;
using store::Json;

class NamespaceControllerTest : public ControllerTest {
 protected:
  NamespaceControllerTest() { run(); }

  void run() {
    run_controller(std::make_unique<NamespaceController>(*store_, loop_, api::builtin_kinds()));
  }
  static store::Key key(const std::string& name) {
    return {api::core_group, api::namespace_kind, "", name};
  }
  void create(const std::string& name) {
    put(key(name), {{"spec", {{"finalizers", {"kubernetes"}}}}, {"status", {{"phase", "Active"}}}});
  }
  // Until its content may go.
  void remove(const store::Key& key) {
    ControllerTest::remove(key);
    loop_.advance(seconds(2));
  }
  static Json held() { return {{"metadata", {{"finalizers", {"test/held"}}}}}; }
};

TEST_F(NamespaceControllerTest, DefaultIsAlwaysThere) {
  ASSERT_TRUE(exists(key("default")));
  const Json ns = document(key("default"));
  EXPECT_EQ(ns["status"]["phase"], "Active");
  EXPECT_EQ(ns["spec"]["finalizers"], Json::array({"kubernetes"}));
  EXPECT_EQ(ns["metadata"]["labels"]["kubernetes.io/metadata.name"], "default");
}

TEST_F(NamespaceControllerTest, DefaultIsMadeOnce) {
  const auto before = store_->get(key("default"))->revision();
  run();
  EXPECT_EQ(store_->get(key("default"))->revision(), before);
}

TEST_F(NamespaceControllerTest, EmptyOneGoesAtOnce) {
  create("test");
  EXPECT_TRUE(exists(key("test")));
  remove(key("test"));
  EXPECT_FALSE(exists(key("test")));
}

TEST_F(NamespaceControllerTest, AllThatIsInItGoesWithItAndNothingElse) {
  create("test");
  put(instance_key("vm", "test"));
  put({api::kubevirt_group, api::replica_set_kind, "test", "set"});
  put({api::core_group, api::event_kind, "test", "event"});
  put(instance_key("vm", "default"));
  put(instance_key("vm", "test2"));
  remove(key("test"));
  EXPECT_FALSE(exists(key("test")));
  EXPECT_FALSE(exists(instance_key("vm", "test")));
  EXPECT_EQ(count(api::kubevirt_group, api::replica_set_kind), 0u);
  EXPECT_EQ(count(api::core_group, api::event_kind), 0u);
  EXPECT_TRUE(exists(instance_key("vm", "default")));
  EXPECT_TRUE(exists(instance_key("vm", "test2")));
}

// kubectl delete -f deletes it first and then each of its objects.
TEST_F(NamespaceControllerTest, ContentStaysForAMoment) {
  create("test");
  put(instance_key("vm", "test"));
  ControllerTest::remove(key("test"));
  EXPECT_EQ(document(key("test"))["status"]["phase"], "Terminating");
  loop_.advance(seconds(1));
  ASSERT_TRUE(exists(instance_key("vm", "test")));
  ControllerTest::remove(instance_key("vm", "test"));
  EXPECT_FALSE(exists(key("test")));
}

TEST_F(NamespaceControllerTest, StaysUntilTheLastObjectHasEnded) {
  create("test");
  put(instance_key("a", "test"), held());
  put(instance_key("b", "test"), held());
  remove(key("test"));
  ASSERT_TRUE(exists(key("test")));
  EXPECT_EQ(document(key("test"))["status"]["phase"], "Terminating");
  EXPECT_TRUE(deleting(instance_key("a", "test")));
  EXPECT_TRUE(deleting(instance_key("b", "test")));
  finish(instance_key("a", "test"), "test/held");
  EXPECT_TRUE(exists(key("test")));
  finish(instance_key("b", "test"), "test/held");
  EXPECT_FALSE(exists(key("test")));
}

TEST_F(NamespaceControllerTest, ThousandsGoInTurns) {
  create("test");
  for (int i = 0; i < 1'000; ++i) write(instance_key(std::to_string(i), "test"), Json::object());
  loop_.run();
  remove(key("test"));
  loop_.advance(seconds(3));
  EXPECT_FALSE(exists(key("test")));
  EXPECT_EQ(count(api::kubevirt_group, api::instance_kind), 0u);
}

// It was admitted before the deletion and becomes durable after it.
TEST_F(NamespaceControllerTest, CreationThatIsUnderWayGoesToo) {
  create("test");
  committer_->held = true;
  remove(key("test"));
  write(instance_key("late", "test"), Json::object());
  committer_->release();
  loop_.run();
  EXPECT_TRUE(exists(key("test")));
  committer_->held = false;
  committer_->release();
  loop_.advance(seconds(3));
  EXPECT_FALSE(exists(key("test")));
  EXPECT_FALSE(exists(instance_key("late", "test")));
}

TEST_F(NamespaceControllerTest, DeletionGoesOnAfterARestart) {
  create("test");
  put(instance_key("vm", "test"));
  subscription_ = {};
  controller_.reset();
  remove(key("test"));
  EXPECT_TRUE(exists(key("test")));
  run();
  EXPECT_FALSE(exists(key("test")));
  EXPECT_FALSE(exists(instance_key("vm", "test")));
}

TEST_F(NamespaceControllerTest, FullDiskDelaysTheDeletionOnly) {
  create("test");
  put(instance_key("vm", "test"));
  subscription_ = {};
  controller_.reset();
  remove(key("test"));
  committer_->failing = true;
  run();
  EXPECT_TRUE(exists(instance_key("vm", "test")));
  committer_->failing = false;
  loop_.advance(seconds(120));
  EXPECT_FALSE(exists(key("test")));
}

TEST_F(NamespaceControllerTest, OverloadedStoreDelaysTheDeletionOnly) {
  open_store({.waiting_writes = 50});
  run();
  create("test");
  for (int i = 0; i < 100; ++i) put(instance_key(std::to_string(i), "test"));
  EXPECT_NO_THROW(remove(key("test")));
  loop_.advance(seconds(120));
  EXPECT_FALSE(exists(key("test")));
}

// One that somebody else holds must not keep the others from being told to end.
TEST_F(NamespaceControllerTest, AllAreToldToEndHoweverLongTheyTake) {
  create("test");
  for (int i = 0; i < 500; ++i) write(instance_key(std::to_string(i), "test"), held());
  loop_.run();
  remove(key("test"));
  loop_.advance(seconds(3));
  int asked = 0;
  for (int i = 0; i < 500; ++i) asked += deleting(instance_key(std::to_string(i), "test"));
  EXPECT_EQ(asked, 500);
}

TEST_F(NamespaceControllerTest, ContentWhoseDeletionCouldNotBeStoredIsDeletedLater) {
  create("test");
  put(instance_key("a", "test"), held());
  remove(key("test"));
  ASSERT_EQ(document(key("test"))["status"]["phase"], "Terminating");
  put(instance_key("b", "test"), held());
  committer_->held = true;
  finish(instance_key("a", "test"), "test/held");
  committer_->release();
  loop_.run();
  committer_->failing = true;
  committer_->release();
  committer_->failing = committer_->held = false;
  loop_.advance(seconds(120));
  EXPECT_TRUE(deleting(instance_key("b", "test")));
}

TEST_F(NamespaceControllerTest, ContentThatIsBeingWrittenIsDeletedLater) {
  create("test");
  put(instance_key("vm", "test"), held());
  committer_->held = true;
  remove(key("test"));
  write(instance_key("vm", "test"), held());
  committer_->release();
  loop_.run();
  EXPECT_FALSE(deleting(instance_key("vm", "test")));
  committer_->held = false;
  committer_->release();
  loop_.advance(seconds(3));
  EXPECT_TRUE(deleting(instance_key("vm", "test")));
}

}  // namespace
}  // namespace virtset::test
