// Faults that tests ask for: a launch that breaks the device, one that computes a wrong number.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "registry.h"

namespace emulated {

// Whether EMULATED_CUDA_FAIL breaks the device at this launch. To be called once for each.
bool breaks(const char* kernel);

// What EMULATED_CUDA_WRONG, or `emulated_cuda_plant`, makes of the results of a launch. One is made before each launch.
class Wrong {
  uint64_t at = 0;  // where the results are; 0: they stay as they are
  Number number{};
  double place = 0;  // from 0, the first of the results, to 1, the last
  std::vector<unsigned char> before;

 public:
  // `pointers`: the kernel's arguments; what is no pointer is 0.
  Wrong(const Kernel& kernel, const std::vector<uint64_t>& pointers);
  // Makes one number another, among those that the launch has changed.
  void spoil() const;
};

}  // namespace emulated
