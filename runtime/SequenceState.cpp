// SequenceState.cpp - the saved form has no pointers and no slot numbers: rows
// go by their number, so that rings of equal rows may stand anywhere. States go
// by name, since their order in a plan depends on its passes.
#include "runtime/SequenceState.h"

#include "runtime/TemporaryFile.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>

namespace ds4 {
namespace {

/// As Device::allocate aligns memory.
constexpr uint64_t kAlignment = 256;
constexpr std::string_view kMagic = "ds4state";

/// Profile keys that decide speed or what is shown, never a bit of a row.
constexpr std::string_view kFreeKeys[] = {"disable_pass", "imatrix", "logits",
                                          "prefill_chunk", "trace_points"};

static_assert(sizeof(SavedStateHeader) == 48);

std::vector<StateDesc> statesByName(const Plan &plan) {
  std::vector<StateDesc> states = plan.states;
  std::ranges::sort(states, {}, &StateDesc::name);
  return states;
}

/// What must be equal for saved rows to mean the same, one fact a line.
std::string settingsOf(const Manifest &manifest, const Plan &plan) {
  std::string text = fmt::format("model = {}\n", manifest.fingerprint);
  auto math = manifest.profile.find("math");
  const bool sameOnAll =
      math == manifest.profile.end() || math->second == "portable";
  for (const auto &[key, value] : manifest.profile)
    if (std::ranges::find(kFreeKeys, key) == std::end(kFreeKeys) &&
        !(key == "target" && sameOnAll))
      text += fmt::format("{} = {}\n", key, value);
  // A type number may be read in several ways; the formats say which was.
  std::vector<std::string> weights;
  for (const WeightDesc &weight : plan.weights)
    weights.push_back(fmt::format("{} {}\n", weight.name,
                                  weightFormatInfo(weight.format).name));
  std::ranges::sort(weights);
  std::string formats;
  for (const std::string &line : weights)
    formats += line;
  text += fmt::format("weight formats = {}\n", contentHash(formats));
  for (const StateDesc &state : statesByName(plan))
    text += fmt::format("state {} = {} rows of {} bytes, {} x {}, one for {} "
                        "tokens\n",
                        state.name, state.rows, state.rowBytes, state.width,
                        state.storage, state.ratio);
  return text;
}

std::array<uint64_t, 2> checksumOf(std::span<const std::byte> saved) {
  SavedStateHeader header;
  std::memcpy(&header, saved.data(), sizeof header);
  header.checksum[0] = header.checksum[1] = 0;
  const XXH128_hash_t hash = XXH3_128bits_withSeed(
      saved.data() + sizeof header, saved.size() - sizeof header,
      XXH3_64bits(&header, sizeof header));
  return {hash.low64, hash.high64};
}

/// The first line of `text`, which loses it.
std::string_view takeLine(std::string_view &text) {
  const size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

/// An error that names the first line in which settings differ.
Error otherSettings(std::string_view saved, std::string_view ours,
                    std::string_view where) {
  std::string_view theirLine, ourLine;
  do {
    theirLine = takeLine(saved);
    ourLine = takeLine(ours);
  } while (theirLine == ourLine);
  auto orNothing = [](std::string_view line) {
    return line.empty() ? "nothing there" : line;
  };
  return invalidInput(fmt::format(
      "{} was saved by a bundle with {}, this one has {}: use a bundle of the "
      "same model and profile, or process the tokens again",
      where, orNothing(theirLine), orNothing(ourLine)));
}

} // namespace

LiveRows liveRows(const StateDesc &state, uint32_t position, uint32_t context,
                  uint32_t rollback) {
  const auto ratio = static_cast<uint64_t>(state.ratio);
  const uint64_t end = position / ratio;
  if (state.rows >= context / ratio)
    return {0, end};
  const uint64_t lost = std::min((rollback + ratio - 1) / ratio, state.rows);
  const uint64_t kept = state.rows - lost;
  return {end > kept ? end - kept : 0, end};
}

SequenceState::SequenceState(const Manifest &manifest, const Plan &plan)
    : settings(settingsOf(manifest, plan)), context(manifest.context),
      rollback(manifest.mostRollback) {
  for (const StateDesc &desc : statesByName(plan)) {
    states.push_back({desc, blockBytes});
    const uint64_t bytes = desc.rows * desc.rowBytes;
    blockBytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
}

std::map<std::string, void *, std::less<>> SequenceState::pointers() const {
  std::map<std::string, void *, std::less<>> result;
  for (const Placed &state : states)
    result[state.desc.name] = block + state.offset;
  return result;
}

std::vector<SequenceState::Run> SequenceState::runsAt(uint32_t position) const {
  std::vector<Run> runs;
  for (const auto &[desc, offset] : states) {
    auto [first, end] = liveRows(desc, position, context, rollback);
    while (first < end) {
      const uint64_t slot = first % desc.rows;
      const uint64_t count = std::min(end - first, desc.rows - slot);
      runs.push_back({offset + slot * desc.rowBytes, count * desc.rowBytes});
      first += count;
    }
  }
  return runs;
}

Result<std::vector<std::byte>> SequenceState::save(Device &device,
                                                   uint32_t position) const {
  const std::vector<Run> runs = runsAt(position);
  SavedStateHeader header{};
  std::ranges::copy(kMagic, header.magic);
  header.version = kSavedStateVersion;
  header.position = position;
  header.settingsBytes = settings.size();
  for (const Run &run : runs)
    header.rowBytes += run.bytes;

  std::vector<std::byte> saved(sizeof header + settings.size() +
                               header.rowBytes);
  std::byte *at = saved.data() + sizeof header;
  std::memcpy(at, settings.data(), settings.size());
  at += settings.size();
  for (const Run &run : runs) {
    DS4_TRY(device.copyOut(at, block + run.offset, run.bytes));
    at += run.bytes;
  }
  std::memcpy(saved.data(), &header, sizeof header);
  std::ranges::copy(checksumOf(saved), header.checksum);
  std::memcpy(saved.data(), &header, sizeof header);
  return saved;
}

Result<uint32_t> SequenceState::restore(Device &device,
                                        std::span<const std::byte> saved,
                                        std::string_view where) const {
  SavedStateHeader header{};
  if (saved.size() >= sizeof header)
    std::memcpy(&header, saved.data(), sizeof header);
  if (saved.size() < sizeof header ||
      std::string_view(header.magic, sizeof header.magic) != kMagic)
    return invalidInput(fmt::format("{} is not a saved sequence ({} bytes, "
                                    "which do not begin with \"{}\")",
                                    where, saved.size(), kMagic));
  if (header.version != kSavedStateVersion)
    return invalidInput(fmt::format(
        "{} has version {} of the saved form, this program reads version {}: "
        "process the tokens again",
        where, header.version, kSavedStateVersion));
  const uint64_t rest = saved.size() - sizeof header;
  if (header.settingsBytes > rest ||
      header.rowBytes != rest - header.settingsBytes)
    return invalidInput(
        fmt::format("{} has {} bytes, its header says {} + {} + {}: it is "
                    "truncated; process the tokens again",
                    where, saved.size(), sizeof header, header.settingsBytes,
                    header.rowBytes));
  if (!std::ranges::equal(header.checksum, checksumOf(saved)))
    return invalidInput(fmt::format("{} is damaged: its checksum differs; "
                                    "process the tokens again",
                                    where));
  const std::string_view theirs(
      reinterpret_cast<const char *>(saved.data() + sizeof header),
      header.settingsBytes);
  if (theirs != settings)
    return otherSettings(theirs, settings, where);
  const std::vector<Run> runs = runsAt(header.position);
  uint64_t bytes = 0;
  for (const Run &run : runs)
    bytes += run.bytes;
  if (header.position > context || bytes != header.rowBytes)
    return invalidInput(fmt::format(
        "{} has {} bytes of rows for {} tokens, the bundle keeps {}: process "
        "the tokens again",
        where, header.rowBytes, header.position, bytes));

  const std::byte *at = saved.data() + sizeof header + header.settingsBytes;
  for (const Run &run : runs) {
    DS4_TRY(device.copyIn(block + run.offset, at, run.bytes));
    at += run.bytes;
  }
  return header.position;
}

Status writeSavedState(const std::filesystem::path &path,
                       std::span<const std::byte> saved) {
  DS4_ASSIGN(TemporaryFile file, TemporaryFile::create(path));
  DS4_TRY(file.append(saved));
  return file.commit();
}

Result<std::vector<std::byte>>
readSavedState(const std::filesystem::path &path) {
  std::error_code code; // a folder has no size
  const uint64_t size = std::filesystem::file_size(path, code);
  std::vector<std::byte> saved(code ? 0 : size);
  std::ifstream file(path, std::ios::binary);
  if (code || !file.read(reinterpret_cast<char *>(saved.data()),
                         static_cast<std::streamsize>(size)))
    return ioError(fmt::format("cannot read {}", path.string()));
  return saved;
}

} // namespace ds4
