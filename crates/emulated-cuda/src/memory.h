// The memory of the device: host memory between guard zones, as much as EMULATED_CUDA_MEMORY says.
#pragma once
#include <cstddef>
#include <cstdint>

namespace emulated {

// Bytes of the device, and those not taken.
size_t total_memory();
size_t free_memory();

// Takes memory, filled with 0xFF (not a number in every float); 0 if there is not enough.
uint64_t take_memory(size_t bytes);
// Gives it back. False if nothing was taken there.
bool give_memory(uint64_t at);

// Whether these bytes lie in one piece of memory that is taken.
bool inside_memory(uint64_t at, size_t bytes);
// Bytes from there to the end of the piece of memory that it lies in; 0 if it lies in none.
size_t memory_from(uint64_t at);

// Stops the program if somebody has written outside of what was taken.
void check_guards(const char* after);

}  // namespace emulated
