#include "api/rest/openapi_v2.h"

namespace virtset::api {

namespace {

// A protobuf message whose fields are all strings and messages.
class Message {
 public:
  Message& add(unsigned field, std::string_view bytes) {
    constexpr unsigned length_delimited = 2;
    varint(field << 3 | length_delimited);
    varint(bytes.size());
    text_ += bytes;
    return *this;
  }
  Message& add(unsigned field, const Message& message) { return add(field, message.text_); }
  const std::string& text() const { return text_; }

 private:
  void varint(std::size_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
  }
  std::string text_;
};

// ParametersItem > Parameter > NonBodyParameter > QueryParameterSubSchema.
Message query_parameter(const char* name) {
  const Message query = Message().add(2, "query").add(4, name).add(6, "string");
  return Message().add(1, Message().add(2, Message().add(3, query)));
}

// NamedAny of a YAML text.
Message extension(const char* name, const std::string& yaml) {
  return Message().add(1, name).add(2, Message().add(2, yaml));
}

Message path(const Kind& kind, const std::string& version) {
  const Message operation =
      Message()
          .add(8, query_parameter("dryRun"))
          .add(8, query_parameter("fieldValidation"))
          .add(13, extension("x-kubernetes-group-version-kind",
                             "group: \"" + kind.group + "\"\nkind: " + kind.kind +
                                 "\nversion: " + version + "\n"));
  const std::string name = (kind.group.empty() ? "/api/" : "/apis/") + kind.api_version(version) +
                           (kind.namespaced ? "/namespaces/{namespace}/" : "/") + kind.plural +
                           "/{name}";
  return Message().add(1, name).add(2, Message().add(8, operation));
}

}  // namespace

std::string openapi_v2_protobuf(const Kinds& kinds) {
  Message paths;
  for (const Kind& kind : kinds.all()) {
    if (!kind.allows("patch")) continue;
    for (const std::string& version : kind.versions) paths.add(2, path(kind, version));
  }
  return Message()
      .add(1, "2.0")
      .add(2, Message().add(1, "virtset").add(2, "v1"))
      .add(8, paths)
      .text();
}

}  // namespace virtset::api
