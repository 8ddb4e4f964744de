// RopeTable.h - makes the cos/sin tables of a plan on the host, in double, so
// that every target reads the same bits. What a table is: RopeTable in
// BundleFormat.h and ds4.rope_table.
#ifndef DS4_RUNTIME_ROPETABLE_H
#define DS4_RUNTIME_ROPETABLE_H

#include "runtime/BundleFormat.h"

namespace ds4 {

/// Rotation of pair i per position, radians.
double ropeFrequency(const RopeTable &table, uint32_t pair);

/// f32 [positions, dims]: cos, sin of pair 0, cos, sin of pair 1, ....
std::vector<float> makeRopeTable(const RopeTable &table);

} // namespace ds4

#endif // DS4_RUNTIME_ROPETABLE_H
