// CollectImatrix.cpp - every token of every chunk counts. The output head reads
// only rows whose logits are computed, so all are asked for where a step of the
// bundle gives them at no cost in steps.
#include "tools/CollectImatrix.h"

#include "runtime/ImportanceMatrix.h"
#include "tools/Terminal.h"
#include "tools/TextFile.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

namespace ds4 {
namespace {

/// Logits of a piece of a chunk; they are not looked at.
constexpr uint64_t kLogitBytes = 64 << 20;

/// Tokens to feed at a time, and whether to ask for their logits.
struct Piece {
  uint32_t tokens;
  bool logits;
};

Result<Piece> choosePiece(const Session &session, uint32_t chunkTokens) {
  bool observed = false, all = true;
  for (const Function &function : session.plan().functions) {
    observed |= !function.observations.empty();
    all &= function.outputs == function.capacity;
  }
  if (!observed)
    return invalidInput("the bundle does not name the inputs of linears: "
                        "compile it with ds4c --imatrix=true");
  if (session.context() < chunkTokens)
    return invalidInput(fmt::format(
        "chunks of {} tokens exceed the context of {} of the bundle: use "
        "--chunk-size={}",
        chunkTokens, session.context(), session.context()));
  uint64_t tokens = chunkTokens;
  if (all)
    tokens = std::min(tokens, kLogitBytes / (session.vocab() * sizeof(float)));
  return Piece{static_cast<uint32_t>(std::max<uint64_t>(tokens, 1)), all};
}

Status forward(Session &session, std::span<const TokenId> ids,
               const Piece &piece) {
  std::vector<uint32_t> rows(piece.logits ? ids.size() : 0);
  std::iota(rows.begin(), rows.end(), 0);
  if (Result<Logits> logits = session.forward(ids, rows); !logits)
    return logits.error();
  return Status::ok();
}

std::string momentsText(uint32_t block) {
  if (block == kWholeRows)
    return ", moments within whole rows";
  return block ? fmt::format(", moments within blocks of {} columns", block)
               : std::string();
}

} // namespace

Status collectImatrix(Session &session, const Tokenizer &tokenizer,
                      const RunOptions &options) {
  DS4_ASSIGN(const TextChunks chunks,
             readTextChunks(tokenizer, options.text, options.chunkTokens,
                            options.chunks, options.special));
  DS4_ASSIGN(const Piece piece, choosePiece(session, chunks.length));
  ImportanceMatrix matrix(options.moments);
  session.hooks.cancelled = interrupted;
  session.hooks.observe = [&](const Observation &observation, const Step &,
                              std::span<const float> rows,
                              std::span<const int32_t> chosen) {
    matrix.add(observation, rows, chosen);
  };
  const auto runChunk = [&](std::span<const TokenId> chunk) -> Status {
    DS4_TRY(session.rollback(0));
    for (size_t first = 0; first < chunk.size(); first += piece.tokens) {
      const auto ids = chunk.subspan(
          first, std::min<size_t>(piece.tokens, chunk.size() - first));
      DS4_TRY(forward(session, ids, piece));
    }
    return Status::ok();
  };
  {
    ProgressBar bar("imatrix");
    for (size_t i = 0; i < chunks.size(); ++i) {
      DS4_TRY(runChunk(chunks[i]));
      const uint64_t done = (i + 1) * chunks.length;
      bar.update(done, chunks.ids.size(),
                 fmt::format("{}/{} chunks, {:.1f} tok/s", i + 1, chunks.size(),
                             static_cast<double>(done) / bar.seconds()));
    }
  }
  session.hooks.observe = nullptr;
  const std::string dataset =
      options.text == "-"
          ? "standard input"
          : std::filesystem::path(options.text).filename().string();
  DS4_TRY(matrix.write(
      options.imatrix,
      {dataset, static_cast<uint32_t>(chunks.size()), chunks.length}));

  size_t weights = 0, unseen = 0;
  for (const auto &[name, entry] : matrix.entries()) {
    weights += entry.experts > 1;
    unseen += static_cast<size_t>(std::ranges::count(entry.counts, 0u));
  }
  fmt::print("wrote {}: {} weights ({} of experts) over {} tokens{}\n",
             options.imatrix, matrix.entries().size(), weights,
             chunks.ids.size(), momentsText(options.moments));
  if (unseen)
    fmt::print("{} expert matrices were never chosen: give a longer text\n",
               unseen);
  return Status::ok();
}

} // namespace ds4
