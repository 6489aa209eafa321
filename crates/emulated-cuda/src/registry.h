// The table of the library's kernels, by name.
#pragma once
#include <cstddef>
#include <utility>

namespace emulated {

// A type of numbers in results, and the bit that is flipped to make one wrong. `bytes` is 0 for arguments that are not
// written through.
struct Number {
  size_t bytes;
  unsigned bit;
};
// Integers become their neighbours, floats change by a quarter to a half. Those of 16 bits are in kernels.cpp.
template <class T>
constexpr Number number_of = {sizeof(T), 0};
template <>
inline constexpr Number number_of<float> = {4, 22};
template <>
inline constexpr Number number_of<double> = {8, 51};
template <class A>
constexpr Number written = {0, 0};
template <class T>
constexpr Number written<T*> = number_of<T>;
template <class T>
constexpr Number written<const T*> = {0, 0};

struct Kernel {
  const char* name;
  void (*call)(void** arguments);  // the arguments as cuLaunchKernel gets them: pointers to values
  const size_t* sizes;             // bytes of each argument
  const Number* numbers;           // the type of the numbers that are written through each argument
  size_t arguments;
};

template <auto FUNCTION>
struct Signature;
template <class... A, void (*FUNCTION)(A...)>
struct Signature<FUNCTION> {
  static constexpr size_t sizes[] = {sizeof(A)..., 0};
  static constexpr Number numbers[] = {written<A>..., Number{0, 0}};
  template <size_t... I>
  static void apply(void** arguments, std::index_sequence<I...>) {
    FUNCTION(*static_cast<A*>(arguments[I])...);
  }
  static void call(void** arguments) { apply(arguments, std::index_sequence_for<A...>{}); }
  static constexpr Kernel kernel(const char* name) { return {name, call, sizes, numbers, sizeof...(A)}; }
};

// In kernels.cpp.
const Kernel* find_kernel(const char* name, size_t length);

}  // namespace emulated
