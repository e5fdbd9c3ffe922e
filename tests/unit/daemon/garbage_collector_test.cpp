#include "daemon/controllers/garbage_collector.h"

#include "tests/unit/daemon/controller_test.h"

namespace virtset::test {
namespace {

using api::member;
using api::Propagation;
using std::chrono::seconds;
using store::Json;
using testing::SizeIs;

class GarbageCollectorTest : public ControllerTest {
 protected:
  GarbageCollectorTest() { run(); }

  void run() {
    run_controller(std::make_unique<GarbageCollector>(*store_, loop_, api::builtin_kinds()));
  }
  static Json owner(const store::Key& key, bool blocks = true, const std::string& uid = "") {
    return {{"apiVersion", "kubevirt.io/v1"},
            {"kind", key.kind},
            {"name", key.name},
            {"uid", uid.empty() ? "u-" + key.name : uid},
            {"blockOwnerDeletion", blocks}};
  }
  static Json owned_by(const std::vector<Json>& owners) {
    return {{"metadata", {{"ownerReferences", owners}}}};
  }
  // Stays until somebody has cleaned up, as instances with a domain do.
  static Json held(Json document = Json::object()) {
    document["metadata"]["finalizers"] = {"test/held"};
    return document;
  }
  const store::Key set = set_key("set");
  const store::Key vm = instance_key("vm");
};

TEST_F(GarbageCollectorTest, WhatHasNoOwnersStays) {
  put(set);
  put(vm);
  remove(set);
  EXPECT_FALSE(exists(set));
  EXPECT_TRUE(exists(vm));
}

TEST_F(GarbageCollectorTest, DependentsGoWithTheirOwner) {
  put(set);
  put(vm, owned_by({owner(set)}));
  EXPECT_TRUE(exists(vm));
  remove(set, Propagation::background);
  EXPECT_FALSE(exists(set));
  EXPECT_FALSE(exists(vm));
}

TEST_F(GarbageCollectorTest, DependentsOfDependentsGoToo) {
  put(set);
  put(vm, owned_by({owner(set)}));
  const auto below = instance_key("below"), bottom = set_key("bottom");
  put(below, owned_by({owner(vm)}));
  put(bottom, owned_by({owner(below)}));
  remove(set, Propagation::background);
  for (const auto& key : {vm, below, bottom}) EXPECT_FALSE(exists(key)) << key.name;
}

TEST_F(GarbageCollectorTest, FinalizersOfDependentsAreWaitedFor) {
  put(set);
  put(vm, held(owned_by({owner(set)})));
  remove(set, Propagation::background);
  EXPECT_FALSE(exists(set));
  ASSERT_TRUE(exists(vm));
  EXPECT_TRUE(deleting(vm));
  finish(vm, "test/held");
  EXPECT_FALSE(exists(vm));
}

TEST_F(GarbageCollectorTest, OneOwnerIsEnough) {
  const auto other = set_key("other");
  put(set);
  put(other);
  put(vm, owned_by({owner(set), owner(other)}));
  remove(set);
  ASSERT_TRUE(exists(vm));
  EXPECT_FALSE(deleting(vm));
  EXPECT_EQ(document(vm)["metadata"]["ownerReferences"], Json::array({owner(other)}));
  remove(other);
  EXPECT_FALSE(exists(vm));
}

TEST_F(GarbageCollectorTest, OwnerOfTheSameNameIsNotTheSameOwner) {
  put(set, {{"metadata", {{"uid", "another"}}}});
  put(vm, owned_by({owner(set, true, "gone")}));
  EXPECT_FALSE(exists(vm));
  EXPECT_TRUE(exists(set));
}

TEST_F(GarbageCollectorTest, OwnerInAnotherNamespaceIsNoOwner) {
  put(set);
  const auto elsewhere = instance_key("vm", "elsewhere");
  put(elsewhere, owned_by({owner(set)}));
  EXPECT_FALSE(exists(elsewhere));
}

TEST_F(GarbageCollectorTest, OwnersThatWentWhileNoDaemonRanAreMissedAtStart) {
  subscription_ = {};
  controller_.reset();
  put(vm, owned_by({owner(set)}));
  EXPECT_TRUE(exists(vm));
  run();
  EXPECT_FALSE(exists(vm));
}

TEST_F(GarbageCollectorTest, ForegroundDeletionWaitsForDependentsThatBlock) {
  put(set);
  put(vm, held(owned_by({owner(set)})));
  remove(set, Propagation::foreground);
  EXPECT_TRUE(deleting(set));
  EXPECT_TRUE(deleting(vm));
  EXPECT_TRUE(exists(set));
  finish(vm, "test/held");
  EXPECT_FALSE(exists(vm));
  EXPECT_FALSE(exists(set));
}

TEST_F(GarbageCollectorTest, ForegroundDeletionDoesNotWaitForDependentsThatDoNotBlock) {
  put(set);
  put(vm, held(owned_by({owner(set, false)})));
  remove(set, Propagation::foreground);
  EXPECT_FALSE(exists(set));
  EXPECT_TRUE(deleting(vm));
}

TEST_F(GarbageCollectorTest, ForegroundDeletionGoesFromTheBottomUp) {
  const auto below = instance_key("below");
  put(set);
  put(vm, owned_by({owner(set)}));
  put(below, held(owned_by({owner(vm)})));
  remove(set, Propagation::foreground);
  for (const auto& key : {set, vm, below}) EXPECT_TRUE(deleting(key)) << key.name;
  finish(below, "test/held");
  for (const auto& key : {set, vm, below}) EXPECT_FALSE(exists(key)) << key.name;
}

TEST_F(GarbageCollectorTest, ForegroundDeletionWithoutDependentsIsOverAtOnce) {
  put(set);
  remove(set, Propagation::foreground);
  EXPECT_FALSE(exists(set));
}

TEST_F(GarbageCollectorTest, DependentThatComesDuringAForegroundDeletionGoesToo) {
  put(set);
  put(vm, held(owned_by({owner(set)})));
  remove(set, Propagation::foreground);
  put(instance_key("late"), owned_by({owner(set)}));
  EXPECT_FALSE(exists(instance_key("late")));
  EXPECT_TRUE(exists(set));
}

TEST_F(GarbageCollectorTest, OrphaningLetsTheDependentsStay) {
  put(set);
  put(vm, owned_by({owner(set)}));
  remove(set, Propagation::orphan);
  EXPECT_FALSE(exists(set));
  ASSERT_TRUE(exists(vm));
  EXPECT_FALSE(deleting(vm));
  EXPECT_TRUE(member(document(vm), "metadata", "ownerReferences").is_null());
}

TEST_F(GarbageCollectorTest, OrphaningTakesOneOwnerAwayAndLeavesTheOthers) {
  const auto other = set_key("other");
  put(set);
  put(other);
  put(vm, owned_by({owner(other), owner(set)}));
  remove(set, Propagation::orphan);
  EXPECT_EQ(document(vm)["metadata"]["ownerReferences"], Json::array({owner(other)}));
}

TEST_F(GarbageCollectorTest, OrphansThousandsInTurns) {
  put(set);
  for (int i = 0; i < 1'000; ++i) {
    write(instance_key(std::to_string(i)), owned_by({owner(set)}));
  }
  loop_.run();
  remove(set, Propagation::orphan);
  EXPECT_FALSE(exists(set));
  EXPECT_EQ(count(api::kubevirt_group, api::instance_kind), 1'000u);
}

TEST_F(GarbageCollectorTest, DeletionsThatWereUnderWayGoOnAfterARestart) {
  subscription_ = {};
  controller_.reset();
  const auto orphan = instance_key("orphan");
  put(set);
  put(vm, owned_by({owner(set)}));
  put(set_key("other"));
  put(orphan, owned_by({owner(set_key("other"))}));
  remove(set, Propagation::foreground);
  remove(set_key("other"), Propagation::orphan);
  run();
  EXPECT_FALSE(exists(set));
  EXPECT_FALSE(exists(vm));
  EXPECT_FALSE(exists(set_key("other")));
  EXPECT_TRUE(exists(orphan));
}

TEST_F(GarbageCollectorTest, WhatCouldNotBeStoredIsTriedAgain) {
  subscription_ = {};
  controller_.reset();
  const auto orphan = instance_key("orphan"), gone = set_key("gone");
  put(set);
  put(vm, owned_by({owner(set), owner(gone)}));
  put(orphan, owned_by({owner(gone)}));
  committer_->failing = true;
  run();
  EXPECT_THAT(document(vm)["metadata"]["ownerReferences"], SizeIs(2));
  EXPECT_TRUE(exists(orphan));
  committer_->failing = false;
  loop_.advance(seconds(120));
  EXPECT_THAT(document(vm)["metadata"]["ownerReferences"], SizeIs(1));
  EXPECT_FALSE(exists(orphan));
}

TEST_F(GarbageCollectorTest, EventsAreNotCollected) {
  const store::Key event{api::core_group, api::event_kind, "default", "event"};
  put(event, owned_by({owner(set)}));
  EXPECT_TRUE(exists(event));
}

TEST_F(GarbageCollectorTest, EventsAreNotCollectedAtStartEither) {
  const store::Key event{api::core_group, api::event_kind, "default", "event"};
  put(event, owned_by({owner(set)}));
  run();
  EXPECT_TRUE(exists(event));
}

// The reference goes, so that the deletion of the one does not wait for the other.
TEST_F(GarbageCollectorTest, ForegroundDeletionLetsGoOfADependentThatAnotherOwnerKeeps) {
  const auto other = set_key("other");
  put(set);
  put(other);
  put(vm, owned_by({owner(set), owner(other)}));
  remove(set, Propagation::foreground);
  EXPECT_FALSE(exists(set));
  EXPECT_EQ(document(vm)["metadata"]["ownerReferences"], Json::array({owner(other)}));
}

TEST_F(GarbageCollectorTest, ForegroundDeletionOfACircleEnds) {
  put(set);
  put(vm, owned_by({owner(set)}));
  put(set, owned_by({owner(vm)}));
  remove(set, Propagation::foreground);
  EXPECT_FALSE(exists(set));
  EXPECT_FALSE(exists(vm));
}

TEST_F(GarbageCollectorTest, ForegroundDeletionOfWhatOwnsItselfEnds) {
  put(set);
  put(set, owned_by({owner(set)}));
  remove(set, Propagation::foreground);
  EXPECT_FALSE(exists(set));
}

TEST_F(GarbageCollectorTest, ForegroundDeletionOfALargeCircleWaitsForThoseOutsideOfIt) {
  const auto third = set_key("third");
  put(set);
  put(vm, owned_by({owner(set)}));
  put(third, owned_by({owner(vm)}));
  put(set, owned_by({owner(third)}));
  put(instance_key("outside"), held(owned_by({owner(set)})));
  remove(set, Propagation::foreground);
  EXPECT_TRUE(deleting(set));
  finish(instance_key("outside"), "test/held");
  for (const auto& key : {set, vm, third}) EXPECT_FALSE(exists(key)) << key.name;
}

// An apps/v1 Deployment, say.
TEST_F(GarbageCollectorTest, OwnerOfAnUnknownKindIsNoReasonToDelete) {
  Json reference = owner(set, true, "u-deployment");
  reference["apiVersion"] = "apps/v1";
  reference["kind"] = "Deployment";
  put(vm, owned_by({reference}));
  EXPECT_TRUE(exists(vm));
  put(vm, owned_by({reference, owner(set)}));
  EXPECT_EQ(document(vm)["metadata"]["ownerReferences"], Json::array({reference}));
}

TEST_F(GarbageCollectorTest, OrphaningWaitsForADependentThatIsBeingWritten) {
  put(set);
  put(vm, owned_by({owner(set)}));
  committer_->held = true;
  remove(set, Propagation::orphan);
  Json changed = document(vm);
  changed["status"]["phase"] = "Running";
  write(vm, changed);
  committer_->release();  // the deletion; its status is being committed
  loop_.run();
  committer_->held = false;
  committer_->release();
  loop_.advance(seconds(120));
  EXPECT_FALSE(exists(set));
  EXPECT_EQ(document(vm)["status"]["phase"], "Running");
}

TEST_F(GarbageCollectorTest, OrphaningThatCouldNotBeStoredIsTriedAgain) {
  put(set);
  put(vm, owned_by({owner(set)}));
  committer_->held = true;
  remove(set, Propagation::orphan);
  committer_->release();
  loop_.run();
  committer_->failing = true;
  committer_->release();
  loop_.run();
  committer_->failing = committer_->held = false;
  loop_.advance(seconds(120));
  EXPECT_FALSE(exists(set));
  EXPECT_TRUE(member(document(vm), "metadata", "ownerReferences").is_null());
}

TEST_F(GarbageCollectorTest, OrphaningDoesNotWaitForTheEndOfADependent) {
  put(set);
  put(vm, held(owned_by({owner(set)})));
  remove(vm);
  remove(set, Propagation::orphan);
  EXPECT_FALSE(exists(set));
  EXPECT_TRUE(deleting(vm));
}

TEST_F(GarbageCollectorTest, OneThatIsAdoptedWhileItsOwnerGoesStays) {
  const auto other = set_key("other");
  put(set);
  put(other);
  put(vm, owned_by({owner(set)}));
  committer_->held = true;
  remove(set);
  write(vm, owned_by({owner(set), owner(other)}));
  committer_->release();
  loop_.run();
  committer_->held = false;
  committer_->release();
  loop_.advance(seconds(1));
  ASSERT_TRUE(exists(vm));
  EXPECT_EQ(document(vm)["metadata"]["ownerReferences"], Json::array({owner(other)}));
}

}  // namespace
}  // namespace virtset::test
