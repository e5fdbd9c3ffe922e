// Volumes as names with a size and a content, for tests of the controllers. Thread-safe where
// Volumes is; the rest is for the test's thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "images/volumes.h"

namespace virtset::test {

class FakeVolumes final : public images::Volumes {
 public:
  struct Volume {
    std::uint64_t size = 0;
    std::string content;  // "blank", "image <reference>", "url <url>"; of a copy that of the source
    bool whole = false;
  };

  void make(const std::string& id, std::uint64_t size, const images::VolumeContent& content,
            const Progress& progress) override {
    if (const auto it = volumes.find(id); it != volumes.end() && it->second.whole) return;
    ++made[id];
    progress(0);
    volumes[id] = {size, "", false};
    for (const double done : steps) progress(done);
    if (disk_is_full) {
      volumes.erase(id);
      throw images::DiskFailed("No space left", true);
    }
    volumes[id] = {size, std::visit([this](const auto& from) { return name(from); }, content),
                   true};
  }

  void cancel(const std::string& id) override { cancelled[id] = true; }

  void grow(const std::string& id, std::uint64_t size) override {
    if (!volumes.contains(id)) throw images::NotPresent("there is no volume " + id);
    if (disk_is_full) throw images::DiskFailed("No space left", true);
    volumes[id].size = std::max(volumes[id].size, size);
  }

  void remove(const std::string& id) override { volumes.erase(id); }

  std::map<std::string, bool> list() override {
    std::map<std::string, bool> result;
    for (const auto& [id, volume] : volumes) result[id] = volume.whole;
    return result;
  }

  std::string file(const std::string& id) const override { return "/volumes/" + id + "/disk.img"; }

  std::map<std::string, Volume> volumes;
  std::map<std::string, int> made;
  std::map<std::string, bool> cancelled;
  std::map<std::string, std::string> refuse;  // image or URL to the server's words
  bool disk_is_full = false;
  std::vector<double> steps;  // that make() reports

 private:
  std::string name(const images::Blank&) { return "blank"; }
  std::string name(const images::FromImage& from) { return given("image ", from.reference); }
  std::string name(const images::FromUrl& from) { return given("url ", from.url); }
  std::string name(const images::FromVolume& from) {
    const auto it = volumes.find(from.id);
    if (it == volumes.end() || !it->second.whole) throw images::NotPresent("no volume " + from.id);
    return it->second.content;
  }
  std::string given(const char* kind, const std::string& what) {
    if (const auto it = refuse.find(what); it != refuse.end()) throw images::PullFailed(it->second);
    return kind + what;
  }
};

}  // namespace virtset::test
