// What there is to say about namespaces beyond their schema.
#pragma once

#include <memory>

#include "api/kinds/kind.h"

namespace virtset::api {

std::shared_ptr<const KindRules> namespace_rules();

}  // namespace virtset::api
