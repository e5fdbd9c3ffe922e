// libvirt's event loop, which is one per process: its default implementation on a thread of its
// own.
#pragma once

namespace virtset::hypervisor::libvirt {

// Registers the implementation and starts the thread, once per process; later calls do nothing.
// Must come before the first connection. The thread runs for the life of the process: libvirt has
// no way to unregister it.
void start_event_loop();

// Whether the caller is that thread, which must never block in a libvirt call.
bool on_event_loop();

}  // namespace virtset::hypervisor::libvirt
