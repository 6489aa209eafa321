#include "copy.cuh"

// Causal attention of rows over paged keys and values, with grouped query heads, in two launches: partial results over
// segments of 256 positions, then their sum.
//
// An item is a segment and some rows that see the same pages in it (branches of a tree, tokens of a prompt): keys and
// values are read once for all of them. Items are [item_count][6] ints:
//   table     where the page of position 0 would be in `tables`; the pages of `from` to `to` are there
//   from, to  the item's positions, `to` not included; no others are read
//   first     the first of the item's rows in `members`
//   count     the number of its rows
//   part      the first of their partial results
// A row sees the positions p < lens[row], and with a window only those with p >= lens[row] - window.
//
//   q         [rows] float, `q_stride` apart: a row begins with its [heads][head_dim] queries; head h reads
//             key-value head h / (heads / kv_heads)
//   kv        [pages][layers][kv_heads] { K [page_size][head_dim], V [head_dim][page_size] } S
//   parts     [partials][heads][head_dim + 2] float: the sum of weights times values, the largest score, the sum of the
//             weights. Weights are 2^(score - largest), scores scale * log2(e) * q k. Nothing seen: 0, -INFINITY, 0
//
// A row's partial result does not depend on the other rows of its item: positions that the row does not see have weight 0.
namespace attention {

constexpr int SEGMENT = 256, ITEM = 6;
constexpr float LOG2_E = 1.4426950408889634f;

struct Item {
  int table, from, to, first, count, part;
};
__device__ __forceinline__ Item item_at(const int* items, int index) {
  const int* at = items + (size_t)index * ITEM;
  return {at[0], at[1], at[2], at[3], at[4], at[5]};
}

// First position that a row with `len` positions sees.
__device__ __forceinline__ int first_seen(int len, int window) { return window > 0 ? max(len - window, 0) : 0; }

// On tensor cores, for 16-bit keys and values of head_dim 64, 96 or 128. page_size is a multiple of 16, and at most 64
// heads share a key-value head. Grid (at least the items, kv_heads). A block has 64 queries, 16 for each warp, and goes
// over 64 positions at a time. With at most 32 (16) queries, 2 (4) warps share 16 queries: each computes the scores of some
// positions and the output of a part of head_dim, in the same order as a single warp would. Positions are permuted so
// that a lane has the scores of eight neighbours: these are the weights that it needs for values read with one load.
constexpr int POSITIONS = 64, THREADS = 128, PLACES = 16;

template <class S, int D>
__device__ __forceinline__ void tensor(float* parts, const float* q, int q_stride, const S* kv, const unsigned* tables,
                                       const int* items, const int* item_count, const unsigned* members,
                                       const unsigned* lens, int heads, int kv_heads, int page_size, int layers, int layer,
                                       int window, float scale) {
  constexpr int C = D / 32;                       // runs of 32 of head_dim
  __shared__ uint4 keys[C][POSITIONS][4];         // 32 of head_dim in a row, for each position
  __shared__ uint4 values[POSITIONS / 32][D][4];  // 32 positions in a row
  __shared__ float4 scores[2][POSITIONS / 8][32];  // what warps that share queries tell each other
  __shared__ const S* places[SEGMENT / PLACES];    // the keys of each 16 positions of the segment; null if not seen
  __shared__ const S* value_places[SEGMENT / PLACES];
  if ((int)blockIdx.x >= *item_count) return;
  const Item item = item_at(items, blockIdx.x);
  const int kv_head = blockIdx.y, group = heads / kv_heads, queries = item.count * group;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  const int segment = item.from & -SEGMENT, to = item.to;
  const int ways = queries <= 16 ? 4 : queries <= 32 ? 2 : 1, set = warp / ways, share = warp % ways;

  for (int i = threadIdx.x; i < SEGMENT / PLACES; i += THREADS) {
    const int p = segment + i * PLACES;
    places[i] = value_places[i] = nullptr;
    if (p + PLACES <= item.from || p >= to) continue;
    const size_t page = tables[item.table + p / page_size];
    const S* base = kv + ((page * layers + layer) * kv_heads + kv_head) * 2 * page_size * D;
    places[i] = base + (p % page_size) * D;
    value_places[i] = base + page_size * D + p % page_size;
  }

  __syncthreads();

  // Positions that no row sees are filled with 0, because their memory may hold NaN, and 0 times NaN is NaN. (Some
  // positions before `from`, in the same page, are read along.)
  auto copy_keys = [&](int start) {
    const int thread = now(threadIdx.x);
#pragma unroll
    for (int i = 0; i < POSITIONS * D / 8 / THREADS; i++) {
      const unsigned unit = i * THREADS + thread, position = unit / (D / 8), part = unit % (D / 8);
      const unsigned p = start + position;
      const S* place = places[p % SEGMENT / PLACES];
      const bool seen = place && (int)p < to;
      copy_async(&keys[part / 4][position][part % 4], seen ? place + p % PLACES * D + part * 8 : kv, seen ? 16 : 0);
    }
    copy_commit();
  };
  auto copy_values = [&](int start) {
    const int thread = now(threadIdx.x);
#pragma unroll
    for (int i = 0; i < POSITIONS * D / 8 / THREADS; i++) {
      const unsigned unit = i * THREADS + thread, d = unit / (POSITIONS / 8), part = unit % (POSITIONS / 8);
      const unsigned p = start + part * 8;
      const S* place = value_places[p % SEGMENT / PLACES];
      const int seen = place ? min(max(to - (int)p, 0), 8) : 0;
      copy_async(&values[part / 4][d][part % 4], seen > 0 ? place + d * page_size + p % PLACES : kv, 2 * seen);
    }
    copy_commit();
  };

  int start = item.from & -POSITIONS;
  copy_keys(start);
  copy_values(start);

  // This lane's queries: g and g + 8 of its set of 16. Of each 32 of head_dim a lane takes 8t .. 8t+7.
  unsigned query[C][2][4];
  int len[2], low[2];  // the end and the begin of what it sees, relative to the lane's first position
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const int index = set * 16 + 8 * i + g, member = index / group;
    const bool there = index < queries;
    const unsigned row = there ? members[item.first + member] : 0;
    const int head = kv_head * group + index - member * group;
    len[i] = (there ? (int)lens[row] : 0) - 8 * t;
    low[i] = window > 0 ? len[i] - window : -8 * t;
    const float* from = q + (size_t)row * q_stride + head * D + 8 * t;
#pragma unroll
    for (int c = 0; c < C; c++) {
      float4 a = make_float4(0.f, 0.f, 0.f, 0.f), b = a;
      if (there) {
        a = *reinterpret_cast<const float4*>(from + 32 * c);
        b = *reinterpret_cast<const float4*>(from + 32 * c + 4);
      }
      query[c][0][i] = pack(from_float<S>(a.x), from_float<S>(a.y));
      query[c][0][2 + i] = pack(from_float<S>(a.z), from_float<S>(a.w));
      query[c][1][i] = pack(from_float<S>(b.x), from_float<S>(b.y));
      query[c][1][2 + i] = pack(from_float<S>(b.z), from_float<S>(b.w));
    }
  }
  float out[D / 8][4], most[2] = {-INFINITY, -INFINITY}, sum[2] = {0.f, 0.f};
#pragma unroll
  for (int n = 0; n < D / 8; n++)
#pragma unroll
    for (int i = 0; i < 4; i++) out[n][i] = 0.f;
  const bool active = set * 16 < queries;
  auto scores_here = [&](int n) { return n * ways / (POSITIONS / 8) == share; };
  auto out_here = [&](int n) { return n * ways / (D / 8) == share; };
  const float factor = scale * LOG2_E;
  for (; start < to; start += POSITIONS) {
    float score[POSITIONS / 8][4];
    copy_wait<1>();
    __syncthreads();  // keys are here
    if (active) {
      // Column 2c + e of tile j of a half is position 8c + 2j + e of its 32.
#pragma unroll
      for (int n = 0; n < POSITIONS / 8; n++) {
        if (!scores_here(n)) continue;
        const int position = n / 4 * 32 + 8 * (g >> 1) + 2 * (n % 4) + (g & 1);
#pragma unroll
        for (int i = 0; i < 4; i++) score[n][i] = 0.f;
#pragma unroll
        for (int c = 0; c < C; c++) {
          const uint4 key = keys[c][position][t];
          const unsigned k0[2] = {key.x, key.y}, k1[2] = {key.z, key.w};
          mma<S>(score[n], query[c][0], k0);
          mma<S>(score[n], query[c][1], k1);
        }
        if (ways > 1) scores[set][n][lane] = make_float4(score[n][0], score[n][1], score[n][2], score[n][3]);
      }
    }
    __syncthreads();  // keys are done with, scores are here
    if (start + POSITIONS < to)
      copy_keys(start + POSITIONS);
    else
      copy_commit();

    unsigned weight[POSITIONS / 16][4];
    if (active) {
#pragma unroll
      for (int n = 0; n < POSITIONS / 8; n++) {
        if (scores_here(n)) continue;
        const float4 v = scores[set][n][lane];
        score[n][0] = v.x, score[n][1] = v.y, score[n][2] = v.z, score[n][3] = v.w;
      }
#pragma unroll
      for (int i = 0; i < 2; i++) {
        float largest = most[i];
#pragma unroll
        for (int n = 0; n < POSITIONS / 8; n++)
#pragma unroll
          for (int e = 0; e < 2; e++) {
            const int p = start + n / 4 * 32 + 2 * (n % 4) + e;
            float& s = score[n][2 * i + e];
            s = p >= low[i] && p < len[i] ? s * factor : -INFINITY;
            largest = fmaxf(largest, s);
          }
        largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, 2));
        const float zero = largest == -INFINITY ? 0.f : largest, shrink = exp2f(most[i] - zero);
        most[i] = largest;
        sum[i] *= shrink;
#pragma unroll
        for (int n = 0; n < POSITIONS / 8; n++)
#pragma unroll
          for (int e = 0; e < 2; e++) {
            float& s = score[n][2 * i + e];
            s = exp2f(s - zero);
            sum[i] += s;
          }
#pragma unroll
        for (int n = 0; n < D / 8; n++) {
          out[n][2 * i] *= shrink;
          out[n][2 * i + 1] *= shrink;
        }
      }
#pragma unroll
      for (int n = 0; n < POSITIONS / 8; n++) {
        weight[n / 2][n % 2 * 2] = pack(nearest<S>(score[n][0]), nearest<S>(score[n][1]));
        weight[n / 2][n % 2 * 2 + 1] = pack(nearest<S>(score[n][2]), nearest<S>(score[n][3]));
      }
    }
    copy_wait<1>();
    __syncthreads();  // values are here
    if (active) {
#pragma unroll
      for (int half = 0; half < POSITIONS / 32; half++)
#pragma unroll
        for (int n = 0; n < D / 8; n++) {
          if (!out_here(n)) continue;
          const uint4 value = values[half][8 * n + g][t];
          const unsigned v0[2] = {value.x, value.y}, v1[2] = {value.z, value.w};
          mma<S>(out[n], weight[2 * half], v0);
          mma<S>(out[n], weight[2 * half + 1], v1);
        }
    }
    __syncthreads();  // values are done with
    if (start + POSITIONS < to)
      copy_values(start + POSITIONS);
    else
      copy_commit();
  }

  if (!active) return;
  // Computed again, so that no registers are taken in the loop.
  const Item written = item_at(items, now(blockIdx.x));
  const int thread = now(threadIdx.x), column = thread % 4 * 2, each = now(heads) / kv_heads;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    sum[i] += __shfl_xor_sync(ALL_LANES, sum[i], 1);
    sum[i] += __shfl_xor_sync(ALL_LANES, sum[i], 2);
    const int index = thread / 32 / ways * 16 + 8 * i + thread % 32 / 4, member = index / each;
    if (index >= written.count * each) continue;
    const int head = blockIdx.y * each + index - member * each;
    float* to_part = parts + ((size_t)(written.part + member) * heads + head) * (D + 2);
#pragma unroll
    for (int n = 0; n < D / 8; n++) {
      if (out_here(n))
        *reinterpret_cast<float2*>(to_part + 8 * n + column) = make_float2(out[n][2 * i], out[n][2 * i + 1]);
    }
    if (share == 0 && column == 0) *reinterpret_cast<float2*>(to_part + D) = make_float2(most[i], sum[i]);
  }
}

// Any type, head_dim and page_size, without tensor cores: a warp for each query, 32 positions at a time. Grid as above;
// dynamic shared memory [4 warps][2][head_dim] float.
template <class S>
__device__ __forceinline__ void any(float* parts, const float* q, int q_stride, const S* kv, const unsigned* tables,
                                    const int* items, const int* item_count, const unsigned* members,
                                    const unsigned* lens, int heads, int kv_heads, int head_dim, int page_size, int layers,
                                    int layer, int window, float scale) {
  constexpr int WARPS = THREADS / 32;
  DYNAMIC_SHARED(float, shared);
  __shared__ float weights[WARPS][32];
  __shared__ const S* places[WARPS][32];
  if ((int)blockIdx.x >= *item_count) return;
  const Item item = item_at(items, blockIdx.x);
  const int kv_head = blockIdx.y, group = heads / kv_heads;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const float factor = scale * LOG2_E;
  float *query = shared + warp * 2 * head_dim, *sums = query + head_dim;
  for (int index = warp; index < item.count * group; index += WARPS) {
    const int member = index / group, head = kv_head * group + index % group;
    const unsigned row = members[item.first + member];
    const int low = max(first_seen(lens[row], window), item.from), high = min((int)lens[row], item.to);
    __syncwarp();
    for (int d = lane; d < head_dim; d += 32) {
      query[d] = q[(size_t)row * q_stride + (size_t)head * head_dim + d];
      sums[d] = 0.f;
    }
    float most = -INFINITY, sum = 0.f;
    for (int start = low & -32; start < high; start += 32) {
      const int p = start + lane;
      const bool seen = p >= low && p < high;
      float score = -INFINITY;
      __syncwarp();
      if (seen) {
        const size_t page = tables[item.table + p / page_size];
        const S* base = kv + ((page * layers + layer) * kv_heads + kv_head) * 2 * page_size * head_dim;
        const S* key = base + (size_t)(p % page_size) * head_dim;
        places[warp][lane] = base + (size_t)page_size * head_dim + p % page_size;
        float dot = 0.f;
        for (int d = 0; d < head_dim; d++) dot = fmaf(query[d], to_float(key[d]), dot);
        score = dot * factor;
      }
      const float largest = fmaxf(most, warp_max(score)), shrink = exp2f(most - largest);
      const float weight = seen ? exp2f(score - largest) : 0.f;
      most = largest;
      sum = sum * shrink + warp_sum(weight);
      weights[warp][lane] = weight;
      __syncwarp();
      const int begin = max(low - start, 0), end = min(high - start, 32);
      for (int d = lane; d < head_dim; d += 32) {
        float value = sums[d] * shrink;
        for (int j = begin; j < end; j++)
          value = fmaf(weights[warp][j], to_float(places[warp][j][(size_t)d * page_size]), value);
        sums[d] = value;
      }
    }
    float* to = parts + ((size_t)(item.part + member) * heads + head) * (head_dim + 2);
    for (int d = lane; d < head_dim; d += 32) to[d] = sums[d];
    if (lane == 0) {
      to[head_dim] = most;
      to[head_dim + 1] = sum;
    }
  }
}

// The sum of a row's partials in their order: those at row_parts[row_first[row] .. row_first[row + 1]]. Grid
// (rows, heads).   out [rows, heads * head_dim] T; 0 for a row without partials
template <class T>
__device__ __forceinline__ void merge(T* out, const float* parts, const int* row_first, const int* row_parts, int heads,
                                      int head_dim) {
  const int row = blockIdx.x, head = blockIdx.y, begin = row_first[row], end = row_first[row + 1];
  const size_t width = head_dim + 2;
  out += ((size_t)row * heads + head) * head_dim;
  parts += head * width;
  float most = -INFINITY;
#pragma unroll 4
  for (int i = begin; i < end; i++) most = fmaxf(most, parts[(size_t)row_parts[i] * heads * width + head_dim]);
  for (int d = threadIdx.x; d < head_dim; d += blockDim.x) {
    float value = 0.f, sum = 0.f;
#pragma unroll 4
    for (int i = begin; i < end; i++) {
      const float* part = parts + (size_t)row_parts[i] * heads * width;
      const float weight = most == -INFINITY ? 0.f : exp2f(part[head_dim] - most);
      value = fmaf(weight, part[d], value);
      sum = fmaf(weight, part[head_dim + 1], sum);
    }
    out[d] = from_float<T>(sum > 0.f ? value / sum : 0.f);
  }
}

}  // namespace attention

#define ATTENTION_TENSOR(SUFFIX, S, D, BLOCKS)                                                                          \
  KERNEL __launch_bounds__(attention::THREADS, BLOCKS)                                                                  \
      attention_##D##_##SUFFIX(float* parts, const float* q, int q_stride, const S* kv, const unsigned* tables,         \
                               const int* items, const int* item_count, const unsigned* members, const unsigned* lens, \
                               int heads, int kv_heads, int page_size, int layers, int layer, int window, float scale) { \
    attention::tensor<S, D>(parts, q, q_stride, kv, tables, items, item_count, members, lens, heads, kv_heads,          \
                            page_size, layers, layer, window, scale);                                                   \
  }
ATTENTION_TENSOR(bf16, bf16, 64, 4)
ATTENTION_TENSOR(bf16, bf16, 96, 3)
ATTENTION_TENSOR(bf16, bf16, 128, 3)
ATTENTION_TENSOR(f16, f16, 64, 4)
ATTENTION_TENSOR(f16, f16, 96, 3)
ATTENTION_TENSOR(f16, f16, 128, 3)

#define ATTENTION_ANY(SUFFIX, S)                                                                                        \
  KERNEL __launch_bounds__(attention::THREADS, 4)                                                                       \
      attention_any_##SUFFIX(float* parts, const float* q, int q_stride, const S* kv, const unsigned* tables,           \
                             const int* items, const int* item_count, const unsigned* members, const unsigned* lens,   \
                             int heads, int kv_heads, int head_dim, int page_size, int layers, int layer, int window,   \
                             float scale) {                                                                             \
    attention::any<S>(parts, q, q_stride, kv, tables, items, item_count, members, lens, heads, kv_heads, head_dim,      \
                      page_size, layers, layer, window, scale);                                                         \
  }
ATTENTION_ANY(f32, float)
ATTENTION_ANY(bf16, bf16)
ATTENTION_ANY(f16, f16)

#define ATTENTION_MERGE(SUFFIX, T)                                                                                      \
  KERNEL attention_merge_##SUFFIX(T* out, const float* parts, const int* row_first, const int* row_parts, int heads,   \
                                  int head_dim) {                                                                       \
    attention::merge<T>(out, parts, row_first, row_parts, heads, head_dim);                                             \
  }
ATTENTION_MERGE(f32, float)
ATTENTION_MERGE(bf16, bf16)
ATTENTION_MERGE(f16, f16)
