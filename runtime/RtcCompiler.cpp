// RtcCompiler.cpp - NVRTC and hipRTC have the same functions under two
// prefixes. Options say everything that the numerics contract needs
// (docs/architecture.md), defaults included: no contraction, denormals,
// division and square root as IEEE has them.
#include "runtime/RtcCompiler.h"

#include "runtime/DynamicLibrary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <vector>

namespace ds4 {
namespace {

/// What differs between the two.
struct RtcKind {
  const char *name;
  const char *prefix;   ///< of functions
  const char *code;     ///< PREFIX + this: gets the object
  const char *codeSize; ///< PREFIX + this: its size
  /// Libraries that decide the code. hipRTC's version is 9.0 in all of them.
  std::span<const std::string_view> libraries;
  const char *install; ///< what to do where it is missing
};

constexpr std::string_view kNvrtcLibraries[] = {"libnvrtc"};
constexpr std::string_view kHiprtcLibraries[] = {"libhiprtc", "libamd_comgr",
                                                 "libLLVM", "libclang"};

constexpr RtcKind kNvrtc = {
    "NVRTC",
    "nvrtc",
    "GetCUBIN",
    "GetCUBINSize",
    kNvrtcLibraries,
    "install the CUDA toolkit's runtime compiler (cuda-nvrtc) of the driver's "
    "version or set CUDA_PATH to the toolkit"};
constexpr RtcKind kHiprtc = {
    "hipRTC",
    "hiprtc",
    "GetCode",
    "GetCodeSize",
    kHiprtcLibraries,
    "install ROCm's hipRTC and comgr (libhiprtc, libamd_comgr) or set "
    "ROCM_PATH to them"};

/// The functions that are used; codes are 0 where all is well.
struct RtcApi {
  int (*version)(int *major, int *minor);
  int (*create)(void **program, const char *text, const char *name, int headers,
                const char *const *texts, const char *const *names);
  int (*compile)(void *program, int count, const char *const *options);
  int (*codeSize)(void *program, size_t *bytes);
  int (*code)(void *program, char *bytes);
  int (*logSize)(void *program, size_t *bytes);
  int (*log)(void *program, char *text);
  int (*destroy)(void **program);
  const char *(*errorString)(int code);
};

Status bindApi(const DynamicLibrary &library, const RtcKind &kind,
               RtcApi &api) {
  auto bind = [&](const char *name, auto *&function) {
    return library.bind((std::string(kind.prefix) + name).c_str(), function);
  };
  DS4_TRY(bind("Version", api.version));
  DS4_TRY(bind("CreateProgram", api.create));
  DS4_TRY(bind("CompileProgram", api.compile));
  DS4_TRY(bind(kind.codeSize, api.codeSize));
  DS4_TRY(bind(kind.code, api.code));
  DS4_TRY(bind("GetProgramLogSize", api.logSize));
  DS4_TRY(bind("GetProgramLog", api.log));
  DS4_TRY(bind("DestroyProgram", api.destroy));
  return bind("GetErrorString", api.errorString);
}

class LibraryCompiler final : public RtcCompiler {
public:
  LibraryCompiler(const RtcKind &kind, const RtcApi &api,
                  std::vector<std::string> options)
      : api(api), options(std::move(options)) {
    int major = 0, minor = 0;
    api.version(&major, &minor);
    text = fmt::format("{} {}.{} ({}) {}", kind.name, major, minor,
                       loadedBuildsHash(kind.libraries),
                       fmt::join(this->options, " "));
  }

  const std::string &id() const override { return text; }
  Result<std::string> compile(const std::string &name,
                              const std::string &unit) const override;

private:
  std::string logOf(void *program) const;

  RtcApi api;
  std::vector<std::string> options;
  std::string text;
};

std::string LibraryCompiler::logOf(void *program) const {
  size_t bytes = 0;
  if (api.logSize(program, &bytes) != 0 || bytes == 0)
    return {};
  std::string log(bytes, '\0');
  api.log(program, log.data());
  log.resize(std::min(log.find('\0'), log.size()));
  return log;
}

Result<std::string> LibraryCompiler::compile(const std::string &name,
                                             const std::string &unit) const {
  struct Program {
    const RtcApi &api;
    void *handle = nullptr;
    ~Program() {
      if (handle)
        api.destroy(&handle);
    }
  } program{api};
  std::vector<const char *> arguments;
  for (const std::string &option : options)
    arguments.push_back(option.c_str());
  int code = api.create(&program.handle, unit.c_str(), name.c_str(), 0, nullptr,
                        nullptr);
  if (code == 0)
    code = api.compile(program.handle, static_cast<int>(arguments.size()),
                       arguments.data());
  std::string object;
  size_t bytes = 0;
  if (code == 0)
    code = api.codeSize(program.handle, &bytes);
  if (code == 0) {
    object.resize(bytes);
    code = api.code(program.handle, object.data());
  }
  if (code != 0)
    return Error{ErrorCode::deviceError,
                 fmt::format("unit {} does not compile with {}: {} ({})\n{}",
                             name, text, api.errorString(code), code,
                             program.handle ? logOf(program.handle) : "")};
  return object;
}

/// `folder`/`name` for each folder that an environment variable names, `name`
/// for the loader's own search, and the usual folders.
std::vector<std::string> candidates(std::initializer_list<const char *> names,
                                    const char *variable,
                                    std::initializer_list<const char *> usual) {
  std::vector<std::string> paths;
  const char *set = std::getenv(variable);
  for (const char *name : names) {
    if (set && *set)
      for (const char *folder : {"lib64", "lib"})
        paths.push_back(fmt::format("{}/{}/{}", set, folder, name));
    paths.emplace_back(name);
    for (const char *folder : usual)
      paths.push_back(fmt::format("{}/{}", folder, name));
  }
  return paths;
}

Result<std::unique_ptr<RtcCompiler>> create(const RtcKind &kind,
                                            const std::vector<std::string> &at,
                                            std::vector<std::string> options) {
  Result<DynamicLibrary> library = DynamicLibrary::open(at);
  if (!library)
    return Error{ErrorCode::deviceError,
                 fmt::format("kernels for this GPU are compiled by {}, which "
                             "cannot be opened: {}; {}",
                             kind.name, library.error().text, kind.install)};
  RtcApi api{};
  DS4_TRY(bindApi(*library, kind, api));
  return std::unique_ptr<RtcCompiler>(
      new LibraryCompiler(kind, api, std::move(options)));
}

/// hipRTC ends the process on a chip that its code generator (comgr) does not
/// know, so that one is asked first.
Status checkIsa(std::string_view arch, const std::vector<std::string> &at) {
  Result<DynamicLibrary> library = DynamicLibrary::open(at);
  if (!library)
    return Error{ErrorCode::deviceError,
                 fmt::format("hipRTC needs comgr, which cannot be opened: {}; "
                             "{}",
                             library.error().text, kHiprtc.install)};
  int (*count)(size_t *) = nullptr;
  int (*isa)(size_t, const char **) = nullptr;
  DS4_TRY(library->bind("amd_comgr_get_isa_count", count));
  DS4_TRY(library->bind("amd_comgr_get_isa_name", isa));
  size_t isas = 0;
  count(&isas);
  for (size_t i = 0; i < isas; ++i) {
    const char *name = nullptr;
    if (isa(i, &name) == 0 && name && std::string_view(name).ends_with(arch))
      return Status::ok();
  }
  return Error{ErrorCode::deviceError,
               fmt::format("{} does not know the chip {}: install a newer ROCm",
                           library->path(), arch)};
}

} // namespace

Result<std::unique_ptr<RtcCompiler>> createNvrtc(std::string_view arch) {
  return create(kNvrtc,
                candidates({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"},
                           "CUDA_PATH",
                           {"/usr/local/cuda/lib64", "/usr/local/cuda-13/lib64",
                            "/usr/local/cuda-13.0/lib64"}),
                // With what only this chip has, as its matrix instructions.
                {fmt::format("--gpu-architecture={}a", arch), "--std=c++20",
                 "--fmad=false", "--ftz=false", "--prec-div=true",
                 "--prec-sqrt=true", "--no-source-include"});
}

Result<std::unique_ptr<RtcCompiler>> createHiprtc(std::string_view arch) {
  const auto paths = [](std::initializer_list<const char *> names) {
    return candidates(names, "ROCM_PATH", {"/opt/rocm/lib"});
  };
  DS4_TRY(checkIsa(arch, paths({"libamd_comgr.so.3", "libamd_comgr.so.2",
                                "libamd_comgr.so"})));
  return create(kHiprtc,
                paths({"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so"}),
                {fmt::format("--offload-arch={}", arch), "-O3", "-std=c++20",
                 "-mno-wavefrontsize64", "-mno-cumode", "-ffp-contract=off",
                 "-fno-fast-math", "-fno-gpu-flush-denormals-to-zero",
                 "-fhip-fp32-correctly-rounded-divide-sqrt"});
}

Result<std::unique_ptr<RtcCompiler>> createRtcCompiler(std::string_view arch) {
  if (arch.starts_with("sm_"))
    return createNvrtc(arch);
  if (arch.starts_with("gfx"))
    return createHiprtc(arch);
  return invalidInput(fmt::format(
      "'{}' is no chip that kernels are compiled for: sm_90, gfx1151, ...",
      arch));
}

} // namespace ds4
