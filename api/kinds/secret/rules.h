// What there is to say about secrets beyond their schema.
#pragma once

#include <memory>

#include "api/kinds/kind.h"

namespace virtset::api {

std::shared_ptr<const KindRules> secret_rules();

}  // namespace virtset::api
