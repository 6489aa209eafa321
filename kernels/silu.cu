#include "common.cuh"

// The gate of a SwiGLU block:  out[row, i] = gate / (1 + e^-gate) * up
// gate_up [rows, gate: width | up: width], out [rows, width]; grid (rows, pieces of a row).
template <class T>
__device__ __forceinline__ void silu_mul(T* out, const float* gate_up, int width) {
  gate_up += (size_t)blockIdx.x * 2 * width;
  out += (size_t)blockIdx.x * width;
  for (int i = blockIdx.y * blockDim.x + threadIdx.x; i < width; i += gridDim.y * blockDim.x) {
    const float gate = gate_up[i];
    out[i] = from_float<T>(gate / (1.f + expf(-gate)) * gate_up[width + i]);
  }
}

#define SILU(SUFFIX, T)                                                     \
  KERNEL silu_mul_##SUFFIX(T* out, const float* gate_up, int width) {       \
    silu_mul<T>(out, gate_up, width);                                       \
  }
SILU(f32, float)
SILU(bf16, bf16)
SILU(f16, f16)
