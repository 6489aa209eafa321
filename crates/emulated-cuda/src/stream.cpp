// Streams, their queues, and graphs. Work runs as late as possible: when a caller waits for it. Until then, the work's
// memory, its graph, and the page-locked memory that it reads must not change.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "api.h"
#include "block.h"
#include "fault.h"
#include "memory.h"
#include "module.h"

using namespace emulated;

namespace {

uint64_t address(const void* at) { return reinterpret_cast<uint64_t>(at); }
size_t words(size_t bytes) { return (bytes + 15) / 16 * 2; }

// A kernel with its arguments.
struct Call {
  const Function* function;
  Index grid, block;
  unsigned shared;
  std::vector<uint64_t> arguments;  // one after the other, each from an even word on
  // Calls `each(value)` for every argument of eight bytes: those are the pointers.
  template <class Each>
  void pointers(Each each) const {
    const Kernel& kernel = *function->kernel;
    size_t word = 0;
    for (size_t i = 0; i < kernel.arguments; i++) {
      if (kernel.sizes[i] == 8) each(arguments[word]);
      word += words(kernel.sizes[i]);
    }
  }
  Result run() const;
};

// A copy, or, with no source, a fill.
struct Copy {
  void* to;
  const void* from;
  size_t bytes;
  unsigned char fill;
  bool to_device, from_device;
  // Whether all device memory of the copy is allocated.
  bool inside() const {
    return (!to_device || inside_memory(address(to), bytes)) && (!from_device || inside_memory(address(from), bytes));
  }
  void run() const {
    if (from)
      memmove(to, from, bytes);
    else
      memset(to, fill, bytes);
  }
};

// FNV-1a.
uint64_t hash(const void* at, size_t bytes) {
  uint64_t value = 0xCBF29CE484222325ull;
  for (size_t i = 0; i < bytes; i++) value = (value ^ static_cast<const unsigned char*>(at)[i]) * 0x100000001B3ull;
  return value;
}

struct Stream;
// A place in the order of a stream, which is reached once all earlier operations have run.
struct Mark {
  Stream* stream = nullptr;
  bool reached = true;
  std::chrono::steady_clock::time_point time;
};

struct Graph;
struct Operation {
  enum Kind { CALL, COPY, MARK } kind;
  Call call;
  Copy copy;
  std::shared_ptr<Mark> mark;
  bool hashed = false;  // whether `content` is the hash of the host memory that the copy reads
  uint64_t content = 0;
  const Graph* graph = nullptr;  // the graph whose launch queued the operation, or null

  // Whether the operation uses device memory in the range of `bytes` bytes from `at` on.
  bool uses(uint64_t at, size_t bytes) const {
    auto in = [&](uint64_t place) { return place >= at && place - at <= bytes; };
    bool found = kind == COPY && ((copy.to_device && in(address(copy.to))) || (copy.from_device && in(address(copy.from))));
    if (kind == CALL) call.pointers([&](uint64_t place) { found |= in(place); });
    return found;
  }
  Result run();
};
struct Graph {
  std::vector<Operation> operations;
};

// The modes of a capture, which decide whose calls may not allocate or wait meanwhile: those of any thread, or those of
// the capturing thread.
constexpr int ANY_THREAD = 0, ITS_THREAD = 1;

struct Stream {
  std::deque<Operation> pending;
  bool capturing = false, broken = false;
  int mode = 0;
  std::thread::id thread;
  Graph captured;
  Result refuse() {
    broken = true;
    return STREAM_CAPTURE_UNSUPPORTED;
  }
  // Runs the queued operations: all, or those up to `mark`.
  Result wait(const Mark* mark = nullptr) {
    while (!pending.empty() && !(mark && mark->reached)) {
      Operation operation = std::move(pending.front());
      pending.pop_front();
      if (const Result failed = operation.run()) return failed;
    }
    return context_error();
  }
};

struct Event {
  std::shared_ptr<Mark> mark = std::make_shared<Mark>();
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
// Returns the stream of a handle; the handles 0, 1 and 2 mean the default stream.
Stream* stream_of(Stream* handle) { return reinterpret_cast<uintptr_t>(handle) <= 2 ? &default_stream : handle; }

// Calls `each(operation)` for all operations in all queues.
template <class Each>
void for_pending(Each each) {
  for (const Operation& operation : default_stream.pending) each(operation);
  for (const Stream* stream : streams())
    for (const Operation& operation : stream->pending) each(operation);
}

Result Call::run() const {
  const Kernel& kernel = *function->kernel;
  if (breaks(kernel.name)) return break_context(ILLEGAL_ADDRESS);
  std::vector<void*> values;
  std::vector<uint64_t> places;
  size_t word = 0;
  for (size_t i = 0; i < kernel.arguments; i++) {
    values.push_back(const_cast<uint64_t*>(&arguments[word]));
    places.push_back(kernel.sizes[i] == 8 ? arguments[word] : 0);
    word += words(kernel.sizes[i]);
  }
  const Wrong wrong(kernel, places);
  emulated::run({kernel.name, kernel.call, values.data(), grid, block, shared});
  check_guards(kernel.name);
  wrong.spoil();
  return SUCCESS;
}

Result Operation::run() {
  switch (kind) {
    case CALL:
      call.pointers([&](uint64_t place) {
        if (graph && place && !inside_memory(place, 0)) fail("a graph launches %s on memory that was given back", call.function->kernel->name);
      });
      return call.run();
    case COPY:
      if (!copy.inside()) fail("a copy of %zu bytes from or to memory that was given back", copy.bytes);
      if (hashed && hash(copy.from, copy.bytes) != content)
        fail("host memory was changed before the copy of its %zu bytes to the device was done", copy.bytes);
      copy.run();
      return SUCCESS;
    case MARK:
      mark->reached = true;
      mark->time = std::chrono::steady_clock::now();
      return SUCCESS;
  }
  return SUCCESS;
}

Result queue(Stream* handle, Operation operation) {
  Stream* stream = stream_of(handle);
  if (stream->broken) return STREAM_CAPTURE_INVALIDATED;
  if (stream->capturing)
    stream->captured.operations.push_back(std::move(operation));
  else
    stream->pending.push_back(std::move(operation));
  return SUCCESS;
}

Result queue_copy(Stream* stream, Operation operation) {
  // The effect of copying or filling 0 bytes is not documented, so it is refused.
  if (operation.copy.bytes == 0 || !operation.copy.inside()) return INVALID_VALUE;
  return queue(stream, std::move(operation));
}

Operation copy_of(void* to, const void* from, size_t bytes, unsigned char fill, bool to_device, bool from_device) {
  return {Operation::COPY, {}, {to, from, bytes, fill, to_device, from_device}, {}};
}

}  // namespace

bool emulated::capture_forbids() {
  bool forbids = false;
  for (Stream* stream : streams())
    if (stream->capturing && (stream->mode == ANY_THREAD || (stream->mode == ITS_THREAD && stream->thread == std::this_thread::get_id())))
      stream->broken = forbids = true;
  return forbids;
}

void emulated::check_unused(uint64_t at, size_t bytes) {
  for_pending([&](const Operation& operation) {
    if (operation.uses(at, bytes))
      fail("%zu bytes of the device are given back before %s that uses them has run", bytes,
           operation.kind == Operation::CALL ? operation.call.function->kernel->name : "a copy");
  });
}

Result emulated::wait_for_all() {
  if (const Result failed = default_stream.wait()) return failed;
  for (Stream* stream : streams())
    if (const Result failed = stream->wait()) return failed;
  return SUCCESS;
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
  if (!streams().count(stream)) return INVALID_HANDLE;
  const Result result = stream->wait();
  streams().erase(stream);
  delete stream;
  return result;
}
API cuStreamSynchronize(Stream* handle) {
  IN_CONTEXT()
  Stream* stream = stream_of(handle);
  return stream->capturing ? stream->refuse() : stream->wait();
}
API cuStreamWaitEvent(Stream*, Event* event, unsigned) {
  IN_CONTEXT()
  return event->mark->reached ? SUCCESS : event->mark->stream->wait(event->mark.get());
}

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
  const auto piece = pinned().find(at);
  if (piece == pinned().end()) return INVALID_VALUE;
  for_pending([&](const Operation& operation) {
    const void* from = operation.copy.from;
    if (operation.hashed && from >= at && from < static_cast<char*>(at) + piece->second)
      fail("page-locked memory is given back before a copy from it has run");
  });
  pinned().erase(piece);
  free(at);
  return SUCCESS;
}
API cuMemcpyHtoDAsync_v2(void* to, const void* from, size_t bytes, Stream* handle) {
  IN_CONTEXT()
  Stream* stream = stream_of(handle);
  Operation operation = copy_of(to, from, bytes, 0, true, false);
  if (!is_pinned(from, bytes)) {
    // The driver waits for such a copy, which a graph cannot.
    if (stream->capturing) return stream->refuse();
    fail("an asynchronous copy of %zu bytes from host memory that is not page-locked: nobody promises when it is read", bytes);
  }
  operation.hashed = !stream->capturing;
  if (operation.hashed) operation.content = hash(from, bytes);
  return queue_copy(handle, std::move(operation));
}
API cuMemcpyDtoHAsync_v2(void* to, const void* from, size_t bytes, Stream* handle) {
  IN_CONTEXT()
  Stream* stream = stream_of(handle);
  const bool waits = !is_pinned(to, bytes);
  if (waits && stream->capturing) return stream->refuse();
  const Result queued = queue_copy(handle, copy_of(to, from, bytes, 0, false, true));
  return queued || !waits ? queued : stream->wait();
}
API cuMemcpyDtoDAsync_v2(void* to, const void* from, size_t bytes, Stream* stream) {
  IN_CONTEXT()
  return queue_copy(stream, copy_of(to, from, bytes, 0, true, true));
}
API cuMemsetD8Async(void* to, unsigned char value, size_t bytes, Stream* stream) {
  IN_CONTEXT()
  return queue_copy(stream, copy_of(to, nullptr, bytes, value, true, false));
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
  return queue(stream, {Operation::CALL, std::move(call), {}, {}});
}

API cuStreamBeginCapture_v2(Stream* handle, int mode) {
  IN_CONTEXT()
  Stream* stream = stream_of(handle);
  if (stream == &default_stream) return STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capturing) return ILLEGAL_STATE;
  stream->capturing = true;
  stream->broken = false;
  stream->mode = mode;
  stream->thread = std::this_thread::get_id();
  stream->captured = {};
  return SUCCESS;
}
API cuStreamEndCapture(Stream* handle, Graph** graph) {
  Locked locked;
  if (const Result failed = check_context()) return failed;
  Stream* stream = stream_of(handle);
  *graph = nullptr;
  if (!stream->capturing) return ILLEGAL_STATE;
  // The capture ends even if no graph can be made.
  stream->capturing = false;
  if (const Result failed = planted(__func__)) return failed;
  if (stream->broken) {
    stream->broken = false;
    return STREAM_CAPTURE_INVALIDATED;
  }
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
  for (Operation operation : executable->operations) {
    operation.graph = executable;
    if (const Result failed = queue(stream, std::move(operation))) return failed;
  }
  return SUCCESS;
}
API cuGraphExecDestroy(Graph* executable) {
  IN_CONTEXT()
  for_pending([&](const Operation& operation) {
    if (operation.graph == executable) fail("a graph is destroyed before its last replay has run");
  });
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
API cuEventRecord(Event* event, Stream* handle) {
  IN_CONTEXT()
  Stream* stream = stream_of(handle);
  if (stream->capturing) return stream->refuse();
  event->mark = std::make_shared<Mark>();
  event->mark->stream = stream;
  event->mark->reached = false;
  return queue(stream, {Operation::MARK, {}, {}, event->mark});
}
API cuEventQuery(const Event* event) {
  IN_CONTEXT()
  return event->mark->reached ? SUCCESS : NOT_READY;
}
API cuEventSynchronize(const Event* event) {
  IN_CONTEXT()
  return event->mark->reached ? SUCCESS : event->mark->stream->wait(event->mark.get());
}
API cuEventElapsedTime(float* milliseconds, const Event* start, const Event* end) {
  IN_CONTEXT()
  if (!start->mark->reached || !end->mark->reached) return NOT_READY;
  *milliseconds = std::chrono::duration<float, std::milli>(end->mark->time - start->mark->time).count();
  return SUCCESS;
}
API cuEventDestroy_v2(Event* event) {
  IN_CONTEXT()
  delete event;
  return SUCCESS;
}
