// The memory of the device: host memory between guard zones, as much as EMULATED_CUDA_MEMORY says.
#pragma once
#include <cstddef>
#include <cstdint>

namespace emulated {

// All bytes of the device, and the free ones.
size_t total_memory();
size_t free_memory();

// Allocates memory filled with 0xFF (NaN in every float); 0 if there is not enough.
uint64_t take_memory(size_t bytes);
// Frees memory. False if none was allocated there.
bool give_memory(uint64_t at);

// Whether these bytes are inside one allocated piece.
bool inside_memory(uint64_t at, size_t bytes);
// Bytes from an address to the end of its piece of memory; 0 outside of all pieces.
size_t memory_from(uint64_t at);

// Stops the program if a guard zone was written to.
void check_guards(const char* after);

}  // namespace emulated
