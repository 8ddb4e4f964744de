// ArgText.cpp - see ArgText.h.
#include "runtime/ArgText.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace ds4 {

namespace {

/// What follows the kind in an argument's text.
enum class ArgPayload { nothing, name, offset };

struct ArgKindInfo {
  ArgKind kind;
  std::string_view text;
  ArgPayload payload;
};

constexpr ArgKindInfo kArgKinds[] = {
    {ArgKind::arena, "arena", ArgPayload::offset},
    {ArgKind::weight, "weight", ArgPayload::name},
    {ArgKind::books, "books", ArgPayload::name},
    {ArgKind::rotations, "rotations", ArgPayload::name},
    {ArgKind::state, "state", ArgPayload::name},
    {ArgKind::table, "table", ArgPayload::name},
    {ArgKind::tokens, "tokens", ArgPayload::nothing},
    {ArgKind::step, "step", ArgPayload::nothing},
    {ArgKind::status, "status", ArgPayload::offset},
    {ArgKind::tickets, "tickets", ArgPayload::offset},
    {ArgKind::null, "null", ArgPayload::nothing},
};

} // namespace

std::string argToText(const Arg &arg) {
  const ArgKindInfo &info =
      *std::ranges::find(kArgKinds, arg.kind, &ArgKindInfo::kind);
  switch (info.payload) {
  case ArgPayload::nothing:
    return std::string(info.text);
  case ArgPayload::name:
    return fmt::format("{}:{}", info.text, arg.name);
  case ArgPayload::offset:
    return fmt::format("{}:{}", info.text, arg.offset);
  }
  return {};
}

std::optional<Arg> argFromText(std::string_view text) {
  size_t colon = text.find(':');
  const auto *info =
      std::ranges::find(kArgKinds, text.substr(0, colon), &ArgKindInfo::text);
  if (info == std::end(kArgKinds))
    return std::nullopt;
  Arg arg{info->kind, {}, 0};
  if ((colon == std::string_view::npos) !=
      (info->payload == ArgPayload::nothing))
    return std::nullopt;
  if (colon == std::string_view::npos)
    return arg;
  std::string_view payload = text.substr(colon + 1);
  if (payload.empty())
    return std::nullopt;
  if (info->payload == ArgPayload::name) {
    arg.name = payload;
    return arg;
  }
  const char *end = payload.data() + payload.size();
  auto [stop, code] = std::from_chars(payload.data(), end, arg.offset);
  if (code != std::errc() || stop != end)
    return std::nullopt;
  return arg;
}

} // namespace ds4
