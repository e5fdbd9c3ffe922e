// What there is to say about controller revisions beyond their schema.
#pragma once

#include <memory>

#include "api/kinds/kind.h"

namespace virtset::api {

std::shared_ptr<const KindRules> controller_revision_rules();

}  // namespace virtset::api
