// ObservedModel.h - a model with a bundle that shows the inputs of linears, for
// tests.
#ifndef DS4_TEST_E2E_OBSERVEDMODEL_H
#define DS4_TEST_E2E_OBSERVEDMODEL_H

#include "runtime/Session.h"
#include "tools/Compilation.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace ds4::test {

/// Compiles at construction, into a folder of its own that it removes. What
/// fails fails the test; no session is opened then.
class ObservedModel {
public:
  ObservedModel(const char *model, const std::string &name)
      : folder(std::filesystem::path(testing::TempDir()) / name) {
    std::filesystem::create_directories(folder);
    CompileRequest request;
    request.input = model;
    request.output = folder / "observed.ds4b";
    request.useCache = false;
    request.profile.context = 512;
    request.profile.prefillChunk = 64;
    request.profile.kv = "f16";
    request.profile.simulate = false;
    request.profile.logits = "all";
    request.profile.tracePoints = true;
    request.profile.imatrix = true;
    const Status compiled = compile(request);
    EXPECT_TRUE(compiled) << compiled.error().text;
    Result<Gguf> opened = Gguf::open(model);
    EXPECT_TRUE(opened) << opened.error().text;
    if (opened)
      gguf = std::move(*opened);
  }
  ~ObservedModel() { std::filesystem::remove_all(folder); }
  ObservedModel(const ObservedModel &) = delete;
  ObservedModel &operator=(const ObservedModel &) = delete;

  /// One thread; steps of at most `chunk` tokens.
  std::unique_ptr<Session> open(uint32_t chunk) const {
    Result<Bundle> bundle = openBundle(folder / "observed.ds4b");
    EXPECT_TRUE(bundle) << bundle.error().text;
    if (!bundle || !gguf)
      return nullptr;
    SessionOptions options;
    options.threads = 1;
    options.prefillChunk = chunk;
    Result<std::unique_ptr<Session>> session =
        Session::open(std::move(*bundle), *gguf, options);
    EXPECT_TRUE(session) << session.error().text;
    return session ? std::move(*session) : nullptr;
  }

  const std::filesystem::path folder;
  std::optional<Gguf> gguf;
};

} // namespace ds4::test

#endif // DS4_TEST_E2E_OBSERVEDMODEL_H
