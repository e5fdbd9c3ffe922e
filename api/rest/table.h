// Tables of objects: Kubernetes' meta.k8s.io Table, and the aligned text that kubectl makes of it.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "api/kinds/kind.h"
#include "api/kinds/times.h"

namespace virtset::api {

// One cell per column of the kind; null where the object has no such value.
std::vector<nlohmann::json> table_cells(const Kind& kind, const nlohmann::json& object, Time now);

nlohmann::json column_definitions(const Kind& kind);

// What goes into a row beside its cells: metadata (default), the whole object, or nothing
// (Kubernetes: the parameter includeObject).
enum class RowObject { metadata, object, none };
nlohmann::json table_row(const Kind& kind, const nlohmann::json& object, RowObject include,
                         Time now);

// Lines of text with columns as wide as their widest cell, as kubectl prints them.
class TextTable {
 public:
  // `wide` shows columns of lower priority too, `with_namespace` puts the namespace first.
  TextTable(const Kind& kind, bool wide, bool with_namespace);

  void add(const nlohmann::json& object, Time now);
  bool empty() const { return rows_.size() == 1; }
  std::string to_string() const;

 private:
  const Kind& kind_;
  bool wide_;
  bool with_namespace_;
  std::vector<std::vector<std::string>> rows_;  // the first is the header
};

}  // namespace virtset::api
