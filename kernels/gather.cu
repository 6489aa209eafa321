#include "common.cuh"

// Chosen rows, a block for each:  out[i * out_stride + c] = x[rows[i] * x_stride + c], c < width
// x [x_rows, x_stride], rows [n], out [n, out_stride]. A row outside of x gives zeros.
KERNEL gather_rows(float* out, const float* x, const unsigned* rows, int width, int x_stride, int out_stride, int x_rows) {
  const unsigned row = rows[blockIdx.x];
  const bool known = row < (unsigned)x_rows;
  x += known ? (size_t)row * x_stride : 0;
  out += (size_t)blockIdx.x * out_stride;
  for (int i = threadIdx.x; i < width; i += blockDim.x) out[i] = known ? x[i] : 0.f;
}
