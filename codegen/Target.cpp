// Target.cpp - the table behind Target.h.
#include "codegen/Target.h"

#include <algorithm>

namespace ds4::codegen {

static constexpr Target kTargets[] = {
    // name, triple, cpu, language, link mode, wave size, LDS,
    // bytes of a tile's value
    // x86-64-v3 (Haswell, Zen 1) has fma, which the numerics contract needs as
    // one instruction, and AVX2.
    {"gfx1151", "amdgcn-amd-amdhsa", "gfx1151", "hip", "elf64_amdgpu", 32,
     65536, 1},
    {"host", "x86_64-unknown-linux-gnu", "x86-64-v3", "c++", "elf_x86_64", 32,
     65536, 1},
    {"sm_90", "", "", "", "", 32, 232448, 2},
};

std::span<const Target> targets() { return kTargets; }

const Target *findTarget(std::string_view name) {
  const auto *it = std::ranges::find(kTargets, name, &Target::name);
  return it == std::end(kTargets) ? nullptr : it;
}

std::string targetNames() {
  std::string names;
  for (const Target &target : kTargets) {
    if (!names.empty())
      names += ", ";
    names += target.name;
  }
  return names;
}

} // namespace ds4::codegen
