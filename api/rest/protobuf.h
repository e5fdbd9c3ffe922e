// Kubernetes' protobuf form of objects, which kubectl sends from 1.32 on for the kinds that are
// compiled into it. Answers are always JSON, which such clients take.
#pragma once

#include <nlohmann/json.hpp>

#include <string_view>

#include "api/kinds/schema.h"

namespace virtset::api {

inline constexpr std::string_view protobuf_type = "application/vnd.kubernetes.protobuf";

// Reads the envelope ("k8s\0" and a runtime.Unknown) and the message in it by the field numbers
// that the schema declares; fields without a number are not read. Throws ApiError 400 for what is
// no such message.
nlohmann::json decode_protobuf(std::string_view body, const Schema& schema);

}  // namespace virtset::api
