// Requests as bytes: what comes out must not depend on how they were cut.
//
// The first bytes of an input say where, each how many bytes come next; a zero ends them.

#include "api/http/request_reader.h"
#include "tests/fuzz/fuzz.h"

using namespace virtset;

namespace {

// Near enough to be reached.
constexpr api::RequestReader::Limits limits{.head = 512, .body = 64};

// Who resolves a path in another way than we do finds nothing to resolve.
void check_path(std::string_view path) {
  fuzz::require(path.starts_with('/'), "a path begins with a slash", path);
  path.remove_prefix(1);
  while (!path.empty()) {
    const std::string_view segment = path.substr(0, path.find('/'));
    fuzz::require(!segment.empty() && segment != "." && segment != "..", "a segment is a name",
                  path);
    for (const char c : segment) {
      fuzz::require(static_cast<unsigned char>(c) >= ' ' && c != '\x7f',
                    "a segment has no control characters", segment);
    }
    path.remove_prefix(std::min(segment.size() + 1, path.size()));
  }
}

std::string text_of(const api::Incoming& incoming) {
  const api::Request& request = incoming.request;
  std::string text;
  for (const auto* part :
       {&request.method, &incoming.target, &request.accept, &request.content_type,
        &request.user_agent, &request.body, &incoming.token, &incoming.accept_encoding}) {
    text += *part + '\n';
  }
  for (const bool flag : {incoming.http_1_0, incoming.keep_alive, incoming.wants_continue,
                          incoming.impersonates, incoming.error.has_value()}) {
    text += flag ? '1' : '0';
  }
  return text;
}

class Reading {
 public:
  void add(std::string_view data) {
    if (reader_.broken()) return;
    for (bool complete = reader_.read(data); complete; complete = reader_.read({})) {
      if (reader_.broken()) {
        // Which of several things is wrong may depend on what came first.
        fuzz::require(reader_.incoming().error.has_value(), "what is broken says why");
        requests_.push_back("broken");
        return;
      }
      const api::Request& request = reader_.incoming().request;
      fuzz::require(request.body.size() <= limits.body, "a body is within its limit");
      if (!reader_.incoming().error) check_path(request.path);
      requests_.push_back(text_of(reader_.incoming()));
      reader_.next();
    }
  }
  const std::vector<std::string>& requests() const { return requests_; }

 private:
  api::RequestReader reader_{limits};
  std::vector<std::string> requests_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = fuzz::view(data, size);
  const auto end = std::min(input.find('\0'), input.size());
  const std::string_view cuts = input.substr(0, end);
  const std::string_view text = input.substr(std::min(end + 1, size));

  Reading whole;
  whole.add(text);

  Reading pieces;
  std::string_view rest = text;
  for (const char cut : cuts) {
    const std::size_t length = std::min<std::size_t>(static_cast<unsigned char>(cut), rest.size());
    pieces.add(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  pieces.add(rest);
  fuzz::require(whole.requests() == pieces.requests(), "requests do not depend on the cuts", text);

  Reading bytes;
  for (std::size_t i = 0; i < text.size(); ++i) bytes.add(text.substr(i, 1));
  fuzz::require(whole.requests() == bytes.requests(), "requests are the same byte by byte", text);
  return 0;
}
