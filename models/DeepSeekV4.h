// DeepSeekV4.h - a GGUF header and a profile become graphs of the ds4 dialect,
// one function a phase. No weight is read.
#ifndef DS4_MODELS_DEEPSEEKV4_H
#define DS4_MODELS_DEEPSEEKV4_H

#include "models/Hparams.h"
#include "models/Profile.h"
#include "runtime/Gguf.h"
#include "runtime/Result.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace ds4 {

/// Discardable attributes of the module, all that later stages need besides
/// the graph: ds4.model_name, ds4.fingerprint (strings), ds4.layers, ds4.vocab,
/// ds4.context, ds4.most_rollback (i64), ds4.profile (dictionary of strings).
///
/// Functions: @decode (T = 1, one logits row), @verify (T = verify_width, a
/// logits row for each token; none if that is 1 or no less than a chunk) and
/// @prefill (T = prefill_chunk, 1 or T logits rows):
///   (tokens: tensor<T x i32>) -> (logits: tensor<L x V x f32>,
///                                 argmax: tensor<L x i32>)
///
/// Errors: what readHparams and mapWeights refuse; a context beyond the
/// model's; an expert count that the model does not have.
Result<mlir::OwningOpRef<mlir::ModuleOp>>
buildDeepSeekV4(const Gguf &gguf, const Profile &profile,
                mlir::MLIRContext *context);

} // namespace ds4

#endif // DS4_MODELS_DEEPSEEKV4_H
