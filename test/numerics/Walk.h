// Walk.h - the numerics contract as a property of sessions: whatever way leads
// to a position, logits and state bytes there are those of token-by-token
// decoding. A walk is a random way, fixed by its seed.
#ifndef DS4_TEST_NUMERICS_WALK_H
#define DS4_TEST_NUMERICS_WALK_H

#include "runtime/Session.h"

#include <cstdint>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace ds4::test {

/// What must be found after each token of `ids`, as hashes.
struct Reference {
  std::vector<int32_t> ids;
  std::vector<std::string> logits; ///< [ids]: of token i, with its argmax
  std::vector<std::string> states; ///< [ids + 1]: after i tokens
};

/// `count` random tokens of the session's vocabulary.
std::vector<int32_t> randomIds(const Session &session, uint32_t count,
                               uint64_t seed);

/// Hash of the live rows of a saved sequence, without header and settings.
std::string rowsHash(std::span<const std::byte> saved);

/// Decodes `ids` token by token. Fails the test where that fails.
Reference decodeAll(Session &session, std::vector<int32_t> ids);

/// Ways through the reference's tokens. Each method returns what was found to
/// differ first, with the last moves that led there, or nothing.
class Walker {
public:
  /// `sessions` are of one bundle or of several that must agree; not owned.
  /// Watching a device waits for every launch, and it captures no steps.
  enum class Watch { no, yes };
  Walker(const Reference &reference, std::vector<Session *> sessions,
         uint64_t seed, Watch watch = Watch::yes);
  ~Walker();

  /// From the first token to the last in random moves: decode, prefill of any
  /// length, verify steps with rejected tails, save, restore into any of the
  /// sessions, fork to another one.
  std::string toTheEnd();
  /// Steps that end at every position of [first, last], and then go over it,
  /// with and without rejected tokens.
  std::string acrossEach(uint32_t first, uint32_t last);

  /// If watched: phases that steps ran in, positions at which steps ended.
  std::set<std::string> phases;
  std::set<uint32_t> ends;

private:
  /// Processes the next `good` tokens of the reference and then `bad` random
  /// ones in one call, which are taken back.
  bool step(uint32_t good, uint32_t bad);
  bool save();
  bool restore();
  bool fork();
  /// Compares the state bytes at the position.
  bool checkState();
  /// A random move to somewhere in [position + 1, most].
  bool move(uint32_t most);
  bool fail(std::string text);
  void note(std::string text);
  uint32_t below(uint32_t end) { return static_cast<uint32_t>(random() % end); }
  uint32_t length() const {
    return static_cast<uint32_t>(reference.ids.size());
  }

  struct Saved {
    uint32_t position;
    std::vector<std::byte> bytes;
  };

  const Reference &reference;
  std::vector<Session *> sessions;
  Session *session; ///< where the walk is
  std::mt19937_64 random;
  std::vector<Saved> saved;
  std::vector<std::string> history;
  std::string difference;
};

} // namespace ds4::test

#endif // DS4_TEST_NUMERICS_WALK_H
