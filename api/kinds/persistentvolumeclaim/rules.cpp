#include "api/kinds/persistentvolumeclaim/rules.h"

#include <algorithm>

#include "api/kinds/json_access.h"
#include "api/kinds/lifecycle.h"
#include "api/kinds/quantity.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

constexpr std::int64_t mebibyte = 1 << 20;

bool has_mode(const Json& spec, const char* mode) {
  const Json& modes = member(spec, "accessModes");
  return std::find(modes.begin(), modes.end(), mode) != modes.end();
}

// kubectl: RWO,ROX,RWX,RWOP.
std::string short_modes(const Json& modes) {
  std::string result;
  for (const auto& [mode, shown] : {std::pair{"ReadWriteOnce", "RWO"},
                                    {"ReadOnlyMany", "ROX"},
                                    {"ReadWriteMany", "RWX"},
                                    {"ReadWriteOncePod", "RWOP"}}) {
    if (std::find(modes.begin(), modes.end(), mode) == modes.end()) continue;
    result += (result.empty() ? "" : ",") + std::string(shown);
  }
  return result;
}

// What cannot change, of a spec.
Json fixed_part(Json spec) {
  if (spec.contains("resources")) spec["resources"].erase("requests");
  return spec;
}

std::uint64_t whole_mebibytes(const Json& quantity) {
  const auto size = Quantity::read(quantity);
  if (!size || size->negative()) return 0;
  return static_cast<std::uint64_t>((size->value() + mebibyte - 1) / mebibyte * mebibyte);
}

class ClaimRules final : public KindRules {
 public:
  void complete_new(Json& object) const override {
    object["status"] = {{"phase", "Pending"}};
    object["spec"].erase("volumeName");
    Json& finalizers = object["metadata"]["finalizers"];
    const Json ours = claim_finalizer;
    if (std::find(finalizers.begin(), finalizers.end(), ours) == finalizers.end()) {
      finalizers.push_back(ours);
    }
  }

  void validate(const Json& object, FieldErrorList& errors) const override {
    validate_claim_spec(member(object, "spec"), "spec", errors);
  }

  void validate_change(const Json& from, const Json& to, FieldErrorList& errors) const override {
    if (fixed_part(member(from, "spec")) != fixed_part(member(to, "spec"))) {
      errors.forbidden("spec",
                       "Forbidden: spec is immutable after creation except "
                       "resources.requests.storage");
    }
    const auto before = Quantity::read(member(from, "spec", "resources", "requests", "storage"));
    const auto after = Quantity::read(member(to, "spec", "resources", "requests", "storage"));
    if (before && after && *after < *before) {
      errors.forbidden("spec.resources.requests.storage",
                       "Forbidden: field can not be less than previous value");
    }
  }

  std::optional<Json> cell(const std::string& column, const Json& object) const override {
    if (column == "Status" && is_deleting(object)) return "Terminating";
    if (column == "Access Modes") return short_modes(member(object, "status", "accessModes"));
    return std::nullopt;
  }
};

}  // namespace

std::shared_ptr<const KindRules> claim_rules() { return std::make_shared<ClaimRules>(); }

void validate_claim_spec(const Json& spec, const std::string& path, FieldErrorList& errors) {
  const Json& size = member(spec, "resources", "requests", "storage");
  const auto quantity = Quantity::read(size);
  const std::string size_path = path + ".resources.requests.storage";
  if (quantity && (quantity->negative() || quantity->zero())) {
    errors.invalid(size_path, "Invalid value: " + size.dump() + ": must be greater than zero");
  } else if (quantity && quantity->value() > (std::int64_t{1} << 56)) {
    errors.invalid(size_path, "Invalid value: " + size.dump() + ": must be at most 64Pi");
  }
  const Json& mode = member(spec, "volumeMode");
  if (mode.is_string() && mode != "Filesystem") {
    errors.not_supported(path + ".volumeMode", "Unsupported value: " + mode.dump() +
                                                   ": this version of virtset can do only "
                                                   "\"Filesystem\"");
  }
  const Json& modes = member(spec, "accessModes");
  if (modes.is_array() && modes.empty()) {
    errors.required(path + ".accessModes", "Required value: at least 1 access mode is required");
  }
}

std::uint64_t claimed_bytes(const Json& spec) {
  return whole_mebibytes(member(spec, "resources", "requests", "storage"));
}

std::uint64_t bytes_of_claim(const Json& claim) {
  return whole_mebibytes(member(claim, "status", "capacity", "storage"));
}

Sharing sharing_of(const Json& spec) {
  if (has_mode(spec, "ReadWriteMany")) return Sharing::writers;
  const bool writable = has_mode(spec, "ReadWriteOnce") || has_mode(spec, "ReadWriteOncePod");
  return writable ? Sharing::exclusive : Sharing::readers;
}

}  // namespace virtset::api
