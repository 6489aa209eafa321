// Modules: PTX text that names kernels of the library.
#pragma once
#include "registry.h"

namespace emulated {

// What a CUfunction points to; never freed.
struct Function {
  const Kernel* kernel;
  unsigned shared_limit;  // of dynamic shared memory
};

}  // namespace emulated
