#include "memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "api.h"
#include "block.h"

namespace emulated {
namespace {

// The bytes of each guard zone before a piece. The zone after a piece is larger by the rounding to UNIT.
constexpr size_t GUARD = 1024;
// Addresses and sizes of pieces are multiples of this number, like on real devices.
constexpr size_t UNIT = 512;
// The value of unwritten bytes, which are NaN in any type of floats.
constexpr unsigned char POISON = 0xFF;
// The value of the words in guard zones: another NaN. No arithmetic gives this NaN, so copies of it are noticed, too.
constexpr uint16_t SIGNALLING = 0xFFA5;

// Bytes of each piece by its address.
std::map<uint64_t, size_t>& pieces() {
  static auto& all = *new std::map<uint64_t, size_t>;  // lives as long as the process
  return all;
}
size_t taken = 0;

size_t rounded(size_t bytes) { return (bytes + UNIT - 1) / UNIT * UNIT; }

unsigned char* host(uint64_t at) { return reinterpret_cast<unsigned char*>(at); }

// Returns GUARD + UNIT bytes with the contents of an untouched guard zone. They begin at an even address.
const unsigned char* untouched() {
  static const auto* const pattern = [] {
    auto* words = new uint16_t[(GUARD + UNIT) / 2];
    std::fill_n(words, (GUARD + UNIT) / 2, SIGNALLING);
    return reinterpret_cast<unsigned char*>(words);
  }();
  return pattern;
}

// Whether a guard zone is untouched. If not, `where` becomes the offset of the first changed byte.
bool as_left(const unsigned char* from, size_t bytes, size_t* where) {
  const unsigned char* pattern = untouched() + (reinterpret_cast<uintptr_t>(from) & 1);
  if (memcmp(from, pattern, bytes) == 0) return true;
  for (*where = 0; from[*where] == pattern[*where];) ++*where;
  return false;
}

// The bytes of the guard zone after a piece of `bytes` bytes, less than GUARD + UNIT.
size_t behind(size_t bytes) { return GUARD + rounded(bytes) - bytes; }

void check_guard(uint64_t at, size_t bytes, const char* after) {
  size_t where;
  if (!as_left(host(at) - GUARD, GUARD, &where))
    fail("after %s: somebody wrote %zu bytes before a buffer of %zu bytes", after, GUARD - where, bytes);
  if (!as_left(host(at) + bytes, behind(bytes), &where))
    fail("after %s: somebody wrote to byte %zu of a buffer of %zu bytes", after, bytes + where, bytes);
}

}  // namespace

size_t total_memory() {
  static const size_t total = [] {
    const char* text = getenv("EMULATED_CUDA_MEMORY");
    return text ? (size_t)strtoull(text, nullptr, 10) : (size_t)512 << 20;
  }();
  return total;
}

size_t free_memory() { return total_memory() - taken; }

uint64_t take_memory(size_t bytes) {
  const size_t room = rounded(bytes);
  if (room < bytes || room > free_memory()) return 0;
  auto* start = static_cast<unsigned char*>(aligned_alloc(UNIT, room + 2 * GUARD));
  if (!start) return 0;
  memcpy(start, untouched(), GUARD);
  memset(start + GUARD, POISON, bytes);
  memcpy(start + GUARD + bytes, untouched() + (bytes & 1), behind(bytes));
  const auto at = reinterpret_cast<uint64_t>(start) + GUARD;
  pieces()[at] = bytes;
  taken += room;
  return at;
}

bool give_memory(uint64_t at) {
  const auto piece = pieces().find(at);
  if (piece == pieces().end()) return false;
  check_unused(at, piece->second);
  check_guard(at, piece->second, "work on memory that is given back");
  taken -= rounded(piece->second);
  free(host(at) - GUARD);
  pieces().erase(piece);
  return true;
}

bool inside_memory(uint64_t at, size_t bytes) {
  auto piece = pieces().upper_bound(at);
  if (piece == pieces().begin()) return false;
  --piece;
  return at - piece->first <= piece->second && bytes <= piece->second - (at - piece->first);
}

size_t memory_from(uint64_t at) {
  auto piece = pieces().upper_bound(at);
  if (piece == pieces().begin()) return 0;
  --piece;
  return at - piece->first <= piece->second ? piece->second - (at - piece->first) : 0;
}

void check_guards(const char* after) {
  for (const auto& [at, bytes] : pieces()) check_guard(at, bytes, after);
}

}  // namespace emulated
