// What the controllers have in common.
//
// A controller looks at the world as it is, does the next step or starts the next job, and returns.
// It may be asked to look at any time, any number of times. It reads objects, calls hypervisor and
// images through jobs, and writes status; it never sees HTTP, SQL or libvirt.
#pragma once

#include <exception>
#include <string>

#include "store/store.h"

namespace virtset {

// What an exception says.
std::string what(const std::exception_ptr& error);

class Controller {
 public:
  virtual ~Controller() = default;

  // Takes in what is there, once, before the first change.
  virtual void start() = 0;
  // An object has changed, of whatever kind.
  virtual void observe(const store::Change& change) = 0;
};

}  // namespace virtset
