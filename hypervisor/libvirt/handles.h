// libvirt's reference-counted objects as RAII handles, and its errors as exceptions.
#pragma once

#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>

#include <memory>
#include <string>

namespace virtset::hypervisor::libvirt {

struct CloseConnection {
  void operator()(virConnectPtr connection) const { virConnectClose(connection); }
};
struct FreeDomain {
  void operator()(virDomainPtr domain) const { virDomainFree(domain); }
};
struct FreeNetwork {
  void operator()(virNetworkPtr network) const { virNetworkFree(network); }
};
struct FreeMemory {
  void operator()(void* memory) const { free(memory); }
};

using Connection = std::shared_ptr<virConnect>;
using Domain = std::unique_ptr<virDomain, FreeDomain>;
using Network = std::unique_ptr<virNetwork, FreeNetwork>;
using Text = std::unique_ptr<char, FreeMemory>;

// The code of this thread's last libvirt error, VIR_ERR_OK if none.
int last_code();
// libvirt's own words for it.
std::string last_message();

// Throws the last error as Unavailable (the connection) or Refused (the request).
[[noreturn]] void throw_last(const std::string& what);

inline void check(int result, const char* what) {
  if (result < 0) throw_last(what);
}

std::string uuid_of(virDomainPtr domain);

}  // namespace virtset::hypervisor::libvirt
