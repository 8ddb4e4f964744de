// Walk.cpp - see Walk.h.
#include "test/numerics/Walk.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace ds4::test {

/// Positions beside which the model changes what it reads: the window (32),
/// its second wrap, windows of the compressors (4 and 128).
static constexpr uint32_t kEdges[] = {32, 64, 128, 256};

std::vector<int32_t> randomIds(const Session &session, uint32_t count,
                               uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int32_t> ids(count);
  for (int32_t &id : ids)
    id = static_cast<int32_t>(random() % session.vocab());
  return ids;
}

std::string rowsHash(std::span<const std::byte> saved) {
  SavedStateHeader header;
  std::memcpy(&header, saved.data(), sizeof header);
  const auto rows = saved.last(header.rowBytes);
  return contentHash(
      {reinterpret_cast<const char *>(rows.data()), rows.size()});
}

static std::string logitsHash(const Logits &logits, size_t row) {
  const std::span<const float> values = logits.row(row);
  std::string bytes(values.size_bytes() + sizeof(int32_t), '\0');
  std::memcpy(bytes.data(), values.data(), values.size_bytes());
  std::memcpy(bytes.data() + values.size_bytes(), &logits.argmax[row],
              sizeof(int32_t));
  return contentHash(bytes);
}

Reference decodeAll(Session &session, std::vector<int32_t> ids) {
  Reference reference;
  EXPECT_TRUE(session.rollback(0));
  auto saveState = [&] {
    Result<std::vector<std::byte>> saved = session.save();
    EXPECT_TRUE(saved) << saved.error().text;
    reference.states.push_back(saved ? rowsHash(*saved) : "");
  };
  saveState();
  for (int32_t id : ids) {
    Result<Logits> logits = session.forward({&id, 1});
    EXPECT_TRUE(logits) << logits.error().text;
    reference.logits.push_back(logits ? logitsHash(*logits, 0) : "");
    saveState();
  }
  reference.ids = std::move(ids);
  return reference;
}

Walker::Walker(const Reference &reference, std::vector<Session *> sessions,
               uint64_t seed, Watch watch)
    : reference(reference), sessions(std::move(sessions)),
      session(this->sessions.front()), random(seed) {
  if (watch == Watch::no)
    return;
  for (Session *each : this->sessions)
    each->hooks.timing = [this](const Function &function, const Launch &,
                                const Step &step, int64_t, int64_t) {
      phases.insert(function.name);
      ends.insert(static_cast<uint32_t>(step.start + step.count));
    };
}

Walker::~Walker() {
  for (Session *each : sessions)
    each->hooks.timing = nullptr;
}

bool Walker::fail(std::string text) {
  const size_t shown = std::min<size_t>(history.size(), 6);
  difference =
      fmt::format("{}; last moves: {}", text,
                  fmt::join(history.end() - shown, history.end(), ", "));
  return false;
}

void Walker::note(std::string text) { history.push_back(std::move(text)); }

bool Walker::checkState() {
  const uint32_t at = session->position();
  Result<std::vector<std::byte>> bytes = session->save();
  if (!bytes)
    return fail(bytes.error().text);
  if (rowsHash(*bytes) != reference.states[at])
    return fail(fmt::format("the state after {} tokens differs", at));
  return true;
}

bool Walker::step(uint32_t good, uint32_t bad) {
  const uint32_t begin = session->position();
  note(fmt::format("{}+{}{}", begin, good,
                   bad ? fmt::format("(+{} taken back)", bad) : ""));
  std::vector<int32_t> ids(reference.ids.begin() + begin,
                           reference.ids.begin() + begin + good);
  for (uint32_t i = 0; i < bad; ++i)
    ids.push_back(static_cast<int32_t>(below(session->vocab())));
  // All, some, none or the last of the rows.
  std::vector<uint32_t> rows;
  const uint32_t kind = below(4);
  for (uint32_t i = 0; i < good; ++i)
    if (kind == 0 || (kind == 1 && below(3) == 0) ||
        (kind == 2 && i + 1 == good))
      rows.push_back(i);
  Result<Logits> logits = session->forward(ids, rows);
  if (!logits)
    return fail(logits.error().text);
  for (size_t i = 0; i < rows.size(); ++i)
    if (logitsHash(*logits, i) != reference.logits[begin + rows[i]])
      return fail(fmt::format("logits of token {} differ", begin + rows[i]));
  if (Status back = session->rollback(begin + good); !back)
    return fail(back.error().text);
  return checkState();
}

bool Walker::save() {
  // Sometimes a place that is reached by going back.
  const uint32_t here = session->position();
  uint32_t at = here;
  if (here > 0 && below(2) == 0)
    at = here - below(std::min(here, session->mostRollback()) + 1);
  Result<std::vector<std::byte>> bytes = session->save(at);
  if (!bytes && at != here) // it was restored or rolled back not long ago
    bytes = session->save(at = here);
  if (!bytes)
    return fail(bytes.error().text);
  note(fmt::format("save {}", at));
  if (rowsHash(*bytes) != reference.states[at])
    return fail(fmt::format("what is saved at {} differs", at));
  saved.push_back({at, std::move(*bytes)});
  return true;
}

bool Walker::restore() {
  const Saved &chosen = saved[below(static_cast<uint32_t>(saved.size()))];
  session = sessions[below(static_cast<uint32_t>(sessions.size()))];
  note(fmt::format("restore {}", chosen.position));
  if (Status done = session->restore(chosen.bytes); !done)
    return fail(done.error().text);
  return checkState();
}

bool Walker::fork() {
  Session *to = sessions[below(static_cast<uint32_t>(sessions.size()))];
  const uint32_t at = session->position();
  note(fmt::format("fork {}", at));
  if (Status done = to->fork(*session, at); !done)
    return fail(done.error().text);
  session = to;
  return checkState();
}

bool Walker::move(uint32_t most) {
  const uint32_t left = most - session->position();
  switch (below(4)) {
  case 0: // decode
    return step(1, 0);
  case 1: { // verify: 2 to 8 tokens, of which some are taken back
    const uint32_t width =
        2 + below(std::max<uint32_t>(session->mostRollback(), 2) - 1);
    const uint32_t good = std::min(below(width + 1), left);
    const uint32_t room = session->context() - session->position() - good;
    return step(good, std::min(width - good, room));
  }
  case 2: { // prefill up to beside an edge, if one is near
    for (uint32_t edge : kEdges) {
      const uint32_t end = edge - 4 + below(8);
      if (end > session->position() && end <= most &&
          end - session->position() < 100)
        return step(end - session->position(), 0);
    }
    [[fallthrough]];
  }
  default: // prefill
    return step(1 + below(std::min(left, 90u)), 0);
  }
}

std::string Walker::toTheEnd() {
  for (Session *each : sessions)
    if (Status empty = each->rollback(0); !empty)
      return empty.error().text;
  saved.clear();
  // Restoring goes back, so it must end some time.
  uint32_t restores = 6;
  while (session->position() < length()) {
    const uint32_t kind = below(12);
    bool same = true;
    if (kind == 0)
      same = save();
    else if (kind == 1)
      same = fork();
    else if (kind == 2 && !saved.empty() && restores > 0) {
      --restores;
      same = restore();
    } else
      same = move(length());
    if (!same)
      return difference;
  }
  return "";
}

std::string Walker::acrossEach(uint32_t first, uint32_t last) {
  const uint32_t before = first - 4, after = last + 5;
  session = sessions.front();
  if (Status empty = session->rollback(0); !empty)
    return empty.error().text;
  if (!step(before, 0) || !save())
    return difference;
  Result<std::vector<std::byte>> start = session->save();
  if (!start)
    return start.error().text;
  for (uint32_t end = first; end <= last; ++end) {
    session = sessions[end % sessions.size()];
    note(fmt::format("restore {}", before));
    if (Status done = session->restore(*start); !done)
      return done.error().text;
    // One step that ends here and one that goes on; then the same place reached
    // by taking tokens back, and gone over token by token.
    const uint32_t tail = std::min(session->mostRollback(), 8u);
    if (!step(end - before, 0) || !step(after - end, 0))
      return difference;
    if (Status done = session->restore(*start); !done)
      return done.error().text;
    if (!step(end - before, 1 + below(tail)) || !step(0, tail) || !step(1, 0) ||
        !step(after - end - 1, 0))
      return difference;
  }
  return "";
}

} // namespace ds4::test
