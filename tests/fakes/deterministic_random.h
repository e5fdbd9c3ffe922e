// Randomness that a test can repeat.
#pragma once

namespace virtset::test {

// From here on the kernel's random bytes are those of this seed. Only in binaries that link this.
void seed_random(unsigned seed);

}  // namespace virtset::test
