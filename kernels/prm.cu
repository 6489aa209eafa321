#include "common.cuh"

// The linear layers of a process reward model's head, as crates/prm/src/head.rs has them. Sums are in double.

namespace prm {

constexpr int WARPS = 8, ROWS = 8;

__device__ __forceinline__ double entering(float v) { return v; }
// Between layers: ReLU. NaN becomes 0, as on the CPU.
__device__ __forceinline__ double entering(double v) { return v > 0 ? v : 0; }

// A warp for an output of 8 rows, whose weights it reads once.
template <class T>
__device__ __forceinline__ void layer(double* out, const T* x, const unsigned* rows, int x_rows, const float* weight,
                                      const float* bias, int count, int inputs, int outputs) {
  const int lane = threadIdx.x & 31, output = blockIdx.x * WARPS + (threadIdx.x >> 5), first = blockIdx.y * ROWS;
  if (output >= outputs) return;
  weight += (size_t)output * inputs;
  const T* from[ROWS];
  bool exists[ROWS];
#pragma unroll
  for (int j = 0; j < ROWS; j++) {
    // Behind the last row the first of the tile is read again and not written.
    const int r = first + j < count ? first + j : first;
    const unsigned source = rows ? rows[r] : (unsigned)r;
    exists[j] = source < (unsigned)x_rows;
    from[j] = x + (size_t)(exists[j] ? source : 0) * inputs;
  }
  double sums[ROWS] = {};
  for (int k = lane; k < inputs; k += 32) {
    const double w = weight[k];
#pragma unroll
    for (int j = 0; j < ROWS; j++) sums[j] += w * entering(from[j][k]);
  }
#pragma unroll
  for (int j = 0; j < ROWS; j++) {
    const double sum = warp_sum(sums[j]);
    if (lane == 0 && first + j < count)
      out[(size_t)(first + j) * outputs + output] = exists[j] ? sum + (bias ? (double)bias[output] : 0) : (double)__uint_as_float(0x7fffffffu);
  }
}

}  // namespace prm

// The first layer, from the hidden states of chosen rows: out[i] = weight hidden[rows[i]] + bias. NaN for a row that does not exist.
// Blocks of 256; grid (outputs / 8, count / 8).      out [count, outputs], hidden [hidden_rows, inputs], weight [outputs, inputs],
// bias [outputs] or null
KERNEL prm_head(double* out, const float* hidden, const unsigned* rows, int hidden_rows, const float* weight, const float* bias,
                int count, int inputs, int outputs) {
  prm::layer(out, hidden, rows, hidden_rows, weight, bias, count, inputs, outputs);
}

// A further layer: out[i] = weight relu(x[i]) + bias. As prm_head.      x [count, inputs]
KERNEL prm_layer(double* out, const double* x, const float* weight, const float* bias, int count, int inputs, int outputs) {
  prm::layer(out, x, nullptr, count, weight, bias, count, inputs, outputs);
}
