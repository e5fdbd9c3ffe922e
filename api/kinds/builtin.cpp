// The list of kinds. A new kind is a folder with a declaration and its rules, and a line here.

#include "api/kinds/embedded.h"
#include "api/kinds/event/rules.h"
#include "api/kinds/kind.h"
#include "api/kinds/namespace/rules.h"
#include "api/kinds/virtualmachineinstance/rules.h"
#include "api/kinds/virtualmachineinstancereplicaset/rules.h"
#include "api/kinds/yaml.h"

namespace virtset::api {

const Kinds& builtin_kinds() {
  static const Kinds kinds = [] {
    const nlohmann::json definitions = parse_yaml(embedded::definitions);
    std::vector<Kind> list;
    const auto add = [&](std::string_view declaration, std::shared_ptr<const KindRules> rules) {
      list.push_back(Kind::load(declaration, definitions, std::move(rules)));
    };
    add(embedded::namespaces, namespace_rules());
    add(embedded::event, event_rules());
    add(embedded::virtualmachineinstance, instance_rules());
    add(embedded::virtualmachineinstancereplicaset, replica_set_rules());
    return Kinds(std::move(list));
  }();
  return kinds;
}

}  // namespace virtset::api
