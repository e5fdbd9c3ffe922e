// The parameters of lists, one to a line, and the token that goes on with a list.

#include "api/rest/list_options.h"

#include "tests/fuzz/fuzz.h"

using namespace virtset;

namespace {

constexpr store::Revision now = 1000;

bool same(const api::Continuation& a, const api::Continuation& b) {
  return a.revision == b.revision && a.after_ns == b.after_ns && a.after_name == b.after_name;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::view(data, size);
  fuzz::accepted([&] {
    const auto continuation = api::Continuation::read(text);
    fuzz::require(same(api::Continuation::read(continuation.token()), continuation),
                  "our own tokens are read", continuation.token());
  });
  api::Request request;
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view line = fuzz::take(rest, "\n");
    const std::string_view name = fuzz::take(line, "=");
    request.query.emplace_back(name, line);
  }
  try {
    const auto options = api::ListOptions::of(request, now);
    fuzz::require(!options.exactly || *options.exactly <= now, "what will be cannot be listed");
  } catch (const api::ApiError& error) {
    fuzz::require(error.code() == 400 || error.code() == 422 || error.code() == 504,
                  "an error that the header names", error.what());
  }
  return 0;
}
