#include "hypervisor/libvirt/event_loop.h"

#include <libvirt/libvirt.h>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include <mutex>
#include <thread>

#include "hypervisor/libvirt/handles.h"

namespace virtset::hypervisor::libvirt {

namespace {

thread_local bool is_event_loop = false;

void run() {
  is_event_loop = true;
  pthread_setname_np(pthread_self(), "libvirt-events");
  for (;;) {
    if (virEventRunDefaultImpl() < 0) {
      spdlog::error("libvirt's event loop: {}", last_message());
    }
  }
}

// libvirt prints errors to stderr unless told otherwise; ours reach the log as exceptions.
void say_nothing(void*, virErrorPtr) {}

}  // namespace

void start_event_loop() {
  static std::once_flag once;
  std::call_once(once, [] {
    virSetErrorFunc(nullptr, say_nothing);
    if (virInitialize() < 0 || virEventRegisterDefaultImpl() < 0) {
      throw_last("starting libvirt's event loop");
    }
    // A timer that never fires keeps the loop's poll() valid while there is nothing else in it.
    virEventAddTimeout(
        -1, [](int, void*) {}, nullptr, nullptr);
    std::thread(run).detach();
  });
}

bool on_event_loop() { return is_event_loop; }

}  // namespace virtset::hypervisor::libvirt
