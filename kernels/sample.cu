#include "common.cuh"

// Draws tokens from rows of logits as the CPU does (crates/engine/src/sampling/): by inversion in the order of the tokens with one
// uniform number, after repetition penalty, temperature, top-k, top-p and min-p. A block of 512 threads for each request; grid requests.
//   token[i], logprob[i] of requests[i]      logits [rows, stride], the first `vocab` of a row stand for tokens (at least one)
// A request penalises the tokens said[said_first .. said_first + said_count], some of which may be there twice; if any does, a block
// needs dynamic shared memory of a bit for each token, in whole words.
// NaN counts as minus infinity; of equals the lowest token comes first; temperature 0 takes the largest logit. The log-probability
// is that under the row itself. A request for a row that does not exist gets token 0 and NaN.
//
// Weights have the bits of the CPU's, sums are of doubles. A warp has a piece of the row, one behind the other, so that sums of
// pieces lead to a token. Nothing is sorted: thresholds are found between pivots on the bits of logits or weights.

namespace sampling {

constexpr int THREADS = 512, WARPS = THREADS / 32;
// Thresholds that are tried in a pass.
constexpr int PIVOTS = 7;
// So many values are ranked by comparing each with each.
constexpr unsigned FEW = 1024;
// `ordered` of minus infinity.
constexpr unsigned LOWEST = 0x007fffffu;
constexpr int ALL = 0x7fffffff;
static_assert(THREADS <= (int)FEW, "each thread has a key");

// As `SampleRequest` of crates/kernels/src/cuda/sample.rs.
struct Request {
  unsigned row, said_first, said_count, top_k;
  float penalty, temperature, top_p, min_p;
  unsigned key[2], counter[4];
};

struct Scratch {
  double pieces[32], scratch[32];
  double sums[PIVOTS + 1][WARPS];
  unsigned counts[PIVOTS + 1][WARPS];
  unsigned long long largest[WARPS];
  unsigned keys[FEW];
  int places[FEW];
  int found;
};

struct Row {
  const float* x;
  int n;
  // A bit for each token that is penalised; null for none.
  const unsigned* said;
  float penalty;
  // There is one zero, and nothing that is not a number.
  __device__ __forceinline__ float at(int i) const {
    float v = x[i];
    if (said && (said[i >> 5] >> (i & 31) & 1)) v = v < 0.f ? v * penalty : v / penalty;
    return v == v ? v + 0.f : -INFINITY;
  }
};

// Whole numbers in the order of floats.
__device__ __forceinline__ unsigned ordered(float v) {
  const unsigned bits = __float_as_uint(v);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float unordered(unsigned key) { return __uint_as_float(key >> 31 ? key & 0x7fffffffu : ~key); }

// e^v for v <= 0: the operations of `Simd::exp` in crates/kernels/src/simd.rs, in its order.
__device__ __forceinline__ float exp_weight(float v) {
  constexpr float ROUND = 12582912.f;
  const float x = fmaxf(fminf(v, 88.f), -87.3f);
  const float n = fmaf(x, 1.4426950408889634f, ROUND) - ROUND;
  const float r = fmaf(n, 2.1219444e-4f, fmaf(n, -0.6933594f, x));
  float p = 1.9875691e-4f;
  p = fmaf(p, r, 1.3981999e-3f);
  p = fmaf(p, r, 8.333452e-3f);
  p = fmaf(p, r, 4.1665796e-2f);
  p = fmaf(p, r, 1.6666665e-1f);
  p = fmaf(p, r, 0.5f);
  p = fmaf(p * r, r, r + 1.f);
  return v >= -100.f ? p * __uint_as_float((unsigned)((int)n + 127) << 23) : 0.f;
}

// Values with keys above `key`, and with this key those up to a place.
struct Cut {
  unsigned key;
  int last;
  __device__ __forceinline__ bool keeps(unsigned other, int place) const { return other > key || (other == key && place <= last); }
};

// Which values stay, and what they weigh.
struct Kept {
  float max, scale, least;
  Cut logits, weights;
  __device__ __forceinline__ float weight(float v, int i) const {
    if (!logits.keeps(ordered(v), i)) return 0.f;
    const float w = exp_weight((v - max) * scale);
    return w >= least && weights.keeps(__float_as_uint(w), i) ? w : 0.f;
  }
};

// Length of the pieces of n values, one for each warp.
__device__ __forceinline__ int piece_of(int n) { return (n + THREADS - 1) / THREADS * 32; }

// This thread's values of [from, to): every 32nd of its warp's piece.
struct Own {
  int first, end;
  __device__ __forceinline__ Own(int from, int to) {
    const int piece = piece_of(to - from), warp = threadIdx.x >> 5;
    first = from + warp * piece;
    end = min(to, first + piece);
  }
};

__device__ __forceinline__ unsigned long long block_largest(unsigned long long v, Scratch& s) {
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) {
    const unsigned long long other = __shfl_xor_sync(ALL_LANES, v, o);
    v = other > v ? other : v;
  }
  if ((threadIdx.x & 31) == 0) s.largest[threadIdx.x >> 5] = v;
  __syncthreads();
#pragma unroll 1
  for (int w = 0; w < WARPS; w++) v = s.largest[w] > v ? s.largest[w] : v;
  __syncthreads();
  return v;
}

struct Sums {
  double kept, all;
};

// Sums over [from, to): of the weights that stay, also of each piece (`pieces`), and if asked for that of all at temperature 1.
__device__ __forceinline__ Sums weigh(const Row& row, const Kept& kept, int from, int to, bool all, Scratch& s) {
  const Own own(from, to);
  double some = 0, whole = 0;
  for (int i = own.first + (threadIdx.x & 31); i < own.end; i += 32) {
    const float v = row.at(i);
    some += (double)kept.weight(v, i);
    if (all) whole += (double)exp_weight(v - kept.max);
  }
  some = warp_sum(some);
  __syncthreads();  // the last pieces have been read
  if ((threadIdx.x & 31) == 0) s.pieces[threadIdx.x >> 5] = some;
  Sums sums = {0, all ? block_sum(whole, s.scratch) : 0};
  __syncthreads();
#pragma unroll 1
  for (int w = 0; w < WARPS; w++) sums.kept += s.pieces[w];
  return sums;
}

// Where the running sum passes `left`, and what is left of it before; where rounding keeps it from that, the last value above 0.
__device__ __forceinline__ int pass(const double* values, int count, double& left) {
  int last = 0;
#pragma unroll 1
  for (int i = 0; i < count; i++) {
    const double value = values[i];
    if (value > 0) {
      if (left < value) return i;
      left -= value;
      last = i;
    }
  }
  left = INFINITY;
  return last;
}

// The place at which the running sum of weights passes `left`. The row's pieces have been weighed.
__device__ __forceinline__ int locate(const Row& row, const Kept& kept, double left, Scratch& s) {
  int from = 0, to = row.n;
  for (;;) {
    const int piece = piece_of(to - from);
    from += pass(s.pieces, WARPS, left) * piece;
    to = min(to, from + piece);
    if (to - from <= 32) break;
    weigh(row, kept, from, to, false, s);
  }
  __syncthreads();
  const int i = from + (int)threadIdx.x;
  if (i < to) s.pieces[threadIdx.x] = (double)kept.weight(row.at(i), i);
  __syncthreads();
  return from + pass(s.pieces, to - from, left);
}

// What `cut` adds up: values, in the order of the logits.
struct ByCount {
  __device__ __forceinline__ unsigned key(float v, int) const { return ordered(v); }
  static __device__ __forceinline__ double measure(unsigned) { return 1; }
};
// Weights, in the order of them.
struct ByWeight {
  Kept kept;
  __device__ __forceinline__ unsigned key(float v, int i) const { return __float_as_uint(kept.weight(v, i)); }
  static __device__ __forceinline__ double measure(unsigned key) { return (double)__uint_as_float(key); }
};

__device__ __forceinline__ unsigned pivot(unsigned low, unsigned high, int j) {
  return low + (unsigned)((unsigned long long)(high - low) * (unsigned)(j + 1) / (PIVOTS + 1));
}

__device__ __forceinline__ double in_order(const double* sums) {
  double sum = 0;
#pragma unroll 1
  for (int w = 0; w < WARPS; w++) sum += sums[w];
  return sum;
}

// The fewest values with the largest keys that make `target` together; all with keys above `low` if these do not. No key is above
// `high`; the target is above 0.
template <class Of>
__device__ __forceinline__ Cut cut(const Row& row, const Of& of, unsigned low, unsigned high, double target, Scratch& s) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const Own own(0, row.n);
  // Of the keys above `high`. Those above `low` make the target, those above `high` do not.
  double above = 0;
  // Keys between, and how many of them warps before this one have.
  unsigned inside, before;
  do {
    unsigned pivots[PIVOTS];
#pragma unroll
    for (int j = 0; j < PIVOTS; j++) pivots[j] = pivot(low, high, j);
    double sums[PIVOTS + 1] = {};
    unsigned counts[PIVOTS + 1] = {};
    for (int i = own.first + lane; i < own.end; i += 32) {
      const unsigned key = of.key(row.at(i), i);
      if (key <= low || key > high) continue;
      const double measure = Of::measure(key);
      sums[0] += measure;
      counts[0]++;
#pragma unroll
      for (int j = 0; j < PIVOTS; j++) {
        if (key > pivots[j]) {
          sums[j + 1] += measure;
          counts[j + 1]++;
        }
      }
    }
    __syncthreads();  // the last sums have been read
#pragma unroll
    for (int j = 0; j <= PIVOTS; j++) {
      const double sum = warp_sum(sums[j]);
      const unsigned count = warp_sum(counts[j]);
      if (lane == 0) {
        s.sums[j][warp] = sum;
        s.counts[j][warp] = count;
      }
    }
    __syncthreads();
    if (above + in_order(s.sums[0]) < target) return {low, -1};
    const unsigned from = low, to = high;
    int at = 0;
    for (; at < PIVOTS; at++) {
      const double sum = in_order(s.sums[at + 1]);
      if (above + sum < target) {
        high = pivot(from, to, at);
        above += sum;
        break;
      }
      low = pivot(from, to, at);
    }
    inside = before = 0;
#pragma unroll 1
    for (int w = 0; w < WARPS; w++) {
      const unsigned count = s.counts[at][w] - (at < PIVOTS ? s.counts[at + 1][w] : 0);
      before += w < warp ? count : 0;
      inside += count;
    }
  } while (inside > FEW && high - low > 1);

  // Either they are listed in their order, or all have the same key and the last that stays is counted off.
  const bool few = inside <= FEW;
  unsigned last = 0;
  if (!few) last = (unsigned)min(ceil((target - above) / Of::measure(high)), (double)inside);
  last = last > 0 ? last - 1 : 0;
  for (int from = own.first; from < own.end; from += 32) {
    const int i = from + lane;
    const unsigned key = i < own.end ? of.key(row.at(i), i) : 0;
    const bool in = key > low && key <= high;
    const unsigned mask = __ballot_sync(ALL_LANES, in);
    const unsigned at = before + (unsigned)__popc(mask & ((1u << lane) - 1));
    before += (unsigned)__popc(mask);
    if (in && few) {
      s.keys[at] = key;
      s.places[at] = i;
    } else if (in && at == last) {
      s.found = i;
    }
  }
  __syncthreads();
  if (!few) return {high, s.found};

  // The last, by rank, that finds less than the target before it.
  unsigned long long worst = 0;
  for (unsigned j = threadIdx.x; j < inside; j += THREADS) {
    const unsigned key = s.keys[j];
    double better = above;
    for (unsigned q = 0; q < inside; q++) {
      const unsigned other = s.keys[q];
      if (other > key || (other == key && q < j)) better += Of::measure(other);
    }
    const unsigned long long rank = (unsigned long long)~key << 32 | (unsigned)s.places[j];
    if (better < target && rank > worst) worst = rank;
  }
  worst = block_largest(worst, s);
  return {~(unsigned)(worst >> 32), (int)(unsigned)worst};
}

// The k largest logits; of equals the first. Minus infinity is none of them. `own` is the largest key that this thread has met.
__device__ __forceinline__ Cut top_k(const Row& row, unsigned k, unsigned own, float max, Scratch& s) {
  unsigned low = LOWEST;
  if (k <= THREADS) {
    // At least k logits are as large as the k-th of any k or more of them.
    s.keys[threadIdx.x] = own;
    __syncthreads();
    unsigned rank = 0;
    for (unsigned q = 0; q < THREADS; q++) rank += s.keys[q] > own || (s.keys[q] == own && q < threadIdx.x);
    if (rank == k - 1) s.found = (int)own;
    __syncthreads();
    const unsigned floor = (unsigned)s.found;
    if (floor > LOWEST) low = floor - 1;
  }
  return cut(row, ByCount{}, low, ordered(max), (double)k, s);
}

// The fewest largest of the weights that stay, which have the sum `sum`, that make the fraction p of it; of equals the first.
__device__ __forceinline__ Cut nucleus(const Row& row, const Kept& kept, double sum, float p, Scratch& s) {
  const double part = fmax((double)p, 0.0);
  const double target = fmax(sum * part, 2.2250738585072014e-308);
  // Weights that are not above it have less together than the rest of the sum.
  const float low = (float)(0.999 * (1 - part) * sum / row.n);
  return cut(row, ByWeight{kept}, __float_as_uint(low), __float_as_uint(1.f), target, s);
}

// Philox4x32 with ten rounds, and the 53 bits of a uniform number in [0, 1): crates/engine/src/rng.rs.
__device__ __forceinline__ double uniform(const Request& request) {
  unsigned k0 = request.key[0], k1 = request.key[1];
  unsigned c0 = request.counter[0], c1 = request.counter[1], c2 = request.counter[2], c3 = request.counter[3];
#pragma unroll 1
  for (int round = 0; round < 10; round++) {
    const unsigned high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
    const unsigned high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const unsigned long long bits = ((unsigned long long)c0 << 32 | c1) >> 11;
  return (double)bits / 9007199254740992.0;
}

// Key and place of the largest value, of equals the first. `own` is the largest key that this thread has met.
__device__ __forceinline__ unsigned long long largest(const Row& row, unsigned& own, Scratch& s) {
  const Own mine(0, row.n);
  unsigned long long best = 0;
  for (int i = mine.first + (threadIdx.x & 31); i < mine.end; i += 32) {
    const unsigned long long value = (unsigned long long)ordered(row.at(i)) << 32 | ~(unsigned)i;
    best = value > best ? value : best;
  }
  own = (unsigned)(best >> 32);
  return block_largest(best, s);
}

// Log of the sum of exponentials of a row with this maximum.
__device__ __forceinline__ double log_sum(const Row& row, float max, Scratch& s) {
  if (max == INFINITY || max == -INFINITY) return max;
  const Kept kept = {max, 1.f, 0.f, {0, ALL}, {0, ALL}};
  return max + log(weigh(row, kept, 0, row.n, false, s).kept);
}

// Log-probability of a logit, where neither infinities nor NaN make a NaN.
__device__ __forceinline__ float relative_to(double total, float logit) {
  if (logit == -INFINITY) return -INFINITY;
  if (logit == INFINITY) return 0.f;
  return (float)fmin((double)logit - total, 0.0);
}

}  // namespace sampling

KERNEL __launch_bounds__(sampling::THREADS)
    sample(unsigned* token, float* logprob, const float* logits, const sampling::Request* requests, const unsigned* said, int rows,
           int vocab, int stride) {
  using namespace sampling;
  __shared__ Scratch s;
  DYNAMIC_SHARED(unsigned, marks);
  const Request request = requests[blockIdx.x];
  if (request.row >= (unsigned)rows) {
    if (threadIdx.x == 0) {
      token[blockIdx.x] = 0;
      logprob[blockIdx.x] = __uint_as_float(0x7fffffffu);
    }
    return;
  }
  const Row raw = {logits + (size_t)request.row * stride, vocab, nullptr, 1.f};
  Row row = raw;
  if (request.said_count > 0 && request.penalty != 1.f) {
    for (int i = threadIdx.x; i < (vocab + 31) / 32; i += THREADS) marks[i] = 0;
    __syncthreads();
    for (unsigned i = threadIdx.x; i < request.said_count; i += THREADS) {
      const unsigned known = said[request.said_first + i];
      if (known < (unsigned)vocab) atomicOr(&marks[known >> 5], 1u << (known & 31));
    }
    __syncthreads();
    row.said = marks;
    row.penalty = request.penalty;
  }
  unsigned own;
  const unsigned long long best = largest(row, own, s);
  const float max = unordered((unsigned)(best >> 32));
  int chosen = (int)~(unsigned)best;
  double total = max;
  if (max > -INFINITY && max < INFINITY) {
    // Also false for a temperature so small that its inverse overflows, and for NaN.
    const float scale = 1.f / request.temperature;
    const bool drawn = scale > 0.f && scale < INFINITY;
    const bool by_k = drawn && request.top_k > 0 && request.top_k < (unsigned)vocab, by_p = drawn && request.top_p < 1.f;
    const float min_p = request.min_p > 0.f ? fminf(request.min_p, 1.f) : 0.f;
    Kept kept = {max, drawn ? scale : 1.f, by_k || by_p ? 0.f : min_p, {0, ALL}, {0, ALL}};
    Sums sums = weigh(row, kept, 0, vocab, true, s);
    total += log(sums.all);
    if (by_k) {
      kept.logits = top_k(row, request.top_k, own, max, s);
      if (by_p) sums = weigh(row, kept, 0, vocab, false, s);
    }
    if (by_p) kept.weights = nucleus(row, kept, sums.kept, request.top_p, s);
    if (by_k || by_p) {
      kept.least = min_p;
      sums = weigh(row, kept, 0, vocab, false, s);
    }
    if (drawn) chosen = locate(row, kept, uniform(request) * sums.kept, s);
  }
  // Under the row as the model gave it.
  if (row.said) total = log_sum(raw, unordered((unsigned)(largest(raw, own, s) >> 32)), s);
  if (threadIdx.x == 0) {
    token[blockIdx.x] = (unsigned)chosen;
    logprob[blockIdx.x] = relative_to(total, raw.at(chosen));
  }
}

// Log-probabilities of given tokens: out[row] of tokens[row] under logits[row]; NaN for a token that does not exist. A block of 512
// threads for each row; grid rows.      logits [rows, stride], tokens [rows]
KERNEL __launch_bounds__(sampling::THREADS)
    log_prob(float* out, const float* logits, const unsigned* tokens, int vocab, int stride) {
  using namespace sampling;
  __shared__ Scratch s;
  const Row row = {logits + (size_t)blockIdx.x * stride, vocab, nullptr, 1.f};
  unsigned own;
  const double total = log_sum(row, unordered((unsigned)(largest(row, own, s) >> 32)), s);
  if (threadIdx.x == 0) {
    const unsigned token = tokens[blockIdx.x];
    out[blockIdx.x] = token < (unsigned)vocab ? relative_to(total, row.at((int)token)) : __uint_as_float(0x7fffffffu);
  }
}
