#include "store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/errors.h"
#include "tests/fakes/manual_scheduler.h"
#include "tests/fakes/memory_committer.h"

namespace virtset::test {
namespace {

using store::Change;
using store::Json;
using store::Key;
using store::Store;
using Mutation = Store::Mutation;
using testing::ElementsAre;
using testing::SizeIs;

class StoreTest : public testing::Test {
 protected:
  StoreTest() { open(Store::Limits{}); }
  ~StoreTest() override {
    store_.reset();
    loop_.run();
  }

  void open(Store::Limits limits) {
    auto committer = std::make_unique<MemoryCommitter>(disk_);
    committer_ = committer.get();
    store_ = std::make_unique<Store>(
        std::move(committer), disk_.contents(),
        [this](std::function<void()> action) { loop_.post(std::move(action)); }, limits);
  }

  static Key key(const std::string& name, const std::string& ns = "ns") {
    return {"g", "K", ns, name};
  }
  static Json document(const std::string& name, int value = 0) {
    return {{"metadata", {{"name", name}, {"uid", "u-" + name}}}, {"value", value}};
  }
  Store::Done keep() {
    return [this](const Store::Outcome& outcome) { outcomes_.push_back(outcome); };
  }
  void put(const std::string& name, int value = 0) {
    store_->write(
        key(name), [=](const store::Object*) { return Mutation::put(document(name, value)); },
        keep());
  }
  int value(const std::string& name) const {
    const auto object = store_->get(key(name));
    return object ? (*object->document())["value"].get<int>() : -1;
  }

  ManualScheduler loop_;
  Disk disk_;
  MemoryCommitter* committer_ = nullptr;
  std::unique_ptr<Store> store_;
  std::vector<Store::Outcome> outcomes_;
};

TEST_F(StoreTest, WriteBecomesVisibleWhenItIsDurable) {
  committer_->held = true;
  put("a", 1);
  loop_.run();
  EXPECT_EQ(value("a"), -1);
  EXPECT_THAT(outcomes_, SizeIs(0));
  committer_->release();
  loop_.run();
  EXPECT_EQ(value("a"), 1);
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_TRUE(outcomes_[0].changed);
  EXPECT_EQ(outcomes_[0].object->revision(), 1);
  EXPECT_EQ((*outcomes_[0].object->document())["metadata"]["resourceVersion"], "1");
}

TEST_F(StoreTest, DocumentMayNotBeTooLarge) {
  open(Store::Limits{.document_bytes = 200});
  put("a", 1);
  store_->write(
      key("a"),
      [](const store::Object*) {
        Json large = document("a", 2);
        large["padding"] = std::string(200, 'x');
        return Mutation::put(large);
      },
      keep());
  loop_.run();
  ASSERT_THAT(outcomes_, SizeIs(2));
  EXPECT_THROW(std::rethrow_exception(outcomes_[1].error), store::TooLarge);
  EXPECT_EQ(value("a"), 1);
}

TEST_F(StoreTest, WritesOfOneTurnAreOneTransaction) {
  for (int i = 0; i < 250; ++i) put("n" + std::to_string(i));
  loop_.run();
  EXPECT_EQ(committer_->commits, 1);
  EXPECT_EQ(store_->size(), 250u);
}

TEST_F(StoreTest, NextTransactionGathersWhileOneIsMadeDurable) {
  committer_->held = true;
  put("a");
  loop_.run();
  put("b");
  put("c");
  loop_.run();
  EXPECT_EQ(committer_->commits, 1);
  committer_->release();
  loop_.run();
  EXPECT_EQ(committer_->commits, 2);
  committer_->release();
  loop_.run();
  EXPECT_EQ(store_->revision(), 3);
}

TEST_F(StoreTest, SecondWriteToAnObjectWaitsForTheFirstAndSeesIt) {
  committer_->held = true;
  put("a", 1);
  int seen = 0;
  store_->write(
      key("a"),
      [&](const store::Object* current) {
        seen = (*current->document())["value"];
        return Mutation::put(document("a", seen + 1));
      },
      keep());
  loop_.run();
  EXPECT_EQ(seen, 0);
  committer_->release();
  loop_.run();
  EXPECT_EQ(seen, 1);
  committer_->release();
  loop_.run();
  EXPECT_EQ(value("a"), 2);
}

TEST_F(StoreTest, FailedCommitFailsItsWritersAndLeavesTheViewAsItWas) {
  put("a", 1);
  loop_.run();
  const auto revision = store_->revision();
  committer_->failing = true;
  put("a", 2);
  put("b", 1);
  loop_.run();
  EXPECT_EQ(value("a"), 1);
  EXPECT_EQ(value("b"), -1);
  EXPECT_EQ(store_->revision(), revision);
  ASSERT_THAT(outcomes_, SizeIs(3));
  EXPECT_THROW(std::rethrow_exception(outcomes_[1].error), store::CommitFailed);
  committer_->failing = false;
  put("b", 3);
  loop_.run();
  EXPECT_EQ(value("b"), 3);
  // No revision is used twice, not even one that came to nothing.
  EXPECT_GT(store_->revision(), revision + 2);
}

TEST_F(StoreTest, ExceptionOfTheMutationEndsTheWrite) {
  store_->write(
      key("a"), [](const store::Object*) -> Mutation { throw std::runtime_error("no"); }, keep());
  EXPECT_THAT(outcomes_, SizeIs(0)) << "never from within write()";
  loop_.run();
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_THROW(std::rethrow_exception(outcomes_[0].error), std::runtime_error);
  EXPECT_FALSE(store_->busy(key("a")));
}

TEST_F(StoreTest, NothingToChangeWritesNothing) {
  put("a", 1);
  loop_.run();
  store_->write(
      key("a"), [](const store::Object*) { return Mutation::nothing(); }, keep());
  loop_.run();
  EXPECT_EQ(committer_->commits, 1);
  ASSERT_THAT(outcomes_, SizeIs(2));
  EXPECT_FALSE(outcomes_[1].changed);
  EXPECT_EQ(outcomes_[1].object->revision(), 1);
}

TEST_F(StoreTest, RemovalIsAChangeWithARevisionOfItsOwn) {
  put("a", 7);
  loop_.run();
  std::vector<Change> changes;
  const auto subscription =
      store_->feed().subscribe([&](const Change& change) { changes.push_back(change); });
  store_->write(
      key("a"), [](const store::Object*) { return Mutation::remove(); }, keep());
  loop_.run();
  EXPECT_EQ(store_->get(key("a")), nullptr);
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].type, Change::Type::deleted);
  EXPECT_EQ(changes[0].revision(), 2);
  EXPECT_EQ((*changes[0].object->document())["value"], 7);
  EXPECT_EQ((*changes[0].object->document())["metadata"]["resourceVersion"], "2");
}

TEST_F(StoreTest, RemovalOfNothingIsNoChange) {
  store_->write(
      key("a"), [](const store::Object*) { return Mutation::remove(); }, keep());
  loop_.run();
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_FALSE(outcomes_[0].changed);
}

TEST_F(StoreTest, ListsOneKindInOrder) {
  for (const auto& [ns, name] :
       {std::pair{"b", "x"}, std::pair{"a", "z"}, std::pair{"a", "y"}, std::pair{"ab", "x"}}) {
    store_->write(
        key(name, ns),
        [name = std::string(name)](const store::Object*) { return Mutation::put(document(name)); },
        nullptr);
  }
  store_->write(
      {"g", "Other", "a", "o"}, [](const store::Object*) { return Mutation::put(document("o")); },
      nullptr);
  loop_.run();
  const auto names = [](const std::vector<store::ObjectPtr>& objects) {
    std::vector<std::string> result;
    for (const auto& object : objects)
      result.push_back(object->key().ns + "/" + object->key().name);
    return result;
  };
  EXPECT_THAT(names(store_->list("g", "K")), ElementsAre("a/y", "a/z", "ab/x", "b/x"));
  EXPECT_THAT(names(store_->list("g", "K", "a")), ElementsAre("a/y", "a/z"));
  EXPECT_THAT(store_->list("g", "None"), SizeIs(0));
}

TEST_F(StoreTest, BatchIsVisibleAsAWholeBeforeAnybodyIsTold) {
  std::size_t seen = 0;
  const auto subscription = store_->feed().subscribe([&](const Change&) {
    if (seen == 0) seen = store_->size();
  });
  put("a");
  put("b");
  put("c");
  loop_.run();
  EXPECT_EQ(seen, 3u);
}

TEST_F(StoreTest, RefusesMoreThanItsLimit) {
  store_.reset();
  loop_.run();
  open({.waiting_writes = 3});
  committer_->held = true;
  put("a");
  put("b");
  put("a");
  EXPECT_THROW(put("c"), store::Overloaded);
  committer_->held = false;
  committer_->release();
  loop_.run();
  committer_->release();
  loop_.run();
  put("c");
  loop_.run();
  EXPECT_EQ(value("c"), 0);
}

TEST_F(StoreTest, TransactionsAreBounded) {
  store_.reset();
  loop_.run();
  open({.rows_per_commit = 10});
  for (int i = 0; i < 25; ++i) put("n" + std::to_string(i));
  loop_.run();
  EXPECT_EQ(committer_->commits, 3);
  EXPECT_EQ(store_->size(), 25u);
}

TEST_F(StoreTest, WhenIdleWaitsForAllWrites) {
  committer_->held = true;
  put("a");
  bool idle = false;
  store_->when_idle([&] { idle = true; });
  loop_.run();
  EXPECT_FALSE(idle);
  committer_->release();
  loop_.run();
  EXPECT_TRUE(idle);
}

TEST_F(StoreTest, ComesBackAfterARestart) {
  put("a", 1);
  put("b", 2);
  loop_.run();
  store_.reset();
  loop_.run();
  open({});
  EXPECT_EQ(value("a"), 1);
  EXPECT_EQ(store_->revision(), 2);
  // Nothing has changed since revision 2; what was before is not known.
  EXPECT_TRUE(store_->feed().holds(2));
  EXPECT_FALSE(store_->feed().holds(1));
  put("c");
  loop_.run();
  EXPECT_EQ(store_->get(key("c"))->revision(), 3);
}

TEST_F(StoreTest, TextThatIsNoUtf8IsStoredAllTheSame) {
  store_->write(
      key("a"),
      [](const store::Object*) {
        Json bad = document("a");
        bad["message"] = "libvirt says \xff";
        return Mutation::put(bad);
      },
      keep());
  loop_.run();
  ASSERT_THAT(outcomes_, SizeIs(1));
  EXPECT_FALSE(outcomes_[0].error);
}

}  // namespace
}  // namespace virtset::test
