#include "daemon/controllers/node/controller.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "api/kinds/admission.h"
#include "api/kinds/conditions.h"
#include "api/kinds/json_access.h"
#include "api/kinds/kind.h"
#include "api/kinds/lifecycle.h"
#include "store/errors.h"

namespace virtset {

using store::Json;
using store::Store;
using Mutation = Store::Mutation;

namespace {

constexpr const char* component = "virtset";

// What is told of a node: kubelet's reasons, where it has one.
struct Telling {
  const char* condition;  // "" for whether it is cordoned
  const char* healthy;    // the status that is no news at first
  const char* reason_true;
  const char* reason_false;
};
constexpr Telling tellings[] = {
    {"Ready", "True", "NodeReady", "NodeNotReady"},
    {"MemoryPressure", "False", "NodeHasInsufficientMemory", "NodeHasSufficientMemory"},
    {"DiskPressure", "False", "NodeHasDiskPressure", "NodeHasNoDiskPressure"},
    {"NetworkUnavailable", "False", "NodeNetworkUnavailable", "NodeNetworkAvailable"},
    {"", "False", "NodeNotSchedulable", "NodeSchedulable"},
};

bool is_cordoned(const Json& node) {
  return api::truth(api::member(node, "spec", "unschedulable"));
}

// Empty if nothing is known.
std::string status_of(const Json& node, const Telling& telling) {
  if (!*telling.condition) return is_cordoned(node) ? "True" : "False";
  const Json& condition = api::find_condition(api::member(node, "status"), telling.condition);
  return api::text(api::member(condition, "status"));
}

std::string message_of(const Json& node, const Telling& telling) {
  if (!*telling.condition) {
    return is_cordoned(node) ? "cordoned: no new virtual machine is started"
                             : "no longer cordoned: virtual machines are started again";
  }
  const Json& condition = api::find_condition(api::member(node, "status"), telling.condition);
  return api::text(api::member(condition, "message"));
}

}  // namespace

NodeController::NodeController(Parts parts, Options options)
    : parts_(parts),
      options_(std::move(options)),
      key_{api::core_group, api::node_kind, "", options_.node_name},
      queue_(parts.scheduler, [this](const store::Key& key) { reconcile(key); }) {
  facts_.name = options_.node_name;
  facts_.pod_network = parts_.network.cidr();
  facts_.pod_addresses = parts_.network.addresses().size();
  facts_.emulated = options_.emulate;
  facts_.guest_memory = options_.guest_memory;
  facts_.disk_high_water = options_.disk_high_water;
  facts_.disk_low_water = options_.disk_low_water;
}

void NodeController::start() {
  // Here and not in a job, so that the node is there when the daemon says that it is ready.
  facts_.host = options_.look_at_host();
  for (const auto& node : parts_.store.list(api::core_group, api::node_kind)) {
    if (node->key().name != options_.node_name) {
      queue_.add(node->key());
      continue;
    }
    for (const Telling& telling : tellings) {
      told_[telling.condition] = status_of(*node->document(), telling);
    }
  }
  reconcile(key_);
  timer_ = parts_.scheduler.after(options_.look_interval, [this] { look(); });
}

void NodeController::observe(const store::Change& change) {
  const store::Key& key = change.object->key();
  if (key.kind == api::node_kind && key.group == api::core_group) queue_.add(key);
}

void NodeController::hypervisor_changed() {
  const bool answers = parts_.domains.synced();
  facts_.hypervisor = {answers, answers ? "libvirt answers" : parts_.domains.why_not_synced()};
  queue_.add(key_);
  // It may be another version now.
  if (answers) look();
}

void NodeController::network_changed() {
  const bool ready = parts_.network.ready();
  facts_.network = {ready, ready ? "the pod network " + parts_.network.name() + " is there"
                                 : parts_.network.why_not_ready()};
  queue_.add(key_);
}

void NodeController::look() {
  timer_.reset();
  look_again_ = looking_;
  if (looking_) return;
  looking_ = true;
  parts_.jobs.submit(
      Lane::control,
      [look_at_host = options_.look_at_host, &hypervisor = parts_.hypervisor] {
        Found found{look_at_host(), {}};
        try {
          found.versions = hypervisor.versions();
        } catch (const std::exception&) {
          // It is asked again when it is there; what it was stays until then.
        }
        return found;
      },
      [this](Result<Found>& result) { looked(result); });
}

void NodeController::looked(Result<Found>& result) {
  looking_ = false;
  try {
    Found& found = result.get();
    facts_.host = std::move(found.host);
    if (found.versions) facts_.versions = std::move(found.versions);
    queue_.add(key_);
  } catch (const std::exception& error) {
    spdlog::error("looking at the host: {}", error.what());
  }
  if (look_again_) {
    look();
  } else {
    timer_ = parts_.scheduler.after(options_.look_interval, [this] { look(); });
  }
}

void NodeController::reconcile(const store::Key& key) {
  const store::ObjectPtr node = parts_.store.get(key);
  try {
    if (key != key_) {
      if (node) end_former(*node);
      return;
    }
    if (node) {
      tell_changes(*node);
      Json document = *node->document();
      bring_up_to_date(document, facts_, parts_.scheduler.now());
      if (document == *node->document()) return;
    }
    write(key);
  } catch (const store::Overloaded&) {
    queue_.retry(key);
  }
}

// Throws Overloaded.
void NodeController::write(const store::Key& key) {
  parts_.store.write(
      key,
      [name = key.name, facts = facts_,
       now = parts_.scheduler.now()](const store::Object* current) {
        Json document;
        if (current) {
          document = *current->document();
        } else {
          const api::Kind& kind = *api::builtin_kinds().find(api::core_group, api::node_kind);
          document = api::admit_new(kind, {{"metadata", {{"name", name}}}}, {},
                                    api::FieldValidation::strict, now)
                         .object;
        }
        bring_up_to_date(document, facts, now);
        if (current && document == *current->document()) return Mutation::nothing();
        return api::put_or_finish(std::move(document));
      },
      [this, key](const Store::Outcome& outcome) {
        if (!outcome.error) {
          queue_.forget(key);
          return;
        }
        try {
          std::rethrow_exception(outcome.error);
        } catch (const std::exception& error) {
          spdlog::error("node {}: {}", key.name, error.what());
        }
        queue_.retry(key);
      });
}

// The host has another name now. Throws Overloaded.
void NodeController::end_former(const store::Object& node) {
  if (api::is_deleting(*node.document())) return;
  spdlog::info("node {} is gone: the host is {} now", node.key().name, options_.node_name);
  parts_.store.write(
      node.key(),
      [uid = node.uid(), now = parts_.scheduler.now()](const store::Object* current) {
        if (!current || current->uid() != uid) return Mutation::nothing();
        return api::begin_deletion(*current->document(), std::nullopt, std::nullopt, now);
      },
      [this, key = node.key()](const Store::Outcome& outcome) {
        if (outcome.error) queue_.retry(key);
      });
}

void NodeController::tell_changes(const store::Object& node) {
  const auto document = node.document();
  for (const Telling& telling : tellings) {
    const std::string status = status_of(*document, telling);
    const std::string before = std::exchange(told_[telling.condition], status);
    const bool healthy = status == telling.healthy;
    if (status == before || status.empty() || (before.empty() && healthy)) continue;
    // To be cordoned is somebody's will and nothing to warn of.
    const bool warning = !healthy && *telling.condition;
    parts_.events.record(node, warning ? EventType::warning : EventType::normal, component,
                         status == "True" ? telling.reason_true : telling.reason_false,
                         message_of(*document, telling));
  }
}

}  // namespace virtset
