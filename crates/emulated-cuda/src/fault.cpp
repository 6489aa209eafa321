#include "fault.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "api.h"
#include "block.h"
#include "memory.h"

namespace emulated {
namespace {

// A fault `KERNELS[:LAUNCH][@PLACE[.ARGUMENT]]`. It concerns kernels whose name begins with KERNELS, at launch LAUNCH
// (default 1). PLACE is the first (default), middle or last number that a kernel writes through ARGUMENT (default 0).
struct Fault {
  std::string kernels;
  unsigned long launch = 1;
  double place = 0;
  size_t argument = 0;

  explicit Fault(const char* text) {
    const size_t end = strcspn(text, ":@");
    kernels.assign(text, end);
    text += end;
    if (*text == ':') launch = strtoul(text + 1, const_cast<char**>(&text), 10);
    if (*text != '@') return;
    const std::string name(text + 1, strcspn(text + 1, "."));
    if (name != "first" && name != "middle" && name != "last") fail("a fault is at no place called `%s`", name.c_str());
    place = name == "first" ? 0 : name == "middle" ? 0.5 : 1;
    text += 1 + name.size();
    if (*text == '.') argument = strtoul(text + 1, nullptr, 10);
  }
  bool is_in(const char* kernel) const { return !kernels.empty() && strncmp(kernel, kernels.c_str(), kernels.size()) == 0; }
};

unsigned long wrong_launches = 0;

// The fault that makes results wrong, from EMULATED_CUDA_WRONG or `emulated_cuda_plant`.
Fault& wrong_numbers() {
  static auto& fault = *new Fault([] {
    const char* text = getenv("EMULATED_CUDA_WRONG");
    return text ? text : "";
  }());
  return fault;
}

}  // namespace

bool breaks(const char* kernel) {
  static unsigned long launches = 0;
  const char* text = getenv("EMULATED_CUDA_FAIL");
  if (!text) return false;
  const Fault fault(text);
  return fault.is_in(kernel) && ++launches == fault.launch;
}

Wrong::Wrong(const Kernel& kernel, const std::vector<uint64_t>& pointers) {
  const Fault& fault = wrong_numbers();
  if (!fault.is_in(kernel.name) || ++wrong_launches < fault.launch || fault.argument >= kernel.arguments) return;
  number = kernel.numbers[fault.argument];
  if (number.bytes == 0) fail("%s writes nothing through argument %zu", kernel.name, fault.argument);
  const uint64_t from = pointers[fault.argument];
  size_t bytes = memory_from(from);
  // Memory from another argument's pointer on belongs to that argument.
  for (const uint64_t other : pointers)
    if (other > from) bytes = std::min(bytes, (size_t)(other - from));
  if (bytes < number.bytes) return;
  at = from;
  place = fault.place;
  const auto* now = reinterpret_cast<const unsigned char*>(at);
  before.assign(now, now + bytes);
}

void Wrong::spoil() const {
  if (!at) return;
  auto* now = reinterpret_cast<unsigned char*>(at);
  std::vector<size_t> changed;
  for (size_t i = 0; i + number.bytes <= before.size(); i += number.bytes)
    if (memcmp(now + i, &before[i], number.bytes) != 0) changed.push_back(i);
  // The kernel wrote the same values that were there before.
  if (changed.empty()) changed.push_back(0);
  const auto index = (size_t)(place * (double)(changed.size() - 1));
  now[changed[index] + number.bit / 8] ^= (unsigned char)(1u << number.bit % 8);
}

}  // namespace emulated

// Makes the results of kernels wrong from now on. `fault` has the form of EMULATED_CUDA_WRONG; "" ends all faults.
extern "C" __attribute__((visibility("default"))) void emulated_cuda_plant(const char* fault) {
  emulated::Locked locked;
  emulated::wrong_numbers() = emulated::Fault(fault);
  emulated::wrong_launches = 0;
}
