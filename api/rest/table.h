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
  // `wide` shows columns of lower priority too, `with_namespace` puts the namespace first; before
  // it comes what `first_column` names, if that is not empty.
  TextTable(const Kind& kind, bool wide, bool with_namespace, const std::string& first_column = "");

  // `first` is the cell of the first column, where there is one.
  void add(const nlohmann::json& object, Time now, const std::string& first = "");
  bool empty() const { return rows_.size() == 1; }
  std::string to_string() const;
  // The lines that have been added since this was called last, the header before the first; for
  // tables that never end. Columns only ever become wider.
  std::string take_lines();

 private:
  void widen(const std::vector<std::string>& row);
  std::string line(const std::vector<std::string>& row) const;

  const Kind& kind_;
  bool wide_;
  bool with_namespace_;
  bool with_first_;
  std::vector<std::vector<std::string>> rows_;  // the first is the header
  std::vector<std::size_t> widths_;
};

}  // namespace virtset::api
