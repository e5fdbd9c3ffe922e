#include "api/kinds/datavolume/rules.h"

#include <algorithm>
#include <map>

#include "api/kinds/json_access.h"
#include "api/kinds/names.h"
#include "api/kinds/persistentvolumeclaim/rules.h"
#include "images/reference.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

constexpr std::string_view docker_scheme = "docker://";

void validate_registry(const Json& source, const std::string& path, FieldErrorList& errors) {
  const std::string url = text(member(source, "url"));
  if (!url.starts_with(docker_scheme)) {
    errors.invalid(path + ".url", "Invalid value: must be docker://, a registry and an image");
    return;
  }
  try {
    images::Reference::parse(image_of_url(url));
  } catch (const images::BadReference& error) {
    errors.invalid(path + ".url", std::string("Invalid value: ") + error.what());
  }
}

void validate_http(const Json& source, const std::string& path, FieldErrorList& errors) {
  const std::string url = text(member(source, "url"));
  const std::string_view rest = url.starts_with("https://")  ? std::string_view(url).substr(8)
                                : url.starts_with("http://") ? std::string_view(url).substr(7)
                                                             : std::string_view();
  const std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
  const bool printable =
      std::all_of(url.begin(), url.end(), [](unsigned char c) { return c > ' ' && c < 0x7f; });
  if (authority.empty() || !printable) {
    errors.invalid(path + ".url", "Invalid value: must be an http:// or https:// URL");
  } else if (authority.find('@') != std::string_view::npos) {
    errors.invalid(path + ".url", "Invalid value: must be without user and password");
  }
  const Json& checksum = member(source, "checksum");
  if (!checksum.is_string()) return;
  static const std::map<std::string, std::size_t> digits = {
      {"md5", 32}, {"sha1", 40}, {"sha256", 64}, {"sha512", 128}};
  const std::string given = text(checksum);
  const auto colon = given.find(':');
  const auto algorithm = digits.find(given.substr(0, colon));
  const std::string hash = colon == std::string::npos ? "" : given.substr(colon + 1);
  if (algorithm == digits.end() || hash.size() != algorithm->second ||
      hash.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) {
    errors.invalid(path + ".checksum",
                   "Invalid value: must be md5, sha1, sha256 or sha512, a colon and the checksum "
                   "in hexadecimal");
  }
}

void validate_clone(const Json& source, const std::string& path, FieldErrorList& errors) {
  if (const auto wrong = check_subdomain(text(member(source, "name")))) {
    errors.invalid(path + ".name", "Invalid value: " + *wrong);
  }
  const Json& ns = member(source, "namespace");
  if (!ns.is_string() || text(ns).empty()) return;
  if (const auto wrong = check_label_name(text(ns))) {
    errors.invalid(path + ".namespace", "Invalid value: " + *wrong);
  }
}

class DataVolumeRules final : public KindRules {
 public:
  void complete_new(Json& object) const override { object["status"] = Json::object(); }

  void validate(const Json& object, FieldErrorList& errors) const override {
    validate_data_volume_spec(member(object, "spec"), "spec", errors);
  }

  void validate_change(const Json& from, const Json& to, FieldErrorList& errors) const override {
    // CDI's words.
    if (member(from, "spec") != member(to, "spec")) {
      errors.forbidden("spec", "Cannot update DataVolume Spec");
    }
  }
};

}  // namespace

std::shared_ptr<const KindRules> data_volume_rules() { return std::make_shared<DataVolumeRules>(); }

void validate_data_volume_spec(const Json& spec, const std::string& path, FieldErrorList& errors) {
  const Json& source = member(spec, "source");
  const std::string at = path + ".source";
  if (source.is_object() && source.empty()) {
    errors.invalid(at, "Missing Data volume source: exactly one of blank, http, pvc, registry");
  } else if (source.size() > 1) {
    errors.invalid(at, "Multiple Data volume sources: exactly one of blank, http, pvc, registry");
  } else if (source.contains("registry")) {
    validate_registry(source["registry"], at + ".registry", errors);
  } else if (source.contains("http")) {
    validate_http(source["http"], at + ".http", errors);
  } else if (source.contains("pvc")) {
    validate_clone(source["pvc"], at + ".pvc", errors);
  }
  const bool pvc = member(spec, "pvc").is_object();
  const bool storage = member(spec, "storage").is_object();
  if (pvc && storage) {
    errors.invalid(path + ".storage",
                   "Duplicate storage definition, both target storage and target pvc defined");
  } else if (!pvc && !storage) {
    errors.required(path + ".storage",
                    "Missing Data volume PVC: either storage or pvc must be set");
  } else {
    validate_claim_spec(claim_part(spec), path + (pvc ? ".pvc" : ".storage"), errors);
  }
  const Json& content = member(spec, "contentType");
  if (content.is_string() && content != "kubevirt" && content != "") {
    errors.not_supported(path + ".contentType", "Unsupported value: " + json_text(content) +
                                                    ": this version of virtset can do only "
                                                    "\"kubevirt\"");
  }
}

const Json& claim_part(const Json& data_volume_spec) {
  const Json& storage = member(data_volume_spec, "storage");
  return storage.is_object() ? storage : member(data_volume_spec, "pvc");
}

std::string image_of_url(const std::string& url) {
  return url.starts_with(docker_scheme) ? url.substr(docker_scheme.size()) : url;
}

}  // namespace virtset::api
