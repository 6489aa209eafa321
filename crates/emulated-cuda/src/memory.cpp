#include "memory.h"

#include <cstdlib>
#include <cstring>
#include <map>

#include "block.h"

namespace emulated {
namespace {

// Memory before and behind each piece. What is read there is not a number, either.
constexpr size_t GUARD = 1024;
// Addresses and what a piece costs are multiples of this, as those of real devices.
constexpr size_t UNIT = 512;
constexpr unsigned char POISON = 0xFF;

// Bytes of each piece by its address.
std::map<uint64_t, size_t>& pieces() {
  static auto& all = *new std::map<uint64_t, size_t>;  // lives as long as the process
  return all;
}
size_t taken = 0;

size_t rounded(size_t bytes) { return (bytes + UNIT - 1) / UNIT * UNIT; }

unsigned char* host(uint64_t at) { return reinterpret_cast<unsigned char*>(at); }

// Whether nobody has written there; `where` is the first byte that is another. At most GUARD + UNIT bytes.
bool poisoned(const unsigned char* from, size_t bytes, size_t* where) {
  static const auto* const untouched = static_cast<unsigned char*>(memset(new unsigned char[GUARD + UNIT], POISON, GUARD + UNIT));
  if (memcmp(from, untouched, bytes) == 0) return true;
  for (*where = 0; from[*where] == POISON;) ++*where;
  return false;
}

void check_guard(uint64_t at, size_t bytes, const char* after) {
  size_t where;
  if (!poisoned(host(at) - GUARD, GUARD, &where))
    fail("after %s: somebody wrote %zu bytes before a buffer of %zu bytes", after, GUARD - where, bytes);
  if (!poisoned(host(at) + bytes, GUARD + rounded(bytes) - bytes, &where))
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
  memset(start, POISON, room + 2 * GUARD);
  const auto at = reinterpret_cast<uint64_t>(start) + GUARD;
  pieces()[at] = bytes;
  taken += room;
  return at;
}

bool give_memory(uint64_t at) {
  const auto piece = pieces().find(at);
  if (piece == pieces().end()) return false;
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

void check_guards(const char* after) {
  for (const auto& [at, bytes] : pieces()) check_guard(at, bytes, after);
}

}  // namespace emulated
