// What the virtual machine of an index is made from, and what an existing one becomes when the
// template changes. Pure functions of documents.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace virtset {

// The template of a pool's spec for this index, as {metadata: {labels, annotations}, spec}: what is
// to differ between virtual machines has the index appended to its name (KubeVirt).
nlohmann::json indexed_template(const nlohmann::json& pool_spec, int index);

// Notes on the template, and on the guests that will be made from it, which revision it is of.
void stamp_revision(nlohmann::json& machine_template, const std::string& revision);

// The machine with `next` in place of `before`, which is null if it is not known any more. What the
// template does not speak of stays: the identity of its firmware, and what somebody else added,
// such as labels, or a run strategy that start and stop have changed.
nlohmann::json with_template(nlohmann::json machine, const nlohmann::json& before,
                             nlohmann::json next);

// The number at the end of "<pool>-<index>"; 0 if there is none (KubeVirt).
int index_of(const std::string& name);

}  // namespace virtset
