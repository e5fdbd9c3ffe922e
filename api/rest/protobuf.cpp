#include "api/rest/protobuf.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

#include "api/kinds/base64.h"
#include "api/kinds/times.h"
#include "api/rest/status.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

constexpr std::string_view magic{"k8s\0", 4};

[[noreturn]] void malformed() { throw bad_request("the body is not valid protobuf"); }

// One field of a message. Which of the two holds the value depends on its wire type.
struct Field {
  std::uint32_t number = 0;
  bool is_bytes = false;
  std::uint64_t scalar = 0;
  std::string_view bytes;
};

class Reader {
 public:
  explicit Reader(std::string_view message) : rest_(message) {}

  // False at the end. Throws for what is cut short or no field.
  bool next(Field& field) {
    if (rest_.empty()) return false;
    const std::uint64_t tag = varint();
    field = {};
    field.number = static_cast<std::uint32_t>(tag >> 3);
    if (field.number == 0 || tag >> 3 > UINT32_MAX) malformed();
    switch (tag & 7) {
      case 0:
        field.scalar = varint();
        return true;
      case 1:
        field.scalar = fixed<std::uint64_t>();
        return true;
      case 2:
        field.is_bytes = true;
        field.bytes = take(varint());
        return true;
      case 5:
        field.scalar = fixed<std::uint32_t>();
        return true;
      default:
        malformed();
    }
  }

 private:
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    malformed();
  }
  template <typename Number>
  Number fixed() {
    Number number;
    std::memcpy(&number, take(sizeof number).data(), sizeof number);
    return number;
  }
  std::string_view take(std::uint64_t size) {
    if (size > rest_.size()) malformed();
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  std::string_view rest_;
};

// The field of a small message of fixed shape; the last one counts.
Field find(std::string_view message, std::uint32_t number) {
  Field found;
  Reader reader(message);
  for (Field field; reader.next(field);) {
    if (field.number == number) found = field;
  }
  return found;
}

Json text(std::string_view bytes) {
  Json json = std::string(bytes);
  // Throws for what is not UTF-8.
  static_cast<void>(json.dump());
  return json;
}

// metav1.Time and MicroTime {1: seconds, 2: nanoseconds}; null for the zero time.
Json time(std::string_view message, bool micro) {
  const auto seconds = static_cast<std::int64_t>(find(message, 1).scalar);
  const auto nanoseconds = static_cast<std::int64_t>(find(message, 2).scalar);
  constexpr std::int64_t latest = 253'402'300'799;  // the year 9999
  if (seconds <= 0) return nullptr;
  if (seconds > latest || nanoseconds < 0 || nanoseconds > 999'999'999) malformed();
  const Time point{
      time_from(std::chrono::seconds(seconds)) +
      std::chrono::duration_cast<Time::duration>(std::chrono::nanoseconds(nanoseconds))};
  return micro ? format_micro_time(point) : format_time(point);
}

// intstr.IntOrString {1: 0 for a number and 1 for text, 2: number, 3: text}.
Json int_or_string(std::string_view message) {
  if (find(message, 1).scalar != 0) return text(find(message, 3).bytes);
  return static_cast<std::int32_t>(find(message, 2).scalar);
}

Json read_message(std::string_view message, const Schema& schema);

// Null where Go writes what was never set: it has no absent strings and times.
Json read_value(const Field& field, const Schema& schema) {
  using Format = Schema::Format;
  if (schema.int_or_string()) return int_or_string(field.bytes);
  switch (schema.format()) {
    case Format::byte:
      return encode_base64(field.bytes);
    case Format::quantity:
      return text(find(field.bytes, 1).bytes);
    case Format::date_time:
      return time(field.bytes, false);
    case Format::micro_time:
      return time(field.bytes, true);
    case Format::none:
      break;
  }
  switch (schema.type()) {
    case Schema::Type::string:
      return text(field.bytes);
    case Schema::Type::integer:
      return static_cast<std::int64_t>(field.scalar);
    case Schema::Type::number:
      return std::bit_cast<double>(field.scalar);
    case Schema::Type::boolean:
      return field.scalar != 0;
    default:
      return read_message(field.bytes, schema);
  }
}

void read_map_entry(Json& map, const Field& field, const Schema& values) {
  Field value = find(field.bytes, 2);
  const std::string key = text(find(field.bytes, 1).bytes);
  map[key] = read_value(value, values);
}

Json read_message(std::string_view message, const Schema& schema) {
  Json object = Json::object();
  Reader reader(message);
  for (Field field; reader.next(field);) {
    const auto* property = schema.field_number(field.number);
    if (!property) continue;
    const auto& [name, type] = *property;
    if (type->type() == Schema::Type::array && type->items()) {
      object[name].push_back(read_value(field, *type->items()));
    } else if (type->type() == Schema::Type::object && type->values()) {
      read_map_entry(object[name], field, *type->values());
    } else if (Json value = read_value(field, *type); !value.is_null() && value != "") {
      object[name] = std::move(value);
    }
  }
  return object;
}

}  // namespace

Json decode_protobuf(std::string_view body, const Schema& schema) {
  if (!body.starts_with(magic)) malformed();
  try {
    const std::string_view envelope = body.substr(magic.size());
    Json object = read_message(find(envelope, 2).bytes, schema);
    const std::string_view type = find(envelope, 1).bytes;
    for (const auto& [number, name] : {std::pair{1u, "apiVersion"}, {2u, "kind"}}) {
      const std::string_view value = find(type, number).bytes;
      if (!value.empty()) object[name] = text(value);
    }
    return object;
  } catch (const Json::exception&) {
    malformed();  // text that is not UTF-8
  }
}

}  // namespace virtset::api
