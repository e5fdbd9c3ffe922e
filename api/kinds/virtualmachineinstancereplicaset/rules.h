// What KubeVirt's admission says about replica sets beyond their schema.
#pragma once

#include <memory>

#include "api/kinds/kind.h"

namespace virtset::api {

std::shared_ptr<const KindRules> replica_set_rules();

}  // namespace virtset::api
