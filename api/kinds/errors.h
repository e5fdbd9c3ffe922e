// Why a request is not granted. One place, rest/status.h, turns these into a Kubernetes Status.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>

#include "api/kinds/field_error.h"

namespace virtset::api {

class ApiError : public std::runtime_error {
 public:
  // `reason` is Kubernetes' metav1.StatusReason.
  ApiError(int code, std::string reason, const std::string& message)
      : std::runtime_error(message), code_(code), reason_(std::move(reason)) {}

  int code() const { return code_; }
  const std::string& reason() const { return reason_; }

  // What the error is about, where it is about an object.
  struct Subject {
    std::string group;
    std::string kind;  // the plural resource, or the kind for Invalid
    std::string name;
    std::string uid;
  };
  std::optional<Subject> subject;
  FieldErrors causes;
  int retry_after_seconds = 0;
  std::string continue_token;  // with which a list that has expired goes on (Kubernetes)

 private:
  int code_;
  std::string reason_;
};

}  // namespace virtset::api
