// What there is to say about DataVolumes beyond their schema.
#pragma once

#include <memory>
#include <string>

#include "api/kinds/kind.h"

namespace virtset::api {

std::shared_ptr<const KindRules> data_volume_rules();

// Also for the templates of DataVolumes in a VirtualMachine.
void validate_data_volume_spec(const nlohmann::json& spec, const std::string& path,
                               FieldErrorList& errors);

// The part of an admitted spec that asks for a claim: `storage` or `pvc`.
const nlohmann::json& claim_part(const nlohmann::json& data_volume_spec);

// The reference to an image in a URL of a registry: what follows docker://.
std::string image_of_url(const std::string& url);

}  // namespace virtset::api
