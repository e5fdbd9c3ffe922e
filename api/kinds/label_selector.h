// Kubernetes' label selectors: the text form of requests and the object form of specs.
#pragma once

#include <nlohmann/json.hpp>

#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace virtset::api {

class BadSelector : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class LabelSelector {
 public:
  // Matches everything.
  LabelSelector() = default;

  // "a=b,c!=d,e in (f,g),!h": Kubernetes' labels.Parse. Throws BadSelector.
  static LabelSelector parse(std::string_view text);
  // {matchLabels, matchExpressions}. Null matches nothing, {} everything. Throws BadSelector.
  static LabelSelector from_object(const nlohmann::json& selector);
  // [{key, operator, values}] with Gt and Lt too, as nodes are selected; null and [] match
  // everything. Throws BadSelector.
  static LabelSelector from_node_requirements(const nlohmann::json& requirements);

  // `labels` is an object of strings, or null for none.
  bool matches(const nlohmann::json& labels) const;
  bool everything() const { return !nothing_ && requirements_.empty(); }
  // Canonical text: requirements sorted by key, values sorted.
  std::string to_string() const;

 private:
  struct Requirement {
    enum class Operator { in, not_in, equals, not_equals, exists, does_not_exist, greater, less };
    std::string key;
    Operator op;
    std::set<std::string> values;

    bool matches(const std::string* value) const;
    std::string to_string() const;
  };
  class Parser;

  void add(Requirement requirement);
  void add_expression(const nlohmann::json& expression);
  // By key, which is the canonical order; those of one key stay as they were given.
  void sort();

  bool nothing_ = false;
  std::vector<Requirement> requirements_;
};

}  // namespace virtset::api
