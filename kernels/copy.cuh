// Copies from global memory that C++ cannot express. `copy_async` runs in the background. The copies of a thread up to
// a `copy_commit` are a group; `copy_wait<N>` waits until at most N groups of the calling thread are pending. After a
// barrier the other threads of the block see them.
#pragma once
#include "common.cuh"

#ifdef KERNEL_CPU_SHIM
#include <vector>

namespace emulated {
// Copies run as late as they may, and the destination holds NaN until then, so that tests find a missing wait.
struct Copy {
  void* to;
  const void* from;
  int bytes;
  bool last;  // ends a group
};
inline std::vector<Copy>& copies() {
  static std::vector<Copy> of_thread[1024];
  return of_thread[current->number];
}
inline void wait_copies(int left) {
  auto& waiting = copies();
  int groups = 0;
  for (const Copy& copy : waiting) groups += copy.last;
  size_t done = 0;
  while (groups > left) {
    const Copy& copy = waiting[done++];
    if (copy.to) {
      memset(copy.to, 0, 16);
      memcpy(copy.to, copy.from, (size_t)copy.bytes);
    }
    groups -= copy.last;
  }
  waiting.erase(waiting.begin(), waiting.begin() + (long)done);
}
}  // namespace emulated
#endif

// 16 bytes that this multiprocessor reads only once: they are not kept in its first-level cache, and the rest of their
// 128-byte line is fetched to the second-level cache.
__device__ __forceinline__ uint4 load_once(const void* at) {
#ifdef KERNEL_CPU_SHIM
  return *static_cast<const uint4*>(at);
#else
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(at));
  return v;
#endif
}

// 16 bytes of shared memory: the first `bytes` are those at `from`, the rest become 0.
__device__ __forceinline__ void copy_async(void* to, const void* from, int bytes = 16) {
#ifdef KERNEL_CPU_SHIM
  memset(to, 0xFF, 16);
  emulated::copies().push_back({to, from, bytes, false});
#else
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from),
               "r"(bytes)
               : "memory");
#endif
}
__device__ __forceinline__ void copy_commit() {
#ifdef KERNEL_CPU_SHIM
  emulated::copies().push_back({nullptr, nullptr, 0, true});
#else
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int LEFT>
__device__ __forceinline__ void copy_wait() {
#ifdef KERNEL_CPU_SHIM
  emulated::wait_copies(LEFT);
#else
  asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#endif
}

// The value, hidden from the compiler until here: what is computed from it takes no registers in a loop above.
__device__ __forceinline__ int now(int value) {
#ifndef KERNEL_CPU_SHIM
  asm volatile("" : "+r"(value));
#endif
  return value;
}
