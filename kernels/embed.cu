#include "common.cuh"

// Rows of the embedding table, a block for each:  out[row, i] = table[tokens[row], i]
// out [rows, hidden], table [vocab, hidden], tokens [rows]. A token outside of the table gives zeros.
template <class T>
__device__ __forceinline__ void embed(float* out, const T* table, const unsigned* tokens, int hidden, int vocab) {
  const unsigned token = tokens[blockIdx.x];
  const bool known = token < (unsigned)vocab;
  table += known ? (size_t)token * hidden : 0;
  out += (size_t)blockIdx.x * hidden;
  for (int i = threadIdx.x; i < hidden; i += blockDim.x) out[i] = known ? to_float(table[i]) : 0.f;
}

#define EMBED(SUFFIX, T)                                                                                     \
  KERNEL embed_##SUFFIX(float* out, const T* table, const unsigned* tokens, int hidden, int vocab) {         \
    embed<T>(out, table, tokens, hidden, vocab);                                                             \
  }
EMBED(f32, float)
EMBED(bf16, bf16)
EMBED(f16, f16)
