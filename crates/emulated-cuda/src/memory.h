// The memory of the device: host memory between guard zones, as much as EMULATED_CUDA_MEMORY says.
#pragma once
#include <cstddef>
#include <cstdint>

namespace emulated {

// The bytes of the device's memory, in total and free.
size_t total_memory();
size_t free_memory();

// Allocates memory filled with 0xFF (NaN in every float). Returns 0 if there is not enough.
uint64_t take_memory(size_t bytes);
// Frees memory. Returns false if no piece was allocated at `at`.
bool give_memory(uint64_t at);

// Whether these bytes are within a single allocated piece.
bool inside_memory(uint64_t at, size_t bytes);
// The bytes from an address to the end of its piece; 0 outside of all pieces.
size_t memory_from(uint64_t at);

// Stops the program if a kernel wrote to a guard zone. `after` names the kernel in the message.
void check_guards(const char* after);

}  // namespace emulated
