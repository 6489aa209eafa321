// Modules: code that names kernels of the library.
#pragma once
#include "registry.h"

namespace emulated {

// The target of a CUfunction, which is never freed.
struct Function {
  const Kernel* kernel;
  unsigned shared_limit;  // of dynamic shared memory
  int carveout;           // of shared memory, in percent; -1 is for the driver to choose
};

}  // namespace emulated
