// A libcuda.so that stands before the machine's own (libcuda.so.1, which it is linked to) and watches some of the calls:
//
//   TRACE_KERNELS=FILE  after each launch, a line with the kernel, its grid and its arguments as words, and then the first
//                       bytes of what its first argument points to. Launches that are recorded are not in it
//   TRACE_GRAPHS=0      recording a graph fails, as on a card that cannot
//   TRACE_CLOCK=FILE    at the end, the host's seconds in launches, in copies and in waiting for the device
//
// For programs of this workspace: arguments end with a null pointer, and the first is where the results go.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#define API extern "C" __attribute__((visibility("default"))) int

namespace {

constexpr size_t MOST = 1 << 20;  // bytes of a record
constexpr int ARGUMENTS = 24;

std::recursive_mutex& mutex() {
  static auto& one = *new std::recursive_mutex;  // lives as long as the process
  return one;
}

template <class Function>
Function* next(Function*, const char* name) {
  static void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  void* found = driver ? dlsym(driver, name) : nullptr;
  if (!found) fprintf(stderr, "trace: libcuda.so.1 has no %s\n", name), abort();
  return reinterpret_cast<Function*>(found);
}
// The driver's function of this name.
#define NEXT(name)                              \
  ([] {                                         \
    static auto* const it = next(&name, #name); \
    return it;                                  \
  }())

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Seconds of the host by the kind of call.
enum Kind { LAUNCH, COPY, WAIT, KINDS };
double seconds[KINDS];
long calls[KINDS];

template <class Call>
int timed(Kind kind, Call call) {
  const double begin = now();
  const int result = call();
  std::lock_guard<std::recursive_mutex> locked(mutex());
  seconds[kind] += now() - begin;
  calls[kind]++;
  return result;
}

FILE* kernels_file() {
  static FILE* file = getenv("TRACE_KERNELS") ? fopen(getenv("TRACE_KERNELS"), "wb") : nullptr;
  return file;
}

std::map<void*, std::string>& names() {
  static auto& all = *new std::map<void*, std::string>;
  return all;
}
std::map<uint64_t, size_t>& memory() {
  static auto& all = *new std::map<uint64_t, size_t>;
  return all;
}
int capturing = 0;

size_t bytes_from(uint64_t at) {
  auto piece = memory().upper_bound(at);
  if (piece == memory().begin()) return 0;
  --piece;
  const size_t offset = at - piece->first;
  return offset < piece->second ? std::min(piece->second - offset, MOST) : 0;
}

struct AtExit {
  ~AtExit() {
    const char* path = getenv("TRACE_CLOCK");
    FILE* file = path ? fopen(path, "w") : nullptr;
    if (!file) return;
    fprintf(file, "{\"launch_seconds\": %.6f, \"launches\": %ld, \"copy_seconds\": %.6f, \"copies\": %ld, \"wait_seconds\": %.6f, \"waits\": %ld}\n",
            seconds[LAUNCH], calls[LAUNCH], seconds[COPY], calls[COPY], seconds[WAIT], calls[WAIT]);
    fclose(file);
  }
} at_exit;

}  // namespace

API cuModuleGetFunction(void** function, void* module, const char* name) {
  const int result = NEXT(cuModuleGetFunction)(function, module, name);
  std::lock_guard<std::recursive_mutex> locked(mutex());
  if (result == 0) names()[*function] = name;
  return result;
}
API cuMemAlloc_v2(uint64_t* at, size_t bytes) {
  const int result = NEXT(cuMemAlloc_v2)(at, bytes);
  std::lock_guard<std::recursive_mutex> locked(mutex());
  if (result == 0) memory()[*at] = bytes;
  return result;
}
API cuMemFree_v2(uint64_t at) {
  const int result = NEXT(cuMemFree_v2)(at);
  std::lock_guard<std::recursive_mutex> locked(mutex());
  if (result == 0) memory().erase(at);
  return result;
}
API cuStreamBeginCapture_v2(void* stream, int mode) {
  const char* graphs = getenv("TRACE_GRAPHS");
  if (graphs && *graphs == '0') return 900;  // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
  const int result = NEXT(cuStreamBeginCapture_v2)(stream, mode);
  std::lock_guard<std::recursive_mutex> locked(mutex());
  capturing += result == 0;
  return result;
}
API cuStreamEndCapture(void* stream, void** graph) {
  std::lock_guard<std::recursive_mutex> locked(mutex());
  capturing = std::max(capturing - 1, 0);
  return NEXT(cuStreamEndCapture)(stream, graph);
}

API cuStreamSynchronize(void* stream) {
  return timed(WAIT, [&] { return NEXT(cuStreamSynchronize)(stream); });
}
API cuEventSynchronize(void* event) {
  return timed(WAIT, [&] { return NEXT(cuEventSynchronize)(event); });
}
API cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
  return timed(COPY, [&] { return NEXT(cuMemcpyHtoDAsync_v2)(to, from, bytes, stream); });
}
// A copy to pageable memory waits for the work before it, which is no copying.
API cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
  const int waited = cuStreamSynchronize(stream);
  return waited ? waited : timed(COPY, [&] { return NEXT(cuMemcpyDtoHAsync_v2)(to, from, bytes, stream); });
}
API cuGraphLaunch(void* graph, void* stream) {
  return timed(LAUNCH, [&] { return NEXT(cuGraphLaunch)(graph, stream); });
}
API cuLaunchKernel(void* function, unsigned x, unsigned y, unsigned z, unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                   void* stream, void** arguments, void** extra) {
  const int result = timed(
      LAUNCH, [&] { return NEXT(cuLaunchKernel)(function, x, y, z, block_x, block_y, block_z, shared, stream, arguments, extra); });
  std::lock_guard<std::recursive_mutex> locked(mutex());
  FILE* file = kernels_file();
  if (!file || result || capturing) return result;
  const size_t bytes = bytes_from(*static_cast<uint64_t*>(arguments[0]));
  std::vector<char> content(bytes);
  // A launch that fails shows at the program's own next call, too.
  if (bytes > 0 && NEXT(cuMemcpyDtoHAsync_v2)(content.data(), *static_cast<uint64_t*>(arguments[0]), bytes, stream)) return result;
  if (NEXT(cuStreamSynchronize)(stream)) return result;
  fprintf(file, "%s %u %u %u %zu", names()[function].c_str(), x, y, z, bytes);
  for (int i = 0; i < ARGUMENTS && arguments[i]; i++) fprintf(file, " %llu", *static_cast<unsigned long long*>(arguments[i]));
  fputc('\n', file);
  fwrite(content.data(), 1, bytes, file);
  fflush(file);
  return result;
}
