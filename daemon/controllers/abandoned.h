// What a job throws whose object was deleted before it had its turn.
#pragma once

#include <stdexcept>

namespace virtset {

class Abandoned : public std::runtime_error {
 public:
  Abandoned() : std::runtime_error("the object is being deleted") {}
};

}  // namespace virtset
