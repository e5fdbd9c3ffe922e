// Volumes as files: <directory>/<id>/disk.img, raw and sparse, which is renamed to that name when
// it is whole. Beside it, until then, is what an attempt has got so far.
#pragma once

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "images/files.h"
#include "images/images.h"
#include "images/process.h"
#include "images/volumes.h"

namespace virtset::images {

class LocalVolumes final : public Volumes {
 public:
  struct Options {
    std::filesystem::path directory;  // on the file system of the images, whose blocks it may share
    // Left free by imports, so that they stop no VM that writes: this much, or a twentieth of the
    // file system if that is less.
    std::uint64_t reserve = default_reserve;
  };

  // Makes the directory if need be. Throws DiskFailed.
  LocalVolumes(Options options, Images& images);

  void make(const std::string& id, std::uint64_t size, const VolumeContent& content,
            const Progress& progress) override;
  void cancel(const std::string& id) override;
  void grow(const std::string& id, std::uint64_t size) override;
  void remove(const std::string& id) override;
  std::map<std::string, bool> list() override;
  std::string file(const std::string& id) const override;

  // Whether the volumes that are there are those of this installation, as a file beside them says;
  // an empty directory becomes its. Throws DiskFailed.
  bool belongs_to(const std::string& installation);
  std::filesystem::path owner_file() const;

  // Ends all that is under way and refuses more: the daemon is about to stop.
  void cancel_all();

 private:
  struct Work;
  struct Registration;

  void fill(const Blank& source, Work& work);
  void fill(const FromImage& source, Work& work);
  void fill(const FromUrl& source, Work& work);
  void fill(const FromVolume& source, Work& work);
  void adopt_image(Work& work, const std::filesystem::path& image);
  std::filesystem::path unpack(Work& work, const std::filesystem::path& packed);
  void copy(Work& work, const std::filesystem::path& from, std::uint64_t size);
  ProcessResult run(Work& work, std::vector<std::string> arguments);
  std::uint64_t measure(Work& work, const std::filesystem::path& image);
  void convert(Work& work, const std::filesystem::path& image);
  void demand(std::uint64_t bytes) const;
  void look_for_room(Work& work, std::uint64_t done, std::uint64_t more) const;

  const Options options_;
  Images& images_;

  std::mutex mutex_;
  std::map<std::string, Work*> under_way_;
  bool stopping_ = false;
};

}  // namespace virtset::images
