#include "api/kinds/namespace/rules.h"

#include "api/kinds/json_access.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

class NamespaceRules final : public KindRules {
 public:
  void complete_new(Json& object) const override {
    // Kubernetes: this finalizer, which is the namespace's own kind of it, goes when all content
    // has.
    object["spec"]["finalizers"] = Json::array({"kubernetes"});
    object["status"]["phase"] = "Active";
    Json& labels = object["metadata"]["labels"];
    labels["kubernetes.io/metadata.name"] = object["metadata"].value("name", "");
  }

  void validate_change(const Json& from, const Json& to, FieldErrorList& errors) const override {
    if (member(from, "spec") != member(to, "spec")) {
      errors.forbidden("spec.finalizers", "Forbidden: may only be changed by the server");
    }
  }

  std::optional<std::string> refuses_deletion(const Json& object) const override {
    if (object["metadata"]["name"] != "default") return std::nullopt;
    return "this namespace may not be deleted";
  }
};

}  // namespace

std::shared_ptr<const KindRules> namespace_rules() { return std::make_shared<NamespaceRules>(); }

}  // namespace virtset::api
