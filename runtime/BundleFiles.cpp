// BundleFiles.cpp - opening a bundle: every file must have the hash that the
// manifest says.
#include "runtime/BundleFormat.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

namespace ds4 {

std::string contentHash(std::string_view bytes) {
  XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

static Result<std::string> readFile(const std::filesystem::path &bundle,
                                    std::string_view name) {
  std::filesystem::path path = bundle / name;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  if (!file || (file.peek() != EOF && !(bytes << file.rdbuf())))
    return ioError(fmt::format("cannot read {}: the bundle is incomplete, "
                               "rebuild it with ds4c",
                               path.string()));
  return std::move(bytes).str();
}

static Status checkFile(const std::filesystem::path &bundle,
                        const std::string &name, std::string_view hash) {
  // Names come from the manifest; they must not lead out of the bundle.
  std::filesystem::path relative = std::filesystem::path(name);
  if (relative.is_absolute() ||
      std::ranges::find(relative, std::filesystem::path("..")) !=
          relative.end())
    return invalidInput(fmt::format("{}/manifest.json names {}, which is not "
                                    "inside the bundle",
                                    bundle.string(), name));
  DS4_ASSIGN(std::string bytes, readFile(bundle, name));
  if (contentHash(bytes) != hash)
    return invalidInput(fmt::format("{} was changed after ds4c wrote it: "
                                    "rebuild the bundle",
                                    (bundle / name).string()));
  return Status::ok();
}

Result<Bundle> openBundle(const std::filesystem::path &path) {
  std::error_code code;
  if (!std::filesystem::is_directory(path, code))
    return invalidInput(fmt::format("{} is not a bundle (a directory that ds4c "
                                    "wrote)",
                                    path.string()));
  Bundle bundle;
  bundle.path = path;
  DS4_ASSIGN(std::string manifest, readFile(path, "manifest.json"));
  DS4_ASSIGN(bundle.manifest,
             manifestFromJson(manifest, (path / "manifest.json").string()));
  DS4_TRY(checkFile(path, "plan.json", bundle.manifest.planHash));
  DS4_ASSIGN(std::string plan, readFile(path, "plan.json"));
  DS4_ASSIGN(bundle.plan, planFromJson(plan, (path / "plan.json").string()));
  for (const UnitDesc &unit : bundle.manifest.units)
    DS4_TRY(checkFile(path, unit.file, unit.hash));
  for (const ObjectDesc &object : bundle.manifest.objects)
    DS4_TRY(checkFile(path, object.file, object.hash));
  return bundle;
}

} // namespace ds4
