// A store on a disk in memory, for controllers that need nothing else.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/kinds/json_access.h"
#include "api/kinds/kind.h"
#include "api/kinds/lifecycle.h"
#include "daemon/controller.h"
#include "store/store.h"
#include "tests/fakes/manual_scheduler.h"
#include "tests/fakes/memory_committer.h"

namespace virtset::test {

class ControllerTest : public testing::Test {
 protected:
  ControllerTest() { open_store({}); }
  ~ControllerTest() override {
    subscription_ = {};
    controller_.reset();
    store_.reset();
    loop_.run();
  }

  void open_store(store::Store::Limits limits) {
    store_.reset();
    loop_.run();
    auto committer = std::make_unique<MemoryCommitter>(disk_);
    committer_ = committer.get();
    store_ = std::make_unique<store::Store>(
        std::move(committer), disk_.contents(),
        [this](std::function<void()> action) { loop_.post(std::move(action)); }, limits);
  }
  void run_controller(std::unique_ptr<Controller> controller) {
    subscription_ = {};
    controller_ = std::move(controller);
    subscription_ = store_->feed().subscribe(
        [this](const store::Change& change) { controller_->observe(change); });
    controller_->start();
    loop_.run();
  }

  static store::Key instance_key(const std::string& name, const std::string& ns = "default") {
    return {api::kubevirt_group, api::instance_kind, ns, name};
  }
  static store::Key set_key(const std::string& name) {
    return {api::kubevirt_group, api::replica_set_kind, "default", name};
  }

  // Stores a document under the key, with the uid "u-<name>" unless it has one.
  void put(const store::Key& key, store::Json document = store::Json::object()) {
    write(key, std::move(document));
    loop_.run();
  }
  void write(const store::Key& key, store::Json document) {
    document["kind"] = key.kind;
    document["metadata"]["name"] = key.name;
    if (!key.ns.empty()) document["metadata"]["namespace"] = key.ns;
    if (!document["metadata"].contains("uid")) document["metadata"]["uid"] = "u-" + key.name;
    store_->write(
        key, [document](const store::Object*) { return store::Store::Mutation::put(document); },
        nullptr);
  }
  // As the API does it.
  void remove(const store::Key& key, std::optional<api::Propagation> policy = {}) {
    store_->write(
        key,
        [=, now = loop_.now()](const store::Object* current) {
          return api::begin_deletion(*current->document(), policy, std::nullopt, now);
        },
        nullptr);
    loop_.run();
  }
  // Somebody has cleaned up.
  void finish(const store::Key& key, const std::string& finalizer) {
    store_->write(
        key,
        [finalizer](const store::Object* current) {
          store::Json document = *current->document();
          api::remove_finalizer(document, finalizer);
          return api::put_or_finish(std::move(document));
        },
        nullptr);
    loop_.run();
  }

  bool exists(const store::Key& key) const { return store_->get(key) != nullptr; }
  bool deleting(const store::Key& key) const { return api::is_deleting(document(key)); }
  store::Json document(const store::Key& key) const {
    const auto object = store_->get(key);
    return object ? *object->document() : store::Json();
  }
  std::size_t count(const char* group, const char* kind) const {
    return store_->list(group, kind).size();
  }

  ManualScheduler loop_;
  Disk disk_;
  MemoryCommitter* committer_ = nullptr;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<Controller> controller_;
  store::WatchFeed::Subscription subscription_;
};

}  // namespace virtset::test
