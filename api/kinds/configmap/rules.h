// What there is to say about ConfigMaps beyond their schema.
#pragma once

#include <memory>

#include "api/kinds/kind.h"

namespace virtset::api {

std::shared_ptr<const KindRules> config_map_rules();

}  // namespace virtset::api
