// Which objects of a kind a list or watch is about.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/kinds/kind.h"
#include "api/kinds/label_selector.h"
#include "api/rest/message.h"
#include "store/object.h"

namespace virtset::api {

class ObjectFilter {
 public:
  // From the parameters labelSelector and fieldSelector. `ns` is the namespace of the path, if it
  // has one. Throws BadSelector, or ApiError 400 for a field that the kind cannot be filtered by.
  ObjectFilter(const Kind& kind, std::optional<std::string> ns, const Request& request);

  bool matches(const store::Object& object) const;
  // Whether no selector was given.
  bool everything() const { return fields_.empty() && labels_.everything(); }
  const Kind& kind() const { return kind_; }
  const std::optional<std::string>& ns() const { return ns_; }

 private:
  struct FieldRequirement {
    enum class Field { name, ns, declared };
    Field field;
    const SelectableField* declared;
    std::string value;
    bool equal;
  };
  void add_field(std::string_view requirement);

  const Kind& kind_;
  std::optional<std::string> ns_;
  LabelSelector labels_;
  std::vector<FieldRequirement> fields_;
};

}  // namespace virtset::api
