#include "copy.cuh"

// out[r, n] (+)= bias[n] + sum over k of x[r, k] w[n, k];  linear_silu: with the gate of a SwiGLU block behind it
//   x [rows, inputs] T, w [outputs, inputs] T, bias [outputs] or null, out [rows, outputs] float, `add` 0 or 1
//
// Batch-invariant: the order of a sum depends on `inputs` and `groups` alone, whichever kernel runs. The inputs are cut
// into chunks of 32, neighbouring chunks into `groups` groups, and each group into SLICES slices. A slice is one chain of
// tensor-core multiplies, a group is the sum of its slices, and the result is (bias + out) + group 0 + group 1 + ...
//
// Within a chunk both operands are read as they lie in memory: lane t of four takes inputs 8t .. 8t+7 with one load. That
// makes two multiplies of 16 inputs, whose inputs are not in order, but in the same order for both operands.
namespace linear {

constexpr int CHUNK = 32, SLICES = 4;

// Where part `part` of `parts` of `count` begins.
__device__ __forceinline__ int cut(int count, int part, int parts) { return count * part / parts; }

// Four neighbouring outputs, of which `valid` exist; `whole` if one aligned access reaches all four.
__device__ __forceinline__ float4 load(const float* at, int valid, bool whole) {
  if (whole) return *reinterpret_cast<const float4*>(at);
  float4 v = make_float4(at[0], 0.f, 0.f, 0.f);
  if (valid > 1) v.y = at[1];
  if (valid > 2) v.z = at[2];
  if (valid > 3) v.w = at[3];
  return v;
}
__device__ __forceinline__ void store(float* at, float4 v, int valid, bool whole) {
  if (whole) {
    *reinterpret_cast<float4*>(at) = v;
    return;
  }
  at[0] = v.x;
  if (valid > 1) at[1] = v.y;
  if (valid > 2) at[2] = v.z;
  if (valid > 3) at[3] = v.w;
}
__device__ __forceinline__ float4 plus(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

// The same for numbers of 16 bits.
template <class T>
__device__ __forceinline__ void store4(T* at, T x, T y, T z, T w, int valid) {
  at[0] = x;
  if (valid > 1) at[1] = y;
  if (valid > 2) at[2] = z;
  if (valid > 3) at[3] = w;
}

// What the groups are added to: the bias, and what was in `out`.
__device__ __forceinline__ float4 start(const float* out, const float* bias, int n, int valid, bool whole, int add) {
  float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
  if (bias) v = load(bias + n, valid, whole);
  return add ? plus(v, load(out, valid, whole)) : v;
}

// The epilogue with GATE (SwiGLU): the first half of the outputs are the gates, the second half what they gate, and
//   out[r, i] = gate / (1 + e^-gate) * up      out [rows, outputs / 2] T; as kernels/silu.cu
template <class T>
__device__ __forceinline__ T gated(float gate, float up) {
  return from_float<T>(gate / (1.f + expf(-gate)) * up);
}

// For few rows: a block computes one group of 64 outputs (with GATE 32 gates and what they gate) and ROWS rows; each of
// its four warps computes a slice. Grid (row tiles, output tiles, groups). If there are several groups, the block of a tile
// that ends last adds them up from `parts` [groups, rows, output tiles * 64] float. `arrived` [output tiles, row tiles]
// counts the blocks that have ended, and is zero between launches.
constexpr int OUTPUTS = 64, THREADS = 32 * SLICES;

template <class T, int ROWS, bool GATE, class Out>
__device__ __forceinline__ void few(Out* out, float* parts, unsigned* arrived, const T* x, const T* w, const float* bias,
                                    int rows, int inputs, int outputs, int add) {
  constexpr int M = OUTPUTS / 16, N = ROWS / 8;         // tiles of 16 outputs and of 8 rows
  constexpr int DEPTH = ROWS <= 16 ? 2 : 1;             // chunks in registers
  constexpr bool AHEAD = ROWS >= 32;                    // the next chunk's rows, too
  constexpr int PASS = ROWS < 32 ? ROWS : 32;           // rows added up at a time
  constexpr int STRIDE = OUTPUTS + 4;                   // no two lanes write to one bank
  constexpr int RESULTS = GATE ? OUTPUTS / 2 : OUTPUTS;  // columns of `out`
  __shared__ float4 sums_memory[SLICES * PASS * STRIDE / 4];
  __shared__ unsigned ticket;
  float* sums = reinterpret_cast<float*>(sums_memory);

  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  const int width = GATE ? outputs / 2 : outputs;  // of `out`
  const int first_row = blockIdx.x * ROWS, first = blockIdx.y * RESULTS;
  // In units of 16 bytes. For rows and outputs that do not exist the last one is read again.
  const uint4* weights = reinterpret_cast<const uint4*>(w) + t;
  const uint4* row_values = reinterpret_cast<const uint4*>(x) + (size_t)first_row * (inputs / 8) + t;
  int weight_at[2 * M], row_at[N];
#pragma unroll
  for (int i = 0; i < 2 * M; i++) {
    const int up = 8 * i / RESULTS, column = min(first + 8 * i % RESULTS + g, width - 1);
    weight_at[i] = (up * width + column) * (inputs / 8);
  }
#pragma unroll
  for (int i = 0; i < N; i++) row_at[i] = min(8 * i + g, rows - 1 - first_row) * (inputs / 8);

  const int group = blockIdx.z, groups = gridDim.z, chunks = inputs / CHUNK;
  const int group_begin = cut(chunks, group, groups), length = cut(chunks, group + 1, groups) - group_begin;
  const int begin = group_begin + cut(length, warp, SLICES), end = group_begin + cut(length, warp + 1, SLICES);
  float acc[M][N][4];
#pragma unroll
  for (int m = 0; m < M; m++)
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
      for (int i = 0; i < 4; i++) acc[m][n][i] = 0.f;

  uint4 a[DEPTH][2 * M], b[DEPTH][N], next[N];
#pragma unroll
  for (int d = 0; d < DEPTH; d++) {
    if (begin + d >= end) continue;
#pragma unroll
    for (int i = 0; i < 2 * M; i++) a[d][i] = load_once(weights + weight_at[i] + 4 * (begin + d));
#pragma unroll
    for (int i = 0; i < N; i++) b[d][i] = __ldg(row_values + row_at[i] + 4 * (begin + d));
  }
  for (int chunk = begin; chunk < end; chunk += DEPTH) {
#pragma unroll
    for (int d = 0; d < DEPTH; d++) {
      const int later = chunk + d + DEPTH;
      if (chunk + d >= end) continue;
      if (AHEAD && later < end) {
#pragma unroll
        for (int i = 0; i < N; i++) next[i] = __ldg(row_values + row_at[i] + 4 * later);
      }
#pragma unroll
      for (int m = 0; m < M; m++) {
        const uint4 low = a[d][2 * m], high = a[d][2 * m + 1];
        const unsigned a0[4] = {low.x, high.x, low.y, high.y}, a1[4] = {low.z, high.z, low.w, high.w};
#pragma unroll
        for (int n = 0; n < N; n++) {
          const unsigned b0[2] = {b[d][n].x, b[d][n].y}, b1[2] = {b[d][n].z, b[d][n].w};
          mma<T>(acc[m][n], a0, b0);
          mma<T>(acc[m][n], a1, b1);
        }
        if (later < end) {
          a[d][2 * m] = load_once(weights + weight_at[2 * m] + 4 * later);
          a[d][2 * m + 1] = load_once(weights + weight_at[2 * m + 1] + 4 * later);
        }
      }
      if (later < end) {
#pragma unroll
        for (int i = 0; i < N; i++) b[d][i] = AHEAD ? next[i] : __ldg(row_values + row_at[i] + 4 * later);
      }
    }
  }

  // Four neighbouring results of a row, where `total(base, row, n)` adds all groups of column n of the tile to base.
  const bool whole = width % 4 == 0;
  auto finish = [&](int row, int n, auto total) {
    const int valid = width - first - n;
    if (row >= rows || valid <= 0) return;
    Out* to = out + (size_t)row * width + first + n;
    if constexpr (GATE) {
      const float4 zero = make_float4(0.f, 0.f, 0.f, 0.f), gate = total(zero, row, n), up = total(zero, row, n + RESULTS);
      store4(to, gated<T>(gate.x, up.x), gated<T>(gate.y, up.y), gated<T>(gate.z, up.z), gated<T>(gate.w, up.w), valid);
    } else {
      store(to, total(start(to, bias, first + n, valid, whole, add), row, n), valid, whole);
    }
  };
  const size_t part_width = (size_t)gridDim.y * OUTPUTS, part_first = (size_t)blockIdx.y * OUTPUTS;
#pragma unroll
  for (int pass = 0; pass < ROWS; pass += PASS) {
    if (pass > 0) __syncthreads();  // all threads have read the last pass
#pragma unroll
    for (int n = 0; n < PASS / 8; n++)
#pragma unroll
      for (int m = 0; m < M; m++)
#pragma unroll
        for (int i = 0; i < 4; i++)
          sums[(warp * PASS + 8 * n + 2 * t + (i & 1)) * STRIDE + 16 * m + g + 8 * (i >> 1)] = acc[m][pass / 8 + n][i];
    __syncthreads();
    auto slices = [&](int row, int n) {
      const float* from = sums + (row - first_row - pass) * STRIDE + n;
      float4 v = *reinterpret_cast<const float4*>(from);
#pragma unroll
      for (int slice = 1; slice < SLICES; slice++)
        v = plus(v, *reinterpret_cast<const float4*>(from + slice * PASS * STRIDE));
      return v;
    };
    if (groups == 1) {
      for (int i = threadIdx.x; i < PASS * RESULTS / 4; i += THREADS)
        finish(first_row + pass + i / (RESULTS / 4), i % (RESULTS / 4) * 4,
               [&](float4 base, int row, int n) { return plus(base, slices(row, n)); });
    } else {
      for (int i = threadIdx.x; i < PASS * OUTPUTS / 4; i += THREADS) {
        const int row = first_row + pass + i / (OUTPUTS / 4), n = i % (OUTPUTS / 4) * 4;
        if (row >= rows) continue;
        float* to = parts + ((size_t)group * rows + row) * part_width + part_first + n;
        *reinterpret_cast<float4*>(to) = slices(row, n);
      }
    }
  }
  if (groups == 1) return;

  __threadfence();  // other blocks see the parts before they see the count
  __syncthreads();
  unsigned* count = arrived + (size_t)blockIdx.y * gridDim.x + blockIdx.x;
  if (threadIdx.x == 0) ticket = atomicAdd(count, 1u);
  __syncthreads();
  if ((int)ticket + 1 != groups) return;
  if (threadIdx.x == 0) *count = 0;
  __threadfence();
  auto all_groups = [&](float4 v, int row, int n) {
    const float* from = parts + (size_t)row * part_width + part_first + n;
    for (int some = 0; some < groups; some += 8) {
      float4 part[8];
#pragma unroll
      for (int i = 0; i < 8; i++) {
        const int index = min(some + i, groups - 1);
        part[i] = __ldcg(reinterpret_cast<const float4*>(from + (size_t)index * rows * part_width));
      }
#pragma unroll
      for (int i = 0; i < 8; i++) {
        if (some + i < groups) v = plus(v, part[i]);
      }
    }
    return v;
  };
  for (int i = threadIdx.x; i < ROWS * RESULTS / 4; i += THREADS)
    finish(first_row + i / (RESULTS / 4), i % (RESULTS / 4) * 4, all_groups);
}

// For many rows: a block computes 128 outputs of 64 rows, each of its eight warps 32 x 32 of them. Chunks are copied to
// shared memory. Grid (row tiles, output tiles). With GATE, each warp has 16 gates and what they gate.
constexpr int MANY_OUTPUTS = 128, MANY_ROWS = 64, MANY_THREADS = 256, STAGES = 4;

template <class T, bool GATE, class Out>
__device__ __forceinline__ void many(Out* out, const T* x, const T* w, const float* bias, int rows, int inputs,
                                     int outputs, int groups, int add) {
  constexpr int LINES = MANY_OUTPUTS + MANY_ROWS, COPIES = LINES * 4 / MANY_THREADS, STEP = MANY_THREADS / 4;
  __shared__ uint4 stages[STAGES][LINES][4];  // a chunk of each output's weights, then of each row
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  const int warp_outputs = warp % 4 * 32, warp_rows = warp / 4 * 32;
  const int width = GATE ? outputs / 2 : outputs;  // of `out`
  const int first_row = blockIdx.x * MANY_ROWS, first = blockIdx.y * (GATE ? MANY_OUTPUTS / 2 : MANY_OUTPUTS);

  // What this thread copies of each chunk: a quarter of every 64th line.
  const int line = threadIdx.x / 4, quarter = threadIdx.x % 4;
  int from[COPIES];  // in units of 16 bytes
#pragma unroll
  for (int i = 0; i < COPIES; i++) {
    const int at = line + i * STEP;
    int index;
    if (i * STEP >= MANY_OUTPUTS)
      index = min(first_row + at - MANY_OUTPUTS, rows - 1);
    else if (GATE)
      index = at / 16 % 2 * width + min(first + at / 32 * 16 + at % 16, width - 1);
    else
      index = min(first + at, width - 1);
    from[i] = index * (inputs / 8) + quarter;
  }
  const int chunks = inputs / CHUNK;
  auto copy = [&](int chunk) {
    if (chunk < chunks) {
#pragma unroll
      for (int i = 0; i < COPIES; i++) {
        const uint4* base = reinterpret_cast<const uint4*>(i * STEP >= MANY_OUTPUTS ? x : w);
        copy_async(&stages[chunk % STAGES][line + i * STEP][quarter], base + from[i] + 4 * chunk);
      }
    }
    copy_commit();
  };
#pragma unroll
  for (int i = 0; i < STAGES - 1; i++) copy(i);

  float acc[2][4][4], sum[2][4][4], total[2][4][4];  // of a slice, of a group, of all (GATE only)
  int chunk = 0;
  for (int group = 0; group < groups; group++) {
    const int group_begin = cut(chunks, group, groups), length = cut(chunks, group + 1, groups) - group_begin;
    for (int slice = 0; slice < SLICES; slice++) {
#pragma unroll
      for (int m = 0; m < 2; m++)
#pragma unroll
        for (int n = 0; n < 4; n++)
#pragma unroll
          for (int i = 0; i < 4; i++) acc[m][n][i] = 0.f;
      const int end = group_begin + cut(length, slice + 1, SLICES);
#pragma unroll 1
      for (; chunk < end; chunk++) {
        copy_wait<STAGES - 2>();
        __syncthreads();  // the chunk has arrived, and all warps have finished the chunk before it
        copy(chunk + STAGES - 1);
        const uint4(*stage)[4] = stages[chunk % STAGES];
        uint4 a[4];
#pragma unroll
        for (int i = 0; i < 4; i++) a[i] = stage[warp_outputs + 8 * i + g][t];
#pragma unroll
        for (int n = 0; n < 4; n++) {
          const uint4 b = stage[MANY_OUTPUTS + warp_rows + 8 * n + g][t];
          const unsigned b0[2] = {b.x, b.y}, b1[2] = {b.z, b.w};
#pragma unroll
          for (int m = 0; m < 2; m++) {
            const uint4 low = a[2 * m], high = a[2 * m + 1];
            const unsigned a0[4] = {low.x, high.x, low.y, high.y}, a1[4] = {low.z, high.z, low.w, high.w};
            mma<T>(acc[m][n], a0, b0);
            mma<T>(acc[m][n], a1, b1);
          }
        }
      }
#pragma unroll
      for (int m = 0; m < 2; m++)
#pragma unroll
        for (int n = 0; n < 4; n++)
#pragma unroll
          for (int i = 0; i < 4; i++) sum[m][n][i] = slice == 0 ? acc[m][n][i] : sum[m][n][i] + acc[m][n][i];
    }
    if constexpr (GATE) {
#pragma unroll
      for (int m = 0; m < 2; m++)
#pragma unroll
        for (int n = 0; n < 4; n++)
#pragma unroll
          for (int i = 0; i < 4; i++) total[m][n][i] = (group == 0 ? 0.f : total[m][n][i]) + sum[m][n][i];
    } else {
      const int first_here = now(first_row + warp_rows + 2 * t), at_here = now(first + warp_outputs + g);
      // All of `out` that is added to is loaded before anything is stored, without a branch for each place: the loads are under
      // way together. What does not exist repeats the last row or output, and is not stored.
      float base[2][4][4];
#pragma unroll
      for (int m = 0; m < 2; m++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
          const int at = min(at_here + 8 * (i >> 1) + 16 * m, outputs - 1);
          const float first_term = group == 0 && bias ? bias[at] : 0.f;
#pragma unroll
          for (int n = 0; n < 4; n++) base[m][n][i] = first_term;
        }
      if (group > 0 || add) {
        float before[2][4][4];
#pragma unroll
        for (int n = 0; n < 4; n++)
#pragma unroll
          for (int i = 0; i < 4; i++) {
            const int row = min(first_here + 8 * n + (i & 1), rows - 1), at = at_here + 8 * (i >> 1);
#pragma unroll
            for (int m = 0; m < 2; m++) before[m][n][i] = out[(size_t)row * outputs + min(at + 16 * m, outputs - 1)];
          }
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
          for (int n = 0; n < 4; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) base[m][n][i] = group > 0 ? before[m][n][i] : base[m][n][i] + before[m][n][i];
      }
#pragma unroll
      for (int n = 0; n < 4; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
          const int row = first_here + 8 * n + (i & 1), at = at_here + 8 * (i >> 1);
#pragma unroll
          for (int m = 0; m < 2; m++) {
            if (row < rows && at + 16 * m < outputs) out[(size_t)row * outputs + at + 16 * m] = base[m][n][i] + sum[m][n][i];
          }
        }
    }
  }
  if constexpr (GATE) {
#pragma unroll
    for (int n = 0; n < 4; n++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int row = first_row + warp_rows + 8 * n + 2 * t + (i & 1);
        const int at = first + warp_outputs / 2 + g + 8 * (i >> 1);
        if (row < rows && at < width) out[(size_t)row * width + at] = gated<T>(total[0][n][i], total[1][n][i]);
      }
  }
}

// Any shape and type, without tensor cores: a warp for each output and 8 rows. Grid (row tiles, outputs / 8).
constexpr int ANY_ROWS = 8, ANY_OUTPUTS = 8;

template <class T>
__device__ __forceinline__ void any(float* out, const T* x, const T* w, const float* bias, int rows, int inputs,
                                    int outputs, int add) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int first = blockIdx.x * ANY_ROWS, n = blockIdx.y * ANY_OUTPUTS + warp;
  if (n >= outputs) return;
  w += (size_t)n * inputs;
  const T* row[ANY_ROWS];
  float acc[ANY_ROWS];
#pragma unroll
  for (int i = 0; i < ANY_ROWS; i++) {
    row[i] = x + (size_t)min(first + i, rows - 1) * inputs;
    acc[i] = 0.f;
  }
#pragma unroll 2
  for (int k = lane; k < inputs; k += 32) {
    const float weight = to_float(w[k]);
#pragma unroll
    for (int i = 0; i < ANY_ROWS; i++) acc[i] = fmaf(weight, to_float(row[i][k]), acc[i]);
  }
#pragma unroll
  for (int i = 0; i < ANY_ROWS; i++) {
    const float sum = warp_sum(acc[i]);
    if (lane != i || first + i >= rows) continue;
    float* to = out + (size_t)(first + i) * outputs + n;
    *to = (bias ? bias[n] : 0.f) + (add ? *to : 0.f) + sum;
  }
}

}  // namespace linear

#define LINEAR_FEW(SUFFIX, T, ROWS, BLOCKS)                                                                             \
  KERNEL __launch_bounds__(linear::THREADS, BLOCKS)                                                                     \
      linear_##ROWS##_##SUFFIX(float* out, float* parts, unsigned* arrived, const T* x, const T* w, const float* bias,  \
                               int rows, int inputs, int outputs, int add) {                                            \
    linear::few<T, ROWS, false>(out, parts, arrived, x, w, bias, rows, inputs, outputs, add);                           \
  }                                                                                                                     \
  KERNEL __launch_bounds__(linear::THREADS, BLOCKS)                                                                     \
      linear_silu_##ROWS##_##SUFFIX(T* out, float* parts, unsigned* arrived, const T* x, const T* w, int rows,          \
                                    int inputs, int outputs) {                                                          \
    linear::few<T, ROWS, true>(out, parts, arrived, x, w, nullptr, rows, inputs, outputs, 0);                           \
  }
#define LINEAR_TENSOR(SUFFIX, T)                                                                                        \
  LINEAR_FEW(SUFFIX, T, 8, 4)                                                                                           \
  LINEAR_FEW(SUFFIX, T, 16, 3)                                                                                          \
  LINEAR_FEW(SUFFIX, T, 32, 2)                                                                                          \
  LINEAR_FEW(SUFFIX, T, 64, 2)                                                                                          \
  KERNEL __launch_bounds__(linear::MANY_THREADS, 2)                                                                     \
      linear_many_##SUFFIX(float* out, const T* x, const T* w, const float* bias, int rows, int inputs, int outputs,    \
                           int groups, int add) {                                                                       \
    linear::many<T, false>(out, x, w, bias, rows, inputs, outputs, groups, add);                                        \
  }                                                                                                                     \
  KERNEL __launch_bounds__(linear::MANY_THREADS, 1)                                                                     \
      linear_silu_many_##SUFFIX(T* out, const T* x, const T* w, int rows, int inputs, int outputs, int groups) {        \
    linear::many<T, true>(out, x, w, nullptr, rows, inputs, outputs, groups, 0);                                        \
  }
#define LINEAR_ANY(SUFFIX, T)                                                                                           \
  KERNEL __launch_bounds__(256, 4)                                                                                      \
      linear_any_##SUFFIX(float* out, const T* x, const T* w, const float* bias, int rows, int inputs, int outputs,     \
                          int add) {                                                                                    \
    linear::any<T>(out, x, w, bias, rows, inputs, outputs, add);                                                        \
  }

LINEAR_TENSOR(bf16, bf16)
LINEAR_TENSOR(f16, f16)
LINEAR_ANY(f32, float)
LINEAR_ANY(bf16, bf16)
LINEAR_ANY(f16, f16)
