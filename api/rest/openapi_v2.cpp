#include "api/rest/openapi_v2.h"

#include "api/kinds/json_access.h"
#include "api/rest/openapi_schema.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

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

// gnostic's Schema, of what version 3 says.
Message schema(const Json& published);

Message properties_of(const Json& properties) {
  Message list;
  for (const auto& [name, property] : properties.items()) {
    list.add(1, Message().add(1, name).add(2, schema(property)));
  }
  return list;
}

Message schema(const Json& published) {
  Message message;
  if (const Json& all = member(published, "allOf"); !all.empty()) {
    const std::string reference = text(member(all[0], "$ref"));
    message.add(1, "#/definitions/" + reference.substr(reference.rfind('/') + 1));
  }
  if (const std::string words = text(member(published, "description")); !words.empty()) {
    message.add(4, words);
  }
  for (const Json& name : member(published, "required")) message.add(19, text(name));
  if (const Json& values = member(published, "additionalProperties"); values.is_object()) {
    message.add(21, Message().add(1, schema(values)));
  }
  const bool quantity = member(published, "format") == "quantity";
  const std::string type = text(member(published, "type"));
  // Quantities may be numbers, which old kubectls would not let pass.
  if (!type.empty() && !quantity) message.add(22, Message().add(1, type));
  if (const Json& items = member(published, "items"); items.is_object()) {
    message.add(23, Message().add(1, schema(items)));
  }
  if (const Json& properties = member(published, "properties"); !properties.empty()) {
    message.add(25, properties_of(properties));
  }
  return message;
}

Message definitions(const Kinds& kinds) {
  Message list;
  const auto add = [&](const std::string& name, const Message& value) {
    list.add(1, Message().add(1, name).add(2, value));
  };
  for (const auto& [name, declared] : kinds.definitions().items()) {
    add(definition_schema_name(name), schema(published_schema(declared, kinds.definitions())));
  }
  for (const Kind& kind : kinds.all()) {
    for (const std::string& version : kind.versions) {
      Message value = schema(published_schema(kind.schema_document, kinds.definitions()));
      value.add(31, extension("x-kubernetes-group-version-kind",
                              "- group: \"" + kind.group + "\"\n  kind: " + kind.kind +
                                  "\n  version: " + version + "\n"));
      add(kind_schema_name(kind, version), value);
    }
  }
  return list;
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
      .add(9, definitions(kinds))
      .text();
}

}  // namespace virtset::api
