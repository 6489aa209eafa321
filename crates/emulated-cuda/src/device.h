// The CUDA C++ that the kernels use, as C++17: keywords, vectors, intrinsics. One at a time they are what
// the CUDA programming guide says; what it calls undefined stops the program (`fail`).
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#ifdef __F16C__
#include <immintrin.h>
#endif

#include "block.h"

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __shared__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define KERNEL extern "C" void
#define DYNAMIC_SHARED(T, name) T* name = reinterpret_cast<T*>(emulated::shared_memory)

#define threadIdx (emulated::current->index)
#define blockIdx (emulated::block_index)
#define blockDim (emulated::block_size)
#define gridDim (emulated::grid_size)

using std::isnan;
using std::max;
using std::min;

// clang-format off
struct alignas(8) int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) double2 { double x, y; };
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }
// clang-format on

namespace emulated {

template <class To, class From>
inline To bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

inline unsigned lane() { return current->number & 31; }

inline unsigned short narrow_bf16(float v) {
  const uint32_t u = bits<uint32_t>(v);
  if (v != v) return 0x7FFF;
  return (unsigned short)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}
inline float widen_bf16(unsigned short v) { return bits<float>((uint32_t)v << 16); }
inline unsigned short narrow_f16(float v) {
  if (v != v) return 0x7FFF;
#ifdef __F16C__
  return _cvtss_sh(v, _MM_FROUND_TO_NEAREST_INT);
#else
  const uint32_t sign = bits<uint32_t>(v) >> 16 & 0x8000, u = bits<uint32_t>(v) & 0x7FFFFFFF;
  const float magnitude = bits<float>(u);
  uint32_t rounded = 0x7C00;                                                    // infinite
  if (magnitude < 0x1p-14f) rounded = (uint32_t)nearbyintf(magnitude * 0x1p24f);  // multiples of 2^-24
  else if (magnitude < 65520.f) rounded = (u - (112 << 23) + 0xFFF + (u >> 13 & 1)) >> 13;
  return (unsigned short)(sign | rounded);
#endif
}
inline float widen_f16(unsigned short v) {
#ifdef __F16C__
  return _cvtsh_ss(v);
#else
  const uint32_t sign = (v & 0x8000u) << 16, exponent = v >> 10 & 31, fraction = v & 1023u;
  if (exponent == 0) return bits<float>(sign | bits<uint32_t>((float)fraction * 0x1p-24f));
  return bits<float>(sign | (exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13);
#endif
}

// A lane's part of a shuffle: its own value, the lane to read from, and the value read there.
template <class T>
struct Exchange {
  T mine;
  unsigned from;
  T result;
};
template <class T>
inline T shuffle(unsigned mask, T value, unsigned from) {
  Exchange<T> exchange{value, from, value};
  collective(mask, &exchange, [](void* const* brought, unsigned lanes) {
    for (unsigned left = lanes; left; left &= left - 1) {
      const unsigned lane = (unsigned)__builtin_ctz(left);
      auto* to = static_cast<Exchange<T>*>(brought[lane]);
      if (!(lanes >> to->from & 1)) fail("lane %u reads lane %u, which does not take part in the shuffle", lane, to->from);
      to->result = static_cast<Exchange<T>*>(brought[to->from])->mine;
    }
  });
  return exchange.result;
}

// Folds the values of all lanes of the mask, in the order of the lanes; every lane gets the result.
template <class T, T (*FOLD)(T, T)>
inline T reduce(unsigned mask, T value) {
  collective(mask, &value, [](void* const* brought, unsigned lanes) {
    T all = *static_cast<T*>(brought[__builtin_ctz(lanes)]);
    for (unsigned left = lanes & (lanes - 1); left; left &= left - 1) all = FOLD(all, *static_cast<T*>(brought[__builtin_ctz(left)]));
    for (unsigned left = lanes; left; left &= left - 1) *static_cast<T*>(brought[__builtin_ctz(left)]) = all;
  });
  return value;
}
// clang-format off
template <class T> inline T fold_add(T a, T b) { return a + b; }
template <class T> inline T fold_and(T a, T b) { return a & b; }
template <class T> inline T fold_or(T a, T b) { return a | b; }
template <class T> inline T fold_xor(T a, T b) { return a ^ b; }
template <class T> inline T fold_min(T a, T b) { return a < b ? a : b; }
template <class T> inline T fold_max(T a, T b) { return a < b ? b : a; }
// clang-format on

// mma.sync.m16n8k16 with the fragments that common.cuh describes. The last lane multiplies for all; products
// are exact, sums are rounded to float one after the other (real tensor cores differ in the last bits).
struct Fragments {
  float* d;
  const unsigned *a, *b;
};
template <float (*WIDEN)(unsigned short)>
inline void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  Fragments fragments{d, a, b};
  collective(~0u, &fragments, [](void* const* brought, unsigned lanes) {
    if (lanes != ~0u) fail("mma by lanes 0x%x, not by the whole warp", lanes);
    float left[16][16], right[16][8], sum[16][8];
    for (int lane = 0; lane < 32; lane++) {
      const auto& f = *static_cast<Fragments*>(brought[lane]);
      const int g = lane / 4, t = lane % 4 * 2;
      for (int half = 0; half < 2; half++) {
        for (int r = 0; r < 4; r++) left[g + (r & 1) * 8][t + half + (r >> 1) * 8] = WIDEN((unsigned short)(f.a[r] >> 16 * half));
        for (int r = 0; r < 2; r++) right[t + half + r * 8][g] = WIDEN((unsigned short)(f.b[r] >> 16 * half));
        for (int r = 0; r < 2; r++) sum[g + r * 8][t + half] = f.d[2 * r + half];
      }
    }
    for (int i = 0; i < 16; i++)
      for (int k = 0; k < 16; k++)
        for (int j = 0; j < 8; j++) sum[i][j] += left[i][k] * right[k][j];
    for (int lane = 0; lane < 32; lane++) {
      const auto& f = *static_cast<Fragments*>(brought[lane]);
      for (int r = 0; r < 4; r++) f.d[r] = sum[lane / 4 + (r >> 1) * 8][lane % 4 * 2 + (r & 1)];
    }
  });
}
inline void mma_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) { mma<widen_bf16>(d, a, b); }
inline void mma_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) { mma<widen_f16>(d, a, b); }

}  // namespace emulated

// Barriers.
inline void __syncthreads() { emulated::barrier(false); }
inline int __syncthreads_count(int vote) { return (int)emulated::barrier(vote != 0); }
inline int __syncthreads_or(int vote) { return emulated::barrier(vote != 0) != 0; }
inline int __syncthreads_and(int vote) { return emulated::barrier(vote == 0) == 0; }
inline void __syncwarp(unsigned mask = ~0u) {
  emulated::collective(mask, nullptr, [](void* const*, unsigned) {});
}
inline void __threadfence() {}
inline void __threadfence_block() {}

// Shuffles. `width` is a power of two; lanes see those of their own group of so many.
template <class T>
inline T __shfl_sync(unsigned mask, T v, int from, int width = 32) {
  const unsigned group = emulated::lane() & ~(unsigned)(width - 1);
  return emulated::shuffle(mask, v, group | ((unsigned)from & (unsigned)(width - 1)));
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T v, int with, int width = 32) {
  const unsigned lane = emulated::lane(), from = lane ^ (unsigned)with;
  return emulated::shuffle(mask, v, from / (unsigned)width > lane / (unsigned)width ? lane : from);
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32) {
  const unsigned lane = emulated::lane(), from = lane + by;
  return emulated::shuffle(mask, v, from / (unsigned)width == lane / (unsigned)width ? from : lane);
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32) {
  const unsigned lane = emulated::lane(), from = lane - by;
  return emulated::shuffle(mask, v, by <= lane % (unsigned)width ? from : lane);
}

// Votes and reductions.
inline unsigned __ballot_sync(unsigned mask, int vote) {
  return emulated::reduce<unsigned, emulated::fold_or<unsigned>>(mask, vote ? 1u << emulated::lane() : 0);
}
inline int __any_sync(unsigned mask, int vote) { return emulated::reduce<int, emulated::fold_or<int>>(mask, vote != 0); }
inline int __all_sync(unsigned mask, int vote) { return emulated::reduce<int, emulated::fold_and<int>>(mask, vote != 0); }
#define EMULATED_REDUCE(NAME, T) \
  inline T __reduce_##NAME##_sync(unsigned mask, T v) { return emulated::reduce<T, emulated::fold_##NAME<T>>(mask, v); }
EMULATED_REDUCE(add, unsigned)
EMULATED_REDUCE(add, int)
EMULATED_REDUCE(min, unsigned)
EMULATED_REDUCE(min, int)
EMULATED_REDUCE(max, unsigned)
EMULATED_REDUCE(max, int)
EMULATED_REDUCE(and, unsigned)
EMULATED_REDUCE(or, unsigned)
EMULATED_REDUCE(xor, unsigned)
#undef EMULATED_REDUCE

// Atomics on integers: one thread runs at a time, so plain operations do. They return the old value.
template <class T>
inline T emulated_swap(T* at, T value) {
  static_assert(std::is_integral<T>::value, "sums of floats would have no fixed order");
  const T old = *at;
  *at = value;
  return old;
}
// clang-format off
template <class T, class V> inline T atomicAdd(T* at, V v) { return emulated_swap(at, T(*at + v)); }
template <class T, class V> inline T atomicMin(T* at, V v) { return emulated_swap(at, std::min(*at, T(v))); }
template <class T, class V> inline T atomicMax(T* at, V v) { return emulated_swap(at, std::max(*at, T(v))); }
template <class T, class V> inline T atomicAnd(T* at, V v) { return emulated_swap(at, T(*at & v)); }
template <class T, class V> inline T atomicOr(T* at, V v) { return emulated_swap(at, T(*at | v)); }
template <class T, class V> inline T atomicExch(T* at, V v) { return emulated_swap(at, T(v)); }
template <class T, class U, class V> inline T atomicCAS(T* at, U expected, V v) { return emulated_swap(at, *at == T(expected) ? T(v) : *at); }

// Arithmetic.
inline float __int_as_float(int v) { return emulated::bits<float>(v); }
inline float __uint_as_float(unsigned v) { return emulated::bits<float>(v); }
inline int __float_as_int(float v) { return emulated::bits<int>(v); }
inline unsigned __float_as_uint(float v) { return emulated::bits<unsigned>(v); }
inline long long __double_as_longlong(double v) { return emulated::bits<long long>(v); }
inline double __longlong_as_double(long long v) { return emulated::bits<double>(v); }
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __clz(int v) { return v ? __builtin_clz((unsigned)v) : 32; }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline unsigned __brev(unsigned v) { unsigned r = 0; for (int i = 0; i < 32; i++) r |= (v >> i & 1) << (31 - i); return r; }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) { return (unsigned long long)((unsigned __int128)a * b >> 64); }
inline float rsqrtf(float v) { return 1.f / sqrtf(v); }
inline float __expf(float v) { return expf(v); }
inline float __logf(float v) { return logf(v); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float v) { return 1.f / v; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float v) { return sqrtf(v); }
// These functions are not inlined, so that the compiler cannot fuse the operation with another one.
__attribute__((noinline)) inline float __fmul_rn(float a, float b) { return a * b; }
__attribute__((noinline)) inline float __fadd_rn(float a, float b) { return a + b; }
__attribute__((noinline)) inline double __dmul_rn(double a, double b) { return a * b; }
__attribute__((noinline)) inline double __dadd_rn(double a, double b) { return a + b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
template <class T> inline T __ldg(const T* at) { return *at; }
template <class T> inline T __ldcs(const T* at) { return *at; }
template <class T> inline T __ldcg(const T* at) { return *at; }
template <class T> inline void __stcs(T* at, T v) { *at = v; }
template <class T> inline void __stcg(T* at, T v) { *at = v; }
// clang-format on
