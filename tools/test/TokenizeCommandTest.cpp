// `ds4run tokenize` on the demo model: options, input, output and exit codes.
#include "tools/TokenizeCommand.h"

#include <CLI/CLI.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

using namespace ds4;
using testing::HasSubstr;

namespace {

constexpr const char *kModel =
    DS4_SOURCE_DIR "/models/ds4-tiny/ds4-tiny-strix.gguf";

struct Outcome {
  int code;
  std::string out, err;
};

Outcome run(std::vector<std::string> arguments, std::string input = "",
            std::string model = kModel) {
  CLI::App app;
  TokenizeOptions options;
  addTokenizeOptions(app, options);
  arguments.insert(arguments.begin(), {"-m", model});
  std::reverse(arguments.begin(), arguments.end()); // as CLI11 wants them
  app.parse(arguments);
  std::istringstream in(input);
  std::ostringstream out, err;
  int code = runTokenizeCommand(options, in, out, err);
  return {code, out.str(), err.str()};
}

} // namespace

TEST(TokenizeCommand, PrintsIds) {
  EXPECT_EQ(run({"Hello, world!"}).out, "47 578 86 19 1068 8\n");
  EXPECT_EQ(run({}, "Hello, world!").out, "47 578 86 19 1068 8\n");
  EXPECT_EQ(run({"-"}, "a ").out, "72 228\n");
  EXPECT_EQ(run({""}).out, "\n");
  EXPECT_EQ(run({"Hello, world!"}).code, 0);
}

TEST(TokenizeCommand, ParsesSpecialTokensOnRequest) {
  EXPECT_EQ(run({"<think>", "--special"}).out, "5\n");
  EXPECT_NE(run({"<think>"}).out, "5\n");
}

TEST(TokenizeCommand, Decodes) {
  EXPECT_EQ(run({"--decode", "47 578,86\n19, 1068 8"}).out, "Hello, world!");
  std::string bytes("\xFFz\0\n", 4);
  EXPECT_EQ(run({"--decode"}, run({}, bytes).out).out, bytes);
}

TEST(TokenizeCommand, RefusesBadIds) {
  for (const char *ids : {"47 x", "1.5", "99999999999", "4a"}) {
    Outcome outcome = run({"--decode", ids});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr("is not a token id"));
  }
  EXPECT_THAT(run({"--decode", "8 2048"}).err, HasSubstr("is id 2048"));
}

TEST(TokenizeCommand, NamesTheFileThatFails) {
  Outcome outcome = run({"a"}, "", "/nonexistent.gguf");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("/nonexistent.gguf: No such file"));
}
