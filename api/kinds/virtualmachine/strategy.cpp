#include "api/kinds/virtualmachine/strategy.h"

#include "api/kinds/json_access.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

constexpr std::pair<RunStrategy, const char*> names[] = {
    {RunStrategy::always, "Always"},
    {RunStrategy::rerun_on_failure, "RerunOnFailure"},
    {RunStrategy::manual, "Manual"},
    {RunStrategy::halted, "Halted"},
    {RunStrategy::once, "Once"}};

}  // namespace

const char* to_string(RunStrategy strategy) {
  for (const auto& [known, name] : names) {
    if (known == strategy) return name;
  }
  return "";
}

std::optional<RunStrategy> parse_strategy(std::string_view wanted) {
  for (const auto& [known, name] : names) {
    if (wanted == name) return known;
  }
  return std::nullopt;
}

RunStrategy strategy_of(const Json& spec) {
  const Json& running = member(spec, "running");
  if (running.is_boolean()) return truth(running) ? RunStrategy::always : RunStrategy::halted;
  return parse_strategy(text(member(spec, "runStrategy"))).value_or(RunStrategy::halted);
}

void set_strategy(Json& spec, RunStrategy strategy) {
  const bool says_running = member(spec, "running").is_boolean();
  if (says_running && (strategy == RunStrategy::always || strategy == RunStrategy::halted)) {
    spec["running"] = strategy == RunStrategy::always;
    return;
  }
  spec.erase("running");
  spec["runStrategy"] = to_string(strategy);
}

}  // namespace virtset::api
