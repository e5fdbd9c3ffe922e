// What web servers say of their files.

#include "images/answer_head.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  virtset::images::AnswerHead head;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size() - 1) + 1;
    head.take(text.substr(0, end));
    text.remove_prefix(end);
  }
  if (head.total < 0 || head.range_start < -1 || head.status_line.size() > 200) std::abort();
  return 0;
}
