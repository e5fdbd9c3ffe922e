#include "api/rest/table.h"

#include <algorithm>

#include "api/kinds/json_access.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

Json age(const Json* value, Time now) {
  const auto time = value ? parse_time(text(*value)) : std::nullopt;
  if (!time) return "<unknown>";
  using std::chrono::floor;
  using std::chrono::seconds;
  return human_duration(floor<seconds>(now).time_since_epoch() -
                        floor<seconds>(*time).time_since_epoch());
}

std::string shown(const Json& cell) {
  if (cell.is_null()) return "";
  std::string text = cell.is_string() ? cell.get<std::string>() : cell.dump();
  // As kubectl does: a cell is one line.
  if (const auto newline = text.find('\n'); newline != std::string::npos) {
    text = text.substr(0, newline) + "...";
  }
  return text;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  return text;
}

}  // namespace

std::vector<Json> table_cells(const Kind& kind, const Json& object, Time now) {
  std::vector<Json> cells;
  for (const Column& column : kind.columns) {
    if (auto special = kind.rules->cell(column.name, object)) {
      cells.push_back(std::move(*special));
      continue;
    }
    const Json* value = column.path.find(object);
    cells.push_back(column.is_age ? age(value, now) : value ? *value : Json());
  }
  return cells;
}

Json column_definitions(const Kind& kind) {
  Json definitions = Json::array();
  for (const Column& column : kind.columns) {
    definitions.push_back({{"name", column.name},
                           {"type", column.type},
                           {"format", column.format},
                           {"description", column.description},
                           {"priority", column.priority}});
  }
  return definitions;
}

Json table_row(const Kind& kind, const Json& object, RowObject include, Time now) {
  Json row{{"cells", table_cells(kind, object, now)}};
  if (include == RowObject::object) {
    row["object"] = object;
  } else if (include == RowObject::metadata) {
    row["object"] = {{"kind", "PartialObjectMetadata"},
                     {"apiVersion", "meta.k8s.io/v1"},
                     {"metadata", object["metadata"]}};
  }
  return row;
}

TextTable::TextTable(const Kind& kind, bool wide, bool with_namespace,
                     const std::string& first_column)
    : kind_(kind),
      wide_(wide),
      with_namespace_(with_namespace),
      with_first_(!first_column.empty()) {
  std::vector<std::string> header;
  if (with_first_) header.push_back(first_column);
  if (with_namespace_) header.emplace_back("NAMESPACE");
  for (const Column& column : kind.columns) {
    if (wide_ || column.priority == 0) header.push_back(upper(column.name));
  }
  widths_.resize(header.size());
  widen(header);
  rows_.push_back(std::move(header));
}

void TextTable::add(const Json& object, Time now, const std::string& first) {
  std::vector<std::string> row;
  if (with_first_) row.push_back(first);
  if (with_namespace_) row.push_back(text(member(object, "metadata", "namespace")));
  const std::vector<Json> cells = table_cells(kind_, object, now);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (wide_ || kind_.columns[i].priority == 0) row.push_back(shown(cells[i]));
  }
  widen(row);
  rows_.push_back(std::move(row));
}

void TextTable::widen(const std::vector<std::string>& row) {
  for (std::size_t i = 0; i < row.size(); ++i) widths_[i] = std::max(widths_[i], row[i].size());
}

std::string TextTable::line(const std::vector<std::string>& row) const {
  // kubectl: three spaces between columns.
  constexpr std::size_t padding = 3;
  std::string text;
  for (std::size_t i = 0; i < row.size(); ++i) {
    text += row[i];
    if (i + 1 < row.size()) text.append(widths_[i] + padding - row[i].size(), ' ');
  }
  return text + "\n";
}

std::string TextTable::to_string() const {
  std::string text;
  for (const auto& row : rows_) text += line(row);
  return text;
}

std::string TextTable::take_lines() {
  std::string text = to_string();
  rows_.clear();
  return text;
}

}  // namespace virtset::api
