#include "api/kinds/yaml.h"

#include <yaml.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include "api/kinds/json_depth.h"
#include "api/kinds/utf8.h"

namespace virtset::api {

namespace {

using Json = nlohmann::json;

constexpr int deepest = 64;
constexpr std::size_t most_values = 400'000;
// That anchors keep and aliases repeat; a long text counts as several.
constexpr std::size_t most_repeated = 20'000;
constexpr std::size_t text_of_one_value = 16;

template <std::size_t size>
bool one_of(std::string_view text, const std::array<std::string_view, size>& list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

std::optional<bool> as_bool(std::string_view text) {
  static constexpr std::array<std::string_view, 11> yes = {
      "true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y"};
  static constexpr std::array<std::string_view, 11> no = {
      "false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N"};
  if (one_of(text, yes)) return true;
  if (one_of(text, no)) return false;
  return std::nullopt;
}

bool is_null(std::string_view text) {
  static constexpr std::array<std::string_view, 5> nulls = {"", "~", "null", "Null", "NULL"};
  return one_of(text, nulls);
}

std::optional<Json> as_integer(std::string_view text) {
  std::string digits(text);
  digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
  const bool minus = digits.starts_with('-');
  if (minus || digits.starts_with('+')) digits.erase(0, 1);
  int base = 10;
  if (digits.starts_with("0x")) {
    base = 16;
  } else if (digits.starts_with("0b")) {
    base = 2;
  } else if (digits.starts_with("0o") || (digits.size() > 1 && digits[0] == '0')) {
    base = 8;
  }
  if (base == 16 || base == 2 || digits.starts_with("0o")) digits.erase(0, 2);
  constexpr std::string_view all = "0123456789abcdefABCDEF";
  const std::string_view allowed = base == 16 ? all : all.substr(0, static_cast<std::size_t>(base));
  if (digits.empty() || digits.find_first_not_of(allowed) != std::string::npos) return std::nullopt;
  errno = 0;
  const unsigned long long value = std::strtoull(digits.c_str(), nullptr, base);
  if (errno == ERANGE) return std::nullopt;
  if (!minus) return value <= INT64_MAX ? Json(static_cast<std::int64_t>(value)) : Json(value);
  if (value > static_cast<unsigned long long>(INT64_MAX) + 1) return std::nullopt;
  return Json(static_cast<std::int64_t>(0 - value));
}

std::optional<Json> as_float(std::string_view text) {
  if (text.find_first_not_of("0123456789+-.eE") != text.npos) return std::nullopt;
  if (text.find_first_of("0123456789") == text.npos) return std::nullopt;
  const std::string copy(text);
  char* end = nullptr;
  const double value = std::strtod(copy.c_str(), &end);
  if (*end != '\0' || !std::isfinite(value)) return std::nullopt;
  return Json(value);
}

Json plain_scalar(std::string_view text) {
  if (is_null(text)) return nullptr;
  if (const auto value = as_bool(text)) return *value;
  if (const auto value = as_integer(text)) return *value;
  if (const auto value = as_float(text)) return *value;
  return std::string(text);
}

// Whether some reader of YAML takes the text for a number, a time, 12:30 as minutes or a merge, or
// for anything else but text, when it is not quoted.
bool is_ambiguous(std::string_view text) {
  if (!plain_scalar(text).is_string() || text == "=" || text == "<<") return true;
  constexpr std::string_view first = "0123456789+-.";
  constexpr std::string_view all = "0123456789abcdefABCDEFoxXinINFTtZz_.:+- ";
  return first.find(text[0]) != first.npos && text.find_first_not_of(all) == text.npos;
}

// One event of libyaml's parser.
class Event {
 public:
  explicit Event(yaml_parser_t& parser) {
    if (yaml_parser_parse(&parser, &event_)) return;
    throw BadYaml("line " + std::to_string(parser.problem_mark.line + 1) + ": " +
                  (parser.problem ? parser.problem : "not YAML"));
  }
  ~Event() { yaml_event_delete(&event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  yaml_event_type_t type() const { return event_.type; }
  const yaml_event_t* operator->() const { return &event_; }
  std::string line() const { return "line " + std::to_string(event_.start_mark.line + 1) + ": "; }

 private:
  yaml_event_t event_{};
};

class Reader {
 public:
  explicit Reader(std::string_view text) {
    if (!yaml_parser_initialize(&parser_)) throw std::bad_alloc();
    yaml_parser_set_encoding(&parser_, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()),
                                 text.size());
  }
  ~Reader() { yaml_parser_delete(&parser_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  Json read() {
    expect(YAML_STREAM_START_EVENT);
    {
      const Event start(parser_);
      if (start.type() == YAML_STREAM_END_EVENT) return nullptr;
    }
    Json value;
    {
      const Event first(parser_);
      value = read_value(first, 0);
    }
    expect(YAML_DOCUMENT_END_EVENT);
    const Event end(parser_);
    if (end.type() != YAML_STREAM_END_EVENT) {
      throw BadYaml(end.line() + "a second document begins; send one object per request");
    }
    return value;
  }

 private:
  void expect(yaml_event_type_t type) {
    const Event event(parser_);
    if (event.type() != type) throw BadYaml(event.line() + "not a YAML document");
  }

  Json read_value(const Event& event, int depth) {
    if (depth > deepest) throw BadYaml(event.line() + "nested too deeply");
    if (++values_ > most_values) throw BadYaml(event.line() + "too many values");
    switch (event.type()) {
      case YAML_SCALAR_EVENT:
        return keep(event, event->data.scalar.anchor, scalar(event));
      case YAML_SEQUENCE_START_EVENT:
        return keep(event, event->data.sequence_start.anchor, sequence(depth));
      case YAML_MAPPING_START_EVENT:
        return keep(event, event->data.mapping_start.anchor, mapping(depth));
      case YAML_ALIAS_EVENT:
        return alias(event, depth);
      default:
        throw BadYaml(event.line() + "not a YAML document");
    }
  }

  Json scalar(const Event& event) {
    const auto& data = event->data.scalar;
    std::string text(reinterpret_cast<const char*>(data.value), data.length);
    const std::string tag = data.tag ? reinterpret_cast<const char*>(data.tag) : "";
    if (!tag.empty() && tag != "tag:yaml.org,2002:str" && tag != "!") {
      throw BadYaml(event.line() + "the tag " + tag + " is not supported");
    }
    if (!tag.empty() || data.style != YAML_PLAIN_SCALAR_STYLE) return text;
    return plain_scalar(text);
  }

  Json sequence(int depth) {
    Json array = Json::array();
    for (;;) {
      const Event event(parser_);
      if (event.type() == YAML_SEQUENCE_END_EVENT) return array;
      array.push_back(read_value(event, depth + 1));
    }
  }

  Json mapping(int depth) {
    Json object = Json::object();
    for (;;) {
      const Event event(parser_);
      if (event.type() == YAML_MAPPING_END_EVENT) return object;
      if (event.type() != YAML_SCALAR_EVENT) throw BadYaml(event.line() + "a key must be a string");
      const std::string key(reinterpret_cast<const char*>(event->data.scalar.value),
                            event->data.scalar.length);
      const Event value(parser_);
      const bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
      if (plain && key == "<<") {
        merge(object, read_value(value, depth + 1), event);
      } else if (!object.emplace(key, read_value(value, depth + 1)).second) {
        throw BadYaml(event.line() + "the key \"" + key + "\" is given twice");
      }
    }
  }

  static void merge(Json& object, const Json& from, const Event& event) {
    if (!from.is_object()) throw BadYaml(event.line() + "<< must be followed by a mapping");
    for (const auto& [key, value] : from.items()) object.emplace(key, value);
  }

  struct Anchor {
    Json value;
    std::size_t size;
    int depth;
  };

  Json keep(const Event& event, const yaml_char_t* anchor, Json value) {
    if (anchor) {
      const std::size_t values = size(value);
      count_repeated(event, values);
      anchors_[reinterpret_cast<const char*>(anchor)] = {value, values, depth_of(value)};
    }
    return value;
  }

  Json alias(const Event& event, int depth) {
    const auto it = anchors_.find(reinterpret_cast<const char*>(event->data.alias.anchor));
    if (it == anchors_.end()) throw BadYaml(event.line() + "unknown alias");
    if (depth + it->second.depth > deepest) throw BadYaml(event.line() + "nested too deeply");
    count_repeated(event, it->second.size);
    return it->second.value;
  }

  static std::size_t size(const Json& value) {
    if (value.is_string()) {
      return 1 + value.get_ref<const std::string&>().size() / text_of_one_value;
    }
    std::size_t total = 1;
    if (value.is_object()) {
      for (const auto& [key, item] : value.items()) {
        total += key.size() / text_of_one_value + size(item);
      }
    } else if (value.is_array()) {
      for (const Json& item : value) total += size(item);
    }
    return total;
  }

  void count_repeated(const Event& event, std::size_t values) {
    repeated_ += values;
    if (repeated_ > most_repeated) throw BadYaml(event.line() + "aliases repeat too many values");
  }

  yaml_parser_t parser_{};
  std::map<std::string, Anchor> anchors_;
  std::size_t values_ = 0;
  std::size_t repeated_ = 0;
};

class Writer {
 public:
  Writer() {
    if (!yaml_emitter_initialize(&emitter_)) throw std::bad_alloc();
    yaml_emitter_set_unicode(&emitter_, 1);
    yaml_emitter_set_width(&emitter_, -1);
    yaml_emitter_set_output(
        &emitter_,
        [](void* out, unsigned char* data, std::size_t size) {
          static_cast<std::string*>(out)->append(reinterpret_cast<char*>(data), size);
          return 1;
        },
        &text_);
  }
  ~Writer() { yaml_emitter_delete(&emitter_); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  std::string write(const Json& value) {
    yaml_event_t event;
    yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING);
    emit(event);
    yaml_document_start_event_initialize(&event, nullptr, nullptr, nullptr, 1);
    emit(event);
    write_value(value);
    yaml_document_end_event_initialize(&event, 1);
    emit(event);
    yaml_stream_end_event_initialize(&event);
    emit(event);
    return std::move(text_);
  }

 private:
  void emit(yaml_event_t& event) {
    if (!yaml_emitter_emit(&emitter_, &event)) {
      throw BadYaml(emitter_.problem ? emitter_.problem : "cannot be written as YAML");
    }
  }

  void write_value(const Json& value) {
    yaml_event_t event;
    if (value.is_array()) {
      yaml_sequence_start_event_initialize(&event, nullptr, nullptr, 1, YAML_BLOCK_SEQUENCE_STYLE);
      emit(event);
      for (const Json& item : value) write_value(item);
      yaml_sequence_end_event_initialize(&event);
      emit(event);
    } else if (value.is_object()) {
      yaml_mapping_start_event_initialize(&event, nullptr, nullptr, 1, YAML_BLOCK_MAPPING_STYLE);
      emit(event);
      for (const auto& [key, item] : value.items()) {
        write_string(key);
        write_value(item);
      }
      yaml_mapping_end_event_initialize(&event);
      emit(event);
    } else if (value.is_string()) {
      write_string(value.get_ref<const std::string&>());
    } else {
      write_scalar(value.dump(), YAML_PLAIN_SCALAR_STYLE);
    }
  }

  void write_string(const std::string& text) {
    const bool lines = text.find('\n') != std::string::npos;
    write_scalar(text, is_ambiguous(text) ? YAML_DOUBLE_QUOTED_SCALAR_STYLE
                       : lines            ? YAML_LITERAL_SCALAR_STYLE
                                          : YAML_ANY_SCALAR_STYLE);
  }

  void write_scalar(const std::string& text, yaml_scalar_style_t style) {
    yaml_event_t event;
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    if (yaml_scalar_event_initialize(&event, nullptr, nullptr, bytes, static_cast<int>(text.size()),
                                     1, 1, style)) {
      emit(event);
    } else if (!is_utf8(text)) {
      write_scalar(to_utf8(text), style);
    } else {
      throw std::bad_alloc();
    }
  }

  yaml_emitter_t emitter_{};
  std::string text_;
};

}  // namespace

Json parse_yaml(std::string_view text) { return Reader(text).read(); }

std::string to_yaml(const Json& value) { return Writer().write(value); }

}  // namespace virtset::api
