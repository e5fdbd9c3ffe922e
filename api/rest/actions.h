// Verbs of a kind's own: PUT /apis/subresources.kubevirt.io/v1/…/virtualmachines/{name}/start.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/kinds/kind.h"
#include "api/rest/resource_path.h"
#include "api/rest/writes.h"

namespace virtset::api {

// Carries the action out and answers 202 when that is durable (KubeVirt). Throws ApiError for a
// request that is wrong in itself.
void act(const WriteContext& context);

// What KubeVirt's own client asks the group of its actions for: "version" and "healthz".
std::optional<Response> action_group_response(const Kinds& kinds,
                                              const std::vector<std::string>& segments);

}  // namespace virtset::api
