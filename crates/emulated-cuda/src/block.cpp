#include "block.h"

#include <sys/mman.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#if defined(__x86_64__)
// Pushes the registers that a called function must keep, switches to the other stack, and pops the registers saved
// there.
extern "C" void emulated_switch(void** save, void* to);
asm(".text\n.type emulated_switch,@function\nemulated_switch:\n"
    " pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
    " movq %rsp,(%rdi)\n movq %rsi,%rsp\n"
    " popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n ret\n");
#else
#include <ucontext.h>
#endif

namespace emulated {

Fiber* current;
Index block_index, block_size, grid_size;
unsigned char* shared_memory;

namespace {

constexpr unsigned MAX_THREADS = 1024;
constexpr unsigned LANES = 32;
constexpr size_t STACK = 64 << 10;
constexpr size_t MAX_SHARED = 256 << 10;

// The lanes of a warp that wait for an operation, with their arguments.
struct Warp {
  unsigned live, waiting;
  unsigned mask[LANES];
  Work work[LANES];
  void* brought[LANES];
};

const Launch* launch;
Fiber fibers[MAX_THREADS];
Fiber scheduler;  // the thread that called `run`
Warp warps[MAX_THREADS / LANES];
unsigned char* stacks;

// The threads that can continue, in the order in which they became ready. A thread is in the queue at most once.
struct {
  Fiber* items[MAX_THREADS];
  unsigned first, count;
  void push(Fiber* fiber) { items[(first + count++) % MAX_THREADS] = fiber; }
  Fiber* pop() {
    Fiber* fiber = items[first];
    first = (first + 1) % MAX_THREADS;
    count--;
    return fiber;
  }
} ready;

unsigned alive;  // threads that have not returned

struct {
  Fiber* waiting[MAX_THREADS];
  unsigned count, votes, result;
} at_barrier;

uint64_t random_state;
unsigned random_below(unsigned n) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (unsigned)((random_state >> 32) * n >> 32);
}

#if defined(__x86_64__)
void prepare(Fiber& fiber, unsigned char* stack_end, void (*enter)()) {
  void** top = reinterpret_cast<void**>(stack_end);
  *--top = nullptr;  // where `enter` would return to
  *--top = reinterpret_cast<void*>(enter);
  for (int saved = 0; saved < 6; saved++) *--top = nullptr;
  fiber.stack_pointer = top;
}
void switch_to(Fiber* to) {
  Fiber* from = current;
  current = to;
  emulated_switch(&from->stack_pointer, to->stack_pointer);
}
#else
ucontext_t contexts[MAX_THREADS + 1];
ucontext_t& context_of(Fiber* fiber) { return contexts[fiber == &scheduler ? MAX_THREADS : fiber->number]; }

void prepare(Fiber& fiber, unsigned char* stack_end, void (*enter)()) {
  ucontext_t& context = context_of(&fiber);
  getcontext(&context);
  context.uc_stack.ss_sp = stack_end - STACK;
  context.uc_stack.ss_size = STACK;
  context.uc_link = nullptr;
  makecontext(&context, enter, 0);
}
void switch_to(Fiber* to) {
  Fiber* from = current;
  current = to;
  swapcontext(&context_of(from), &context_of(to));
}
#endif

// Runs other threads until one of them has put the current thread into `ready`.
void next() {
  if (ready.count == 0) {
    unsigned lanes = 0;
    for (const Warp& warp : warps) lanes += (unsigned)__builtin_popcount(warp.waiting);
    fail("deadlock: of %u threads, %u wait at a barrier and %u for lanes of their warp (a divergent __syncthreads or shuffle?)",
         alive, at_barrier.count, lanes);
  }
  Fiber* to = ready.pop();
  if (to != current) switch_to(to);
}

void release_barrier() {
  at_barrier.result = at_barrier.votes;
  const unsigned start = random_below(at_barrier.count + 1);
  for (unsigned i = 0; i < at_barrier.count; i++) ready.push(at_barrier.waiting[(start + i) % at_barrier.count]);
  at_barrier.count = at_barrier.votes = 0;
}

// Runs the operation that the live lanes of `mask` wait for, if all of them have arrived.
bool complete(Warp& warp, unsigned mask) {
  const unsigned lanes = mask & warp.live;
  if ((warp.waiting & lanes) != lanes || lanes == 0) return false;
  const Work work = warp.work[__builtin_ctz(lanes)];
  for (unsigned left = lanes; left; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    if (warp.mask[lane] != mask) return false;
    if (warp.work[lane] != work) fail("lanes of a warp meet at different operations");
  }
  work(warp.brought, lanes);
  warp.waiting &= ~lanes;
  Fiber* first = &fibers[(&warp - warps) * LANES];
  const unsigned turn = random_below(LANES);
  for (unsigned i = 0; i < LANES; i++) {
    const unsigned lane = (i + turn) % LANES;
    if ((lanes >> lane & 1) && first + lane != current) ready.push(first + lane);
  }
  return true;
}

// Ends the current thread, which has returned. Threads that waited for it may then continue.
void leave() {
  Warp& warp = warps[current->number / LANES];
  warp.live &= ~(1u << current->number % LANES);
  for (unsigned left = warp.waiting; left; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    if (warp.waiting >> lane & 1) complete(warp, warp.mask[lane]);
  }
  alive--;
  if (at_barrier.count > 0 && at_barrier.count == alive) release_barrier();
  if (alive == 0) {
    switch_to(&scheduler);
  } else {
    next();
  }
}

void enter() {
  launch->kernel(launch->arguments);
  leave();
}

// Allocates stacks with protected pages between them, so that an overflow ends the program.
void make_stacks() {
  const size_t page = 4096, all = STACK * MAX_THREADS;
  void* memory = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  void* shared = aligned_alloc(page, MAX_SHARED);
  if (memory == MAP_FAILED || shared == nullptr) fail("no memory for the threads of a block");
  stacks = static_cast<unsigned char*>(memory);
  shared_memory = static_cast<unsigned char*>(shared);
  for (unsigned i = 0; i < MAX_THREADS; i++) mprotect(stacks + STACK * i, page, PROT_NONE);
  const char* seed = getenv("EMULATED_CUDA_SEED");
  random_state = 0x9E3779B97F4A7C15ull ^ (seed ? strtoull(seed, nullptr, 10) * 0xD1342543DE82EF95ull : 0);
}

void run_block(unsigned threads) {
  alive = threads;
  at_barrier.count = at_barrier.votes = 0;
  ready.first = ready.count = 0;
  // The bytes 0xFF are NaN in a float of any width, so that reads of unwritten memory are noticed.
  memset(shared_memory, 0xFF, launch->shared);
  for (unsigned w = 0; w * LANES < threads; w++) {
    const unsigned first = w * LANES;
    const unsigned lanes = threads - first < LANES ? threads - first : LANES;
    warps[w].live = lanes == LANES ? ~0u : (1u << lanes) - 1;
    warps[w].waiting = 0;
    for (unsigned lane = 0; lane < lanes; lane++) {
      Fiber& fiber = fibers[first + lane];
      fiber.number = first + lane;
      fiber.index = {fiber.number % block_size.x, fiber.number / block_size.x % block_size.y,
                     fiber.number / (block_size.x * block_size.y)};
      prepare(fiber, stacks + STACK * (fiber.number + 1), enter);
      ready.push(&fiber);
    }
  }
  for (unsigned i = threads; i > 1; i--) std::swap(ready.items[i - 1], ready.items[random_below(i)]);
  current = &scheduler;
  switch_to(ready.pop());
}

}  // namespace

void fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "emulated CUDA: ");
  vfprintf(stderr, format, arguments);
  if (launch) {
    fprintf(stderr, "; kernel %s, block (%u, %u, %u)", launch->name, block_index.x, block_index.y, block_index.z);
    if (current && current != &scheduler) fprintf(stderr, ", thread %u", current->number);
  }
  fprintf(stderr, "\n");
  abort();
}

unsigned barrier(bool vote) {
  at_barrier.votes += vote;
  if (at_barrier.count + 1 == alive) {
    release_barrier();
  } else {
    at_barrier.waiting[at_barrier.count++] = current;
    next();
  }
  return at_barrier.result;
}

void collective(unsigned mask, void* mine, Work work) {
  Warp& warp = warps[current->number / LANES];
  const unsigned lane = current->number % LANES;
  if (!(mask >> lane & 1)) fail("lane %u is not in the mask 0x%x of its own operation", lane, mask);
  warp.mask[lane] = mask;
  warp.work[lane] = work;
  warp.brought[lane] = mine;
  warp.waiting |= 1u << lane;
  if (!complete(warp, mask)) next();
}

void run(const Launch& what) {
  if (!stacks) make_stacks();
  launch = &what;
  grid_size = what.grid;
  block_size = what.block;
  const unsigned threads = what.block.x * what.block.y * what.block.z;
  const uint64_t blocks = (uint64_t)what.grid.x * what.grid.y * what.grid.z;
  // The blocks run in order, from a random block on, and wrap around at the end.
  uint64_t b = blocks <= ~0u ? random_below((unsigned)blocks) : 0;
  for (uint64_t i = 0; i < blocks; i++, b = b + 1 == blocks ? 0 : b + 1) {
    block_index = {(unsigned)(b % what.grid.x), (unsigned)(b / what.grid.x % what.grid.y),
                   (unsigned)(b / what.grid.x / what.grid.y)};
    run_block(threads);
  }
  launch = nullptr;
  current = nullptr;
}

}  // namespace emulated
