#include "tests/fakes/world.h"

#include "api/kinds/conditions.h"
#include "api/kinds/json_access.h"

namespace virtset::test {

using store::Json;

namespace {

constexpr const char* installation = "6d0cf6f5-3b4c-4e0f-a3a6-000000000001";

Json instance_spec() {
  return {{"terminationGracePeriodSeconds", 30},
          {"domain",
           {{"devices", {{"autoattachPodInterface", false}}}, {"memory", {{"guest", "64Mi"}}}}}};
}

const api::Kind& kind_named(const std::string& name) {
  for (const api::Kind& kind : api::builtin_kinds().all()) {
    if (kind.kind == name) return kind;
  }
  throw std::runtime_error("there is no kind " + name);
}

// Of the collection in the namespace "default".
std::string path_of(const std::string& kind_name) {
  const api::Kind& kind = kind_named(kind_name);
  return (kind.group.empty() ? "/api/" : "/apis/") + kind.api_version() + "/namespaces/default/" +
         kind.plural;
}

}  // namespace

Json replica_set(const std::string& name, int replicas) {
  return {
      {"apiVersion", "kubevirt.io/v1"},
      {"kind", "VirtualMachineInstanceReplicaSet"},
      {"metadata", {{"name", name}}},
      {"spec",
       {{"replicas", replicas},
        {"selector", {{"matchLabels", {{"app", name}}}}},
        {"template", {{"metadata", {{"labels", {{"app", name}}}}}, {"spec", instance_spec()}}}}}};
}

Json machine(const std::string& name) {
  return {{"apiVersion", "kubevirt.io/v1"},
          {"kind", "VirtualMachine"},
          {"metadata", {{"name", name}}},
          {"spec", {{"runStrategy", "Always"}, {"template", {{"spec", instance_spec()}}}}}};
}

Json pool(const std::string& name, int replicas) {
  const Json labels{{"app", name}};
  return {
      {"apiVersion", "pool.kubevirt.io/v1beta1"},
      {"kind", "VirtualMachinePool"},
      {"metadata", {{"name", name}}},
      {"spec",
       {{"replicas", replicas},
        {"selector", {{"matchLabels", labels}}},
        {"virtualMachineTemplate",
         {{"metadata", {{"labels", labels}}},
          {"spec",
           {{"runStrategy", "Always"},
            {"template", {{"metadata", {{"labels", labels}}}, {"spec", instance_spec()}}}}}}}}}};
}

Json instance(const std::string& name) {
  return {{"apiVersion", "kubevirt.io/v1"},
          {"kind", "VirtualMachineInstance"},
          {"metadata", {{"name", name}}},
          {"spec", instance_spec()}};
}

World::World(Options options) : options_(std::move(options)) {
  host_state = {.host_name = "host",
                .address = "192.0.2.7",
                .architecture = "amd64",
                .kernel = "6.1.0",
                .os_image = "A Linux",
                .machine_id = "m",
                .system_uuid = "s",
                .boot_id = "b",
                .cpus = 4,
                .memory = 8ull << 30,
                .available_memory = 6ull << 30,
                .disk = 100'000'000'000,
                .disk_used_percent = 30};
  boot();
}

World::~World() { crash(); }

void World::boot() {
  alive_ = std::make_shared<bool>(true);
  auto memory = std::make_unique<MemoryCommitter>(disk);
  committer = memory.get();
  store = std::make_unique<store::Store>(
      std::move(memory), disk.contents(),
      [this](std::function<void()> action) { scheduler.post(std::move(action)); });
  jobs = std::make_unique<ManualJobs>(scheduler);
  hypervisor = std::make_unique<FakeHypervisor>(host, installation);
  probes = std::make_unique<FakeProbes>(scheduler);
  probes->silent_ports = silent_ports;
  recorder = std::make_unique<EventRecorder>(*store, scheduler, node_name);
  domains = std::make_unique<Domains>([this](const std::string& uuid) {
    instance_controller->domain_changed(uuid);
    static_cast<Strays&>(*controllers[1]).domain_changed(uuid);
  });
  claims = std::make_unique<ClaimUsers>();
  network = std::make_unique<PodNetwork>(
      PodNetwork::Options{"vs0", "vs0", options_.network, installation}, *hypervisor, *jobs,
      scheduler, [this] {
        instance_controller->surroundings_changed();
        node_controller->network_changed();
      });
  auto instances = std::make_unique<InstanceController>(
      InstanceController::Parts{*store, scheduler, *jobs, *hypervisor, images, volumes, *claims,
                                *network, *probes, *recorder, *domains, options_.guest_memory},
      InstanceController::Options{.node_name = node_name, .installation = installation});
  instance_controller = instances.get();
  controllers.push_back(std::move(instances));
  controllers.push_back(std::make_unique<Strays>(*store, scheduler, *jobs, *hypervisor, images,
                                                 *domains, images.vms_with_disks()));
  ReplicaSetController::Options set_options;
  set_options.burst = options_.burst;
  set_options.first_back_off = options_.crash_back_off;
  controllers.push_back(
      std::make_unique<ReplicaSetController>(*store, scheduler, *recorder, set_options));
  MachineController::Options machine_options;
  machine_options.first_back_off = options_.crash_back_off;
  controllers.push_back(
      std::make_unique<MachineController>(*store, scheduler, *recorder, machine_options));
  images.memory_is_written = [this](const std::string& file) { return host.saved.contains(file); };
  controllers.push_back(std::make_unique<SavedMachineController>(*store, scheduler, *jobs, images,
                                                                 images.set_aside_states()));
  ClaimController::Options claim_options;
  claim_options.progress_every = std::chrono::milliseconds(0);
  controllers.push_back(std::make_unique<ClaimController>(
      ClaimController::Parts{*store, scheduler, *jobs, volumes, *claims, *recorder}, claim_options,
      volumes.list()));
  controllers.push_back(std::make_unique<DataVolumeController>(*store, scheduler, *recorder));
  PoolController::Options pool_options;
  pool_options.burst = options_.burst;
  controllers.push_back(
      std::make_unique<PoolController>(*store, scheduler, *recorder, pool_options));
  controllers.push_back(
      std::make_unique<GarbageCollector>(*store, scheduler, api::builtin_kinds()));
  controllers.push_back(
      std::make_unique<NamespaceController>(*store, scheduler, api::builtin_kinds()));
  auto node = std::make_unique<NodeController>(
      NodeController::Parts{*store, scheduler, *jobs, *hypervisor, *recorder, *domains, *network},
      NodeController::Options{.node_name = node_name,
                              .guest_memory = options_.guest_memory,
                              .look_at_host = [this] { return host_state; }});
  node_controller = node.get();
  controllers.push_back(std::move(node));
  rest = std::make_unique<api::RestApi>(*store, api::builtin_kinds(), scheduler);
  subscription_ = store->feed().subscribe([this](const store::Change& change) {
    for (const auto& controller : controllers) controller->observe(change);
  });
  for (const auto& controller : controllers) controller->start();
  observe_hypervisor();
  settle();
}

void World::observe_hypervisor() {
  const auto post = [this, alive = alive_](std::function<void()> action) {
    scheduler.post([alive, action = std::move(action)] {
      if (*alive) action();
    });
  };
  hypervisor->open({
      .connected =
          [this, post](std::vector<hypervisor::DomainInfo> list) {
            post([this, list] {
              const bool again = domains->synced();
              domains->on_connected(list);
              network->ensure();
              if (again) return;
              instance_controller->surroundings_changed();
              node_controller->hypervisor_changed();
            });
          },
      .found =
          [this, post](hypervisor::DomainInfo domain) {
            post([this, domain] { domains->on_found(domain); });
          },
      .disconnected =
          [this, post](std::string why) {
            post([this, why] {
              domains->on_disconnected(why);
              instance_controller->surroundings_changed();
              node_controller->hypervisor_changed();
            });
          },
      .event = [this, post](
                   hypervisor::Event event) { post([this, event] { domains->on_event(event); }); },
  });
}

void World::crash() {
  if (!store) return;
  *alive_ = false;
  subscription_ = {};
  rest.reset();
  controllers.clear();
  network.reset();
  claims.reset();
  domains.reset();
  recorder.reset();
  probes.reset();
  hypervisor.reset();
  jobs.reset();
  store.reset();
  scheduler.run();
}

void World::settle() {
  do {
    scheduler.run();
  } while (jobs->run_all() > 0);
}

void World::advance(std::chrono::milliseconds duration) {
  // In steps, because jobs take no time.
  constexpr std::chrono::milliseconds step{100};
  for (auto left = duration; left > std::chrono::milliseconds(0); left -= step) {
    scheduler.advance(std::min(step, left));
    settle();
  }
}

Json World::request(const std::string& method, const std::string& path, const Json& body,
                    int* status, const std::string& content_type) {
  api::Request request{.method = method};
  request.accept = "application/json";
  const auto question = path.find('?');
  request.path = path.substr(0, question);
  if (question != std::string::npos) {
    std::string query = path.substr(question + 1);
    for (std::size_t start = 0; start <= query.size();) {
      const auto end = std::min(query.find('&', start), query.size());
      const std::string pair = query.substr(start, end - start);
      const auto equals = pair.find('=');
      request.query.emplace_back(pair.substr(0, equals),
                                 equals == std::string::npos ? "" : pair.substr(equals + 1));
      start = end + 1;
    }
  }
  request.content_type = content_type;
  if (!body.is_null()) request.body = body.dump();
  std::optional<api::Response> answer;
  rest->handle(request, [&](api::Response response) { answer = std::move(response); });
  settle();
  if (!answer) throw std::runtime_error(method + " " + path + " was not answered");
  std::string text = std::move(answer->body);
  while (answer->stream && answer->stream->read(text) == api::BodyStream::State::more) {
  }
  if (status) *status = answer->status;
  return Json::parse(text, nullptr, false);
}

void World::create_set(const std::string& name, int replicas, const Json& spec_patch) {
  Json body = replica_set(name, replicas);
  if (!spec_patch.is_null()) body["spec"].merge_patch(spec_patch);
  int status = 0;
  const Json answer =
      request("POST", "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstancereplicasets",
              body, &status);
  if (status != 201) throw std::runtime_error(answer.dump());
}

void World::create_machine(const std::string& name, const Json& spec_patch) {
  Json body = machine(name);
  if (!spec_patch.is_null()) body["spec"].merge_patch(spec_patch);
  int status = 0;
  const Json answer =
      request("POST", "/apis/kubevirt.io/v1/namespaces/default/virtualmachines", body, &status);
  if (status != 201) throw std::runtime_error(answer.dump());
}

void World::create_pool(const std::string& name, int replicas, const Json& spec_patch) {
  Json body = test::pool(name, replicas);
  if (!spec_patch.is_null()) body["spec"].merge_patch(spec_patch);
  int status = 0;
  const Json answer =
      request("POST", "/apis/pool.kubevirt.io/v1beta1/namespaces/default/virtualmachinepools", body,
              &status);
  if (status != 201) throw std::runtime_error(answer.dump());
}

void World::patch(const std::string& kind, const std::string& name, const Json& patch) {
  int status = 0;
  const Json answer =
      request("PATCH", path_of(kind) + "/" + name, patch, &status, "application/merge-patch+json");
  if (status != 200) throw std::runtime_error(answer.dump());
}

std::vector<std::string> World::machine_names(const std::string& ns) const {
  std::vector<std::string> names;
  for (const auto& object : store->list(api::kubevirt_group, api::machine_kind, ns)) {
    names.push_back(object->key().name);
  }
  return names;
}

int World::act(const std::string& name, const std::string& action, const Json& options) {
  int status = 0;
  request(
      "PUT",
      "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines/" + name + "/" + action,
      options, &status);
  return status;
}

void World::scale(const std::string& set, int replicas) {
  int status = 0;
  const Json answer = request(
      "PATCH",
      "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstancereplicasets/" + set + "/scale",
      {{"spec", {{"replicas", replicas}}}}, &status, "application/merge-patch+json");
  if (status != 200) throw std::runtime_error(answer.dump());
}

void World::remove(const std::string& kind, const std::string& name, const std::string& policy) {
  Json body = Json::object();
  if (!policy.empty()) body["propagationPolicy"] = policy;
  int status = 0;
  const Json answer = request("DELETE", path_of(kind) + "/" + name, body, &status);
  if (status != 200) throw std::runtime_error(answer.dump());
}

std::vector<Json> World::instances(const std::string& ns) const {
  std::vector<Json> documents;
  for (const auto& object : store->list(api::kubevirt_group, api::instance_kind, ns)) {
    documents.push_back(*object->document());
  }
  return documents;
}

std::vector<std::string> World::instance_names() const {
  std::vector<std::string> names;
  for (const Json& document : instances()) names.push_back(document["metadata"]["name"]);
  return names;
}

Json World::get(const std::string& kind, const std::string& name) const {
  const auto object = store->get({kind_named(kind).group, kind, "default", name});
  return object ? *object->document() : Json();
}

std::vector<std::string> World::events(const std::string& kind) const {
  std::vector<std::string> result;
  for (const auto& object : store->list(api::core_group, api::event_kind)) {
    const Json& event = *object->document();
    if (event["involvedObject"]["kind"] != kind) continue;
    result.push_back(event["reason"].get<std::string>() + ": " +
                     event["message"].get<std::string>());
  }
  return result;
}

std::string World::uuid_of(const std::string& name) const {
  return get(api::instance_kind, name)["spec"]["domain"]["firmware"]["uuid"];
}

Json World::node(const std::string& name) const {
  const auto object = store->get({api::core_group, api::node_kind, "", name});
  return object ? *object->document() : Json();
}

void World::cordon(bool cordoned) {
  // kubectl takes the field out again.
  const Json value = cordoned ? Json(true) : Json();
  int status = 0;
  const Json answer =
      request("PATCH", "/api/v1/nodes/" + node_name, {{"spec", {{"unschedulable", value}}}},
              &status, "application/merge-patch+json");
  if (status != 200) throw std::runtime_error(answer.dump());
}

}  // namespace virtset::test
