// Makes batches of rows durable.
#pragma once

#include <exception>
#include <functional>
#include <vector>

#include "store/object.h"

namespace virtset::store {

// One row of a batch: the object to put, or to remove.
struct Row {
  enum class Operation { put, remove };
  Operation operation;
  ObjectPtr object;
};

class Committer {
 public:
  // Null means durable; otherwise a CommitFailed, and nothing of the batch is stored.
  using Done = std::function<void(std::exception_ptr)>;

  virtual ~Committer() = default;

  // Stores the batch, all or nothing, and then calls `done` on a thread of the committer's choice.
  // Batches are stored in the order of the calls. Never blocks.
  virtual void commit(std::vector<Row> batch, Done done) = 0;
};

}  // namespace virtset::store
