// Modules and their functions. Neither PTX nor machine code is run. Each kernel in them is compared with the kernel of
// the same name in this library, so that a stale file is noticed.
#include "module.h"

#include <elf.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api.h"
#include "block.h"

using namespace emulated;

namespace {

struct Module {
  std::vector<Function*> functions;
};

// Attributes of functions: most bytes of dynamic shared memory, and percent of a multiprocessor's memory to be shared.
constexpr int SHARED_LIMIT = 8, CARVEOUT = 9;

// Bytes of the parameter whose declaration begins here: `.u64 ...` or `.align 8 .b8 name[24]`.
size_t parameter_bytes(const char* declaration) {
  size_t align, bytes;
  char kind;
  if (sscanf(declaration, " .align %zu .b8 %*[^[][%zu]", &align, &bytes) == 2) return bytes;
  if (sscanf(declaration, " .%c%zu", &kind, &bytes) == 2) return bytes / 8;
  return 0;
}

// Returns a module's kernel by name. Stops the program if the source has other parameters. `code` names the kind of
// module.
Function* function_of(const std::string& name, const std::vector<size_t>& parameters, const char* code) {
  const Kernel* kernel = find_kernel(name.c_str(), name.size());
  if (!kernel) fail("%s has the kernel %s, which crates/emulated-cuda/src/kernels.cpp does not register", code, name.c_str());
  const size_t count = parameters.size();
  for (size_t i = 0; i < std::min(count, kernel->arguments); i++)
    if (parameters[i] != kernel->sizes[i])
      fail("argument %zu of %s has another size in the %s than in the source: run kernels/build.sh", i, name.c_str(), code);
  if (count != kernel->arguments)
    fail("%s has %zu arguments in the %s and %zu in the source: run kernels/build.sh", name.c_str(), count, code, kernel->arguments);
  return new Function{kernel, 48 << 10, -1};
}

// Returns the kernel that `.entry name(parameters)` declares; null if the text has no parameters.
Function* read_entry(const char* at) {
  at += strspn(at, " \t\n");
  const std::string name(at, strcspn(at, "( \t\n"));
  const char* end = strchr(at, ')');
  if (!end) return nullptr;
  const std::string text(at, end);
  std::vector<size_t> parameters;
  for (size_t p = text.find(".param"); p != std::string::npos; p = text.find(".param", p + 1))
    parameters.push_back(parameter_bytes(text.c_str() + p + strlen(".param")));
  return function_of(name, parameters, "PTX");
}

// The PTX version that a driver knows: 7.x came with CUDA 11.x, 8.x with 12.x, 9.x with 13.x.
int ptx_version() { return driver_version() / 10 - 400; }

// Whether EMULATED_CUDA_REFUSE names this kind of code.
bool refuses(const char* code) {
  const char* text = getenv("EMULATED_CUDA_REFUSE");
  return text && strcmp(text, code) == 0;
}

// Loads PTX that ends with a zero byte. `log` receives the compiler's message.
Result read_ptx(const char* text, Module* module, std::string* log) {
  if (refuses("ptx")) return JIT_COMPILER_NOT_FOUND;
  if (const char* says = getenv("EMULATED_CUDA_PTX_LOG")) return *log = says, INVALID_PTX;
  const char *version = strstr(text, ".version "), *target = strstr(text, ".target sm_");
  int major, minor;
  if (!version || !target || sscanf(version, ".version %d.%d", &major, &minor) != 2) return INVALID_PTX;
  if (major * 100 + minor > ptx_version()) return UNSUPPORTED_PTX_VERSION;
  if (atoi(target + strlen(".target sm_")) > capability_major() * 10 + capability_minor()) return INVALID_PTX;
  for (const char* at = text; (at = strstr(at, ".entry "));) {
    at += strlen(".entry ");
    Function* function = read_entry(at);
    if (!function) return INVALID_PTX;
    module->functions.push_back(function);
  }
  return SUCCESS;
}

// Returns the bytes of each parameter, from a section `.nv.info.KERNEL`. An entry of the section has a kind, an
// attribute and 16 bits. In kind 4, the 16 bits are the number of bytes that follow. Attribute 0x17 is a parameter,
// with three words: the second has its number, and the upper 14 bits of the third have its size.
std::vector<size_t> parameters_in(const unsigned char* at, size_t bytes) {
  std::vector<size_t> sizes;
  for (size_t i = 0; i + 4 <= bytes;) {
    uint16_t length;
    uint32_t words[3];
    memcpy(&length, at + i + 2, sizeof length);
    if (at[i] == 4 && at[i + 1] == 0x17 && i + 16 <= bytes) {
      memcpy(words, at + i + 4, sizeof words);
      const size_t number = words[1] & 0xFFFF;
      if (number >= sizes.size()) sizes.resize(number + 1);
      sizes[number] = words[2] >> 18;
    }
    i += 4 + (at[i] == 4 ? length : 0);
  }
  return sizes;
}

// A cubin: an ELF file whose global functions are the kernels. It runs on devices of the same major number and no smaller
// minor one; the file says which as 10 times the major and the minor number, in the first or, from version 8 of the format
// on, the second byte of its flags.
Result read_cubin(const char* image, Module* module) {
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(image);
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != 190) return INVALID_IMAGE;
  const int arch = (int)(header->e_flags >> (header->e_ident[EI_ABIVERSION] < 8 ? 0 : 8) & 0xFF);
  if (refuses("cubin") || arch / 10 != capability_major() || arch % 10 > capability_minor()) return NO_BINARY_FOR_GPU;
  const auto* sections = reinterpret_cast<const Elf64_Shdr*>(image + header->e_shoff);
  auto name_of = [&](const Elf64_Shdr& section) { return std::string(image + sections[header->e_shstrndx].sh_offset + section.sh_name); };
  std::map<std::string, std::vector<size_t>> parameters;
  for (size_t i = 0; i < header->e_shnum; i++)
    if (const std::string name = name_of(sections[i]); name.rfind(".nv.info.", 0) == 0)
      parameters[name.substr(strlen(".nv.info."))] = parameters_in(reinterpret_cast<const unsigned char*>(image) + sections[i].sh_offset, sections[i].sh_size);
  for (size_t i = 0; i < header->e_shnum; i++) {
    if (sections[i].sh_type != SHT_SYMTAB) continue;
    const auto* symbols = reinterpret_cast<const Elf64_Sym*>(image + sections[i].sh_offset);
    const char* names = image + sections[sections[i].sh_link].sh_offset;
    for (size_t s = 0; s < sections[i].sh_size / sizeof *symbols; s++)
      if (ELF64_ST_TYPE(symbols[s].st_info) == STT_FUNC && ELF64_ST_BIND(symbols[s].st_info) == STB_GLOBAL) {
        const std::string name = names + symbols[s].st_name;
        module->functions.push_back(function_of(name, parameters[name], "machine code"));
      }
  }
  return SUCCESS;
}

}  // namespace

// Of the options, those for the log of errors have a meaning here.
API cuModuleLoadDataEx(Module** out, const void* image, unsigned count, const int* options, void** values) {
  IN_CONTEXT()
  if (capture_forbids()) return STREAM_CAPTURE_UNSUPPORTED;
  const auto* text = static_cast<const char*>(image);
  auto module = std::make_unique<Module>();
  std::string log;
  const bool elf = memcmp(text, ELFMAG, SELFMAG) == 0;
  const Result result = elf ? read_cubin(text, module.get()) : read_ptx(text, module.get(), &log);
  constexpr int LOG = 5, LOG_BYTES = 6;
  char* buffer = nullptr;
  size_t room = 0;
  for (unsigned i = 0; i < count; i++) {
    if (options[i] == LOG) buffer = static_cast<char*>(values[i]);
    if (options[i] == LOG_BYTES) room = (unsigned)reinterpret_cast<uintptr_t>(values[i]);
  }
  if (buffer && room) snprintf(buffer, room, "%s", log.c_str());
  if (result == SUCCESS) *out = module.release();
  return result;
}
API cuModuleLoadData(Module** out, const void* image) { return cuModuleLoadDataEx(out, image, 0, nullptr, nullptr); }
API cuModuleUnload(Module* module) {
  IN_CONTEXT()
  if (!module) return INVALID_HANDLE;
  delete module;
  return SUCCESS;
}
API cuModuleGetFunction(Function** out, Module* module, const char* name) {
  IN_CONTEXT()
  if (!module) return INVALID_HANDLE;
  for (Function* function : module->functions)
    if (strcmp(function->kernel->name, name) == 0) return *out = function, SUCCESS;
  return NOT_FOUND;
}
API cuFuncSetAttribute(Function* function, int attribute, int value) {
  IN_CONTEXT()
  if (!function) return INVALID_HANDLE;
  switch (attribute) {
    case SHARED_LIMIT:
      if (value < 0 || value > 99 << 10) return INVALID_VALUE;
      function->shared_limit = (unsigned)value;
      return SUCCESS;
    case CARVEOUT:
      if (value < -1 || value > 100) return INVALID_VALUE;
      function->carveout = value;
      return SUCCESS;
    default: return SUCCESS;
  }
}
API cuFuncGetAttribute(int* value, int attribute, const Function* function) {
  IN_CONTEXT()
  if (!function) return INVALID_HANDLE;
  switch (attribute) {
    case SHARED_LIMIT: *value = (int)function->shared_limit; return SUCCESS;
    case CARVEOUT: *value = function->carveout; return SUCCESS;
    default: *value = 0; return SUCCESS;  // a real device's compiler determines the other values
  }
}
