#include "daemon/options.h"

#include <CLI/CLI.hpp>
#include <unistd.h>

#include <map>

#include "api/kinds/names.h"
#include "daemon/host.h"

namespace virtset {

namespace {

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

// Empty if it is one, as CLI11 wants it.
std::string check_node_name(const std::string& name) {
  auto wrong = api::check_subdomain(name);
  if (!wrong) wrong = api::check_label_value(name);  // the node's label has it too
  return wrong.value_or("");
}

void declare(CLI::App& app, Options& options) {
  app.set_version_flag("--version", "virtsetd " VIRTSET_VERSION);
  app.set_config("--config", "/etc/virtset/virtsetd.conf",
                 "File with any of these options, one a line: name = value");

  app.add_option("--state-dir", options.state_directory, "Database and keys")
      ->capture_default_str();
  app.add_option("--run-dir", options.runtime_directory, "The unix socket virtset.sock")
      ->capture_default_str();
  app.add_option("--config-dir", options.configuration_directory, "Where kubeconfig is written")
      ->capture_default_str();
  app.add_option("--data-dir", options.data_directory,
                 "Images and the disks of VMs; QEMU's user must be able to reach it "
                 "[STATE_DIR/data]");
  app.add_option("--import-dir", options.import_directory,
                 "Folder for OCI and docker archives of images [DATA_DIR/import]");
  app.add_option("--socket-group", options.socket_group,
                 "Group that may use the unix socket [the process's own]");
  app.add_option("--listen", options.listen, "Loopback address and port for TLS; \"off\" for none")
      ->capture_default_str();
  app.add_option("--node-name", options.node_name, "Name of this host in the API [host name]")
      ->check(check_node_name);

  app.add_option("--libvirt-uri", options.libvirt_uri, "Hypervisor")->capture_default_str();
  app.add_option("--libvirt-pid-dir", options.pid_directory,
                 "Where libvirt keeps QEMU's process numbers")
      ->capture_default_str();
  app.add_option("--emulation", options.emulation, "auto (KVM if the host can), always, or never")
      ->transform(
          CLI::CheckedTransformer(std::map<std::string, Emulation>{{"auto", Emulation::automatic},
                                                                   {"always", Emulation::always},
                                                                   {"never", Emulation::never}},
                                  CLI::ignore_case));
  app.add_option("--start-concurrency", options.start_concurrency,
                 "VMs that are started at the same time; 0: one per core")
      ->check(CLI::Range(0, 256))
      ->capture_default_str();

  app.add_option("--network-name", options.network_name, "libvirt network that is made for VMs")
      ->capture_default_str();
  app.add_option("--network-bridge", options.network_bridge, "Its bridge [the network's name]");
  app.add_option("--network-cidr", options.network_cidr, "Its addresses, from /16 to /30")
      ->capture_default_str();

  app.add_option(
      "--insecure-registry", options.insecure_registries,
      "host[:port] of a registry without TLS, or with a certificate nobody signed; may be "
      "given more than once");
  app.add_option("--registry-auth-file", options.registry_auth_file,
                 "Credentials in the format of containers-auth.json(5)");
  app.add_option("--image-high-water", options.image_high_water,
                 "Percent of the disk in use above which unused images are removed")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  app.add_option("--image-low-water", options.image_low_water, "Percent at which that ends")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();

  app.add_option(
         "--guest-memory", options.guest_memory_mib,
         "MiB that VMs may ask for in total; 0: the host's memory but 256 MiB; -1: no limit")
      ->capture_default_str();
  app.add_option("--crash-back-off", options.crash_back_off_s,
                 "Seconds before a replica is replaced for the second time in a row; then doubled")
      ->check(CLI::Range(0, 300))
      ->capture_default_str();
  app.add_option("--image-back-off", options.image_back_off_s,
                 "Seconds before a failed pull is tried again; then doubled")
      ->check(CLI::Range(1, 300))
      ->capture_default_str();
  app.add_option("--log-level", options.log_level, "debug, info, warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();
}

}  // namespace

std::optional<int> read_options(int argc, char** argv, Options& options) {
  CLI::App app("virtsetd keeps sets of virtual machines running on this host.");
  declare(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  if (options.data_directory.empty()) options.data_directory = options.state_directory / "data";
  if (options.import_directory.empty()) {
    options.import_directory = options.data_directory / "import";
  }
  if (options.network_bridge.empty()) options.network_bridge = options.network_name;
  if (options.node_name.empty()) options.node_name = node_name_of(host_name());
  if (options.listen == "off") options.listen.clear();
  if (options.image_low_water > options.image_high_water) {
    options.image_low_water = options.image_high_water;
  }
  return std::nullopt;
}

}  // namespace virtset
