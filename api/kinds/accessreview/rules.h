// Answers to those who ask who they are and what they may do. There is one role: whoever gets in,
// by the unix socket's permissions or with the token, may do everything.
#pragma once

#include <memory>

#include "api/kinds/kind.h"

namespace virtset::api {

std::shared_ptr<const KindRules> self_subject_access_review_rules();
std::shared_ptr<const KindRules> self_subject_rules_review_rules();
std::shared_ptr<const KindRules> self_subject_review_rules();

}  // namespace virtset::api
