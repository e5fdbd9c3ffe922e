#include "api/rest/negotiation.h"

#include <algorithm>
#include <set>

#include "api/kinds/errors.h"
#include "api/kinds/yaml.h"

namespace virtset::api {

namespace {

constexpr int deepest = 100;

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return result;
}

// Calls `use` for each part of a list.
template <typename Use>
void split(std::string_view list, char separator, const Use& use) {
  while (!list.empty()) {
    const auto end = list.find(separator);
    use(trim(list.substr(0, end)));
    if (end == list.npos) return;
    list.remove_prefix(end + 1);
  }
}

struct MediaType {
  std::string type;
  std::string as, group, version;
};

MediaType parse_media_type(std::string_view text) {
  MediaType media;
  split(text, ';', [&](std::string_view part) {
    if (media.type.empty()) {
      media.type = lower(part);
      return;
    }
    const auto equals = part.find('=');
    if (equals == part.npos) return;
    const std::string_view name = trim(part.substr(0, equals));
    const std::string_view value = trim(part.substr(equals + 1));
    if (name == "as") media.as = value;
    if (name == "g") media.group = value;
    if (name == "v") media.version = value;
  });
  return media;
}

bool choose(const MediaType& media, Wanted& wanted) {
  if (media.type == "application/json" && media.as == "Table" && media.group == "meta.k8s.io") {
    if (media.version != "v1" && media.version != "v1beta1") return false;
    wanted.form = Form::table;
    wanted.table_version = media.version;
    return true;
  }
  if (media.type == "application/json" && media.as == "APIGroupDiscoveryList") {
    if (media.version != "v2" && media.version != "v2beta1") return false;
    wanted.aggregated_discovery = true;
    wanted.discovery_version = media.version;
    return true;
  }
  if (!media.as.empty()) return false;
  if (media.type == "application/yaml" || media.type == "application/x-yaml" ||
      media.type == "text/yaml") {
    wanted.form = Form::yaml;
    return true;
  }
  if (media.type == "text/plain" || media.type == "text/*") {
    wanted.form = Form::text;
    return true;
  }
  return media.type == "application/json" || media.type == "application/*" || media.type == "*/*";
}

// Follows a parser to see keys that come twice in one object.
class DuplicateKeys {
 public:
  using Json = nlohmann::json;

  explicit DuplicateKeys(std::vector<std::string>& found) : found_(found) {}

  void see(Json::parse_event_t event, const Json& parsed) {
    using Event = Json::parse_event_t;
    if (event == Event::key) {
      Open& object = open_.back();
      object.key = parsed.get_ref<const std::string&>();
      if (!object.keys.insert(object.key).second) found_.push_back(path());
      return;
    }
    if (event == Event::object_end || event == Event::array_end) {
      open_.pop_back();
      return;
    }
    if (!open_.empty() && open_.back().is_list) ++open_.back().items;
    if (event != Event::value) open_.push_back({event == Event::array_start});
  }

 private:
  struct Open {
    bool is_list;
    std::size_t items = 0;
    std::string key = {};
    std::set<std::string> keys = {};
  };

  std::string path() const {
    std::string text;
    for (const Open& place : open_) {
      text += place.is_list ? "[" + std::to_string(place.items - 1) + "]"
                            : (text.empty() ? "" : ".") + place.key;
    }
    return text;
  }

  std::vector<std::string>& found_;
  std::vector<Open> open_;
};

// Everything after this recurses, so depth is checked on the text.
void check_depth(std::string_view json) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > deepest) throw ApiError(400, "BadRequest", "the body is nested too deeply");
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
}

}  // namespace

Wanted negotiate(std::string_view accept) {
  Wanted wanted;
  bool chosen = false;
  split(accept, ',', [&](std::string_view part) {
    const MediaType media = parse_media_type(part);
    // "text/html, */*" is a browser: a person.
    const bool program = media.type.starts_with("application/") && !media.type.ends_with("/*") &&
                         !media.type.starts_with("application/xhtml");
    if (program || (!chosen && media.type == "text/plain")) wanted.any = false;
    if (!chosen) chosen = choose(media, wanted);
  });
  wanted.possible = chosen || trim(accept).empty();
  return wanted;
}

std::string media_type(std::string_view content_type) {
  return parse_media_type(content_type).type;
}

nlohmann::json parse_body(std::string_view content_type, std::string_view body,
                          std::vector<std::string>* duplicates) {
  const std::string type = parse_media_type(content_type).type;
  if (trim(body).empty()) throw ApiError(400, "BadRequest", "the request has no body");
  const bool yaml = type == "application/yaml" || type == "application/x-yaml" ||
                    type == "text/yaml" || type == "application/apply-patch+yaml";
  const bool json = type == "application/json" || type.ends_with("+json");
  const bool open = type.empty() || type == "application/x-www-form-urlencoded" ||
                    type == "text/plain" || type == "application/octet-stream";
  if (!yaml && !json && !open) {
    throw ApiError(
        415, "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json, application/yaml, application/vnd.kubernetes.protobuf");
  }
  const auto first = body.find_first_not_of(" \t\r\n");
  const bool looks_like_json = first != body.npos && (body[first] == '{' || body[first] == '[');
  if (yaml || (open && !looks_like_json)) return parse_yaml(body);
  check_depth(body);
  if (!duplicates) return nlohmann::json::parse(body);
  DuplicateKeys keys(*duplicates);
  return nlohmann::json::parse(
      body, [&](int, nlohmann::json::parse_event_t event, const nlohmann::json& parsed) {
        keys.see(event, parsed);
        return true;
      });
}

}  // namespace virtset::api
