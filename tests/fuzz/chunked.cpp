// Bodies in chunked transfer coding: what comes out must not depend on how the data was cut.
//
// The first bytes of an input say where, each how many bytes come next; a zero ends them.

#include "api/http/chunked_body.h"
#include "tests/fuzz/fuzz.h"

using namespace virtset;
using State = api::ChunkedBody::State;

namespace {

constexpr std::size_t limit = 64;

struct Outcome {
  State state = State::more;
  std::string body;
};

void add(api::ChunkedBody& parser, Outcome& outcome, std::string_view data) {
  if (outcome.state != State::more) return;
  outcome.state = parser.add(data, limit, outcome.body);
  fuzz::require(outcome.body.size() <= limit, "a body is within its limit");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = fuzz::view(data, size);
  const auto end = std::min(input.find('\0'), input.size());
  const std::string_view cuts = input.substr(0, end);
  const std::string_view text = input.substr(std::min(end + 1, size));

  Outcome whole;
  api::ChunkedBody parser;
  add(parser, whole, text);

  Outcome pieces;
  api::ChunkedBody other;
  std::string_view rest = text;
  for (const char cut : cuts) {
    const std::size_t length = std::min<std::size_t>(static_cast<unsigned char>(cut), rest.size());
    add(other, pieces, rest.substr(0, length));
    rest.remove_prefix(length);
  }
  add(other, pieces, rest);
  fuzz::require(whole.state == pieces.state, "the state does not depend on the cuts");
  fuzz::require(whole.state == State::malformed || whole.body == pieces.body,
                "the body does not depend on the cuts");
  return 0;
}
