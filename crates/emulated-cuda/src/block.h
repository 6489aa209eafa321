// A block of CUDA threads on the CPU: a fiber for each thread, one of them running at a time.
#pragma once
#include <cstdint>

namespace emulated {

struct Index {
  unsigned x, y, z;
};

// A thread of the running block. `stack_pointer` is where it stopped.
struct Fiber {
  void* stack_pointer;
  Index index;
  unsigned number;
};

// The current thread (threadIdx), blockIdx, blockDim, gridDim, and dynamic shared memory.
extern Fiber* current;
extern Index block_index, block_size, grid_size;
extern unsigned char* shared_memory;

// Prints "emulated CUDA: ..." with the name of the running kernel, and aborts, because a real device's behaviour would
// be undefined.
[[noreturn, gnu::format(printf, 1, 2)]] void fail(const char* format, ...);

// Waits until all threads of the block that have not returned have arrived. Returns the number of threads with a true
// `vote`.
unsigned barrier(bool vote);

// An operation of a warp: waits until all lanes of `mask` that have not returned are here with the same
// `work`. The last of them runs it, on what each lane has brought; `lanes` says which lanes took part.
using Work = void (*)(void* const* brought, unsigned lanes);
void collective(unsigned mask, void* mine, Work work);

// A launch. All blocks run one after the other, in no particular order; so do the threads between their
// barriers, in another order with each EMULATED_CUDA_SEED (a number).
struct Launch {
  const char* name;
  void (*kernel)(void** arguments);
  void** arguments;
  Index grid, block;
  unsigned shared;
};
void run(const Launch& launch);

}  // namespace emulated
