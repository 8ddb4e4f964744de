// GpuApi.cpp - a table of both names of every function.
#include "runtime/GpuApi.h"

#include "runtime/DynamicLibrary.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <string_view>
#include <vector>

namespace ds4 {

std::string GpuApi::errorText(int code) const {
  const char *name = nullptr, *text = nullptr;
  if (cuda) {
    cudaErrorName(code, &name);
    cudaErrorText(code, &text);
  } else {
    name = hipErrorName(code);
    text = hipErrorText(code);
  }
  return fmt::format("{} ({}): {}", name ? name : "unknown error", code,
                     text ? text : "no description");
}

Error GpuApi::error(std::string_view call, int code,
                    std::string_view advice) const {
  return {ErrorCode::deviceError,
          fmt::format("{}{} failed: {}{}{}", cuda ? "cu" : "hip", call,
                      errorText(code), advice.empty() ? "" : "; ", advice)};
}

Result<std::string> GpuApi::architecture(int device) const {
  if (cuda) {
    constexpr int kMajor = 75, kMinor = 76; // CU_DEVICE_ATTRIBUTE_...
    int major = 0, minor = 0;
    if (int code = deviceAttribute(&major, kMajor, device))
      return error("DeviceGetAttribute", code);
    if (int code = deviceAttribute(&minor, kMinor, device))
      return error("DeviceGetAttribute", code);
    return fmt::format("sm_{}{}", major, minor);
  }
  // The struct's layout changes between versions; the name of the chip is the
  // only text in it that begins so.
  std::array<char, 8192> properties{};
  if (int code = hipProperties(properties.data(), device))
    return error("GetDeviceProperties", code);
  const std::string_view all(properties.data(), properties.size());
  const size_t begin = all.find("gfx");
  if (begin == all.npos)
    return Error{ErrorCode::deviceError,
                 "hipGetDeviceProperties names no chip: install a newer ROCm"};
  const std::string name(all.data() + begin);
  return name.substr(0, name.find(':')); // "gfx90a:sramecc+:xnack-"
}

static Status bindApi(const DynamicLibrary &library, GpuApi &api) {
  auto bind = [&](auto *&function, const char *cudaName, const char *hipName) {
    const char *name = api.cuda ? cudaName : hipName;
    return name ? library.bind(name, function) : Status::ok();
  };
  DS4_TRY(bind(api.init, "cuInit", "hipInit"));
  DS4_TRY(bind(api.driverVersion, "cuDriverGetVersion", "hipDriverGetVersion"));
  DS4_TRY(bind(api.deviceCount, "cuDeviceGetCount", "hipGetDeviceCount"));
  DS4_TRY(bind(api.device, "cuDeviceGet", "hipDeviceGet"));
  DS4_TRY(bind(api.deviceName, "cuDeviceGetName", "hipDeviceGetName"));
  DS4_TRY(bind(api.deviceAttribute, "cuDeviceGetAttribute",
               "hipDeviceGetAttribute"));
  DS4_TRY(bind(api.totalMemory, "cuDeviceTotalMem_v2", "hipDeviceTotalMem"));
  DS4_TRY(bind(api.retainContext, "cuDevicePrimaryCtxRetain",
               "hipDevicePrimaryCtxRetain"));
  DS4_TRY(bind(api.releaseContext, "cuDevicePrimaryCtxRelease_v2",
               "hipDevicePrimaryCtxRelease"));
  DS4_TRY(bind(api.setContext, "cuCtxSetCurrent", "hipCtxSetCurrent"));
  DS4_TRY(bind(api.memoryInfo, "cuMemGetInfo_v2", "hipMemGetInfo"));
  DS4_TRY(bind(api.allocate, "cuMemAlloc_v2", "hipMalloc"));
  DS4_TRY(bind(api.free, "cuMemFree_v2", "hipFree"));
  DS4_TRY(bind(api.allocateHost, "cuMemHostAlloc", "hipHostMalloc"));
  DS4_TRY(bind(api.freeHost, "cuMemFreeHost", "hipHostFree"));
  DS4_TRY(bind(api.copyIn, "cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync"));
  DS4_TRY(bind(api.copyOut, "cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync"));
  DS4_TRY(bind(api.fill, "cuMemsetD8Async", "hipMemsetD8Async"));
  DS4_TRY(bind(api.createStream, "cuStreamCreate", "hipStreamCreateWithFlags"));
  DS4_TRY(bind(api.destroyStream, "cuStreamDestroy_v2", "hipStreamDestroy"));
  DS4_TRY(bind(api.synchronize, "cuStreamSynchronize", "hipStreamSynchronize"));
  DS4_TRY(bind(api.loadModule, "cuModuleLoadData", "hipModuleLoadData"));
  DS4_TRY(bind(api.unloadModule, "cuModuleUnload", "hipModuleUnload"));
  DS4_TRY(bind(api.function, "cuModuleGetFunction", "hipModuleGetFunction"));
  DS4_TRY(
      bind(api.functionAttribute, "cuFuncGetAttribute", "hipFuncGetAttribute"));
  DS4_TRY(bind(api.launch, "cuLaunchKernel", "hipModuleLaunchKernel"));
  DS4_TRY(bind(api.beginCapture, "cuStreamBeginCapture_v2",
               "hipStreamBeginCapture"));
  DS4_TRY(bind(api.endCapture, "cuStreamEndCapture", "hipStreamEndCapture"));
  DS4_TRY(bind(api.instantiate, "cuGraphInstantiateWithFlags",
               "hipGraphInstantiateWithFlags"));
  DS4_TRY(bind(api.launchGraph, "cuGraphLaunch", "hipGraphLaunch"));
  DS4_TRY(bind(api.destroyExec, "cuGraphExecDestroy", "hipGraphExecDestroy"));
  DS4_TRY(bind(api.destroyGraph, "cuGraphDestroy", "hipGraphDestroy"));
  DS4_TRY(bind(api.setFunctionAttribute, "cuFuncSetAttribute", nullptr));
  DS4_TRY(bind(api.launchEx, "cuLaunchKernelEx", nullptr));
  DS4_TRY(bind(api.cudaErrorName, "cuGetErrorName", nullptr));
  DS4_TRY(bind(api.cudaErrorText, "cuGetErrorString", nullptr));
  DS4_TRY(bind(api.hipProperties, nullptr, "hipGetDevicePropertiesR0600"));
  DS4_TRY(bind(api.hipErrorName, nullptr, "hipGetErrorName"));
  return bind(api.hipErrorText, nullptr, "hipGetErrorString");
}

static Result<GpuApi> open(bool cuda, std::span<const std::string> paths,
                           std::string_view missing,
                           std::string_view noDevice) {
  Result<DynamicLibrary> library = DynamicLibrary::open(paths);
  if (!library)
    return Error{ErrorCode::deviceError,
                 fmt::format("{}: {}", missing, library.error().text)};
  GpuApi api{};
  api.cuda = cuda;
  api.library = library->path();
  DS4_TRY(bindApi(*library, api));
  if (int code = api.init(0))
    return api.error("Init", code, noDevice);
  int count = 0;
  if (int code = api.deviceCount(&count))
    return api.error(cuda ? "DeviceGetCount" : "GetDeviceCount", code,
                     noDevice);
  if (count == 0)
    return Error{ErrorCode::deviceError, std::string(noDevice)};
  return api;
}

static Result<const GpuApi *> pointer(const Result<GpuApi> &api) {
  if (!api)
    return api.error();
  return &*api;
}

Result<const GpuApi *> openCuda() {
  static const std::vector<std::string> kPaths = {"libcuda.so.1"};
  static const Result<GpuApi> api =
      open(true, kPaths,
           "the NVIDIA driver (libcuda.so.1) cannot be opened, use "
           "--device=host or install it",
           "no NVIDIA GPU can be used: check nvidia-smi");
  return pointer(api);
}

Result<const GpuApi *> openHip() {
  static const std::vector<std::string> kPaths = {
      "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so",
      "/opt/rocm/lib/libamdhip64.so"};
  static const Result<GpuApi> api =
      open(false, kPaths,
           "the HIP runtime (libamdhip64.so) cannot be opened, use "
           "--device=host or install ROCm",
           "no AMD GPU can be used: check rocminfo and that you may open "
           "/dev/kfd and /dev/dri/renderD*");
  return pointer(api);
}

} // namespace ds4
