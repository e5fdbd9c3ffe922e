// A request and its answer, apart from how they travel.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace virtset::api {

struct Request {
  std::string method;                                      // "GET", "POST", …
  std::string path;                                        // decoded, without the query
  std::vector<std::pair<std::string, std::string>> query;  // decoded
  std::string accept;
  std::string content_type;
  std::string user_agent;
  std::string body;

  // The first value of a query parameter, or nothing if it was not given.
  std::optional<std::string_view> parameter(std::string_view name) const {
    for (const auto& [key, value] : query) {
      if (key == name) return value;
    }
    return std::nullopt;
  }
  bool flag(std::string_view name) const {
    const auto value = parameter(name);
    return value && (*value == "true" || *value == "1");
  }
};

// A body that is made while it is sent, so that neither a long list nor a watch of days needs
// memory or holds up the loop. Loop thread only.
class BodyStream {
 public:
  enum class State {
    more,  // call again; `out` may have got nothing, because the work is done in small steps
    wait,  // nothing now; the wake function will be called
    end
  };

  virtual ~BodyStream() = default;
  // Appends some tens of kilobytes at most.
  virtual State read(std::string& out) = 0;
  // To be called, on the loop thread, when there is something to read after `wait`.
  virtual void on_wake(std::function<void()> /*wake*/) {}
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::unique_ptr<BodyStream> stream;  // instead of `body`
  // Of a stream that goes on for as long as the client stays: sent as it comes, headers first.
  bool live = false;
};

// Called exactly once, on the loop thread, at once or later.
using Respond = std::function<void(Response)>;

}  // namespace virtset::api
