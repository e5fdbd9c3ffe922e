// OpenAPI documents made of the kinds' declarations: for kubectl explain, and for clients that want
// to know whether the server checks what they send.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/kinds/kind.h"
#include "api/rest/message.h"

namespace virtset::api {

class OpenApi {
 public:
  // `kinds` must outlive it.
  explicit OpenApi(const Kinds& kinds) : kinds_(kinds) {}

  // Answers /openapi/v2, see openapi_v2.h, /openapi/v3, its index, and /openapi/v3/api/v1,
  // /openapi/v3/apis/{group}/{version}; nothing for other paths. Documents are made when they are
  // first asked for.
  std::optional<Response> respond(const Request& request, const std::vector<std::string>& segments);

 private:
  const std::string& document(const std::string& group_version);
  Response index();
  const std::string& hash();

  const Kinds& kinds_;
  std::string hash_;
  std::string version_two_;
  std::map<std::string, std::string> documents_;  // by "v1", "kubevirt.io/v1"
};

}  // namespace virtset::api
