"""The CUDA driver by ctypes, without any other package: what a card is, what it makes of the kernels, a launch.

    python3 benches/gpu/driver.py facts             one JSON object
    python3 benches/gpu/driver.py modules FOLDER    a JSON object: each module of the folder, each kernel of it
    python3 benches/gpu/driver.py probe CUBIN FILE  a, b and c of the probe from FILE, its results to FILE.out
"""

import ctypes
import json
import pathlib
import re
import sys
import time

ATTRIBUTES = {"multiprocessors": 16, "l2_bytes": 38, "clock_khz": 13, "memory_clock_khz": 36, "bus_bits": 37,
              "shared_bytes_of_multiprocessor": 81, "registers_of_multiprocessor": 82, "major": 75, "minor": 76}  # fmt: skip
OF_FUNCTION = {"registers": 4, "local_bytes": 3, "shared_bytes": 1, "threads": 0, "ptx_version": 5, "binary_version": 6}


class Driver:
    def __init__(self):
        for name in ("libcuda.so", "libcuda.so.1"):
            try:
                self.library = ctypes.CDLL(name)
                break
            except OSError as error:
                missing = error
        else:
            raise SystemExit(f"no driver: {missing}")
        self.device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(self.device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self.call("cuCtxSetCurrent", context)

    def has(self, name):
        return hasattr(self.library, name)

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(code, ctypes.byref(text))
            raise SystemExit(f"{name}: {(text.value or str(code).encode()).decode()}")

    def number(self, name, *arguments, kind=ctypes.c_int):
        """What a function writes to its first argument; None where the driver has no such function or no such number."""
        value = kind()
        if not self.has(name) or getattr(self.library, name)(ctypes.byref(value), *arguments):
            return None
        return value.value

    def facts(self):
        name, free, total = ctypes.create_string_buffer(200), ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuDeviceGetName", name, 200, self.device)
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        facts = {"name": name.value.decode(), "driver": self.number("cuDriverGetVersion"), "bytes": total.value, "free_bytes": free.value}
        return facts | {what: self.number("cuDeviceGetAttribute", number, self.device) for what, number in ATTRIBUTES.items()}

    def load(self, path):
        """A module from a cubin or a PTX file."""
        image, module = path.read_bytes() + b"\0", ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), image)
        return module

    def function(self, module, name):
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def kernels(self, path, names):
        """Seconds to load a module with all its kernels, and what the driver says of each."""
        began = time.monotonic()
        module = self.load(path)
        functions = {name: self.function(module, name) for name in names}
        seconds = time.monotonic() - began
        kernels = {}
        for name, function in functions.items():
            says = {what: self.number("cuFuncGetAttribute", number, function) for what, number in OF_FUNCTION.items()}
            if says["threads"]:
                says["blocks_of_multiprocessor"] = self.number(
                    "cuOccupancyMaxActiveBlocksPerMultiprocessor", function, says["threads"], ctypes.c_size_t(0)
                )
            kernels[name] = says
        return {"seconds": seconds, "kernels": kernels}

    def probe(self, cubin, inputs):
        """Results of mma.sync and of wgmma for a, b and c, which lie one after the other."""
        blocks = len(inputs) // (512 + 256 + 512)
        function = self.function(self.load(cubin), "probe")
        sizes = [512 * blocks, 512 * blocks, 512 * blocks, 256 * blocks, 512 * blocks]
        buffers = [ctypes.c_uint64(self.number("cuMemAlloc_v2", ctypes.c_size_t(size), kind=ctypes.c_uint64)) for size in sizes]
        at = 0
        for buffer, size in zip(buffers[2:], sizes[2:]):
            self.call("cuMemcpyHtoD_v2", buffer, inputs[at : at + size], ctypes.c_size_t(size))
            at += size
        # what wgmma leaves alone is no number
        self.call("cuMemsetD8_v2", buffers[1], ctypes.c_ubyte(0xFF), ctypes.c_size_t(sizes[1]))
        arguments = (ctypes.c_void_p * 5)(*[ctypes.cast(ctypes.pointer(buffer), ctypes.c_void_p) for buffer in buffers])
        self.call("cuLaunchKernel", function, blocks, 1, 1, 128, 1, 1, 0, None, arguments, None)
        self.call("cuCtxSynchronize")
        results = ctypes.create_string_buffer(2 * sizes[0])
        self.call("cuMemcpyDtoH_v2", results, buffers[0], ctypes.c_size_t(sizes[0]))
        self.call("cuMemcpyDtoH_v2", ctypes.byref(results, sizes[0]), buffers[1], ctypes.c_size_t(sizes[1]))
        return results.raw


def kernel_names(ptx):
    return re.findall(r"^\.visible \.entry (\w+)", ptx.read_text(), re.M)


def main(what, *arguments):
    driver = Driver()
    if what == "facts":
        print(json.dumps(driver.facts()))
    elif what == "modules":
        modules = {}
        for ptx in sorted(pathlib.Path(arguments[0]).glob("*.ptx")):
            cubin = ptx.with_suffix(".cubin")
            modules[ptx.stem] = driver.kernels(cubin if cubin.exists() else ptx, kernel_names(ptx))
        print(json.dumps(modules))
    else:
        cubin, file = map(pathlib.Path, arguments)
        file.with_suffix(".out").write_bytes(driver.probe(cubin, file.read_bytes()))


if __name__ == "__main__":
    main(*sys.argv[1:])
