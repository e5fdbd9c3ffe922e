// What KubeVirt's admission says about pools beyond their schema, and the annotations of ours.
#pragma once

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "api/kinds/kind.h"

namespace virtset::api {

// KubeVirt: on each virtual machine of a pool, and on its template.
inline constexpr const char* pool_revision_label = "kubevirt.io/vm-pool-revision-name";
// KubeVirt: on a pool and on each virtual machine of it.
inline constexpr const char* pool_finalizer = "pool.kubevirt.io/finalizer";

// Annotations of a pool.
inline constexpr const char* progress_deadline_annotation = "virtset.io/progress-deadline-seconds";
inline constexpr const char* max_surge_annotation = "virtset.io/max-surge";
inline constexpr const char* min_ready_annotation = "virtset.io/min-ready-seconds";
inline constexpr const char* heal_never_ready_annotation = "virtset.io/heal-never-ready-after";
inline constexpr const char* rollback_annotation = "virtset.io/rollback-to";

std::shared_ptr<const KindRules> pool_rules();

// Of an admitted pool's `maxUnavailable` or max-surge: 3 or "25%" of `replicas`. Nothing for what
// is neither.
enum class Rounding { down, up };
std::optional<std::int64_t> scaled(const nlohmann::json& number_or_percent, std::int64_t replicas,
                                   Rounding rounding);

}  // namespace virtset::api
