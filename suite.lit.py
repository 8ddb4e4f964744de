# The one lit suite of this tree: *.mlir and *.test files beside what they test.
# Loaded by test/lit.site.cfg.py, which knows the build; its root is the source
# root.
import os
import sys

import lit.formats

config.name = "ds4c"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["build", "data", "ds4-tiny", "profiles"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.ds4_build, "lit")

config.environment["PATH"] = os.pathsep.join(
    [os.path.join(config.ds4_build, "bin"), config.llvm_tools,
     config.environment["PATH"]])
# Tests neither see nor change the user's cache.
config.environment["XDG_CACHE_HOME"] = os.path.join(config.test_exec_root,
                                                    "cache")
config.environment["FILECHECK_OPTS"] = "--dump-input-filter=error"

config.substitutions.append(("%source", config.test_source_root))
config.substitutions.append(("%python", sys.executable))
config.substitutions.append(("%mlir_include", config.mlir_include))
config.substitutions.append(("%bin", os.path.join(config.ds4_build, "bin")))

# Sanitized programs cannot be told by ldd, and report leaks of LLVM's own.
if config.ds4_sanitize:
    config.available_features.add("sanitized")
    config.environment["ASAN_OPTIONS"] = "detect_leaks=0"
# What compiles kernels for NVIDIA's chips at load time.
if any(os.path.exists(os.path.join(folder, "libnvrtc.so.13"))
       for folder in ["/usr/local/cuda/lib64", "/usr/local/cuda-13.0/lib64",
                      "/usr/lib/x86_64-linux-gnu"]):
    config.available_features.add("nvrtc")
# AMD's compiler, which needs the loader of its folder (scripts/hiprtc-root.sh).
hiprtc = os.path.join(
    os.environ.get("DS4_HIPRTC_ROOT") or os.path.expanduser(
        "~/.cache/ds4c/hiprtc"), "run")
if os.access(hiprtc, os.X_OK) and not config.ds4_sanitize:
    config.available_features.add("hiprtc")
    config.substitutions.append(("%hiprtc", hiprtc))
# Tests of a minute and more.
if os.environ.get("DS4_SLOW_TESTS"):
    config.available_features.add("slow")
# A folder of larger models and their reference dumps that are not in the tree:
# ds4-tiny-f16.gguf, ds4-tiny-mix.gguf, ds4-tiny-gold.json, ....
models = os.environ.get("DS4_MODELS")
if models:
    config.available_features.add("models")
    config.substitutions.append(("%models", os.path.abspath(models)))
if os.path.exists(os.path.join(config.ds4_build, "bin", "ds4run")):
    config.available_features.add("ds4run")
