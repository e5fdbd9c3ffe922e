// What there is to say about events beyond their schema.
#pragma once

#include <memory>

#include "api/kinds/kind.h"

namespace virtset::api {

std::shared_ptr<const KindRules> event_rules();

}  // namespace virtset::api
