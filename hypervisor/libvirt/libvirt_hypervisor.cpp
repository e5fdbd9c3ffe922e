#include "hypervisor/libvirt/libvirt_hypervisor.h"

#include <fmt/format.h>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>

#include "hypervisor/libvirt/event_loop.h"
#include "hypervisor/xml.h"

namespace virtset::hypervisor::libvirt {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds first_retry{100};
constexpr milliseconds longest_retry{5'000};
// A daemon that hangs is a daemon that is gone: three missed answers, five seconds apart.
constexpr int keepalive_interval_s = 5;
constexpr unsigned keepalive_misses = 3;
// Events are the mechanism; this is the net below them. At first it is drawn tight if there are
// domains: a libvirtd that was killed and is there again may drop them without a word.
constexpr std::chrono::seconds first_resync{2};
constexpr std::chrono::seconds resync_interval{300};

// Whether this thread's last call failed because the domain does not run any more.
bool domain_has_ended() {
  return last_code() == VIR_ERR_NO_DOMAIN || last_code() == VIR_ERR_OPERATION_INVALID;
}

StopReason stop_reason(int detail) {
  switch (detail) {
    case VIR_DOMAIN_EVENT_STOPPED_SHUTDOWN:
      return StopReason::shutdown;
    case VIR_DOMAIN_EVENT_STOPPED_DESTROYED:
      return StopReason::destroyed;
    case VIR_DOMAIN_EVENT_STOPPED_CRASHED:
    case VIR_DOMAIN_EVENT_STOPPED_FAILED:  // QEMU died without a word
      return StopReason::crashed;
    case VIR_DOMAIN_EVENT_STOPPED_SAVED:
      return StopReason::saved;
    default:
      return StopReason::other;
  }
}

PauseReason pause_reason_of_event(int detail) {
  switch (detail) {
    case VIR_DOMAIN_EVENT_SUSPENDED_PAUSED:
      return PauseReason::user;
    case VIR_DOMAIN_EVENT_SUSPENDED_IOERROR:
      return PauseReason::io_error;
    default:
      return PauseReason::other;
  }
}

PauseReason pause_reason_of_state(int reason) {
  switch (reason) {
    case VIR_DOMAIN_PAUSED_USER:
      return PauseReason::user;
    case VIR_DOMAIN_PAUSED_IOERROR:
      return PauseReason::io_error;
    default:
      return PauseReason::other;
  }
}

// libvirt: 1000000 * major + 1000 * minor + release.
std::string version_text(unsigned long number) {
  return fmt::format("{}.{}.{}", number / 1'000'000, number / 1'000 % 1'000, number % 1'000);
}

NetworkState read_network(virNetworkPtr network) {
  const Text xml(virNetworkGetXMLDesc(network, 0));
  if (!xml) throw_last("reading a network");
  return parse_network(xml.get());
}

// Takes away what stands in its way first.
void put_reservation(virNetworkPtr network, const NetworkState& state,
                     const Reservation& reservation) {
  const auto update = [&](virNetworkUpdateCommand command, const Reservation& entry) {
    check(virNetworkUpdate(network, command, VIR_NETWORK_SECTION_IP_DHCP_HOST, -1,
                           reservation_xml(entry).c_str(), VIR_NETWORK_UPDATE_AFFECT_LIVE),
          "reserving an address");
  };
  for (const Reservation& existing : state.reservations) {
    if (existing == reservation) return;
    if (existing.mac == reservation.mac || existing.address == reservation.address) {
      update(VIR_NETWORK_UPDATE_COMMAND_DELETE, existing);
    }
  }
  update(VIR_NETWORK_UPDATE_COMMAND_ADD_LAST, reservation);
}

}  // namespace

// The connections of one stretch of time, and the callbacks registered on the first of them.
class LibvirtHypervisor::Session {
 public:
  Session(LibvirtHypervisor& owner, const Options& options) {
    start_event_loop();
    for (unsigned i = 0; i < options.connections; ++i) {
      Connection connection(virConnectOpen(options.uri.c_str()), CloseConnection());
      if (!connection) throw_last("connecting to " + options.uri);
      // test:/// has neither keepalive nor closing; both fail harmlessly.
      virConnectSetKeepAlive(connection.get(), keepalive_interval_s, keepalive_misses);
      virConnectRegisterCloseCallback(connection.get(), closed, &owner, nullptr);
      connections_.push_back(std::move(connection));
    }
    observe(owner);
  }

  ~Session() {
    for (const int id : callbacks_) {
      virConnectDomainEventDeregisterAny(connections_.front().get(), id);
    }
    for (const Connection& connection : connections_) {
      virConnectUnregisterCloseCallback(connection.get(), closed);
    }
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const std::vector<Connection>& connections() const { return connections_; }

 private:
  void observe(LibvirtHypervisor& owner) {
    virConnectPtr connection = connections_.front().get();
    const int lifecycle =
        virConnectDomainEventRegisterAny(connection, nullptr, VIR_DOMAIN_EVENT_ID_LIFECYCLE,
                                         VIR_DOMAIN_EVENT_CALLBACK(on_lifecycle), &owner, nullptr);
    check(lifecycle, "registering for domain events");
    callbacks_.push_back(lifecycle);
    const int agent =
        virConnectDomainEventRegisterAny(connection, nullptr, VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE,
                                         VIR_DOMAIN_EVENT_CALLBACK(on_agent), &owner, nullptr);
    if (agent >= 0) callbacks_.push_back(agent);
  }

  static void closed(virConnectPtr, int reason, void* opaque) {
    const char* why = reason == VIR_CONNECT_CLOSE_REASON_KEEPALIVE ? "libvirt does not answer"
                      : reason == VIR_CONNECT_CLOSE_REASON_EOF     ? "libvirt closed the connection"
                                                                   : "connection lost";
    static_cast<LibvirtHypervisor*>(opaque)->connection_closed(why);
  }
  static int on_lifecycle(virConnectPtr, virDomainPtr domain, int event, int detail, void* opaque) {
    static_cast<LibvirtHypervisor*>(opaque)->on_lifecycle(domain, event, detail);
    return 0;
  }
  static void on_agent(virConnectPtr, virDomainPtr domain, int state, int, void* opaque) {
    static_cast<LibvirtHypervisor*>(opaque)->on_agent(domain, state);
  }

  std::vector<Connection> connections_;
  std::vector<int> callbacks_;
};

LibvirtHypervisor::LibvirtHypervisor(Options options)
    : options_(std::move(options)),
      processes_(options_.pid_directory, [this](const std::string& uuid) {
        deliver({.type = Event::Type::process_exited, .uuid = uuid});
      }) {}

LibvirtHypervisor::~LibvirtHypervisor() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void LibvirtHypervisor::open(Observer observer) {
  observer_ = std::move(observer);
  thread_ = std::thread([this] { run(); });
  pthread_setname_np(thread_.native_handle(), "libvirt");
}

// Connects, serves until the connection is lost, and again, until the end.
void LibvirtHypervisor::run() {
  milliseconds wait = first_retry;
  std::string last_complaint;
  for (;;) {
    std::string why;
    {
      std::lock_guard lock(mutex_);
      closed_ = false;
      unknown_.clear();
    }
    try {
      Session session(*this, options_);
      wait = first_retry;
      last_complaint.clear();
      serve(session);
      std::lock_guard lock(mutex_);
      connections_.clear();
      why = why_closed_;
    } catch (const std::exception& error) {
      why = error.what();
    }
    std::unique_lock lock(mutex_);
    if (stopping_) return;
    lock.unlock();
    if (why != last_complaint) observer_.disconnected(why);
    last_complaint = why;
    lock.lock();
    changed_.wait_for(lock, wait, [this] { return stopping_; });
    if (stopping_) return;
    wait = std::min(wait * 2, longest_retry);
  }
}

// Lists what is there and tells what happens, until the connection is lost.
void LibvirtHypervisor::serve(Session& session) {
  virConnectPtr connection = session.connections().front().get();
  const bool any = list_and_tell(connection, session.connections());
  for (auto resync = any ? first_resync : resync_interval;;
       resync = std::min(5 * resync, resync_interval)) {
    const auto next_list = std::chrono::steady_clock::now() + resync;
    std::unique_lock lock(mutex_);
    while (changed_.wait_until(lock, next_list, [this] {
      return closed_ || stopping_ || list_again_ || !unknown_.empty();
    })) {
      if (closed_ || stopping_) return;
      if (list_again_) break;
      const std::string uuid = std::move(unknown_.front());
      unknown_.pop_front();
      lock.unlock();
      look_at_unknown(connection, uuid);
      lock.lock();
    }
    lock.unlock();
    list_and_tell(connection, session.connections());
  }
}

// False if there is none.
bool LibvirtHypervisor::list_and_tell(virConnectPtr connection,
                                      const std::vector<Connection>& connections) {
  {
    std::lock_guard lock(mutex_);
    listing_ = true;
    list_again_ = false;
  }
  std::vector<DomainInfo> domains;
  try {
    domains = list_ours(connection);
  } catch (...) {
    std::lock_guard lock(mutex_);
    listing_ = false;
    held_back_.clear();
    throw;
  }
  {
    // Told with the lock held, so that no event overtakes the list.
    std::lock_guard lock(mutex_);
    for (const DomainInfo& domain : domains) ours_.insert(domain.uuid);
    connections_ = connections;
    observer_.connected(domains);
    listing_ = false;
    for (Event& event : std::exchange(held_back_, {})) tell(std::move(event));
  }
  for (const DomainInfo& domain : domains) processes_.add(domain.name, domain.uuid);
  return !domains.empty();
}

// Most are other people's; one of ours was ordered by a run of the daemon that is no more.
void LibvirtHypervisor::look_at_unknown(virConnectPtr connection, const std::string& uuid) {
  const Domain domain(virDomainLookupByUUIDString(connection, uuid.c_str()));
  auto info = domain ? inspect(domain.get()) : std::nullopt;
  if (!info) return;
  {
    std::lock_guard lock(mutex_);
    ours_.insert(uuid);
    observer_.found(*info);
  }
  processes_.add(info->name, info->uuid);
}

void LibvirtHypervisor::relist() {
  {
    std::lock_guard lock(mutex_);
    list_again_ = true;
  }
  changed_.notify_all();
}

Versions LibvirtHypervisor::versions() {
  const Connection connection = this->connection();
  unsigned long library = 0;
  unsigned long driver = 0;
  // Of the daemon's, not of the one that we are linked to.
  check(virConnectGetLibVersion(connection.get(), &library), "asking for libvirt's version");
  check(virConnectGetVersion(connection.get(), &driver), "asking for the hypervisor's version");
  const char* type = virConnectGetType(connection.get());
  if (!type) throw_last("asking what the hypervisor is");
  std::string name = type;  // "QEMU"
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return {version_text(library), name, version_text(driver)};
}

Connection LibvirtHypervisor::connection() {
  std::lock_guard lock(mutex_);
  if (connections_.empty()) {
    throw Unavailable(why_closed_.empty() ? "not connected to " + options_.uri : why_closed_);
  }
  return connections_[next_connection_++ % connections_.size()];
}

void LibvirtHypervisor::connection_closed(const std::string& why) {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    why_closed_ = why;
    connections_.clear();
  }
  changed_.notify_all();
}

void LibvirtHypervisor::deliver(Event event) {
  std::lock_guard lock(mutex_);
  if (listing_) {
    held_back_.push_back(std::move(event));
  } else {
    tell(std::move(event));
  }
}

// With the lock held, so that events are told in the order in which they came.
void LibvirtHypervisor::tell(Event event) {
  if (!ours_.contains(event.uuid)) {
    if (event.type != Event::Type::started) return;
    unknown_.push_back(std::move(event.uuid));
    changed_.notify_all();
    return;
  }
  if (event.type == Event::Type::stopped) ours_.erase(event.uuid);
  observer_.event(std::move(event));
}

void LibvirtHypervisor::on_lifecycle(virDomainPtr domain, int type, int detail) {
  Event event{.type = Event::Type::started, .uuid = uuid_of(domain)};
  switch (type) {
    case VIR_DOMAIN_EVENT_STARTED:
      break;
    case VIR_DOMAIN_EVENT_SUSPENDED:
      event.type = Event::Type::paused;
      event.pause_reason = pause_reason_of_event(detail);
      break;
    case VIR_DOMAIN_EVENT_RESUMED:
      event.type = Event::Type::resumed;
      break;
    case VIR_DOMAIN_EVENT_SHUTDOWN:
      event.type = Event::Type::shutting_down;
      break;
    case VIR_DOMAIN_EVENT_STOPPED:
      event.type = Event::Type::stopped;
      event.stop_reason = stop_reason(detail);
      processes_.remove(event.uuid);
      break;
    default:
      return;
  }
  deliver(std::move(event));
}

void LibvirtHypervisor::on_agent(virDomainPtr domain, int state) {
  const bool connected = state == VIR_CONNECT_DOMAIN_EVENT_AGENT_LIFECYCLE_STATE_CONNECTED;
  deliver({.type = connected ? Event::Type::agent_connected : Event::Type::agent_disconnected,
           .uuid = uuid_of(domain)});
}

// None if it is gone, or another's. Nothing else that keeps us from reading it may be taken for
// that: what a list leaves out counts as ended.
std::optional<Mark> LibvirtHypervisor::our_mark(virDomainPtr domain) {
  const Text metadata(virDomainGetMetadata(domain, VIR_DOMAIN_METADATA_ELEMENT,
                                           std::string(mark_namespace).c_str(),
                                           VIR_DOMAIN_AFFECT_LIVE));
  if (!metadata) {
    const int code = last_code();
    if (domain_has_ended() || code == VIR_ERR_NO_DOMAIN_METADATA || code == VIR_ERR_NO_SUPPORT ||
        code == VIR_ERR_ACCESS_DENIED) {
      return std::nullopt;
    }
    throw_last("reading the mark of a domain");
  }
  auto mark = parse_mark(metadata.get());
  if (mark && mark->installation != options_.installation) return std::nullopt;
  return mark;
}

// False if it is gone.
bool LibvirtHypervisor::is_there_and_ours(virDomainPtr domain) {
  if (our_mark(domain)) return true;
  if (domain_has_ended()) return false;
  throw NotOurs("domain " + std::string(virDomainGetName(domain)) +
                " does not carry our mark and is left alone");
}

std::optional<DomainInfo> LibvirtHypervisor::inspect(virDomainPtr domain) {
  auto mark = our_mark(domain);
  if (!mark) return std::nullopt;
  DomainInfo info{.name = virDomainGetName(domain), .uuid = uuid_of(domain), .mark = *mark};
  int state = VIR_DOMAIN_NOSTATE;
  int reason = 0;
  if (virDomainGetState(domain, &state, &reason, 0) < 0) {
    if (last_code() == VIR_ERR_NO_DOMAIN) return std::nullopt;
    throw_last("reading the state of a domain");
  }
  if (state == VIR_DOMAIN_SHUTOFF || state == VIR_DOMAIN_CRASHED) return std::nullopt;
  if (state == VIR_DOMAIN_PAUSED) info.paused = pause_reason_of_state(reason);
  info.shutting_down = state == VIR_DOMAIN_SHUTDOWN;
  if (const Text xml(virDomainGetXMLDesc(domain, 0)); xml) {
    info.agent_connected = agent_is_connected(xml.get());
  }
  return info;
}

std::vector<DomainInfo> LibvirtHypervisor::list_ours(virConnectPtr connection) {
  virDomainPtr* raw = nullptr;
  const int count = virConnectListAllDomains(connection, &raw, VIR_CONNECT_LIST_DOMAINS_ACTIVE);
  check(count, "listing domains");
  std::vector<Domain> domains;
  for (int i = 0; i < count; ++i) domains.emplace_back(raw[i]);
  free(raw);
  std::vector<DomainInfo> ours;
  for (const Domain& domain : domains) {
    // One that ends meanwhile is left out here and is told as an event.
    if (auto info = inspect(domain.get())) ours.push_back(std::move(*info));
  }
  return ours;
}

// Null if libvirt refuses. What was saved is as it was, but for its disks and its mark.
virDomainPtr LibvirtHypervisor::create(virConnectPtr connection,
                                       const hypervisor::Domain& description) {
  if (description.memory_file.empty()) {
    return virDomainCreateXML(connection, domain_xml(description).c_str(), VIR_DOMAIN_NONE);
  }
  const char* file = description.memory_file.c_str();
  const Text saved(
      virDomainSaveImageGetXMLDesc(connection, file, VIR_DOMAIN_SAVE_IMAGE_XML_SECURE));
  if (!saved) return nullptr;
  const std::string xml = moved_domain_xml(saved.get(), description);
  if (virDomainRestoreFlags(connection, file, xml.c_str(), 0) != 0) {
    return nullptr;
  }
  return virDomainLookupByUUIDString(connection, description.uuid.c_str());
}

void LibvirtHypervisor::start(const hypervisor::Domain& description) {
  const Connection connection = this->connection();
  {
    std::lock_guard lock(mutex_);
    ours_.insert(description.uuid);
  }
  Domain domain(create(connection.get(), description));
  if (!domain) {
    const std::string what = "starting domain " + description.name;
    // Taken before the look-up below overwrites it.
    std::exception_ptr error;
    try {
      throw_last(what);
    } catch (...) {
      error = std::current_exception();
    }
    Domain existing(virDomainLookupByUUIDString(connection.get(), description.uuid.c_str()));
    const bool runs = existing && virDomainIsActive(existing.get()) == 1;
    const auto mark = runs ? our_mark(existing.get()) : std::nullopt;
    if (!mark || mark->uid != description.mark.uid) {
      std::lock_guard lock(mutex_);
      if (!runs) ours_.erase(description.uuid);
      std::rethrow_exception(error);
    }
    // A start that was ordered before the connection broke has come through.
    deliver({.type = Event::Type::started, .uuid = description.uuid});
  }
  processes_.add(description.name, description.uuid);
}

void LibvirtHypervisor::shut_down(const std::string& uuid, Ask ask) {
  const Connection connection = this->connection();
  const Domain domain(virDomainLookupByUUIDString(connection.get(), uuid.c_str()));
  if (!domain) throw_last("looking for domain " + uuid);
  if (!is_there_and_ours(domain.get())) return;
  const unsigned flags =
      ask == Ask::agent ? VIR_DOMAIN_SHUTDOWN_GUEST_AGENT : VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN;
  check(virDomainShutdownFlags(domain.get(), flags), "asking the guest to power off");
}

void LibvirtHypervisor::destroy(const std::string& uuid) {
  const Connection connection = this->connection();
  const Domain domain(virDomainLookupByUUIDString(connection.get(), uuid.c_str()));
  if (!domain) {
    if (last_code() == VIR_ERR_NO_DOMAIN) return;
    throw_last("looking for domain " + uuid);
  }
  if (!is_there_and_ours(domain.get())) return;
  if (virDomainDestroy(domain.get()) == 0) return;
  // It may have ended by itself in the meantime.
  if (domain_has_ended()) return;
  throw_last("destroying domain " + uuid);
}

void LibvirtHypervisor::save(const std::string& uuid, const std::string& file) {
  const Connection connection = this->connection();
  const Domain domain(virDomainLookupByUUIDString(connection.get(), uuid.c_str()));
  if (!domain) throw_last("looking for domain " + uuid);
  if (!is_there_and_ours(domain.get())) throw Refused("domain " + uuid + " has ended");
  if (virDomainSaveFlags(domain.get(), file.c_str(), nullptr, 0) == 0) return;
  // One that an earlier run of the daemon has ordered may be under way, or have come through.
  const int code = last_code();
  if (code == VIR_ERR_OPERATION_TIMEOUT) throw Unavailable("domain " + uuid + " is busy");
  if (code == VIR_ERR_NO_DOMAIN) return;
  std::exception_ptr error;
  try {
    throw_last("saving domain " + uuid);
  } catch (...) {
    error = std::current_exception();
  }
  if (virDomainIsActive(domain.get()) == 1) std::rethrow_exception(error);
}

void LibvirtHypervisor::ensure_network(const hypervisor::Network& wanted) {
  const Connection connection = this->connection();
  Network network(virNetworkLookupByName(connection.get(), wanted.name.c_str()));
  if (network && virNetworkIsActive(network.get()) != 1) {
    throw NotOurs("a network named " + wanted.name + " is defined and is not ours");
  }
  if (!network) {
    network.reset(virNetworkCreateXML(connection.get(), network_xml(wanted).c_str()));
    if (!network) throw_last("creating network " + wanted.name);
    return;
  }
  const NetworkState state = read_network(network.get());
  if (state.installation != wanted.installation) {
    throw NotOurs("a network named " + wanted.name +
                  " exists and is not ours; choose another with --network-name");
  }
  const bool same = state.bridge == wanted.bridge && state.gateway == wanted.gateway &&
                    state.prefix_length == wanted.prefix_length;
  if (!same) {
    // Guests may be plugged into it, and a network cannot change its addresses under them.
    throw Refused("network " + wanted.name + " exists with another bridge or other addresses (" +
                  state.bridge + ", " + state.gateway + "/" + std::to_string(state.prefix_length) +
                  "); stop its VMs and run 'virsh net-destroy " + wanted.name + "' to change it");
  }
  // What a run of the daemon that was cut short has left undone.
  const std::set<Reservation> present(state.reservations.begin(), state.reservations.end());
  for (const Reservation& reservation : wanted.reservations) {
    if (!present.contains(reservation)) put_reservation(network.get(), state, reservation);
  }
}

void LibvirtHypervisor::reserve(const std::string& name, const Reservation& reservation) {
  const Connection connection = this->connection();
  const Network network(virNetworkLookupByName(connection.get(), name.c_str()));
  if (!network) throw_last("looking for network " + name);
  put_reservation(network.get(), read_network(network.get()), reservation);
}

}  // namespace virtset::hypervisor::libvirt
