// DecodeTableModels.h - the models of three layers that the decode tables in
// data/sidecar were made for, and those tables; for the test and the fuzzer.
#ifndef DS4_RUNTIME_TEST_DECODETABLEMODELS_H
#define DS4_RUNTIME_TEST_DECODETABLEMODELS_H

#include "runtime/DecodeTables.h"

#include <string>
#include <vector>

namespace ds4::test {

inline constexpr uint64_t kModelLayers = 3;

inline GgufTensor tensor(std::string name, std::vector<uint64_t> dims,
                         WeightFormat format) {
  GgufTensor tensor;
  tensor.name = std::move(name);
  tensor.dims = std::move(dims);
  tensor.typeId = weightFormatInfo(format).typeId;
  return tensor;
}

inline std::string blk(uint64_t layer, const char *name) {
  return "blk." + std::to_string(layer) + "." + name + ".weight";
}

inline std::vector<GgufTensor> p4mixModel() {
  std::vector<GgufTensor> tensors;
  for (uint64_t layer = 0; layer < kModelLayers; ++layer)
    tensors.push_back(tensor(blk(layer, "ffn_down_exps"), {64, 8, 4},
                             WeightFormat::q3_1_rocmfp3_mix));
  return tensors;
}

inline std::vector<GgufTensor> gumixModel(uint64_t in = 128) {
  constexpr auto kFormat = WeightFormat::q2_1_rocmfp2_mix;
  std::vector<GgufTensor> tensors;
  for (uint64_t layer = 0; layer < kModelLayers; ++layer)
    for (const char *surface : {"ffn_gate_exps", "ffn_up_exps"})
      tensors.push_back(tensor(blk(layer, surface), {in, 8, 4}, kFormat));
  tensors.push_back(tensor(blk(2, "ffn_down_exps"), {in, 8, 4}, kFormat));
  return tensors;
}

inline std::vector<GgufTensor> dmixModel() {
  return {tensor(blk(0, "attn_q_a"), {128, 16}, WeightFormat::q2_1_rocmfp2_mix),
          tensor(blk(0, "attn_output_a"), {64, 16},
                 WeightFormat::q3_1_rocmfp3_mix)};
}

} // namespace ds4::test

#endif // DS4_RUNTIME_TEST_DECODETABLEMODELS_H
