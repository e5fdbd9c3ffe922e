#include "daemon/daemon.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "api/http/pki.h"
#include "daemon/controllers/claim/controller.h"
#include "daemon/controllers/data_volume_controller.h"
#include "daemon/controllers/event_expiry.h"
#include "daemon/controllers/garbage_collector.h"
#include "daemon/controllers/machine/controller.h"
#include "daemon/controllers/namespace_controller.h"
#include "daemon/controllers/pool/controller.h"
#include "daemon/controllers/replica_set/controller.h"
#include "daemon/controllers/saved_machine_controller.h"
#include "daemon/host.h"
#include "images/files.h"
#include "store/sqlite_committer.h"

namespace virtset {

namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

// libvirtd serves five requests of a connection at a time.
constexpr unsigned requests_per_connection = 4;
constexpr unsigned control_jobs = 8;
constexpr unsigned pull_jobs = 3;
constexpr unsigned save_jobs = 2;
constexpr unsigned import_jobs = 2;
constexpr unsigned copy_jobs = 2;
// Sockets, pidfds, watches. Not more: libwebsockets keeps a table of this size.
constexpr rlim_t descriptors = 16'384;
// A job that hangs in a dead libvirtd must not keep the daemon from ending; what it does is found
// again at the next start.
constexpr unsigned longest_stop_s = 20;

// For us alone to write to. `mode` is for one that is made here; one that is there is its owner's.
void make_directory(const fs::path& path, mode_t mode) {
  std::error_code error;
  const bool made = fs::create_directories(path, error);
  if (error) throw std::runtime_error("cannot make " + path.string() + ": " + error.message());
  if (made) chmod(path.c_str(), mode);
}

// "127.0.0.1:7443" in two.
std::pair<std::string, int> split_address(const std::string& listen) {
  const auto colon = listen.rfind(':');
  const int port = colon == std::string::npos ? 0 : std::atoi(listen.c_str() + colon + 1);
  if (port < 1 || port > 65535) {
    throw std::runtime_error("--listen " + listen + " is not an address and a port");
  }
  return {listen.substr(0, colon), port};
}

void raise_descriptor_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::min(limit.rlim_max, descriptors);
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

StateLock::StateLock(const fs::path& directory, const char* what, const char* file_name) {
  // QEMU's user passes through it to the disks.
  make_directory(directory, 0711);
  const fs::path file = directory / file_name;
  fd_ = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd_ < 0 || flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    const std::string why =
        errno == EWOULDBLOCK ? "another virtsetd is using it" : std::strerror(errno);
    if (fd_ >= 0) close(fd_);
    throw std::runtime_error("cannot use the " + std::string(what) + " directory " +
                             directory.string() + ": " + why);
  }
}

StateLock::~StateLock() { close(fd_); }

Daemon::Daemon(const Options& options) : options_(options), lock_(options.state_directory) {
  raise_descriptor_limit();
  open_store();
  open_host();
  make_controllers();
  open_doors();
}

Daemon::~Daemon() = default;

void Daemon::open_store() {
  auto committer =
      std::make_unique<store::SqliteCommitter>((options_.state_directory / "virtset.db").string());
  store::Contents contents = committer->load();
  installation_ = contents.installation;
  spdlog::info("installation {}, {} objects at revision {}", installation_, contents.entries.size(),
               contents.revision);
  store_ = std::make_unique<store::Store>(
      std::move(committer), std::move(contents),
      [this](std::function<void()> action) { loop_.post(std::move(action)); });
}

void Daemon::open_host() {
  make_directory(options_.data_directory.parent_path(), 0711);
  images::make_directory(options_.data_directory);
  data_lock_ = std::make_unique<StateLock>(options_.data_directory, "data", "data-lock");
  images::LocalImages::Options image_options{.directory = options_.data_directory};
  image_options.registry.insecure_registries = options_.insecure_registries;
  image_options.registry.auth_file = options_.registry_auth_file;
  image_options.cache.high_water_percent = options_.image_high_water;
  image_options.cache.low_water_percent = options_.image_low_water;
  images_ = std::make_unique<images::LocalImages>(std::move(image_options));
  volumes_ = std::make_unique<images::LocalVolumes>(
      images::LocalVolumes::Options{.directory = options_.data_directory / "volumes"}, *images_);

  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  const unsigned starts = options_.start_concurrency ? options_.start_concurrency : cores;
  hypervisor::libvirt::Options libvirt{.uri = options_.libvirt_uri, .installation = installation_};
  libvirt.connections =
      (starts + control_jobs + requests_per_connection - 1) / requests_per_connection;
  // Only QEMU's domains are processes.
  libvirt.pid_directory = options_.libvirt_uri.starts_with("qemu:") ? options_.pid_directory : "";
  hypervisor_ = std::make_unique<hypervisor::libvirt::LibvirtHypervisor>(std::move(libvirt));
  jobs_ =
      std::make_unique<ThreadJobs>(loop_, std::map<Lane, unsigned>{{Lane::start, starts},
                                                                   {Lane::control, control_jobs},
                                                                   {Lane::save, save_jobs},
                                                                   {Lane::disk, cores},
                                                                   {Lane::pull, pull_jobs},
                                                                   {Lane::import, import_jobs},
                                                                   {Lane::copy, copy_jobs}});
  probes_ = std::make_unique<CurlTransport>(loop_.raw());
}

void Daemon::make_controllers() {
  events_ = std::make_unique<EventRecorder>(*store_, loop_, options_.node_name);
  domains_ = std::make_unique<Domains>([this](const std::string& uuid) {
    instances_->domain_changed(uuid);
    strays_->domain_changed(uuid);
  });
  network_ = std::make_unique<PodNetwork>(
      PodNetwork::Options{options_.network_name, options_.network_bridge, options_.network_cidr,
                          installation_},
      *hypervisor_, *jobs_, loop_, [this] {
        instances_->surroundings_changed();
        node_->network_changed();
      });

  std::string why;
  InstanceController::Options instance_options{.node_name = options_.node_name,
                                               .installation = installation_};
  instance_options.emulate = must_emulate(options_.emulation, why);
  instance_options.images.first_back_off = seconds(options_.image_back_off_s);
  spdlog::info("guests run {}: {}", instance_options.emulate ? "emulated, which is slow" : "on KVM",
               why);
  const std::uint64_t guest_memory = memory_for_guests(options_.guest_memory_mib);
  auto instances = std::make_unique<InstanceController>(
      InstanceController::Parts{*store_, loop_, *jobs_, *hypervisor_, *images_, *volumes_, claims_,
                                *network_, *probes_, *events_, *domains_, guest_memory},
      instance_options);
  auto strays = std::make_unique<Strays>(*store_, loop_, *jobs_, *hypervisor_, *images_, *domains_,
                                         images_->vms_with_disks());
  instances_ = instances.get();
  strays_ = strays.get();
  controllers_.push_back(std::move(instances));
  controllers_.push_back(std::move(strays));

  ReplicaSetController::Options set_options;
  set_options.first_back_off = seconds(options_.crash_back_off_s);
  controllers_.push_back(
      std::make_unique<ReplicaSetController>(*store_, loop_, *events_, set_options));
  MachineController::Options machine_options;
  machine_options.first_back_off = seconds(options_.crash_back_off_s);
  controllers_.push_back(
      std::make_unique<MachineController>(*store_, loop_, *events_, machine_options));
  controllers_.push_back(std::make_unique<SavedMachineController>(*store_, loop_, *jobs_, *images_,
                                                                  images_->set_aside_states()));
  ClaimController::Options claim_options;
  claim_options.volumes_are_ours = volumes_->belongs_to(installation_);
  if (!claim_options.volumes_are_ours) {
    spdlog::error(
        "the volumes in {} are not known to be of this installation: none without a claim is "
        "removed; if they are, write {} to {} and start again",
        (options_.data_directory / "volumes").string(), installation_,
        volumes_->owner_file().string());
  }
  controllers_.push_back(std::make_unique<ClaimController>(
      ClaimController::Parts{*store_, loop_, *jobs_, *volumes_, claims_, *events_}, claim_options,
      volumes_->list()));
  controllers_.push_back(std::make_unique<DataVolumeController>(*store_, loop_, *events_));
  controllers_.push_back(
      std::make_unique<PoolController>(*store_, loop_, *events_, PoolController::Options{}));
  const api::Kinds& kinds = api::builtin_kinds();
  controllers_.push_back(std::make_unique<GarbageCollector>(*store_, loop_, kinds));
  controllers_.push_back(std::make_unique<NamespaceController>(*store_, loop_, kinds));
  controllers_.push_back(std::make_unique<EventExpiry>(*store_, loop_, EventExpiry::Options{}));
  make_node_controller(instance_options.emulate, guest_memory);

  subscription_ = store_->feed().subscribe([this](const store::Change& change) {
    for (const auto& controller : controllers_) controller->observe(change);
  });
}

void Daemon::make_node_controller(bool emulate, std::uint64_t guest_memory) {
  NodeController::Options options{.node_name = options_.node_name,
                                  .emulate = emulate,
                                  .guest_memory = guest_memory,
                                  .disk_high_water = options_.image_high_water,
                                  .disk_low_water = options_.image_low_water};
  options.look_at_host = [directory = options_.data_directory, bridge = options_.network_bridge] {
    return look_at_host(directory, bridge);
  };
  auto node = std::make_unique<NodeController>(
      NodeController::Parts{*store_, loop_, *jobs_, *hypervisor_, *events_, *domains_, *network_},
      std::move(options));
  node_ = node.get();
  controllers_.push_back(std::move(node));
}

void Daemon::open_doors() {
  make_directory(options_.runtime_directory, 0755);
  rest_ = std::make_unique<api::RestApi>(*store_, api::builtin_kinds(), loop_);
  api::HttpServer::Options http;
  http.unix_socket = (options_.runtime_directory / "virtset.sock").string();
  http.unix_socket_group = options_.socket_group;
  if (!options_.listen.empty()) {
    const auto [address, port] = split_address(options_.listen);
    const api::Pki pki = api::ensure_pki(options_.state_directory / "pki",
                                         {address, "localhost", options_.node_name});
    http.tls_address = address;
    http.tls_port = port;
    http.certificate_file = pki.certificate;
    http.private_key_file = pki.private_key;
    http.accepts_token = [token = pki.admin_token](const std::string& given) {
      return api::tokens_equal(token, given);
    };
    make_directory(options_.configuration_directory, 0755);
    api::write_private_file(options_.configuration_directory / "kubeconfig",
                            api::kubeconfig(pki, "https://" + options_.listen), 0640,
                            options_.socket_group);
  }
  server_ = std::make_unique<api::HttpServer>(
      loop_.raw(), http, [this](const api::Request& request, const api::Respond& respond) {
        rest_->handle(request, respond);
      });
}

// The hypervisor speaks on threads of its own.
void Daemon::observe_hypervisor() {
  hypervisor_->open({
      .connected =
          [this](std::vector<hypervisor::DomainInfo> domains) {
            loop_.post([this, domains = std::move(domains)] {
              const bool again = domains_->synced();
              domains_->on_connected(domains);
              network_->ensure();
              if (again) return;
              spdlog::info("connected to {}, {} domains are ours", options_.libvirt_uri,
                           domains.size());
              instances_->surroundings_changed();
              node_->hypervisor_changed();
            });
          },
      .found =
          [this](hypervisor::DomainInfo domain) {
            loop_.post([this, domain = std::move(domain)] { domains_->on_found(domain); });
          },
      .disconnected =
          [this](std::string why) {
            loop_.post([this, why = std::move(why)] {
              spdlog::warn("no connection to {}: {}; VMs run on", options_.libvirt_uri, why);
              domains_->on_disconnected(why);
              instances_->surroundings_changed();
              node_->hypervisor_changed();
            });
          },
      .event =
          [this](hypervisor::Event event) {
            loop_.post([this, event = std::move(event)] { domains_->on_event(event); });
          },
  });
}

void Daemon::run() {
  for (const auto& controller : controllers_) controller->start();
  observe_hypervisor();
  image_keeper_ = std::make_unique<ImageKeeper>(loop_.raw(), loop_, *jobs_, images_->cache(),
                                                options_.import_directory,
                                                [this] { instances_->images_changed(); });
  loop_.on_terminate([this] { stop(); });
  spdlog::info("listening on {}/virtset.sock{}", options_.runtime_directory.string(),
               options_.listen.empty() ? "" : " and https://" + options_.listen);
  // What the controllers wrote at their start is there for whoever waits for us.
  store_->when_idle([] { sd_notify(0, "READY=1"); });
  loop_.run();
}

// What was acknowledged is durable already; what is under way is finished or found again.
void Daemon::stop() {
  if (std::exchange(stopping_, true)) return;
  spdlog::info("stopping; VMs run on");
  sd_notify(0, "STOPPING=1");
  alarm(longest_stop_s);
  images_->cancel();
  volumes_->cancel_all();
  server_->stop([this] {
    store_->when_idle([this] {
      subscription_ = {};
      image_keeper_.reset();
      jobs_.reset();
      hypervisor_.reset();
      // Probes end before what carries them.
      controllers_.clear();
      probes_.reset();
      store_.reset();
      loop_.stop();
    });
  });
}

}  // namespace virtset
