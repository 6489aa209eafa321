// All kernels, compiled for the CPU. Each file of kernels/ has its `#include`, and each kernel of it its line in
// `KERNELS`: keep both lists in the order of the file names.
#include "registry.h"

#include <cstring>

#include "attention.cu"
#include "embed.cu"
#include "gather.cu"
#include "linear.cu"
#include "prm.cu"
#include "rmsnorm.cu"
#include "rope.cu"
#include "sample.cu"
#include "silu.cu"
// These kernels have errors on purpose, for the tests of this crate.
#include "planted.cu"

namespace emulated {

template <>
inline constexpr Number number_of<bf16> = {2, 6};
template <>
inline constexpr Number number_of<f16> = {2, 9};

namespace {

#define REGISTER(name) Signature<name>::kernel(#name),
const Kernel KERNELS[] = {
    // attention.cu
    REGISTER(attention_64_bf16)
    REGISTER(attention_96_bf16)
    REGISTER(attention_128_bf16)
    REGISTER(attention_64_f16)
    REGISTER(attention_96_f16)
    REGISTER(attention_128_f16)
    REGISTER(attention_any_f32)
    REGISTER(attention_any_bf16)
    REGISTER(attention_any_f16)
    REGISTER(attention_merge_f32)
    REGISTER(attention_merge_bf16)
    REGISTER(attention_merge_f16)
    // embed.cu
    REGISTER(embed_f32)
    REGISTER(embed_bf16)
    REGISTER(embed_f16)
    // gather.cu
    REGISTER(gather_rows)
    // linear.cu
    REGISTER(linear_8_bf16)
    REGISTER(linear_16_bf16)
    REGISTER(linear_32_bf16)
    REGISTER(linear_64_bf16)
    REGISTER(linear_many_bf16)
    REGISTER(linear_silu_8_bf16)
    REGISTER(linear_silu_16_bf16)
    REGISTER(linear_silu_32_bf16)
    REGISTER(linear_silu_64_bf16)
    REGISTER(linear_silu_many_bf16)
    REGISTER(linear_8_f16)
    REGISTER(linear_16_f16)
    REGISTER(linear_32_f16)
    REGISTER(linear_64_f16)
    REGISTER(linear_many_f16)
    REGISTER(linear_silu_8_f16)
    REGISTER(linear_silu_16_f16)
    REGISTER(linear_silu_32_f16)
    REGISTER(linear_silu_64_f16)
    REGISTER(linear_silu_many_f16)
    REGISTER(linear_any_f32)
    REGISTER(linear_any_bf16)
    REGISTER(linear_any_f16)
    // prm.cu
    REGISTER(prm_head)
    REGISTER(prm_layer)
    // rmsnorm.cu
    REGISTER(rmsnorm_f32)
    REGISTER(rmsnorm_bf16)
    REGISTER(rmsnorm_f16)
    REGISTER(rmsnorm_heads)
    // rope.cu
    REGISTER(rope_angles)
    REGISTER(rope_kv_f32)
    REGISTER(rope_kv_bf16)
    REGISTER(rope_kv_f16)
    // sample.cu
    REGISTER(sample)
    REGISTER(log_prob)
    // silu.cu
    REGISTER(silu_mul_f32)
    REGISTER(silu_mul_bf16)
    REGISTER(silu_mul_f16)
    // planted.cu
    REGISTER(planted_increment)
    REGISTER(planted_turn)
    REGISTER(planted_write)
    REGISTER(planted_shuffle)
    REGISTER(planted_pairs)
};

}  // namespace

const Kernel* find_kernel(const char* name, size_t length) {
  for (const Kernel& kernel : KERNELS)
    if (strlen(kernel.name) == length && memcmp(kernel.name, name, length) == 0) return &kernel;
  return nullptr;
}

}  // namespace emulated
