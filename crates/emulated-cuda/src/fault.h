// Faults that tests ask for: a launch that breaks the device, one that computes a wrong number.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "registry.h"

namespace emulated {

// Whether EMULATED_CUDA_FAIL breaks the device at this launch. To be called once for each.
bool breaks(const char* kernel);

// A change of a launch's results, from EMULATED_CUDA_WRONG or `emulated_cuda_plant`. Must be created before each
// launch.
class Wrong {
  uint64_t at = 0;  // address of the results; 0 if this launch has no fault
  Number number{};
  double place = 0;  // from 0, the first of the results, to 1, the last
  std::vector<unsigned char> before;

 public:
  // `pointers` has the kernel's arguments, and 0 for each argument that is not a pointer.
  Wrong(const Kernel& kernel, const std::vector<uint64_t>& pointers);
  // Changes one of the numbers that the launch has changed.
  void spoil() const;
};

}  // namespace emulated
