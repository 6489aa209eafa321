// All kernels, compiled for the CPU. Each file of kernels/ has its `#include`, and each kernel of it its line in
// `KERNELS`: keep both lists in the order of the file names.
#include "registry.h"

#include <cstring>

#include "rmsnorm.cu"

namespace emulated {
namespace {

#define REGISTER(name) Signature<name>::kernel(#name),
const Kernel KERNELS[] = {
    // rmsnorm.cu
    REGISTER(rmsnorm_f32)
    REGISTER(rmsnorm_bf16)
    REGISTER(rmsnorm_f16)
    REGISTER(rmsnorm_heads)
};

}  // namespace

const Kernel* find_kernel(const char* name, size_t length) {
  for (const Kernel& kernel : KERNELS)
    if (strlen(kernel.name) == length && memcmp(kernel.name, name, length) == 0) return &kernel;
  return nullptr;
}

}  // namespace emulated
