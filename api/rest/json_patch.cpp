#include "api/rest/json_patch.h"

#include <algorithm>

#include "api/kinds/json_access.h"
#include "api/kinds/json_depth.h"
#include "api/rest/status.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

constexpr std::size_t most_operations = 10'000;
constexpr std::size_t most_copied = 3u << 20;
// Of a document.
constexpr std::ptrdiff_t deepest = 100;

// "test of /data/a".
std::string described(const Json& operation) {
  const std::string op = text(member(operation, "op"));
  return (op.empty() ? "an operation without op" : op) + " of \"" +
         text(member(operation, "path")) + "\"";
}

ApiError refused(const Json& operation, const std::string& why) {
  return ApiError(422, "Invalid",
                  "the patch cannot be applied: " + described(operation) + " " + why);
}

void apply_operation(Json& document, const Json& operation, std::size_t& copied) {
  const std::string op = text(member(operation, "op"));
  const std::string path = text(member(operation, "path"));
  const bool takes = op == "copy" || op == "move";
  const Json& value = takes ? document.at(Json::json_pointer(text(member(operation, "from"))))
                            : member(operation, "value");
  // The library copies what it moves, too.
  if (takes) copied += value.dump().size();
  if (copied > most_copied) throw refused(operation, "copies too much");
  if (op == "move" && path.starts_with(text(member(operation, "from")) + "/")) {
    throw refused(operation, "moves something into itself");
  }
  // The library asserts this.
  const Json::json_pointer target(path);
  if ((op == "add" || takes) && !target.empty() &&
      !document.at(target.parent_pointer()).is_structured()) {
    throw refused(operation, "is in something that has no members");
  }
  if (std::count(path.begin(), path.end(), '/') + depth_of(value) > deepest) {
    throw refused(operation, "nests too deeply");
  }
  document.patch_inplace(Json::array({operation}));
}

}  // namespace

Json apply_json_patch(Json document, const Json& patch) {
  if (!patch.is_array() || patch.size() > most_operations) {
    throw bad_request("a JSON patch must be a list of at most 10000 operations");
  }
  std::size_t copied = 0;
  for (const Json& operation : patch) {
    try {
      apply_operation(document, operation, copied);
    } catch (const Json::exception&) {
      throw refused(operation, "failed");
    }
  }
  return document;
}

}  // namespace virtset::api
