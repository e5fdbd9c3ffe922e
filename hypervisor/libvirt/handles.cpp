#include "hypervisor/libvirt/handles.h"

#include "hypervisor/hypervisor.h"

namespace virtset::hypervisor::libvirt {

namespace {

bool is_about_the_connection(int code) {
  switch (code) {
    case VIR_ERR_RPC:
    case VIR_ERR_NO_CONNECT:
    case VIR_ERR_INVALID_CONN:
    case VIR_ERR_SYSTEM_ERROR:  // "Cannot recv data: Connection reset by peer"
    case VIR_ERR_AUTH_FAILED:
    case VIR_ERR_AUTH_CANCELLED:
    case VIR_ERR_AUTH_UNAVAILABLE:
      return true;
    case VIR_ERR_INTERNAL_ERROR:
      // libvirt has no code of its own for a socket that has been closed under a call.
      return last_message().find("client socket is closed") != std::string::npos ||
             last_message().find("connection closed") != std::string::npos;
    default:
      return false;
  }
}

}  // namespace

int last_code() { return virGetLastErrorCode(); }

std::string last_message() { return virGetLastErrorMessage(); }

void throw_last(const std::string& what) {
  const std::string message = what + ": " + last_message();
  const virError* error = virGetLastError();
  // A system error counts as the connection's only where the RPC layer met it.
  const bool rpc = error && (error->domain == VIR_FROM_RPC || error->domain == VIR_FROM_REMOTE ||
                             error->code != VIR_ERR_SYSTEM_ERROR);
  if (rpc && is_about_the_connection(last_code())) throw Unavailable(message);
  throw Refused(message);
}

std::string uuid_of(virDomainPtr domain) {
  char text[VIR_UUID_STRING_BUFLEN];
  check(virDomainGetUUIDString(domain, text), "reading a domain's UUID");
  return text;
}

}  // namespace virtset::hypervisor::libvirt
