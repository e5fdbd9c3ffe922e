#include "daemon/pod_network.h"

#include <spdlog/spdlog.h>

namespace virtset {

namespace {

constexpr std::chrono::seconds retry_after{5};

}  // namespace

PodNetwork::PodNetwork(Options options, hypervisor::Hypervisor& hypervisor, Jobs& jobs,
                       api::Scheduler& scheduler, std::function<void()> changed)
    : options_(std::move(options)),
      hypervisor_(hypervisor),
      jobs_(jobs),
      scheduler_(scheduler),
      changed_(std::move(changed)),
      addresses_(options_.cidr, options_.bridge) {}

void PodNetwork::ensure() {
  retry_.reset();
  if (busy_) return;
  busy_ = true;
  hypervisor::Network network{.name = options_.name,
                              .bridge = options_.bridge,
                              .installation = options_.installation,
                              .gateway = addresses_.gateway(),
                              .prefix_length = addresses_.prefix_length(),
                              .reservations = addresses_.reservations()};
  network.first_address = network.reservations.front().address;
  network.last_address = network.reservations.back().address;
  jobs_.submit(
      Lane::control, [this, network] { hypervisor_.ensure_network(network); },
      [this](Result<std::monostate>& result) { finished(result); });
}

void PodNetwork::finished(Result<std::monostate>& result) {
  busy_ = false;
  const bool was_ready = ready_;
  const std::string why_before = why_not_ready_;
  try {
    result.get();
    ready_ = true;
    why_not_ready_.clear();
  } catch (const std::exception& error) {
    if (why_not_ready_ != error.what()) spdlog::error("pod network: {}", error.what());
    ready_ = false;
    why_not_ready_ = error.what();
    retry_ = scheduler_.after(retry_after, [this] { ensure(); });
  }
  if (ready_ && !was_ready) spdlog::info("pod network {} is ready", options_.name);
  if (ready_ != was_ready || why_not_ready_ != why_before) changed_();
}

}  // namespace virtset
