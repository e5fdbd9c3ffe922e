// Makes names and UUIDs of the tests the same in every run: takes the place of libc's getrandom.

#include "tests/fakes/deterministic_random.h"

#include <sys/random.h>

#include <random>

namespace virtset::test {

namespace {

std::mt19937_64 generator;

}  // namespace

void seed_random(unsigned seed) { generator.seed(seed); }

}  // namespace virtset::test

extern "C" ssize_t getrandom(void* buffer, size_t length, unsigned) {
  auto* bytes = static_cast<unsigned char*>(buffer);
  for (size_t i = 0; i < length; ++i) {
    bytes[i] = static_cast<unsigned char>(virtset::test::generator() >> 17);
  }
  return static_cast<ssize_t>(length);
}
