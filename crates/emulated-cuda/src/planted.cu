// Kernels with errors, which the tests of this crate expect to be found, and one without.
#include "common.cuh"

KERNEL planted_increment(unsigned* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += 1;
}

// Block of 256: each thread passes its value to the next one. `barrier` 0: without waiting for it.
KERNEL planted_turn(unsigned* x, int barrier) {
  __shared__ unsigned values[256];
  values[threadIdx.x] = x[threadIdx.x];
  if (barrier) __syncthreads();
  x[threadIdx.x] = values[(threadIdx.x + 255) % 256];
}

KERNEL planted_write(unsigned char* x, int at) { x[at] = 0; }

KERNEL planted_shuffle(unsigned* x) {
  if (threadIdx.x < 16) x[threadIdx.x] = __shfl_xor_sync(ALL_LANES, threadIdx.x, 1);
  else __syncthreads();
}

// Lanes in pairs, each pair as often as its number, then all: what a warp may do.
KERNEL planted_pairs(unsigned* x) {
  const unsigned pair = threadIdx.x / 2, mask = 3u << pair * 2;
  unsigned sum = 0;
  for (unsigned i = 0; i <= pair; i++) sum += __shfl_xor_sync(mask, threadIdx.x, 1);
  x[threadIdx.x] = warp_sum(sum);
}
