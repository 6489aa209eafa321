// Streams, what is queued on them, and graphs. Work runs at once, in the call that queues it; while a stream
// captures it is only kept, with copies of its arguments.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "api.h"
#include "block.h"
#include "memory.h"
#include "module.h"

using namespace emulated;

namespace {

// A kernel with its arguments.
struct Call {
  const Function* function;
  Index grid, block;
  unsigned shared;
  std::vector<uint64_t> arguments;  // one behind the other, each from an even word on
  Result run() const;
};

// A copy, or, with no source, a fill.
struct Copy {
  void* to;
  const void* from;
  size_t bytes;
  unsigned char fill;
  bool to_device, from_device;
  Result run() const;
};

struct Operation {
  bool is_copy;
  Call call;
  Copy copy;
  Result run() const { return is_copy ? copy.run() : call.run(); }
};

using Graph = std::vector<Operation>;
// Modes of a capture: which threads may not take memory or wait meanwhile.
constexpr int ANY_THREAD = 0, ITS_THREAD = 1;

struct Stream {
  bool capturing = false, broken = false;
  int mode = 0;
  std::thread::id thread;
  Graph captured;
  Result refuse() {
    broken = true;
    return STREAM_CAPTURE_UNSUPPORTED;
  }
};

struct Event {
  std::chrono::steady_clock::time_point time;
};

std::set<Stream*>& streams() {
  static auto& all = *new std::set<Stream*>;  // lives as long as the process
  return all;
}
// Page-locked memory of the host: bytes by address.
std::map<const void*, size_t>& pinned() {
  static auto& all = *new std::map<const void*, size_t>;
  return all;
}
bool is_pinned(const void* at, size_t bytes) {
  auto piece = pinned().upper_bound(at);
  if (piece == pinned().begin()) return false;
  --piece;
  const auto offset = (size_t)(static_cast<const char*>(at) - static_cast<const char*>(piece->first));
  return offset <= piece->second && bytes <= piece->second - offset;
}

Stream default_stream;
// The stream of a handle; 0, 1 and 2 stand for the default stream.
Stream* stream_of(Stream* handle) { return reinterpret_cast<uintptr_t>(handle) <= 2 ? &default_stream : handle; }

uint64_t address(const void* at) { return reinterpret_cast<uint64_t>(at); }

Result Copy::run() const {
  if (to_device && !inside_memory(address(to), bytes)) return INVALID_VALUE;
  if (from_device && !inside_memory(address(from), bytes)) return INVALID_VALUE;
  if (from) {
    memmove(to, from, bytes);
  } else {
    memset(to, fill, bytes);
  }
  return SUCCESS;
}

size_t words(size_t bytes) { return (bytes + 15) / 16 * 2; }

Result Call::run() const {
  const Kernel& kernel = *function->kernel;
  std::vector<void*> pointers;
  size_t word = 0;
  for (size_t i = 0; i < kernel.arguments; i++) {
    pointers.push_back(const_cast<uint64_t*>(&arguments[word]));
    word += words(kernel.sizes[i]);
  }
  emulated::run({kernel.name, kernel.call, pointers.data(), grid, block, shared});
  check_guards(kernel.name);
  return SUCCESS;
}

Result queue(Stream* handle, Operation operation) {
  Stream* stream = stream_of(handle);
  if (!stream->capturing) return operation.run();
  if (stream->broken) return STREAM_CAPTURE_INVALIDATED;
  stream->captured.push_back(std::move(operation));
  return SUCCESS;
}

// A copy between host and device: of pageable memory it waits, which a graph cannot.
Result queue_host_copy(Stream* handle, Copy copy, const void* host) {
  Stream* stream = stream_of(handle);
  if (stream->capturing && !is_pinned(host, copy.bytes)) return stream->refuse();
  return queue(handle, {true, {}, copy});
}

}  // namespace

bool emulated::capture_forbids() {
  bool forbids = false;
  for (Stream* stream : streams())
    if (stream->capturing && (stream->mode == ANY_THREAD || (stream->mode == ITS_THREAD && stream->thread == std::this_thread::get_id())))
      stream->broken = forbids = true;
  return forbids;
}

API cuStreamCreate(Stream** stream, unsigned) {
  IN_CONTEXT()
  *stream = new Stream;
  streams().insert(*stream);
  return SUCCESS;
}
API cuStreamCreateWithPriority(Stream** stream, unsigned flags, int) { return cuStreamCreate(stream, flags); }
API cuStreamDestroy_v2(Stream* stream) {
  IN_CONTEXT()
  if (!streams().erase(stream)) return INVALID_HANDLE;
  delete stream;
  return SUCCESS;
}
API cuStreamSynchronize(Stream* handle) {
  IN_CONTEXT()
  Stream* stream = stream_of(handle);
  return stream->capturing ? stream->refuse() : SUCCESS;
}
API cuStreamWaitEvent(Stream*, Event*, unsigned) { return check_context(); }

API cuMemHostAlloc(void** at, size_t bytes, unsigned) {
  IN_CONTEXT()
  if (capture_forbids()) return STREAM_CAPTURE_UNSUPPORTED;
  if (bytes == 0) return INVALID_VALUE;
  *at = malloc(bytes);
  pinned()[*at] = bytes;
  return SUCCESS;
}
API cuMemFreeHost(void* at) {
  IN_CONTEXT()
  if (!pinned().erase(at)) return INVALID_VALUE;
  free(at);
  return SUCCESS;
}
API cuMemcpyHtoDAsync_v2(void* to, const void* from, size_t bytes, Stream* stream) {
  IN_CONTEXT()
  return queue_host_copy(stream, {to, from, bytes, 0, true, false}, from);
}
API cuMemcpyDtoHAsync_v2(void* to, const void* from, size_t bytes, Stream* stream) {
  IN_CONTEXT()
  return queue_host_copy(stream, {to, from, bytes, 0, false, true}, to);
}
API cuMemcpyDtoDAsync_v2(void* to, const void* from, size_t bytes, Stream* stream) {
  IN_CONTEXT()
  return queue(stream, {true, {}, {to, from, bytes, 0, true, true}});
}
API cuMemsetD8Async(void* to, unsigned char value, size_t bytes, Stream* stream) {
  IN_CONTEXT()
  return queue(stream, {true, {}, {to, nullptr, bytes, value, true, false}});
}
API cuLaunchKernel(const Function* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared, Stream* stream, void** arguments, void** extra) {
  IN_CONTEXT()
  if (!function) return INVALID_HANDLE;
  const uint64_t threads = (uint64_t)block_x * block_y * block_z;
  const bool grid = grid_x && grid_y && grid_z && grid_x <= 0x7fffffff && grid_y <= 65535 && grid_z <= 65535;
  if (!grid || threads == 0 || threads > 1024 || shared > function->shared_limit || extra) return INVALID_VALUE;
  Call call{function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, {}};
  for (size_t i = 0; i < function->kernel->arguments; i++) {
    const size_t bytes = function->kernel->sizes[i], at = call.arguments.size();
    call.arguments.resize(at + words(bytes));
    memcpy(&call.arguments[at], arguments[i], bytes);
  }
  return queue(stream, {false, std::move(call), {}});
}

API cuStreamBeginCapture_v2(Stream* handle, int mode) {
  IN_CONTEXT()
  Stream* stream = stream_of(handle);
  if (stream == &default_stream) return STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capturing) return ILLEGAL_STATE;
  *stream = Stream{true, false, mode, std::this_thread::get_id(), {}};
  return SUCCESS;
}
API cuStreamEndCapture(Stream* handle, Graph** graph) {
  IN_CONTEXT()
  Stream* stream = stream_of(handle);
  *graph = nullptr;
  if (!stream->capturing) return ILLEGAL_STATE;
  stream->capturing = false;
  if (stream->broken) return STREAM_CAPTURE_INVALIDATED;
  *graph = new Graph(std::move(stream->captured));
  return SUCCESS;
}
API cuStreamIsCapturing(Stream* handle, int* status) {
  IN_CONTEXT()
  const Stream* stream = stream_of(handle);
  *status = !stream->capturing ? 0 : stream->broken ? 2 : 1;
  return SUCCESS;
}
API cuGraphInstantiateWithFlags(Graph** executable, const Graph* graph, unsigned long long) {
  IN_CONTEXT()
  if (!graph) return INVALID_HANDLE;
  *executable = new Graph(*graph);
  return SUCCESS;
}
API cuGraphUpload(const Graph* executable, Stream*) {
  IN_CONTEXT()
  return executable ? SUCCESS : INVALID_HANDLE;
}
API cuGraphLaunch(const Graph* executable, Stream* stream) {
  IN_CONTEXT()
  if (!executable) return INVALID_HANDLE;
  for (const Operation& operation : *executable)
    if (const Result failed = queue(stream, operation)) return failed;
  return SUCCESS;
}
API cuGraphExecDestroy(Graph* executable) {
  IN_CONTEXT()
  delete executable;
  return SUCCESS;
}
API cuGraphDestroy(Graph* graph) {
  IN_CONTEXT()
  delete graph;
  return SUCCESS;
}

API cuEventCreate(Event** event, unsigned) {
  IN_CONTEXT()
  *event = new Event;
  return SUCCESS;
}
API cuEventRecord(Event* event, Stream*) {
  IN_CONTEXT()
  event->time = std::chrono::steady_clock::now();
  return SUCCESS;
}
API cuEventQuery(Event*) { return check_context(); }
API cuEventSynchronize(Event*) { return check_context(); }
API cuEventElapsedTime(float* milliseconds, const Event* start, const Event* end) {
  IN_CONTEXT()
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
  return SUCCESS;
}
API cuEventDestroy_v2(Event* event) {
  IN_CONTEXT()
  delete event;
  return SUCCESS;
}
