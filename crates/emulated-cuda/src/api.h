// Types and codes of the driver API, as <cuda.h> has them.
#pragma once
#include <cstddef>
#include <cstdint>

// An entry point of the library.
#define API extern "C" __attribute__((visibility("default"))) Result

namespace emulated {

enum Result : int {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NOT_INITIALIZED = 3,
  NO_DEVICE = 100,
  INVALID_DEVICE = 101,
  INVALID_IMAGE = 200,
  INVALID_CONTEXT = 201,
  NO_BINARY_FOR_GPU = 209,
  INVALID_PTX = 218,
  JIT_COMPILER_NOT_FOUND = 221,
  UNSUPPORTED_PTX_VERSION = 222,
  CONTAINED = 226,
  INVALID_HANDLE = 400,
  ILLEGAL_STATE = 401,
  NOT_FOUND = 500,
  NOT_READY = 600,
  ILLEGAL_ADDRESS = 700,
  STREAM_CAPTURE_UNSUPPORTED = 900,
  STREAM_CAPTURE_INVALIDATED = 901,
};

// The values of EMULATED_CUDA_DEVICES, EMULATED_CUDA_CAPABILITY (e.g. "8.0") and EMULATED_CUDA_DRIVER (e.g. "12.4").
int device_count();
int capability_major();
int capability_minor();
int driver_version();

// INVALID_CONTEXT or NOT_INITIALIZED, if this thread cannot use the device, or `context_error`.
Result check_context();

// After some errors of a kernel every call fails, as long as the process lives: sets this error and returns it.
Result break_context(Result error);
// Returns the error that `break_context` has set, or SUCCESS.
Result context_error();

// Runs all queued work of all streams.
Result wait_for_all();

// Stops the program if queued work uses this memory of the device.
void check_unused(uint64_t at, size_t bytes);

// The error that EMULATED_CUDA_ERROR plants in this call of the API, or SUCCESS.
Result planted(const char* call);

// Whether a capture forbids calls that wait or take memory; such a call ends the capture, too.
bool capture_forbids();

// A lock that every call of the API holds, because calls may come from any thread.
struct Locked {
  Locked();
  ~Locked();
};

// Begins a call that needs a context.
#define IN_CONTEXT()                                        \
  Locked locked;                                            \
  if (const Result failed = check_context()) return failed; \
  if (const Result failed = planted(__func__)) return failed;

}  // namespace emulated
