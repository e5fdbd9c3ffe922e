// The list of kinds. A new kind is a folder with a declaration and its rules, and a line here.

#include "api/kinds/accessreview/rules.h"
#include "api/kinds/controllerrevision/rules.h"
#include "api/kinds/datavolume/rules.h"
#include "api/kinds/embedded.h"
#include "api/kinds/event/rules.h"
#include "api/kinds/keyed_data.h"
#include "api/kinds/kind.h"
#include "api/kinds/namespace/rules.h"
#include "api/kinds/node/rules.h"
#include "api/kinds/persistentvolumeclaim/rules.h"
#include "api/kinds/secret/rules.h"
#include "api/kinds/virtualmachine/rules.h"
#include "api/kinds/virtualmachineinstance/rules.h"
#include "api/kinds/virtualmachineinstancereplicaset/rules.h"
#include "api/kinds/virtualmachinepool/rules.h"
#include "api/kinds/yaml.h"

namespace virtset::api {

const Kinds& builtin_kinds() {
  static const Kinds kinds = [] {
    nlohmann::json definitions = parse_yaml(embedded::definitions);
    const auto nothing_more = std::make_shared<const KindRules>();
    std::vector<Kind> list;
    const auto add = [&](std::string_view declaration, std::shared_ptr<const KindRules> rules) {
      list.push_back(Kind::load(declaration, definitions, std::move(rules)));
    };
    // In the order of discovery, which decides what "kubectl get all" shows first.
    add(embedded::namespaces, namespace_rules());
    add(embedded::configmap,
        std::make_shared<KeyedDataRules>(std::vector<std::string>{"data", "binaryData"}));
    add(embedded::secret, secret_rules());
    add(embedded::persistentvolumeclaim, claim_rules());
    add(embedded::event, event_rules());
    add(embedded::node, node_rules());
    add(embedded::pod, nothing_more);
    add(embedded::service, nothing_more);
    add(embedded::virtualmachine, machine_rules());
    add(embedded::virtualmachinepool, pool_rules());
    add(embedded::virtualmachineinstance, instance_rules());
    add(embedded::virtualmachineinstancereplicaset, replica_set_rules());
    add(embedded::datavolume, data_volume_rules());
    add(embedded::savedvirtualmachine, nothing_more);
    add(embedded::controllerrevision, controller_revision_rules());
    add(embedded::customresourcedefinition, nothing_more);
    add(embedded::selfsubjectaccessreview, self_subject_access_review_rules());
    add(embedded::selfsubjectrulesreview, self_subject_rules_review_rules());
    add(embedded::selfsubjectreview, self_subject_review_rules());
    return Kinds(std::move(list), std::move(definitions));
  }();
  return kinds;
}

}  // namespace virtset::api
