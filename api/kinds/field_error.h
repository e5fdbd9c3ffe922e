// What is wrong with a field of an object, in the terms of Kubernetes' Status causes.
#pragma once

#include <string>
#include <vector>

namespace virtset::api {

struct FieldError {
  // Kubernetes: metav1.CauseType.
  enum class Reason {
    invalid,
    required,
    not_supported,
    duplicate,
    forbidden,
    not_found,
    field_manager_conflict,
    resource_version_too_large
  };
  Reason reason;
  std::string field;    // e.g. "spec.template.spec.domain.devices.disks[0].name"
  std::string message;  // says what was expected
};

using FieldErrors = std::vector<FieldError>;

// Of an item of the list at `path`.
inline std::string item_path(const std::string& path, std::size_t index) {
  return path + "[" + std::to_string(index) + "]";
}

inline const char* to_string(FieldError::Reason reason) {
  switch (reason) {
    case FieldError::Reason::invalid:
      return "FieldValueInvalid";
    case FieldError::Reason::required:
      return "FieldValueRequired";
    case FieldError::Reason::not_supported:
      return "FieldValueNotSupported";
    case FieldError::Reason::duplicate:
      return "FieldValueDuplicate";
    case FieldError::Reason::forbidden:
      return "FieldValueForbidden";
    case FieldError::Reason::not_found:
      return "FieldValueNotFound";
    case FieldError::Reason::field_manager_conflict:
      return "FieldManagerConflict";
    case FieldError::Reason::resource_version_too_large:
      return "ResourceVersionTooLarge";
  }
  return "";
}

// Collects errors; the names of its functions are those of the reasons.
class FieldErrorList {
 public:
  void invalid(std::string field, std::string message) {
    add(FieldError::Reason::invalid, std::move(field), std::move(message));
  }
  void required(std::string field, std::string message) {
    add(FieldError::Reason::required, std::move(field), std::move(message));
  }
  void not_supported(std::string field, std::string message) {
    add(FieldError::Reason::not_supported, std::move(field), std::move(message));
  }
  void duplicate(std::string field, std::string message) {
    add(FieldError::Reason::duplicate, std::move(field), std::move(message));
  }
  void forbidden(std::string field, std::string message) {
    add(FieldError::Reason::forbidden, std::move(field), std::move(message));
  }

  bool empty() const { return errors_.empty(); }
  const FieldErrors& all() const { return errors_; }

 private:
  void add(FieldError::Reason reason, std::string field, std::string message) {
    errors_.push_back({reason, std::move(field), std::move(message)});
  }
  FieldErrors errors_;
};

}  // namespace virtset::api
