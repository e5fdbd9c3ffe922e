// Kubernetes' Quantity: "128Mi", "0.5", "300m", 1e3.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace virtset::api {

class Quantity {
 public:
  // Nothing if the text is no quantity (Kubernetes: resource.ParseQuantity).
  static std::optional<Quantity> parse(std::string_view text);
  // A JSON string or number.
  static std::optional<Quantity> read(const nlohmann::json& value);

  // Rounded up, as Kubernetes' accessors do; saturating.
  std::int64_t value() const;
  std::int64_t milli_value() const;
  bool negative() const { return nanos_ < 0; }
  bool zero() const { return nanos_ == 0; }

  friend auto operator<=>(const Quantity& a, const Quantity& b) { return a.nanos_ <=> b.nanos_; }
  friend bool operator==(const Quantity& a, const Quantity& b) { return a.nanos_ == b.nanos_; }

 private:
  explicit Quantity(__int128 nanos) : nanos_(nanos) {}
  __int128 nanos_;
};

}  // namespace virtset::api
