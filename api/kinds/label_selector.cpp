#include "api/kinds/label_selector.h"

#include <algorithm>
#include <optional>

#include "api/kinds/json_access.h"
#include "api/kinds/names.h"

namespace virtset::api {

namespace {

std::optional<long long> to_integer(const std::string& text) {
  if (text.empty() || text.size() > 19) return std::nullopt;
  char* end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (*end != '\0' || text[0] == ' ') return std::nullopt;
  return value;
}

BadSelector unknown_operator(const std::string& name) {
  return BadSelector("\"" + name + "\" is not a valid label selector operator");
}

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

}  // namespace

// labels.Parse's grammar, token by token.
class LabelSelector::Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) { advance(); }

  LabelSelector parse() {
    LabelSelector selector;
    while (!token_.empty()) {
      selector.add(requirement());
      if (token_.empty()) break;
      expect(",");
      if (token_.empty()) fail("a requirement after ','");
    }
    selector.sort();
    return selector;
  }

 private:
  Requirement requirement() {
    using Operator = Requirement::Operator;
    if (token_ == "!") {
      advance();
      return {word("a label key"), Operator::does_not_exist, {}};
    }
    const std::string key = word("a label key");
    if (token_.empty() || token_ == ",") return {key, Operator::exists, {}};
    const std::string op = token_;
    advance();
    if (op == "=" || op == "==") return {key, Operator::equals, {value()}};
    if (op == "!=") return {key, Operator::not_equals, {value()}};
    if (op == ">" || op == "<") {
      const std::string bound = word("an integer");
      if (!to_integer(bound)) fail("an integer");
      return {key, op == ">" ? Operator::greater : Operator::less, {bound}};
    }
    if (op == "in") return {key, Operator::in, values()};
    if (op == "notin") return {key, Operator::not_in, values()};
    fail("one of =, ==, !=, in, notin, >, <");
  }

  // Empty where the grammar has nothing: "k=" and "k=,".
  std::string value() {
    if (token_.empty() || token_ == ",") return "";
    return word("a value");
  }

  std::set<std::string> values() {
    expect("(");
    std::set<std::string> result;
    for (;;) {
      result.insert(token_ == "," || token_ == ")" ? "" : word("a value"));
      if (token_ == ")") break;
      expect(",");
    }
    advance();
    return result;
  }

  std::string word(const char* expected) {
    static constexpr std::string_view operators = "!=<>(),";
    if (token_.empty() || operators.find(token_[0]) != operators.npos) fail(expected);
    std::string result = std::move(token_);
    advance();
    return result;
  }

  void expect(const char* token) {
    if (token_ != token) fail(token);
    advance();
  }

  [[noreturn]] void fail(const std::string& expected) const {
    throw BadSelector("unable to parse the selector \"" + std::string(text_) + "\": found '" +
                      token_ + "', expected " + expected);
  }

  void advance() {
    while (position_ < text_.size() && is_space(text_[position_])) ++position_;
    const std::size_t start = position_;
    constexpr std::string_view special = "!=<>(),";
    if (position_ < text_.size() && special.find(text_[position_]) != special.npos) {
      ++position_;
      const bool two = position_ < text_.size() && text_[position_] == '=' &&
                       (text_[start] == '!' || text_[start] == '=');
      if (two) ++position_;
    } else {
      while (position_ < text_.size() && !is_space(text_[position_]) &&
             special.find(text_[position_]) == special.npos) {
        ++position_;
      }
    }
    token_ = text_.substr(start, position_ - start);
  }

  std::string_view text_;
  std::size_t position_ = 0;
  std::string token_;  // empty at the end
};

LabelSelector LabelSelector::parse(std::string_view text) { return Parser(text).parse(); }

LabelSelector LabelSelector::from_object(const nlohmann::json& object) {
  using Operator = Requirement::Operator;
  LabelSelector selector;
  if (object.is_null()) {
    selector.nothing_ = true;
    return selector;
  }
  for (const auto& [key, value] : member(object, "matchLabels").items()) {
    selector.add({key, Operator::equals, {value.get<std::string>()}});
  }
  for (const auto& expression : member(object, "matchExpressions")) {
    const std::string op = text(member(expression, "operator"));
    if (op == "Gt" || op == "Lt") throw unknown_operator(op);
    selector.add_expression(expression);
  }
  selector.sort();
  return selector;
}

LabelSelector LabelSelector::from_node_requirements(const nlohmann::json& requirements) {
  LabelSelector selector;
  for (const auto& requirement : requirements) selector.add_expression(requirement);
  selector.sort();
  return selector;
}

void LabelSelector::add_expression(const nlohmann::json& expression) {
  using Operator = Requirement::Operator;
  static const std::map<std::string, Operator> operators{
      {"In", Operator::in},         {"NotIn", Operator::not_in},
      {"Exists", Operator::exists}, {"DoesNotExist", Operator::does_not_exist},
      {"Gt", Operator::greater},    {"Lt", Operator::less}};
  const std::string name = expression.value("operator", "");
  const auto op = operators.find(name);
  if (op == operators.end()) throw unknown_operator(name);
  const auto values = expression.value("values", std::set<std::string>());
  const bool has_values = name != "Exists" && name != "DoesNotExist";
  if (has_values == values.empty()) {
    throw BadSelector(has_values ? "for 'in', 'notin' operators, values set can't be empty"
                                 : "values set must be empty for exists and does not exist");
  }
  add({expression.value("key", ""), op->second, values});
}

void LabelSelector::add(Requirement requirement) {
  if (const auto wrong = check_label_key(requirement.key)) {
    throw BadSelector("key \"" + requirement.key + "\": " + *wrong);
  }
  for (const std::string& value : requirement.values) {
    if (const auto wrong = check_label_value(value)) {
      throw BadSelector("value \"" + value + "\": " + *wrong);
    }
  }
  requirements_.push_back(std::move(requirement));
}

void LabelSelector::sort() {
  std::stable_sort(requirements_.begin(), requirements_.end(),
                   [](const Requirement& a, const Requirement& b) { return a.key < b.key; });
}

bool LabelSelector::matches(const nlohmann::json& labels) const {
  if (nothing_) return false;
  return std::all_of(requirements_.begin(), requirements_.end(), [&](const Requirement& r) {
    const auto it = labels.is_object() ? labels.find(r.key) : labels.end();
    const bool has = labels.is_object() && it != labels.end() && it->is_string();
    return r.matches(has ? &it->get_ref<const std::string&>() : nullptr);
  });
}

bool LabelSelector::Requirement::matches(const std::string* value) const {
  switch (op) {
    case Operator::in:
    case Operator::equals:
      return value && values.contains(*value);
    case Operator::not_in:
    case Operator::not_equals:
      return !value || !values.contains(*value);  // also where the label is missing
    case Operator::exists:
      return value;
    case Operator::does_not_exist:
      return !value;
    case Operator::greater:
    case Operator::less: {
      const auto number = value ? to_integer(*value) : std::nullopt;
      const auto bound = to_integer(*values.begin());
      if (!number || !bound) return false;
      return op == Operator::greater ? *number > *bound : *number < *bound;
    }
  }
  return false;
}

std::string LabelSelector::to_string() const {
  std::string text;
  for (const Requirement& requirement : requirements_) {
    if (!text.empty()) text += ",";
    text += requirement.to_string();
  }
  return text;
}

std::string LabelSelector::Requirement::to_string() const {
  std::string joined;
  for (const std::string& value : values) joined += (joined.empty() ? "" : ",") + value;
  switch (op) {
    case Operator::in:
      return key + " in (" + joined + ")";
    case Operator::not_in:
      return key + " notin (" + joined + ")";
    case Operator::equals:
      return key + "=" + joined;
    case Operator::not_equals:
      return key + "!=" + joined;
    case Operator::exists:
      return key;
    case Operator::does_not_exist:
      return "!" + key;
    case Operator::greater:
      return key + ">" + joined;
    case Operator::less:
      return key + "<" + joined;
  }
  return "";
}

}  // namespace virtset::api
