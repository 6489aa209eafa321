// What all kernels share: number types, sums over warps and blocks, the tensor-core multiply.
//
// The sources compile with nvcc for compute_80 and, with -DKERNEL_CPU_SHIM, as C++17 for the emulated
// device of crates/emulated-cuda. So inline PTX stays in this file, each piece with a twin in that
// crate's device.h. Blocks are whole warps (blockDim.x a multiple of 32).
#pragma once

#ifdef KERNEL_CPU_SHIM
#include "device.h"
#else
// A kernel: KERNEL name(arguments) { body }.
#define KERNEL extern "C" __global__ void
// Dynamic shared memory as an array `name` of T, 16-byte aligned; once in a kernel.
#define DYNAMIC_SHARED(T, name)                                        \
  extern __shared__ __align__(16) unsigned char dynamic_shared_bytes[]; \
  T* name = reinterpret_cast<T*>(dynamic_shared_bytes)
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#endif

// Numbers of 16 bits. Defined here, because only their bits are needed and the toolkit's headers are large.
struct bf16 {
  unsigned short bits;
};
struct f16 {
  unsigned short bits;
};

__device__ __forceinline__ float to_float(float v) { return v; }
__device__ __forceinline__ float to_float(bf16 v) { return __uint_as_float((unsigned)v.bits << 16); }
__device__ __forceinline__ float to_float(f16 v) {
#ifdef KERNEL_CPU_SHIM
  return emulated::widen_f16(v.bits);
#else
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(v.bits));
  return r;
#endif
}

// The nearest T, ties to even. A number that is too large for T becomes infinite.
template <class T>
__device__ __forceinline__ T nearest(float v);
template <>
__device__ __forceinline__ float nearest<float>(float v) {
  return v;
}
template <>
__device__ __forceinline__ bf16 nearest<bf16>(float v) {
  bf16 r;
#ifdef KERNEL_CPU_SHIM
  r.bits = emulated::narrow_bf16(v);
#else
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r.bits) : "f"(v));
#endif
  return r;
}
template <>
__device__ __forceinline__ f16 nearest<f16>(float v) {
  f16 r;
#ifdef KERNEL_CPU_SHIM
  r.bits = emulated::narrow_f16(v);
#else
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.bits) : "f"(v));
#endif
  return r;
}

// An activation as a T: the nearest, but a finite number stays finite. Those of real models do not all fit into float16, and
// an infinity would be a NaN in the next layer. Infinities and NaN stay what they are, so that a broken computation shows.
template <class T>
__device__ __forceinline__ T from_float(float v) {
  return nearest<T>(v);
}
template <>
__device__ __forceinline__ f16 from_float<f16>(float v) {
  constexpr float LARGEST = 65504.f;
  const bool outside = fabsf(v) > LARGEST && fabsf(v) < INFINITY;
  return nearest<f16>(outside ? copysignf(LARGEST, v) : v);
}

// Two numbers of 16 bits in a register, as tensor cores take them: `low` in the low half.
template <class T>
__device__ __forceinline__ unsigned pack(T low, T high) {
  return low.bits | (unsigned)high.bits << 16;
}

// d += a b on tensor cores, a [16, 16], b [16, 8], d [16, 8] float, by a whole warp. With g = lane / 4, t = lane % 4
// (pairs are neighbours along k):
//   a[0] = row g,     k 2t, 2t+1      a[1] = row g + 8, same k
//   a[2] = row g,     k 2t+8, 2t+9    a[3] = row g + 8, same k
//   b[0] = column g,  k 2t, 2t+1      b[1] = column g,  k 2t+8, 2t+9
//   d[0], d[1] = row g, columns 2t, 2t+1      d[2], d[3] = row g + 8
template <class T>
__device__ __forceinline__ void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]);
#ifdef KERNEL_CPU_SHIM
template <>
inline void mma<bf16>(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  emulated::mma_bf16(d, a, b);
}
template <>
inline void mma<f16>(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  emulated::mma_f16(d, a, b);
}
#else
#define MMA_OF(T, NAME)                                                                              \
  template <>                                                                                        \
  __device__ __forceinline__ void mma<T>(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) { \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." NAME "." NAME ".f32 "                      \
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                             \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                    \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                \
  }
MMA_OF(bf16, "bf16")
MMA_OF(f16, "f16")
#undef MMA_OF
#endif

constexpr unsigned ALL_LANES = 0xffffffffu;

// Sums and maxima over a warp: every lane gets the result, the order is always the same.
template <class V>
__device__ __forceinline__ V warp_sum(V v) {
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(ALL_LANES, v, o);
  return v;
}
__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(ALL_LANES, v, o));
  return v;
}

// The same over a block. `scratch` is 32 values of shared memory, free again when the call returns.
template <class V>
__device__ __forceinline__ V block_sum(V v, V* scratch) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  v = warp_sum(v);
  if (lane == 0) scratch[warp] = v;
  __syncthreads();
  v = warp_sum(lane < warps ? scratch[lane] : V(0));
  __syncthreads();
  return v;
}
__device__ __forceinline__ float block_max(float v, float* scratch) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
  v = warp_max(v);
  if (lane == 0) scratch[warp] = v;
  __syncthreads();
  v = warp_max(lane < warps ? scratch[lane] : -INFINITY);
  __syncthreads();
  return v;
}
