// The library, the device, contexts, memory.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "api.h"
#include "block.h"
#include "memory.h"

using namespace emulated;

namespace {

pid_t started_by = 0;  // the process that has initialised the driver; 0 for none
int context;  // the only context; its address serves as the handle
thread_local void* current_context = nullptr;
Result broken = SUCCESS;  // the error that a kernel has left in the context, or SUCCESS

std::recursive_mutex& mutex() {
  static auto& one = *new std::recursive_mutex;  // lives as long as the process
  return one;
}

// Returns false in a process that was forked later. A real driver there only returns that it is not initialised.
bool initialised() { return started_by == getpid(); }

// Returns the number before (`which` 0) or after (1) the dot in an environment variable.
int part(const char* variable, const char* otherwise, int which) {
  const char* text = getenv(variable);
  int parts[2] = {0, 0};
  sscanf(text ? text : otherwise, "%d.%d", &parts[0], &parts[1]);
  return parts[which];
}

constexpr struct {
  Result code;
  const char *name, *text;
} ERRORS[] = {
    {SUCCESS, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {JIT_COMPILER_NOT_FOUND, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "PTX JIT compiler library not found"},
    {UNSUPPORTED_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CONTAINED, "CUDA_ERROR_CONTAINED", "Invalid access of peer GPU memory over nvlink or a hardware error"},
    {ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
};

}  // namespace

namespace emulated {

int device_count() { return part("EMULATED_CUDA_DEVICES", "1", 0); }
int capability_major() { return part("EMULATED_CUDA_CAPABILITY", "8.0", 0); }
int capability_minor() { return part("EMULATED_CUDA_CAPABILITY", "8.0", 1); }
int driver_version() { return part("EMULATED_CUDA_DRIVER", "12.4", 0) * 1000 + part("EMULATED_CUDA_DRIVER", "12.4", 1) * 10; }

Locked::Locked() { mutex().lock(); }
Locked::~Locked() { mutex().unlock(); }

Result check_context() {
  if (!initialised()) return NOT_INITIALIZED;
  return current_context ? broken : INVALID_CONTEXT;
}
Result planted(const char* call) {
  const char* text = getenv("EMULATED_CUDA_ERROR");
  const size_t name = strlen(call);
  if (!text || strncmp(text, call, name) != 0 || text[name] != ':') return SUCCESS;
  int code;
  unsigned long first = 1;
  if (sscanf(text + name, ":%d:%lu", &code, &first) < 1) fail("EMULATED_CUDA_ERROR=%s: write CALL:CODE or CALL:CODE:FIRST", text);
  static unsigned long calls;
  return ++calls >= first ? (Result)code : SUCCESS;
}
Result break_context(Result error) { return broken = error; }
Result context_error() { return broken; }

}  // namespace emulated

API cuInit(unsigned) {
  Locked locked;
  if (device_count() == 0) return NO_DEVICE;
  if (started_by == 0) started_by = getpid();
  if (!initialised()) return NOT_INITIALIZED;
  return SUCCESS;
}
API cuDriverGetVersion(int* version) {
  *version = driver_version();
  return SUCCESS;
}
API cuGetErrorName(Result code, const char** name) {
  for (const auto& error : ERRORS)
    if (error.code == code) return *name = error.name, SUCCESS;
  return INVALID_VALUE;
}
API cuGetErrorString(Result code, const char** text) {
  for (const auto& error : ERRORS)
    if (error.code == code) return *text = error.text, SUCCESS;
  return INVALID_VALUE;
}

API cuDeviceGetCount(int* count) {
  if (!initialised()) return NOT_INITIALIZED;
  *count = device_count();
  return SUCCESS;
}
API cuDeviceGet(int* device, int ordinal) {
  if (!initialised()) return NOT_INITIALIZED;
  if (ordinal < 0 || ordinal >= device_count()) return INVALID_DEVICE;
  *device = ordinal;
  return SUCCESS;
}
API cuDeviceGetName(char* name, int length, int) {
  snprintf(name, (size_t)length, "Emulated CUDA device");
  return SUCCESS;
}
API cuDeviceGetPCIBusId(char* id, int length, int device) {
  snprintf(id, (size_t)length, "0000:%02X:00.0", 0x65 + device);
  return SUCCESS;
}
API cuDeviceGetUuid_v2(unsigned char* bytes, int device) {
  for (int i = 0; i < 16; i++) bytes[i] = (unsigned char)(0xA0 + i + device);
  return SUCCESS;
}
API cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = total_memory();
  return SUCCESS;
}
API cuDeviceGetAttribute(int* value, int attribute, int) {
  switch (attribute) {
    case 1: *value = 1024; return SUCCESS;                 // MAX_THREADS_PER_BLOCK
    case 8: *value = 48 << 10; return SUCCESS;             // MAX_SHARED_MEMORY_PER_BLOCK
    case 10: *value = 32; return SUCCESS;                  // WARP_SIZE
    case 16: *value = 4; return SUCCESS;                   // MULTIPROCESSOR_COUNT
    case 38: *value = 4 << 20; return SUCCESS;             // L2_CACHE_SIZE
    case 75: *value = capability_major(); return SUCCESS;  // COMPUTE_CAPABILITY_MAJOR
    case 76: *value = capability_minor(); return SUCCESS;  // COMPUTE_CAPABILITY_MINOR
    case 97: *value = 99 << 10; return SUCCESS;            // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    case 115: *value = 0; return SUCCESS;                  // MEMORY_POOLS_SUPPORTED
    default: fprintf(stderr, "emulated CUDA: device attribute %d is unknown\n", attribute); return INVALID_VALUE;
  }
}

API cuDevicePrimaryCtxRetain(void** out, int) {
  if (!initialised()) return NOT_INITIALIZED;
  *out = &context;
  return SUCCESS;
}
API cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }
API cuCtxSetCurrent(void* handle) {
  if (!initialised()) return NOT_INITIALIZED;
  if (handle && handle != &context) return INVALID_CONTEXT;
  current_context = handle;
  return SUCCESS;
}
API cuCtxGetCurrent(void** handle) {
  if (!initialised()) return NOT_INITIALIZED;
  *handle = current_context;
  return SUCCESS;
}
API cuCtxSynchronize() {
  IN_CONTEXT()
  return capture_forbids() ? STREAM_CAPTURE_UNSUPPORTED : wait_for_all();
}

API cuMemGetInfo_v2(size_t* free, size_t* total) {
  IN_CONTEXT()
  *free = free_memory();
  *total = total_memory();
  return SUCCESS;
}
API cuMemAlloc_v2(uint64_t* at, size_t bytes) {
  IN_CONTEXT()
  if (capture_forbids()) return STREAM_CAPTURE_UNSUPPORTED;
  if (bytes == 0) return INVALID_VALUE;
  *at = take_memory(bytes);
  return *at ? SUCCESS : OUT_OF_MEMORY;
}
API cuMemFree_v2(uint64_t at) {
  IN_CONTEXT()
  if (capture_forbids()) return STREAM_CAPTURE_UNSUPPORTED;
  return at == 0 || give_memory(at) ? SUCCESS : INVALID_VALUE;
}
