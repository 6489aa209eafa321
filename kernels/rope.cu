#include "common.cuh"

// Cosines and sines of each row's position, once for all layers, a block for each row:
//   out [rows][cos: half | sin: half], positions [rows], frequencies [half]
// The angle is rounded to float before cosine and sine are taken in double: so it was when the checkpoints
// were trained.
KERNEL rope_angles(float* out, const unsigned* positions, const float* frequencies, float scale, int half) {
  const float position = (float)positions[blockIdx.x];
  out += (size_t)blockIdx.x * 2 * half;
  for (int i = threadIdx.x; i < half; i += blockDim.x) {
    double sine, cosine;
    sincos((double)__fmul_rn(position, frequencies[i]), &sine, &cosine);
    out[i] = (float)cosine * scale;
    out[half + i] = (float)sine * scale;
  }
}

// Turns queries and keys in place, and writes keys and values to their page. A block for each head of a row, grid
// (rows, heads + 2 kv_heads). Of the first 2 half elements of a head, element i turns with element i + half.
//   qkv [rows, stride]: [queries: heads | keys: kv_heads | values: kv_heads] of head_dim each
//   kv [pages][layers][kv_heads]{ K [page_size][head_dim], V [head_dim][page_size] }
//   angles [rows][cos: half | sin: half], slots [rows][page, offset in it]
// What belongs to a page or an offset that is not there is not written.
template <class S>
__device__ __forceinline__ void rope_kv(float* qkv, S* kv, const float* angles, const unsigned* slots, int stride, int heads,
                                        int kv_heads, int head_dim, int half, int page_size, int layers, int layer,
                                        int pages) {
  const int row = blockIdx.x, head = blockIdx.y;
  const bool is_key = head >= heads && head < heads + kv_heads, is_value = head >= heads + kv_heads;
  float* x = qkv + (size_t)row * stride + (size_t)head * head_dim;

  const unsigned page = slots[2 * row], offset = slots[2 * row + 1];
  const bool stored = page < (unsigned)pages && offset < (unsigned)page_size;
  const int kv_head = (head - heads) % kv_heads;
  S* keys = kv;
  if (stored && (is_key || is_value))
    keys += (((size_t)page * layers + layer) * kv_heads + kv_head) * 2 * page_size * head_dim;

  if (is_value) {
    S* values = keys + (size_t)page_size * head_dim;
    if (stored)
      for (int i = threadIdx.x; i < head_dim; i += blockDim.x) values[(size_t)i * page_size + offset] = from_float<S>(x[i]);
    return;
  }
  keys += is_key && stored ? (size_t)offset * head_dim : 0;
  const float* cosines = angles + (size_t)row * 2 * half;
  for (int i = threadIdx.x; i < half; i += blockDim.x) {
    const float a = x[i], b = x[i + half], c = cosines[i], s = cosines[half + i];
    const float low = a * c - b * s, high = b * c + a * s;
    x[i] = low;
    x[i + half] = high;
    if (is_key && stored) {
      keys[i] = from_float<S>(low);
      keys[i + half] = from_float<S>(high);
    }
  }
  if (is_key && stored)
    for (int i = 2 * half + threadIdx.x; i < head_dim; i += blockDim.x) keys[i] = from_float<S>(x[i]);
}

#define ROPE_KV(SUFFIX, S)                                                                                         \
  KERNEL rope_kv_##SUFFIX(float* qkv, S* kv, const float* angles, const unsigned* slots, int stride, int heads,    \
                          int kv_heads, int head_dim, int half, int page_size, int layers, int layer, int pages) { \
    rope_kv<S>(qkv, kv, angles, slots, stride, heads, kv_heads, head_dim, half, page_size, layers, layer, pages);  \
  }
ROPE_KV(f32, float)
ROPE_KV(bf16, bf16)
ROPE_KV(f16, f16)
