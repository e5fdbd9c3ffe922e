#include "api/rest/version.h"

namespace virtset::api {

nlohmann::json version_document() {
  return {{"major", "1"},
          {"minor", "32"},
          {"gitVersion", "v1.32.0-virtset-" VIRTSET_VERSION},
          {"gitCommit", ""},
          {"gitTreeState", "clean"},
          {"buildDate", "1970-01-01T00:00:00Z"},
          {"goVersion", "none"},
          {"compiler", "g++"},
          {"platform", "linux/amd64"}};
}

}  // namespace virtset::api
