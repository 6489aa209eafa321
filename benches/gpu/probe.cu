// What tensor cores do to sums (probe.py): one multiply of 16 x 16 by 16 x 8 bfloat16 per block, by mma.sync, and on
// sm_90a the same by wgmma.
//   a [blocks][16][16], b [blocks][8][16] (each column's 16 inputs together), c, d, d_wgmma [blocks][16][8]
#include <stdint.h>

__device__ __forceinline__ uint32_t pair(const uint16_t* at) { return *reinterpret_cast<const uint32_t*>(at); }

extern "C" __global__ void probe(float* d, float* d_wgmma, const uint16_t* a, const uint16_t* b, const float* c) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  a += blockIdx.x * 256;
  b += blockIdx.x * 128;
  const int at = blockIdx.x * 128 + g * 8 + 2 * t;
  const uint32_t left[4] = {pair(a + g * 16 + 2 * t), pair(a + (g + 8) * 16 + 2 * t), pair(a + g * 16 + 2 * t + 8),
                            pair(a + (g + 8) * 16 + 2 * t + 8)};
  const uint32_t right[2] = {pair(b + g * 16 + 2 * t), pair(b + g * 16 + 2 * t + 8)};
  float sum[4] = {c[at], c[at + 1], c[at + 64], c[at + 65]};
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
  if (warp == 0) {
    d[at] = sum[0], d[at + 1] = sum[1], d[at + 64] = sum[2], d[at + 65] = sum[3];
  }
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  // The four warps of the group multiply the same 16 rows. Columns of b lie as two matrices of 8 x 16 bytes, without swizzle.
  __shared__ __align__(128) uint16_t shared[128];
  for (int i = threadIdx.x; i < 128; i += blockDim.x) shared[i % 16 / 8 * 64 + i / 16 * 8 + i % 8] = b[i];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const uint64_t address = (uint64_t)__cvta_generic_to_shared(shared);
  const uint64_t descriptor = (address >> 4 & 0x3FFF) | (uint64_t)(128 >> 4) << 16 | (uint64_t)(256 >> 4) << 32;
  float wide[4] = {c[at], c[at + 1], c[at + 64], c[at + 65]};
  asm volatile(
      "{\n"
      ".reg .pred adds;\n"
      "setp.eq.u32 adds, 0, 0;\n"
      "wgmma.fence.sync.aligned;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, adds, 1, 1, 0;\n"
      "wgmma.commit_group.sync.aligned;\n"
      "wgmma.wait_group.sync.aligned 0;\n"
      "}\n"
      : "+f"(wide[0]), "+f"(wide[1]), "+f"(wide[2]), "+f"(wide[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(descriptor)
      : "memory");
  if (warp == 0) {
    d_wgmma[at] = wide[0], d_wgmma[at + 1] = wide[1], d_wgmma[at + 64] = wide[2], d_wgmma[at + 65] = wide[3];
  }
#endif
}
