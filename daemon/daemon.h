// The daemon: all parts, put together. Its constructor is the list of what there is.
#pragma once

#include <memory>
#include <vector>

#include "api/http/server.h"
#include "api/rest/rest_api.h"
#include "daemon/controllers/instance/controller.h"
#include "daemon/controllers/node/controller.h"
#include "daemon/controllers/strays.h"
#include "daemon/curl_transport.h"
#include "daemon/image_keeper.h"
#include "daemon/loop.h"
#include "daemon/options.h"
#include "hypervisor/libvirt/libvirt_hypervisor.h"
#include "images/local_images.h"
#include "images/local_volumes.h"

namespace virtset {

// Keeps others from using the same state or data directory.
class StateLock {
 public:
  // Throws std::runtime_error if another daemon has it. Two files in one directory do not get into
  // each other's way.
  explicit StateLock(const std::filesystem::path& directory, const char* what = "state",
                     const char* file_name = "lock");
  ~StateLock();
  StateLock(const StateLock&) = delete;
  StateLock& operator=(const StateLock&) = delete;

 private:
  int fd_;
};

class Daemon {
 public:
  // Opens everything. Throws with a message that says what is wrong.
  explicit Daemon(const Options& options);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Runs until SIGTERM or SIGINT. VMs run on after that.
  void run();

 private:
  void open_store();
  void open_host();
  void make_controllers();
  void make_node_controller(bool emulate, std::uint64_t guest_memory);
  void open_doors();
  void observe_hypervisor();
  void stop();

  const Options options_;
  StateLock lock_;
  std::unique_ptr<StateLock> data_lock_;
  Loop loop_;
  std::string installation_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<images::LocalImages> images_;
  std::unique_ptr<images::LocalVolumes> volumes_;
  std::unique_ptr<hypervisor::libvirt::LibvirtHypervisor> hypervisor_;
  std::unique_ptr<Jobs> jobs_;
  std::unique_ptr<CurlTransport> probes_;
  std::unique_ptr<EventRecorder> events_;
  std::unique_ptr<Domains> domains_;
  ClaimUsers claims_;
  std::unique_ptr<PodNetwork> network_;
  std::vector<std::unique_ptr<Controller>> controllers_;
  InstanceController* instances_ = nullptr;
  Strays* strays_ = nullptr;
  NodeController* node_ = nullptr;
  std::unique_ptr<ImageKeeper> image_keeper_;
  store::WatchFeed::Subscription subscription_;
  std::unique_ptr<api::RestApi> rest_;
  std::unique_ptr<api::HttpServer> server_;
  bool stopping_ = false;
};

}  // namespace virtset
