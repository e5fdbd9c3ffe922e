#include "api/rest/list_options.h"

#include <algorithm>
#include <charconv>

#include "api/kinds/base64.h"
#include "api/kinds/json_access.h"
#include "api/rest/status.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

constexpr const char* token_version = "meta.k8s.io/v1";

// In URLs "+" and "/" mean something else, and "=" is left out.
std::string to_url(std::string base64) {
  std::replace(base64.begin(), base64.end(), '+', '-');
  std::replace(base64.begin(), base64.end(), '/', '_');
  while (base64.ends_with('=')) base64.pop_back();
  return base64;
}

std::string from_url(std::string_view token) {
  std::string base64(token);
  std::replace(base64.begin(), base64.end(), '-', '+');
  std::replace(base64.begin(), base64.end(), '_', '/');
  while (base64.size() % 4 != 0) base64 += '=';
  return base64;
}

ApiError refused(const char* parameter, const std::string& why) {
  ApiError error =
      invalid_option("ListOptions", FieldError::Reason::forbidden, parameter, "Forbidden: " + why);
  error.subject = ApiError::Subject{"meta.k8s.io", "ListOptions", "", ""};
  return error;
}

// Kubernetes: clients that see this cause ask again without a revision.
ApiError too_new(store::Revision wanted, store::Revision now) {
  ApiError error(504, "Timeout",
                 "Too large resource version: " + std::to_string(wanted) +
                     ", current: " + std::to_string(now));
  error.causes = {
      {FieldError::Reason::resource_version_too_large, "", "Too large resource version"}};
  error.retry_after_seconds = 1;
  return error;
}

}  // namespace

std::int64_t read_number(std::string_view text, const char* parameter) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    throw bad_request(std::string(parameter) + " must be a number, not \"" + std::string(text) +
                      "\"");
  }
  return value;
}

std::string Continuation::token() const {
  const Json json{{"v", token_version},
                  {"rv", revision},
                  {"start", after_ns + "/" + after_name + std::string(1, '\0')}};
  return to_url(encode_base64(json.dump()));
}

Continuation Continuation::read(std::string_view token) {
  const auto text = decode_base64(from_url(token));
  const Json json = text ? Json::parse(*text, nullptr, false) : Json();
  const std::string start = api::text(member(json, "start"));
  const auto slash = start.find('/');
  const auto end = start.find('\0');
  if (member(json, "v") != token_version || slash == start.npos || end == start.npos ||
      end < slash || !member(json, "rv").is_number_integer()) {
    throw bad_request("continue must be the token of an earlier page of the same list");
  }
  return {json["rv"], start.substr(0, slash), start.substr(slash + 1, end - slash - 1)};
}

ListOptions ListOptions::of(const Request& request, store::Revision now) {
  ListOptions options;
  const auto parameter = [&](const char* name) { return request.parameter(name).value_or(""); };
  if (const auto limit = parameter("limit"); !limit.empty()) {
    options.limit = static_cast<std::size_t>(read_number(limit, "limit"));
  }
  const auto version = parameter("resourceVersion");
  const auto match = parameter("resourceVersionMatch");
  const auto token = parameter("continue");
  if (request.parameter("sendInitialEvents")) {
    throw refused("sendInitialEvents", "sendInitialEvents is forbidden for list");
  }
  if (!match.empty()) {
    if (match != "Exact" && match != "NotOlderThan") {
      throw refused("resourceVersionMatch", "must be Exact or NotOlderThan");
    }
    if (version.empty()) {
      throw refused("resourceVersionMatch",
                    "resourceVersionMatch is forbidden unless resourceVersion is provided");
    }
    if (!token.empty()) {
      throw refused("resourceVersionMatch",
                    "resourceVersionMatch is forbidden when continue is provided");
    }
    if (match == "Exact" && version == "0") {
      throw refused("resourceVersionMatch",
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
    }
  }
  if (!token.empty()) {
    if (!version.empty() && version != "0") {
      throw bad_request("specifying resource version is not allowed when using continue");
    }
    options.continuation = Continuation::read(token);
  } else if (!version.empty()) {
    const store::Revision revision = read_number(version, "resourceVersion");
    if (revision > now) throw too_new(revision, now);
    // What is not older than a revision of the past is the present.
    if (match == "Exact") options.exactly = revision;
  }
  return options;
}

std::vector<store::ObjectPtr> list_objects(const store::Store& store, const ObjectFilter& filter) {
  return store.list(filter.kind().group, filter.kind().kind, filter.ns());
}

Snapshot take_snapshot(const store::Store& store, const ObjectFilter& filter,
                       const ListOptions& options) {
  const Kind& kind = filter.kind();
  const auto& from = options.continuation;
  const store::Revision wanted = from ? from->revision : options.exactly.value_or(-1);
  Snapshot snapshot;
  if (wanted < 0 || wanted == store.revision()) {
    snapshot = {list_objects(store, filter), store.revision()};
  } else if (auto objects = store.list_at(wanted, kind.group, kind.kind, filter.ns())) {
    snapshot = {std::move(*objects), wanted};
  } else if (from) {
    ApiError error = expired(
        "The provided continue parameter is too old to display a consistent list result. You can "
        "start a new list without the continue parameter, or use the continue token in this "
        "response to retrieve the remainder of the results. Continuing with the provided token "
        "results in an inconsistent list - objects that were created, modified, or deleted between "
        "the time the first chunk was returned and now may show up in the list.");
    error.continue_token = Continuation{-1, from->after_ns, from->after_name}.token();
    throw error;
  } else {
    throw expired("The resourceVersion for the provided list is too old.");
  }
  if (from) {
    const auto is_sent = [&](const store::ObjectPtr& object) {
      const store::Key& key = object->key();
      return std::tie(key.ns, key.name) <= std::tie(from->after_ns, from->after_name);
    };
    auto& objects = snapshot.objects;
    objects.erase(objects.begin(), std::partition_point(objects.begin(), objects.end(), is_sent));
  }
  return snapshot;
}

}  // namespace virtset::api
