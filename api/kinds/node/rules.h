// What there is to say about nodes beyond their schema.
#pragma once

#include <memory>

#include "api/kinds/kind.h"

namespace virtset::api {

std::shared_ptr<const KindRules> node_rules();

}  // namespace virtset::api
