// The kernels that the library has, by name.
#pragma once
#include <cstddef>
#include <utility>

namespace emulated {

struct Kernel {
  const char* name;
  void (*call)(void** arguments);  // the arguments as cuLaunchKernel gets them: pointers to values
  const size_t* sizes;             // bytes of each argument
  size_t arguments;
};

template <auto FUNCTION>
struct Signature;
template <class... A, void (*FUNCTION)(A...)>
struct Signature<FUNCTION> {
  static constexpr size_t sizes[] = {sizeof(A)..., 0};
  template <size_t... I>
  static void apply(void** arguments, std::index_sequence<I...>) {
    FUNCTION(*static_cast<A*>(arguments[I])...);
  }
  static void call(void** arguments) { apply(arguments, std::index_sequence_for<A...>{}); }
  static constexpr Kernel kernel(const char* name) { return {name, call, sizes, sizeof...(A)}; }
};

// In kernels.cpp.
const Kernel* find_kernel(const char* name, size_t length);

}  // namespace emulated
