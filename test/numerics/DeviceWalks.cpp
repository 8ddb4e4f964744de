// numerics_walks: the walks of NumericsTest.cpp on a device, over bundles in
// files. What is right is decoding on the host; a walk goes through two
// sessions on the device and that on the host, so that sequences move between
// them.
#include "test/numerics/Walk.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

using namespace ds4;
using namespace ds4::test;

namespace fs = std::filesystem;

static constexpr const char *kUsage =
    R"(usage: numerics_walks FOLDER MODEL.gguf DEVICE [SEEDS [TOKENS]]
Bundles are FOLDER/host/NAME.ds4b and, for the device's target, as
FOLDER/sm_90/NAME.ds4b, both of MODEL.gguf; DEVICE is ds4run's --device. Walks
SEEDS ways (default 4) through TOKENS random tokens (default 320) of each bundle.
The last line is "N passed, M failed".
)";

namespace {

struct Arguments {
  fs::path folder;
  std::string model, device;
  uint32_t seeds = 4, tokens = 320;
};

bool readNumber(std::string_view text, uint32_t &number) {
  const auto [end, code] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  return code == std::errc() && end == text.data() + text.size() && number > 0;
}

Result<std::unique_ptr<Session>> open(const Arguments &arguments,
                                      const Gguf &file,
                                      const std::string &device,
                                      const std::string &name) {
  DS4_ASSIGN(std::unique_ptr<Device> opened, createDevice(device, 0));
  const fs::path path = arguments.folder / opened->target() / name;
  DS4_ASSIGN(Bundle bundle, openBundle(path));
  return Session::open(std::move(bundle), file, std::move(opened), {});
}

/// What differs first in the walks of a bundle, each told of.
Status walk(const Arguments &arguments, const Gguf &file,
            const std::string &name, uint32_t &passed, uint32_t &failed) {
  DS4_ASSIGN(const auto host, open(arguments, file, "host", name));
  DS4_ASSIGN(const auto one, open(arguments, file, arguments.device, name));
  DS4_ASSIGN(const auto two, open(arguments, file, arguments.device, name));
  for (uint32_t seed = 0; seed < arguments.seeds; ++seed) {
    const Reference reference =
        decodeAll(*host, randomIds(*host, arguments.tokens, seed));
    Walker walker(reference, {one.get(), two.get(), host.get()}, seed,
                  Walker::Watch::no);
    const std::string difference = walker.toTheEnd();
    ++(difference.empty() ? passed : failed);
    fmt::print("{} seed {}: {}\n", name, seed,
               difference.empty() ? "the same bits" : difference);
  }
  return Status::ok();
}

} // namespace

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv); // Walk.cpp reports through it
  Arguments arguments;
  if (argc < 4 || argc > 6 ||
      (argc > 4 && !readNumber(argv[4], arguments.seeds)) ||
      (argc > 5 && !readNumber(argv[5], arguments.tokens))) {
    fmt::print(stderr, "{}", kUsage);
    return 2;
  }
  arguments.folder = argv[1];
  arguments.model = argv[2];
  arguments.device = argv[3];
  std::vector<std::string> names;
  std::error_code code;
  for (const auto &entry :
       fs::directory_iterator(arguments.folder / "host", code))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  uint32_t passed = 0, failed = names.empty();
  const Result<Gguf> file = Gguf::open(arguments.model);
  if (!file || names.empty()) {
    fmt::print(stderr, "numerics_walks: {}\n",
               file ? "no bundles in " + arguments.folder.string() + "/host"
                    : file.error().text);
    return 1;
  }
  for (const std::string &name : names)
    if (Status done = walk(arguments, *file, name, passed, failed); !done) {
      ++failed;
      fmt::print("{}: {}\n", name, done.error().text);
    }
  fmt::print("{} passed, {} failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
