// What there is to say about claims of disks beyond their schema.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "api/kinds/kind.h"

namespace virtset::api {

std::shared_ptr<const KindRules> claim_rules();

// The spec of a claim, or the part of a DataVolume that asks for one.
void validate_claim_spec(const nlohmann::json& spec, const std::string& path,
                         FieldErrorList& errors);

// The size that an admitted spec asks for, in bytes, rounded up to whole MiB.
std::uint64_t claimed_bytes(const nlohmann::json& spec);
// The size of the disk that a bound claim has.
std::uint64_t bytes_of_claim(const nlohmann::json& claim);

// Who may use a claim beside whom.
enum class Sharing {
  exclusive,  // one instance, or any number that only read
  readers,    // any number that only read
  writers     // any number
};
Sharing sharing_of(const nlohmann::json& spec);

// Kubernetes: keeps a claim until nobody uses it any more; here also until its disk is gone.
inline constexpr const char* claim_finalizer = "kubernetes.io/pvc-protection";

// By which a claim says what its disk is to be filled from, as CDI's import controller has them. A
// claim without a source begins empty.
inline constexpr const char* source_annotation = "cdi.kubevirt.io/storage.import.source";
inline constexpr const char* endpoint_annotation = "cdi.kubevirt.io/storage.import.endpoint";
inline constexpr const char* checksum_annotation = "cdi.kubevirt.io/storage.import.checksum";
inline constexpr const char* clone_annotation = "k8s.io/CloneRequest";  // <namespace>/<name>
// The DataVolume that a claim belongs to, by name: the next one of that name finds it again.
inline constexpr const char* populated_for_annotation = "cdi.kubevirt.io/storage.populatedFor";

}  // namespace virtset::api
