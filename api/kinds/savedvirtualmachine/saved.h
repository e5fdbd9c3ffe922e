// What is kept of a virtual machine for the next one of its name.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace virtset::api {

// Keeps a deleted SavedVirtualMachine until its files are gone.
inline constexpr const char* saved_machine_finalizer = "virtset.io/saved-state";

// On a virtual machine that is deleted, and then on its instance: its memory is to be saved under
// this key.
inline constexpr const char* save_annotation = "virtset.io/save-state";
// On a new virtual machine and its instance: it goes on from what is saved under this key.
inline constexpr const char* restore_annotation = "virtset.io/restore-state";

// A hash of what the memory of a guest depends on: the template but for the machine's identity.
std::string saved_template_hash(const nlohmann::json& machine_spec);

// A new SavedVirtualMachine, as admission takes it, of this machine. `owner` is an owner reference;
// `instance` is the machine's or null: its memory can be kept only if it is what the template says.
nlohmann::json saved_machine(const nlohmann::json& machine, const nlohmann::json& instance,
                             const nlohmann::json& owner, bool with_memory);

// Whether there is memory, or will be, over which nobody else may use its claims.
bool holds_claims(const nlohmann::json& saved);

// Gives a new machine the identity that was kept, and its memory if it runs from the same template.
void restore_machine(nlohmann::json& machine, const nlohmann::json& saved);

}  // namespace virtset::api
