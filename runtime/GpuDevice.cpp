// GpuDevice.cpp - a GPU through its driver (GpuApi.h): one stream, on which
// launches and copies run in the order of the calls.
#include "runtime/Admission.h"
#include "runtime/Device.h"
#include "runtime/GpuApi.h"
#include "runtime/RtcCompiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <vector>

namespace ds4 {
namespace {

/// What a `const Kernel *` of this device points to.
struct GpuKernel {
  std::string symbol;
  void *function;
  uint32_t sharedBytes = 0;
};

constexpr unsigned kNonBlockingStream = 1;
/// CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION.
constexpr int kProgrammaticSerialization = 6;
constexpr uint64_t kBounceBytes = 1 << 20;

class GpuDevice final : public Device {
public:
  /// Takes over a retained context and its stream.
  GpuDevice(const GpuApi &api, int device, std::string arch, void *context,
            void *stream)
      : api(api), device(device), arch(std::move(arch)), context(context),
        stream(stream) {}
  ~GpuDevice() override;

  std::string_view target() const override { return arch; }
  std::optional<MemoryLimit> memoryLimit() override;
  bool sharesMemory() const override;
  Result<void *> allocate(uint64_t bytes, std::string_view what) override;
  void free(void *memory) override;
  Result<void *> allocateStaging(uint64_t bytes) override;
  void freeStaging(void *memory) override;
  Status copyIn(void *device, const void *host, uint64_t bytes) override;
  Status copyOut(void *host, const void *device, uint64_t bytes) override;
  Result<std::unique_ptr<RtcCompiler>> compiler() override {
    return createRtcCompiler(arch);
  }
  Status loadObject(const std::filesystem::path &path) override;
  Status loadKernels(std::span<const KernelCode> kernels) override;
  Result<const Kernel *> kernel(std::string_view symbol,
                                uint32_t sharedBytes) override;
  Status launch(const Kernel *kernel, uint32_t gridX, uint32_t gridY,
                uint32_t block, std::span<void *const> args) override;
  bool beginCapture() override;
  Result<const Graph *> endCapture() override;
  Status launchGraph(const Graph *graph) override;
  Status readBack(std::span<const ReadBack> buffers) override;
  Status synchronize() override;

private:
  /// The driver knows the device by the context of the calling thread.
  void use() { api.setContext(context); }
  Status load(const char *code, std::string_view what);

  const GpuApi &api;
  int device;
  std::string arch;
  void *context, *stream;
  std::vector<void *> modules;
  std::vector<void *> graphs; ///< executable
  void *bounce = nullptr;     ///< of the host, kBounceBytes
  bool capturing = false;
  std::map<std::string, GpuKernel, std::less<>> kernels;
};

GpuDevice::~GpuDevice() {
  use();
  api.synchronize(stream);
  for (void *graph : graphs)
    api.destroyExec(graph);
  for (void *module : modules)
    api.unloadModule(module);
  if (bounce)
    api.freeHost(bounce);
  api.destroyStream(stream);
  api.releaseContext(device);
}

bool GpuDevice::sharesMemory() const {
  constexpr int kCudaIntegrated = 18, kHipIntegrated = 16;
  int integrated = 0;
  api.deviceAttribute(&integrated, api.cuda ? kCudaIntegrated : kHipIntegrated,
                      device);
  return integrated != 0;
}

std::optional<MemoryLimit> GpuDevice::memoryLimit() {
  use();
  size_t free = 0, total = 0;
  if (api.memoryInfo(&free, &total) != 0)
    free = 0;
  return sharesMemory() ? sharedMemoryLimit(free, availableMemory(), "/sys")
                        : MemoryLimit{free};
}

Result<void *> GpuDevice::allocate(uint64_t bytes, std::string_view what) {
  constexpr uint64_t kReadablePast = 16;
  use();
  void *memory = nullptr;
  const uint64_t size = bytes + kReadablePast;
  if (int code = api.allocate(&memory, size))
    return Error{ErrorCode::outOfMemory,
                 fmt::format("the device has no {} bytes of memory for {}: "
                             "{}; use a smaller context or model, or end what "
                             "else uses the device",
                             bytes, what, api.errorText(code))};
  if (int code = api.fill(memory, 0, size, stream)) {
    api.free(memory);
    return api.error("MemsetD8Async", code);
  }
  return memory;
}

void GpuDevice::free(void *memory) {
  use();
  api.free(memory);
}

Result<void *> GpuDevice::allocateStaging(uint64_t bytes) {
  use();
  void *memory = nullptr;
  if (int code = api.allocateHost(&memory, bytes, 0))
    return api.error(api.cuda ? "MemHostAlloc" : "HostMalloc", code,
                     "free memory of the host or raise the limit on locked "
                     "memory (ulimit -l)");
  return memory;
}

void GpuDevice::freeStaging(void *memory) {
  use();
  api.freeHost(memory);
}

Status GpuDevice::copyIn(void *to, const void *from, uint64_t bytes) {
  use();
  if (bytes == 0)
    return Status::ok();
  if (int code = api.copyIn(to, from, bytes, stream))
    return api.error("MemcpyHtoDAsync", code);
  return Status::ok();
}

Status GpuDevice::copyOut(void *to, const void *from, uint64_t bytes) {
  use();
  if (bytes == 0)
    return Status::ok();
  if (int code = api.copyOut(to, from, bytes, stream))
    return api.error("MemcpyDtoHAsync", code);
  return synchronize();
}

Status GpuDevice::load(const char *code, std::string_view what) {
  use();
  void *module = nullptr;
  if (int failure = api.loadModule(&module, code))
    return api.error("ModuleLoadData", failure,
                     fmt::format("{} is no code for {}", what, arch));
  modules.push_back(module);
  return Status::ok();
}

Status GpuDevice::loadObject(const std::filesystem::path &path) {
  std::ifstream file(path, std::ios::binary);
  const std::string code(std::istreambuf_iterator<char>(file), {});
  if (!file)
    return ioError(fmt::format("cannot read {}", path.string()));
  return load(code.data(), path.string());
}

Status GpuDevice::loadKernels(std::span<const KernelCode> codes) {
  for (const KernelCode &code : codes)
    DS4_TRY(load(code.code.data(), "unit " + code.symbol));
  // Each module has one kernel, the last of `modules` those of `codes`.
  const size_t first = modules.size() - codes.size();
  for (size_t i = 0; i < codes.size(); ++i) {
    void *function = nullptr;
    if (int code = api.function(&function, modules[first + i],
                                codes[i].symbol.c_str()))
      return api.error(
          "ModuleGetFunction", code,
          fmt::format("unit {} does not define its kernel", codes[i].symbol));
    kernels.insert_or_assign(codes[i].symbol,
                             GpuKernel{codes[i].symbol, function});
  }
  return Status::ok();
}

Result<const Kernel *> GpuDevice::kernel(std::string_view symbol,
                                         uint32_t sharedBytes) {
  auto it = kernels.find(symbol);
  use();
  const std::string name(symbol);
  for (size_t i = 0; it == kernels.end() && i < modules.size(); ++i) {
    void *function = nullptr;
    if (api.function(&function, modules[i], name.c_str()) == 0)
      it = kernels.emplace(name, GpuKernel{name, function}).first;
  }
  if (it == kernels.end())
    return Error{ErrorCode::deviceError,
                 fmt::format("the bundle's code for {} has no kernel {}: build "
                             "the bundle again with ds4c",
                             arch, symbol)};
  constexpr int kMaxDynamicSharedBytes = 8;
  // HIP takes as much as the chip has without being told.
  if (sharedBytes && api.setFunctionAttribute)
    if (int code = api.setFunctionAttribute(it->second.function,
                                            kMaxDynamicSharedBytes,
                                            static_cast<int>(sharedBytes)))
      return api.error("FuncSetAttribute", code,
                       fmt::format("kernel {} needs {} bytes of shared memory "
                                   "a block",
                                   symbol, sharedBytes));
  it->second.sharedBytes = sharedBytes;
  return reinterpret_cast<const Kernel *>(&it->second);
}

Status GpuDevice::launch(const Kernel *kernel, uint32_t gridX, uint32_t gridY,
                         uint32_t block, std::span<void *const> args) {
  const auto *gpuKernel = reinterpret_cast<const GpuKernel *>(kernel);
  constexpr size_t kMostArgs = 64;
  assert(args.size() <= kMostArgs);
  void *pointers[kMostArgs];
  for (size_t i = 0; i < args.size(); ++i)
    pointers[i] = const_cast<void **>(&args[i]);
  if (gridX == 0 || gridY == 0)
    return Status::ok();
  use();
  GpuLaunchAttribute dependent{kProgrammaticSerialization, {}, {}};
  dependent.value = 1;
  const uint32_t shared = gpuKernel->sharedBytes;
  const GpuLaunchConfig config{gridX, gridY,  1,      block,      1,
                               1,     shared, stream, &dependent, 1};
  const int code =
      capturing && api.launchEx
          ? api.launchEx(&config, gpuKernel->function, pointers, nullptr)
          : api.launch(gpuKernel->function, gridX, gridY, 1, block, 1, 1,
                       shared, stream, pointers, nullptr);
  if (code)
    return api.error(api.cuda ? "LaunchKernel" : "ModuleLaunchKernel", code,
                     fmt::format("kernel {}, grid {} x {}, block {}",
                                 gpuKernel->symbol, gridX, gridY, block));
  return Status::ok();
}

bool GpuDevice::beginCapture() {
  constexpr int kThreadLocal = 1; // other threads may use the driver meanwhile
  use();
  capturing = api.beginCapture(stream, kThreadLocal) == 0;
  return capturing;
}

Result<const Graph *> GpuDevice::endCapture() {
  use();
  capturing = false;
  void *graph = nullptr, *exec = nullptr;
  if (int code = api.endCapture(stream, &graph))
    return api.error("StreamEndCapture", code);
  const int code = api.instantiate(&exec, graph, 0);
  api.destroyGraph(graph);
  if (code)
    return api.error("GraphInstantiateWithFlags", code);
  graphs.push_back(exec);
  return static_cast<const Graph *>(exec);
}

Status GpuDevice::launchGraph(const Graph *graph) {
  use();
  if (int code = api.launchGraph(const_cast<Graph *>(graph), stream))
    return api.error("GraphLaunch", code);
  return Status::ok();
}

/// Through memory that the device can write to: copies to any other memory wait
/// each for themselves.
Status GpuDevice::readBack(std::span<const ReadBack> buffers) {
  if (!bounce) {
    DS4_ASSIGN(bounce, allocateStaging(kBounceBytes));
  }
  auto *const first = static_cast<std::byte *>(bounce);
  uint64_t used = 0;
  for (const ReadBack &it : buffers) {
    if (it.bytes == 0)
      continue;
    const bool fits = it.bytes <= kBounceBytes - used;
    if (int code = api.copyOut(fits ? first + used : it.host, it.device,
                               it.bytes, stream))
      return api.error("MemcpyDtoHAsync", code);
    used += fits ? it.bytes : 0;
  }
  DS4_TRY(synchronize());
  used = 0;
  for (const ReadBack &it : buffers)
    if (it.bytes <= kBounceBytes - used) {
      std::memcpy(it.host, first + used, it.bytes);
      used += it.bytes;
    }
  return Status::ok();
}

Status GpuDevice::synchronize() {
  use();
  if (int code = api.synchronize(stream))
    return api.error("StreamSynchronize", code,
                     "a kernel failed; its state is lost, start again");
  return Status::ok();
}

/// Facts of one device.
Result<GpuInfo> describe(const GpuApi &api, int ordinal) {
  GpuInfo info;
  int device = 0;
  if (int code = api.device(&device, ordinal))
    return api.error("DeviceGet", code);
  char name[256] = {};
  if (int code = api.deviceName(name, sizeof name - 1, device))
    return api.error("DeviceGetName", code);
  info.name = name;
  DS4_ASSIGN(info.target, api.architecture(device));
  size_t bytes = 0;
  if (int code = api.totalMemory(&bytes, device))
    return api.error("DeviceTotalMem", code);
  info.totalBytes = bytes;
  constexpr int kCudaMultiprocessors = 16, kHipMultiprocessors = 63;
  api.deviceAttribute(&info.multiprocessors,
                      api.cuda ? kCudaMultiprocessors : kHipMultiprocessors,
                      device);
  api.driverVersion(&info.driverVersion);
  return info;
}

Result<const GpuApi *> openApi(GpuKind kind) {
  return kind == GpuKind::cuda ? openCuda() : openHip();
}

} // namespace

Result<std::vector<GpuInfo>> listGpus(GpuKind kind) {
  DS4_ASSIGN(const GpuApi *api, openApi(kind));
  int count = 0;
  api->deviceCount(&count);
  std::vector<GpuInfo> infos;
  for (int i = 0; i < count; ++i) {
    DS4_ASSIGN(infos.emplace_back(), describe(*api, i));
  }
  return infos;
}

Result<std::unique_ptr<Device>> createGpuDevice(GpuKind kind,
                                                unsigned ordinal) {
  DS4_ASSIGN(const GpuApi *api, openApi(kind));
  int count = 0, device = 0;
  api->deviceCount(&count);
  if (ordinal >= static_cast<unsigned>(count))
    return invalidInput(fmt::format(
        "device {} was asked for, this machine has {}; see ds4run devices",
        ordinal, count));
  if (int code = api->device(&device, static_cast<int>(ordinal)))
    return api->error("DeviceGet", code);
  DS4_ASSIGN(std::string arch, api->architecture(device));
  void *context = nullptr, *stream = nullptr;
  if (int code = api->retainContext(&context, device))
    return api->error("DevicePrimaryCtxRetain", code,
                      "is the device in use or in exclusive mode?");
  api->setContext(context);
  if (int code = api->createStream(&stream, kNonBlockingStream)) {
    api->releaseContext(device);
    return api->error("StreamCreate", code);
  }
  return std::unique_ptr<Device>(
      new GpuDevice(*api, device, std::move(arch), context, stream));
}

} // namespace ds4
