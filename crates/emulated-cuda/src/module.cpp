// Modules and their functions. PTX is not run: it is held against the kernels of the same names that the
// library was compiled with, so that a stale file shows.
#include "module.h"

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "api.h"
#include "block.h"

using namespace emulated;

namespace {

struct Module {
  std::vector<Function*> functions;
};

// Bytes of the parameter whose declaration begins here: `.u64 ...` or `.align 8 .b8 name[24]`.
size_t parameter_bytes(const char* declaration) {
  size_t align, bytes;
  char kind;
  if (sscanf(declaration, " .align %zu .b8 %*[^[][%zu]", &align, &bytes) == 2) return bytes;
  if (sscanf(declaration, " .%c%zu", &kind, &bytes) == 2) return bytes / 8;
  return 0;
}

// The kernel that `.entry name(parameters)` declares; null if the text is none.
Function* read_entry(const char* at) {
  at += strspn(at, " \t\n");
  const size_t length = strcspn(at, "( \t\n");
  const std::string name(at, length);
  const char* end = strchr(at, ')');
  if (!end) return nullptr;
  const Kernel* kernel = find_kernel(at, length);
  if (!kernel) fail("PTX has the kernel %s, which crates/emulated-cuda/src/kernels.cpp does not register", name.c_str());
  const std::string parameters(at, end);
  size_t count = 0;
  for (size_t p = parameters.find(".param"); p != std::string::npos; p = parameters.find(".param", p + 1), count++)
    if (count < kernel->arguments && parameter_bytes(parameters.c_str() + p + strlen(".param")) != kernel->sizes[count])
      fail("argument %zu of %s has another size in the PTX than in the source: run kernels/build.sh", count, name.c_str());
  if (count != kernel->arguments)
    fail("%s has %zu arguments in the PTX and %zu in the source: run kernels/build.sh", name.c_str(), count, kernel->arguments);
  return new Function{kernel, 48 << 10};
}

// The PTX version that a driver knows: 7.x came with CUDA 11.x, 8.x with 12.x, 9.x with 13.x.
int ptx_version() { return driver_version() / 10 - 400; }

}  // namespace

API cuModuleLoadData(Module** out, const void* image) {
  IN_CONTEXT()
  if (capture_forbids()) return STREAM_CAPTURE_UNSUPPORTED;
  const char* text = static_cast<const char*>(image);
  const char *version = strstr(text, ".version "), *target = strstr(text, ".target sm_");
  int major, minor;
  if (!version || !target || sscanf(version, ".version %d.%d", &major, &minor) != 2) return INVALID_PTX;
  if (major * 100 + minor > ptx_version()) return UNSUPPORTED_PTX_VERSION;
  if (atoi(target + strlen(".target sm_")) > capability_major() * 10 + capability_minor()) return INVALID_PTX;
  auto* module = new Module;
  for (const char* at = text; (at = strstr(at, ".entry "));) {
    at += strlen(".entry ");
    Function* function = read_entry(at);
    if (!function) return INVALID_PTX;
    module->functions.push_back(function);
  }
  *out = module;
  return SUCCESS;
}
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
  if (attribute == 8) {  // MAX_DYNAMIC_SHARED_SIZE_BYTES
    if (value < 0 || value > 99 << 10) return INVALID_VALUE;
    function->shared_limit = (unsigned)value;
  }
  return SUCCESS;
}
