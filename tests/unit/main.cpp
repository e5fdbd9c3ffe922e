// Quiet unless asked: VIRTSET_TEST_LOG=debug.

#include <gmock/gmock.h>
#include <spdlog/spdlog.h>

#include <cstdlib>

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  const char* level = std::getenv("VIRTSET_TEST_LOG");
  spdlog::set_level(spdlog::level::from_str(level ? level : "off"));
  return RUN_ALL_TESTS();
}
