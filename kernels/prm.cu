#include "common.cuh"

// The read-out of a process reward model, as crates/prm/src/head.rs has it, and the choice of the best chains. All in double but
// what comes in and what goes out as a probability.

namespace prm {

constexpr int WARPS = 8, ROWS = 8;

__device__ __forceinline__ double entering(float v) { return v; }
// Between layers: ReLU. NaN becomes 0, as on the CPU.
__device__ __forceinline__ double entering(double v) { return v > 0 ? v : 0; }

// A warp for an output of 8 rows, whose weights it reads once.
template <class T>
__device__ __forceinline__ void layer(double* out, const T* x, const unsigned* rows, int x_rows, const float* weight,
                                      const float* bias, int count, int inputs, int outputs) {
  const int lane = threadIdx.x & 31, output = blockIdx.x * WARPS + (threadIdx.x >> 5), first = blockIdx.y * ROWS;
  if (output >= outputs) return;
  weight += (size_t)output * inputs;
  const T* from[ROWS];
  bool exists[ROWS];
#pragma unroll
  for (int j = 0; j < ROWS; j++) {
    // Behind the last row the first of the tile is read again and not written.
    const int r = first + j < count ? first + j : first;
    const unsigned source = rows ? rows[r] : (unsigned)r;
    exists[j] = source < (unsigned)x_rows;
    from[j] = x + (size_t)(exists[j] ? source : 0) * inputs;
  }
  double sums[ROWS] = {};
  for (int k = lane; k < inputs; k += 32) {
    const double w = weight[k];
#pragma unroll
    for (int j = 0; j < ROWS; j++) sums[j] += w * entering(from[j][k]);
  }
#pragma unroll
  for (int j = 0; j < ROWS; j++) {
    const double sum = warp_sum(sums[j]);
    if (lane == 0 && first + j < count)
      out[(size_t)(first + j) * outputs + output] = exists[j] ? sum + (bias ? (double)bias[output] : 0) : (double)__uint_as_float(0x7fffffffu);
  }
}

// The step scores of a chain, first step first, made one: minus infinity if there are none. In the order of `Aggregation` in
// crates/search/src/aggregation.rs.
enum Aggregation { MIN, PRODUCT, MEAN, LAST, MAX, SOFT_MIN };

__device__ __forceinline__ float aggregate(const float* scores, const unsigned* steps, unsigned from, unsigned to, int how,
                                           float temperature) {
  if (from == to) return -INFINITY;
  float least = scores[steps[from]], most = least;
  double product = 1, sum = 0;
  for (unsigned i = from; i < to; i++) {
    const float score = scores[steps[i]];
    least = fminf(least, score);
    most = fmaxf(most, score);
    product *= (double)score;
    sum += (double)score;
  }
  switch (how) {
    case MIN: return least;
    case PRODUCT: return (float)product;
    case MEAN: return (float)(sum / (double)(to - from));
    case LAST: return scores[steps[to - 1]];
    case MAX: return most;
    default: break;
  }
  // The mean weighted by e^(-score / temperature), relative to the least score so that no sum of weights is 0.
  double weights = 0;
  sum = 0;
  for (unsigned i = from; i < to; i++) {
    const double score = scores[steps[i]], weight = exp(((double)least - score) / (double)temperature);
    sum += weight * score;
    weights += weight;
  }
  return (float)(sum / weights);
}

// Whole numbers in the total order of floats.
__device__ __forceinline__ unsigned ordered(float v) {
  const unsigned bits = __float_as_uint(v);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

}  // namespace prm

// The first layer, from the hidden states of chosen rows: out[i] = weight hidden[rows[i]] + bias. NaN for a row that does not exist.
// Blocks of 256; grid (outputs / 8, count / 8).      out [count, outputs], hidden [hidden_rows, inputs], weight [outputs, inputs],
// bias [outputs] or null
KERNEL prm_head(double* out, const float* hidden, const unsigned* rows, int hidden_rows, const float* weight, const float* bias,
                int count, int inputs, int outputs) {
  prm::layer(out, hidden, rows, hidden_rows, weight, bias, count, inputs, outputs);
}

// A further layer: out[i] = weight relu(x[i]) + bias. As prm_head.      x [count, inputs]
KERNEL prm_layer(double* out, const double* x, const float* weight, const float* bias, int count, int inputs, int outputs) {
  prm::layer(out, x, nullptr, count, weight, bias, count, inputs, outputs);
}

// Probabilities from the numbers of a head, NaN where they give none. Blocks of 128, a thread for each row.
//   kind 0: the share of class `column` among all (softmax), 1: the logistic function of the first, 2: the first, cut to 0 and 1
//   out [count], values [count, outputs]
KERNEL prm_scores(float* out, const double* values, int count, int outputs, int kind, int column) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= count) return;
  values += (size_t)row * outputs;
  double value = values[0];
  if (kind == 0) {
    double most = -INFINITY, sum = 0;
    for (int i = 0; i < outputs; i++) most = fmax(most, values[i]);
    for (int i = 0; i < outputs; i++) sum += exp(values[i] - most);
    value = exp(values[column] - most) / sum;
  } else if (kind == 1) {
    value = 1 / (1 + exp(-value));
  } else {
    value = value < 0 ? 0 : value > 1 ? 1 : value;
  }
  out[row] = (float)value;
}

// The best chains of every problem, a block for each; grid problems. Chain c has the steps steps[step_first[c]..step_first[c + 1]],
// places in `scores`, and stands for copies[c]; problem p has the chains chain_first[p]..chain_first[p + 1] and keep[p] slots.
//   score[c]   `how` its step scores become one (prm::Aggregation; `temperature` is that of SOFT_MIN)
//   place[c]   how many chains of its problem come before it: those with a larger score, and equals with a lower index
//   held[c]    slots that it gets, best chains first and each as many as it has copies, until none are left
KERNEL prm_select(float* score, unsigned* place, unsigned* held, const float* scores, const unsigned* steps, const unsigned* step_first,
                  const unsigned* chain_first, const unsigned* keep, const unsigned* copies, int how, float temperature) {
  const unsigned from = chain_first[blockIdx.x], to = chain_first[blockIdx.x + 1];
  for (unsigned c = from + threadIdx.x; c < to; c += blockDim.x)
    score[c] = prm::aggregate(scores, steps, step_first[c], step_first[c + 1], how, temperature);
  __syncthreads();
  for (unsigned c = from + threadIdx.x; c < to; c += blockDim.x) {
    const unsigned key = prm::ordered(score[c]);
    unsigned before = 0;
    unsigned long long taken = 0;
    for (unsigned d = from; d < to; d++) {
      const unsigned other = prm::ordered(score[d]);
      if (other > key || (other == key && d < c)) {
        before++;
        taken += copies[d];
      }
    }
    const unsigned long long slots = keep[blockIdx.x];
    place[c] = before;
    held[c] = (unsigned)min(slots > taken ? slots - taken : 0ull, (unsigned long long)copies[c]);
  }
}
