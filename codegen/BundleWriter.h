// BundleWriter.h - plan, units and objects become a bundle on disk.
#ifndef DS4_CODEGEN_BUNDLEWRITER_H
#define DS4_CODEGEN_BUNDLEWRITER_H

#include "codegen/PlanWriter.h"
#include "codegen/Target.h"
#include "runtime/Cache.h"
#include "runtime/Result.h"

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace ds4::codegen {

/// Name and version of this program, as in manifests.
std::string toolVersion();

/// Key of the code object of `units`: every byte that decides it.
std::string objectKey(std::span<const Unit> units, const Target &target);

/// All files of the bundle. `manifest` has the model's facts; versions, hashes,
/// units and objects are added: `code` is one object of all units for the host,
/// or one for each unit, or none. `ir` is the planned module as text.
FileSet bundleFiles(Manifest manifest, const EmittedPlan &plan,
                    const Target &target, const std::vector<std::string> &code,
                    const std::string &ir);

/// Writes `files` as the directory `path`, whole or not at all; an older bundle
/// at `path` is replaced in one step. A bundle that has these bytes already
/// stays as it is. Errors: `path` is something else than a bundle, or the
/// system refuses.
Status writeBundle(const std::filesystem::path &path, const FileSet &files);

} // namespace ds4::codegen

#endif // DS4_CODEGEN_BUNDLEWRITER_H
