#include "common.cuh"

// Root-mean-square normalisation, a block for each row (at most 1024 threads). Rows lie one behind the other:
//   out[row, i] = x[row, i] / sqrt(mean(x[row]^2) + eps) * weight[i]      x, out [rows, n], weight [n]
template <class T>
__device__ __forceinline__ void rmsnorm(T* out, const float* x, const float* weight, int n, float eps) {
  __shared__ float scratch[32];
  x += (size_t)blockIdx.x * n;
  out += (size_t)blockIdx.x * n;
  float sum = 0.f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum = fmaf(x[i], x[i], sum);
  sum = block_sum(sum, scratch);
  const float factor = 1.f / sqrtf(sum / (float)n + eps);
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = from_float<T>(x[i] * factor * weight[i]);
}

#define RMSNORM(SUFFIX, T)                                                                            \
  KERNEL rmsnorm_##SUFFIX(T* out, const float* x, const float* weight, int n, float eps) {            \
    rmsnorm<T>(out, x, weight, n, eps);                                                               \
  }
RMSNORM(f32, float)
RMSNORM(bf16, bf16)
RMSNORM(f16, f16)

// The same in place for `heads` runs of head_dim at column `offset` of rows `stride` apart, each by its own mean:
// the norm of queries and keys of Qwen3. A warp for each head; grid rows.   x [rows, stride], weight [head_dim]
KERNEL rmsnorm_heads(float* x, int stride, int offset, int heads, int head_dim, const float* weight, float eps) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  x += (size_t)blockIdx.x * stride + offset;
  for (int head = warp; head < heads; head += warps) {
    float* h = x + (size_t)head * head_dim;
    float sum = 0.f;
    for (int i = lane; i < head_dim; i += 32) sum = fmaf(h[i], h[i], sum);
    const float factor = 1.f / sqrtf(warp_sum(sum) / (float)head_dim + eps);
    for (int i = lane; i < head_dim; i += 32) h[i] = h[i] * factor * weight[i];
  }
}
