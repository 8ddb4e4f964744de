// GpuApi.h - the functions of the CUDA driver and of the HIP runtime that we
// use, under one name each: the two libraries agree in what they do and in how
// they are called. Own declarations, since neither is needed to build.
#ifndef DS4_RUNTIME_GPUAPI_H
#define DS4_RUNTIME_GPUAPI_H

#include "runtime/Result.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace ds4 {

/// CUlaunchAttribute with the one value that we set.
struct GpuLaunchAttribute {
  int id;
  char padding[4];
  union {
    char space[64];
    int value;
  };
};

/// CUlaunchConfig.
struct GpuLaunchConfig {
  unsigned gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes;
  void *stream;
  GpuLaunchAttribute *attributes;
  unsigned attributeCount;
};

/// Which of the two, and its functions. Functions return 0 where all is well.
struct GpuApi {
  bool cuda = true;
  std::string library; ///< what was opened

  int (*init)(unsigned flags);
  int (*driverVersion)(int *version);
  int (*deviceCount)(int *count);
  int (*device)(int *device, int ordinal);
  int (*deviceName)(char *name, int bytes, int device);
  int (*deviceAttribute)(int *value, int attribute, int device);
  int (*totalMemory)(size_t *bytes, int device);
  int (*retainContext)(void **context, int device);
  int (*releaseContext)(int device);
  int (*setContext)(void *context);
  int (*memoryInfo)(size_t *free, size_t *total);
  int (*allocate)(void **memory, size_t bytes);
  int (*free)(void *memory);
  int (*allocateHost)(void **memory, size_t bytes, unsigned flags);
  int (*freeHost)(void *memory);
  int (*copyIn)(void *device, const void *host, size_t bytes, void *stream);
  int (*copyOut)(void *host, const void *device, size_t bytes, void *stream);
  int (*fill)(void *memory, unsigned char value, size_t bytes, void *stream);
  int (*createStream)(void **stream, unsigned flags);
  int (*destroyStream)(void *stream);
  int (*synchronize)(void *stream);
  int (*loadModule)(void **module, const void *code);
  int (*unloadModule)(void *module);
  int (*function)(void **function, void *module, const char *name);
  int (*functionAttribute)(int *value, int attribute, void *function);
  int (*launch)(void *function, unsigned gridX, unsigned gridY, unsigned gridZ,
                unsigned blockX, unsigned blockY, unsigned blockZ,
                unsigned sharedBytes, void *stream, void **args, void **extra);
  int (*beginCapture)(void *stream, int mode);
  int (*endCapture)(void *stream, void **graph);
  int (*instantiate)(void **exec, void *graph, unsigned long long flags);
  int (*launchGraph)(void *exec, void *stream);
  int (*destroyExec)(void *exec);
  int (*destroyGraph)(void *graph);

  // CUDA only.
  int (*setFunctionAttribute)(void *function, int attribute,
                              int value) = nullptr;
  int (*launchEx)(const GpuLaunchConfig *config, void *function, void **args,
                  void **extra) = nullptr;
  int (*cudaErrorName)(int code, const char **name) = nullptr;
  int (*cudaErrorText)(int code, const char **text) = nullptr;
  // HIP only.
  int (*hipProperties)(void *properties, int device) = nullptr;
  const char *(*hipErrorName)(int code) = nullptr;
  const char *(*hipErrorText)(int code) = nullptr;

  /// "CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is detected".
  std::string errorText(int code) const;
  /// "cuMemAlloc failed: CUDA_ERROR_... (2): ...; ADVICE". `call` is the name
  /// without the library's prefix.
  Error error(std::string_view call, int code,
              std::string_view advice = "") const;
  /// "sm_90", "gfx1151": the target as bundles name it.
  Result<std::string> architecture(int device) const;
};

/// Opened once a process and initialised. Errors: no driver or runtime on this
/// machine, one that is too old, no device that it can use.
Result<const GpuApi *> openCuda();
Result<const GpuApi *> openHip();

} // namespace ds4

#endif // DS4_RUNTIME_GPUAPI_H
